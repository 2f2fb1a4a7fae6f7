import { RESERVATIONS } from "../jobs/idempotency.ts";
import { isFinal, JOBS, type Job } from "../model/job.ts";
import { SPENDINGS, type Spending } from "../model/parked.ts";
import type { Lease } from "../ports/locks.ts";
import type { Patience } from "../retry/budget.ts";
import { RETRY_CLASSES } from "../retry/classes.ts";
import {
  withCommit,
  withDispatch,
  withHandler,
  withLease,
  withLocks,
  withPuts,
  withSafety,
  withStore,
} from "./decorators.ts";
import type { Plant } from "./simulate.ts";
import { TALLIES, tallyLock } from "./tally.ts";
import type { Checker } from "./violations.ts";
import type { SimNet } from "./world.ts";

/**
 * Bugs to put in. A simulator that never caught one proves nothing: each of these takes away one promise of a port, or
 * one rule of the flow, and names the checkers of which one must find it.
 */
export interface PlantedBug extends Plant {
  readonly about: string;
  readonly caughtBy: readonly Checker[];
}

export const PLANTS: readonly PlantedBug[] = [
  {
    name: "no-outbox-sweep",
    about: "nobody sends what a dead process had saved",
    caughtBy: ["outbox"],
    world: withStore(() => ({ unsent: async () => [] })),
  },
  {
    name: "publish-before-commit",
    about: "messages are sent before the change that they tell of is saved",
    caughtBy: ["unsaved"],
    world: (world) =>
      withCommit(async (change, commit) => {
        await Promise.all(change.sends.map((message) => world.bus.publish(message)));
        return commit(change);
      })(world),
  },
  {
    name: "lost-send",
    about: "messages do not get into the outbox",
    caughtBy: ["swallowed"],
    world: withCommit((change, commit) => commit({ ...change, sends: [] })),
  },
  {
    name: "no-fence-check",
    about: "the store takes a stale fence",
    caughtBy: ["lost_update", "fence"],
    world: withCommit((change, commit) => commit({ ...change, guards: change.guards.filter(isNo("fence")) })),
  },
  {
    name: "guard-not-checked",
    about: "the store ignores limits on counters",
    caughtBy: ["window"],
    world: withCommit((change, commit) => commit({ ...change, guards: change.guards.filter(isNo("counter")) })),
  },
  {
    name: "version-not-checked",
    about: "the store overwrites whatever is there",
    caughtBy: ["terminal", "moves"],
    world: withPuts(({ expect: _, ...put }) => ({ ...put, expect: null })),
  },
  {
    name: "split-commit",
    about: "the puts of one change are written one by one",
    caughtBy: ["letter"],
    world: withCommit(async (change, commit) => {
      const [first, ...rest] = change.puts;
      if (!first || rest.length === 0) return commit(change);
      const committed = await commit({ ...change, puts: [first] });
      return committed.kind === "committed" ? commit({ ...change, puts: rest, guards: [], sends: [] }) : committed;
    }),
  },
  {
    name: "lost-index",
    about: "a job is not entered in the queue that it waits in",
    caughtBy: ["index", "stuck"],
    world: withPuts((put) => (put.table === JOBS.name ? { ...put, to: { ...put.to, queue: null } } : put)),
  },
  {
    name: "leaking-counter",
    about: "a job that leaves the window is not counted out of it",
    caughtBy: ["counters", "stuck"],
    world: withPuts((put) => (put.table === JOBS.name ? { ...put, from: { ...put.from, counters: [] } } : put)),
  },
  {
    name: "forgets-idempotency",
    about: "the client's key is not kept with the job",
    caughtBy: ["idempotency"],
    world: withCommit((change, commit) =>
      commit({ ...change, puts: change.puts.filter(({ table }) => table !== RESERVATIONS.name) }),
    ),
  },
  {
    name: "budget-shared-between-classes",
    about: "waiting for one thing uses up the patience for every other",
    caughtBy: ["budget"],
    world: withPuts((put) => (put.table === SPENDINGS.name ? { ...put, value: shared(put.value as Spending) } : put)),
  },
  {
    name: "no-due-sweep",
    about: "nobody looks at records whose time has come",
    caughtBy: ["stuck"],
    world: withStore(() => ({ due: async () => [] })),
  },
  {
    name: "due-too-early",
    about: "retries come back all at once, before their time",
    caughtBy: ["early"],
    world: withStore((store) => ({
      due: async (query) => {
        const due = await store.due({ ...query, untilMs: query.nowMs + 60_000 });
        return due.map((item) => ({ ...item, dueMs: Math.min(item.dueMs, query.nowMs) }));
      },
    })),
  },
  {
    name: "one-org-first",
    about: "the org with the longest backlog is served until it is empty",
    caughtBy: ["fairness"],
    world: withStore((store) => ({
      counts: async (group, limit) => {
        const counts = await store.counts(group, limit);
        if (!group.startsWith("backlog/")) return counts;
        return new Map([...counts].sort((a, b) => b[1] - a[1]).slice(0, 1));
      },
    })),
  },
  {
    name: "ack-on-unknown-error",
    about: "a message that failed is acknowledged",
    caughtBy: ["swallowed"],
    world: withHandler((handle) => async (delivery) => {
      const settlement = await handle(delivery);
      return settlement.kind === "nakDelay" ? { kind: "ack" } : settlement;
    }),
  },
  {
    name: "ack-before-work",
    about: "a message is acknowledged before it is worked on",
    caughtBy: ["swallowed"],
    world: withHandler((handle) => async (delivery) => {
      void handle(delivery);
      return { kind: "ack" };
    }),
  },
  {
    name: "term-before-dead-letter",
    about: "what cannot be read is ended first and written to the dead letters afterwards",
    caughtBy: ["early_term"],
    world: withHandler((handle) => async (delivery) => {
      if (delivery.content.kind === "packet" || delivery.attempt <= 3) return handle(delivery);
      void handle(delivery);
      return { kind: "term" };
    }),
  },
  {
    name: "release-without-token",
    about: "a release frees the lock, whoever holds it",
    caughtBy: ["two_holders"],
    world: (world, net) =>
      withLease((lease) => ({
        release: async () => {
          const isOurs = await lease.release();
          net.locks.forceRelease(lease.key);
          return isOurs;
        },
      }))(world),
  },
  {
    name: "lock-error-ignored",
    about: "a failure of the lock's backend means going on without the lock",
    caughtBy: ["lost_update", "fence", "two_holders"],
    world: (world, net) =>
      withLocks((locks) => ({
        acquire: async (request) => {
          try {
            return await locks.acquire(request);
          } catch {
            return { kind: "held", lease: madeUpLease(request.key, fenceFor(net, request.key)) };
          }
        },
      }))(world),
  },
  {
    name: "fail-open",
    about: "a kernel that does not answer counts as a yes",
    caughtBy: ["denied"],
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
    about: "locks are renewed, but never released",
    caughtBy: ["quiet"],
    world: withLease(() => ({ release: async () => true })),
  },
  {
    name: "take-without-lease",
    about: "what one process has taken from a queue is given to the next one as well",
    caughtBy: ["claims"],
    world: withStore((store) => ({ take: (table, query) => store.take(table, { ...query, leaseMs: 0 }) })),
  },
  {
    name: "due-without-lease",
    about: "every process wakes what is due",
    caughtBy: ["claims"],
    world: withStore((store) => ({ due: (query) => store.due({ ...query, leaseMs: 0 }) })),
  },
  {
    name: "answer-before-commit",
    about: "a change is called saved before it is",
    caughtBy: ["acknowledged"],
    world: withCommit(async (change, commit) => {
      commit(change).catch(() => undefined);
      return { kind: "committed", seen: change.watch.map(() => 0) };
    }),
  },
  {
    name: "failure-counts-as-success",
    about: "whatever a worker answers is taken for success",
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
    about: "what fails is tried in the broker until the broker gives up on it",
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
    about: "a worker gets the input of the job before",
    caughtBy: ["payload"],
    world: (world) => {
      let before: unknown = null;
      return withDispatch((subject, packet, dispatch) => {
        if (packet.body.kind !== "job_request") return dispatch(subject, packet);
        const input = before;
        before = packet.body.input;
        return dispatch(subject, { ...packet, body: { ...packet.body, input } });
      })(world);
    },
  },
  {
    name: "keeps-for-ever",
    about: "nobody ever looks again at a job that has ended",
    caughtBy: ["retention"],
    world: withPuts((put) =>
      put.table === JOBS.name && put.value !== null && isFinal((put.value as Job).state)
        ? { ...put, to: { ...put.to, dueMs: null } }
        : put,
    ),
  },
  {
    name: "no-dispatch-deadline",
    about: "nobody waits for the result of an attempt",
    caughtBy: ["stuck"],
    settings: (settings) => ({ ...settings, dispatch: { ...settings.dispatch, deadlineMs: 3_600_000 } }),
  },
];

export function plantNamed(name: string): PlantedBug | undefined {
  return PLANTS.find((plant) => plant.name === name);
}

function isNo(kind: string): (guard: { readonly kind: string }) => boolean {
  return (guard) => guard.kind !== kind;
}

function shared(spending: Spending | null): Spending | null {
  if (spending === null) return null;
  const [largest] = Object.values(spending.patience).sort((a, b) => b.count - a.count);
  if (largest === undefined) return spending;
  const patience = Object.fromEntries(RETRY_CLASSES.map((retryClass) => [retryClass, largest])) as Patience;
  return { ...spending, patience };
}

/** One that the store would take: the next after the last that was written. */
function fenceFor(net: SimNet, key: string): number {
  const records = ["a", "b"].filter((record) => tallyLock(record) === key);
  return 1 + Math.max(0, ...records.map((record) => net.store.fenceOf(TALLIES.name, record)));
}

function madeUpLease(key: string, fence: number): Lease {
  const { signal } = new AbortController();
  return { key, token: "", fence, waitedMs: 0, attempts: 1, signal, release: async () => true };
}
