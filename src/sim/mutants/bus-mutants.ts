import type { LockLease } from "../../ports/locks.ts";
import type { SimNet } from "../adapters/world.ts";
import { TALLIES, tallyLock } from "../workload/tally.ts";
import { withDispatch, withHandler, withLease, withLocks, withSafety } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in message handling, locks, safety checks, and settings. */
export const BUS_MUTANTS: readonly Mutant[] = [
  {
    name: "ack-on-unknown-error",
    about: "a failed message is acknowledged",
    caughtBy: ["swallowed"],
    world: withHandler((handle) => async (delivery) => {
      const settlement = await handle(delivery);
      return settlement.kind === "nakDelay" ? { kind: "ack" } : settlement;
    }),
  },
  {
    name: "ack-before-work",
    about: "a message is acknowledged before it is handled",
    caughtBy: ["swallowed"],
    world: withHandler((handle) => async (delivery) => {
      void handle(delivery);
      return { kind: "ack" };
    }),
  },
  {
    name: "term-before-dead-letter",
    about: "an undecodable message is terminated before its dead letter is written",
    caughtBy: ["early_term"],
    world: withHandler((handle) => async (delivery) => {
      if (delivery.content.kind === "packet" || delivery.attempt <= 3) return handle(delivery);
      void handle(delivery);
      return { kind: "term" };
    }),
  },
  {
    name: "release-without-token",
    about: "a release does not check the holder's token",
    caughtBy: ["two_holders"],
    world: (world, net) =>
      withLease((lease) => ({
        release: async () => {
          const isReleased = await lease.release();
          net.locks.forceRelease(lease.key);
          return isReleased;
        },
      }))(world),
  },
  {
    name: "lock-error-ignored",
    about: "an error of the lock server is treated as an acquired lock",
    caughtBy: ["lost_update", "fence", "two_holders"],
    world: (world, net) =>
      withLocks((locks) => ({
        acquire: async (request) => {
          try {
            return await locks.acquire(request);
          } catch {
            return { kind: "held", lease: fakeLease(request.key, nextFence(net, request.key)) };
          }
        },
      }))(world),
  },
  {
    name: "fail-open",
    about: "a check without an answer of the kernel counts as allowed",
    caughtBy: ["denied", "verdict"],
    world: withSafety((safety) => ({
      check: async (request) => {
        const checked = await safety.check(request);
        if (checked.kind === "decided") return checked;
        return { kind: "decided", decision: { effect: "allow", ruleId: null, reason: checked.reason, snapshot: "" } };
      },
    })),
  },
  {
    name: "never-releases",
    about: "locks are renewed and never released",
    caughtBy: ["quiet"],
    world: withLease(() => ({ release: async () => true })),
  },
  {
    name: "failure-counts-as-success",
    about: "every result of a worker counts as a success",
    caughtBy: ["outcome"],
    world: withHandler((handle) => (delivery) => {
      const { content } = delivery;
      if (content.kind !== "packet" || content.packet.body.kind !== "job_result") return handle(delivery);
      const body = { ...content.packet.body, status: "succeeded" } as const;
      return handle({ ...delivery, content: { kind: "packet", packet: { ...content.packet, body } } });
    }),
  },
  {
    name: "budget-beyond-the-cap",
    about: "failed messages are retried in the broker beyond its delivery limit",
    caughtBy: ["exhausted"],
    settings: (settings) => ({
      ...settings,
      bus: { ...settings.bus, deliverMax: 1_000_000, parkAfterMs: null },
      retry: {
        ...settings.retry,
        unclassified: { policy: { kind: "fixed", delayMs: 50 }, budget: { kind: "count", max: 10_000 } },
      },
    }),
  },
  {
    name: "mixed-up-inputs",
    about: "a worker gets the input of the previous job",
    caughtBy: ["payload"],
    world: (world) => {
      let previous: unknown = null;
      return withDispatch((subject, packet, dispatch) => {
        if (packet.body.kind !== "job_request") return dispatch(subject, packet);
        const input = previous;
        previous = packet.body.input;
        return dispatch(subject, { ...packet, body: { ...packet.body, input } });
      })(world);
    },
  },
  {
    name: "no-dispatch-deadline",
    about: "the dispatch deadline of an attempt is an hour",
    caughtBy: ["stuck"],
    settings: (settings) => ({ ...settings, dispatch: { ...settings.dispatch, deadlineMs: 3_600_000 } }),
  },
];

/** A fence that the store accepts: the successor of the last written one. */
function nextFence(net: SimNet, key: string): number {
  const records = ["a", "b"].filter((record) => tallyLock(record) === key);
  return 1 + Math.max(0, ...records.map((record) => net.store.fenceOf(TALLIES.name, record)));
}

function fakeLease(key: string, fence: number): LockLease {
  const { signal } = new AbortController();
  return {
    key,
    token: "",
    fence,
    waitedMs: 0,
    attempts: 1,
    wasQueued: false,
    signal,
    isLost: false,
    release: async () => true,
  };
}
