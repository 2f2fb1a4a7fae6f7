import { defaultSettings } from "../../config/config.ts";
import { bypassSafety } from "../../core/jobs/lifecycle.ts";
import {
  covers,
  endedOf,
  FAIL_OPEN_MS,
  FAIL_OPENS,
  type FailOpenGrant,
  isInForce,
} from "../../core/model/fail-open.ts";
import { JOBS, type Job, RUNNING_GROUP } from "../../core/model/job.ts";
import type { Decision, PolicyRequest } from "../../core/policy/decision.ts";
import { FAIL_OPEN_TOTAL } from "../../engine/safety/index.ts";
import type { Change, Guard } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import type { SimNet } from "../adapters/world.ts";
import { withBroadcast, withCommit, withPuts, withSafety } from "./decorators.ts";
import type { Mutant } from "./mutants.ts";

/** Bugs in what lets a job out: verdicts, approvals, fail-open leases, the breaker, the limits of tenants. */
export const SAFETY_MUTANTS: readonly Mutant[] = [
  {
    name: "verdict-lost-on-failed-write",
    about: "a verdict that could not be stored counts as no verdict, and the lease lets the job go",
    caughtBy: ["verdict"],
    world: (world, net) =>
      withCommit(async (change, commit) => {
        try {
          return await commit(change);
        } catch (error) {
          const bypassed = bypassedInstead(change, net, world);
          if (bypassed === null) throw error;
          return commit(bypassed);
        }
      })(world),
  },
  {
    name: "lease-without-end",
    about: "a fail-open lease is written with the longest end that there is, whatever was asked for",
    caughtBy: ["lease", "permit"],
    world: withPuts((put) => {
      const lease = put.value as FailOpenGrant | null;
      if (put.table !== FAIL_OPENS.name || lease === null || lease.ended) return put;
      const endsMs = lease.openedMs + FAIL_OPEN_MS.max;
      return { ...put, value: { ...lease, endsMs } };
    }),
  },
  {
    name: "closed-lease-not-guarded",
    about: "processes go by their memory of a lease that somebody has closed, and nobody told them",
    caughtBy: ["permit"],
    world: untold((change, commit) => commit({ ...change, guards: change.guards.filter(isNotOf(endedOf("").group)) })),
  },
  {
    name: "bypass-not-labelled",
    about: "what goes out without a verdict does not say so",
    caughtBy: ["bypass"],
    world: withPuts((put) => {
      const job = put.value as Job | null;
      if (put.table !== JOBS.name || !job?.bypass) return put;
      const { safety_bypassed: _, safety_bypass_reason: __, ...labels } = job.labels;
      return { ...put, value: { ...job, labels } };
    }),
  },
  {
    name: "bypass-not-counted",
    about: "the durable count of bypasses is not kept",
    caughtBy: ["bypass"],
    world: withCommit((change, commit) => commit({ ...change, totals: [] })),
  },
  {
    name: "half-open-for-everybody",
    about: "a half-open breaker lets everybody through",
    caughtBy: ["probes"],
    settings: (settings) => ({
      ...settings,
      safety: { ...settings.safety, breaker: { ...settings.safety.breaker, probes: 1_000 } },
    }),
  },
  {
    name: "approval-of-another-policy",
    about: "an approval is not bound to the policy under which it was asked for",
    caughtBy: ["approval"],
    world: (world, net) =>
      withSafety((safety) => ({
        local: safety.local && ((request) => unchanged(net, request, safety.local?.(request))),
        check: async (request) => {
          const checked = await safety.check(request);
          if (checked.kind === "unavailable") return checked;
          return { kind: "decided", decision: unchanged(net, request, checked.decision) };
        },
      }))(world),
  },
  {
    name: "tenant-limit-not-guarded",
    about: "the limit of a tenant is looked at, but not guarded",
    caughtBy: ["tenant"],
    world: withCommit((change, commit) => commit({ ...change, guards: change.guards.filter(isNotOf(RUNNING_GROUP)) })),
  },
];

/** The same with processes that hear of nothing from each other. */
function untold(change: Parameters<typeof withCommit>[0]): (world: World) => World {
  return (world) => {
    const deaf = withBroadcast((_subject, _packet) => undefined)(world);
    return withCommit(change)(deaf);
  };
}

function isNotOf(group: string): (guard: Guard) => boolean {
  return (guard) => guard.kind !== "counter" || guard.counter.group !== group;
}

/** The change as it would be if the kernel had not answered; null when it has no verdict in it, or no lease is open. */
function bypassedInstead(change: Change, net: SimNet, { clock, random }: World): Change | null {
  const at = change.puts.findIndex(({ table, value }) => table === JOBS.name && (value as Job | null)?.safety);
  const put = change.puts[at];
  const found = put === undefined ? null : net.store.load(JOBS, put.id);
  if (put === undefined || found === null || found.value.state !== "PENDING" || found.version !== put.expect)
    return null;
  const nowMs = clock.now();
  const leases = [...net.store.rows(FAIL_OPENS)].map(({ value }) => value);
  const lease = leases.find((each) => covers(each, found.value.org) && isInForce(each, nowMs));
  if (lease === undefined) return null;
  const job = bypassSafety(found.value, lease, "not stored", {
    nowMs,
    random: () => random.next(),
    settings: defaultSettings(),
  });
  const value = { ...put, value: job, to: JOBS.placement(job) };
  const totals = [{ name: FAIL_OPEN_TOTAL, delta: 1 }];
  return { ...change, puts: change.puts.with(at, value), guards: [], sends: [], totals };
}

/** As if the policy were still the one under which the approval was asked for. */
function unchanged(net: SimNet, { jobId }: PolicyRequest, decision: Decision | undefined): Decision {
  if (decision === undefined) throw new Error("no decision");
  const approval = net.store.load(JOBS, jobId)?.value.approval;
  return approval ? { ...decision, snapshot: approval.snapshot } : decision;
}
