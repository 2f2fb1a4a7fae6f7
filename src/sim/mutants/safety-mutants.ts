import { defaultSettings } from "../../config/config.ts";
import { bypassSafety } from "../../core/jobs/lifecycle.ts";
import { AUDIT_PENDING, type PendingAudit } from "../../core/model/audit.ts";
import { covers, endedOf, FAIL_OPEN_MS, FAIL_OPENS, isInForce } from "../../core/model/fail-open.ts";
import { JOBS, type Job, RUNNING_GROUP } from "../../core/model/job.ts";
import { isKillId, POOLS_LIST } from "../../core/model/kill-switch.ts";
import { OPEN_JOBS_GROUP } from "../../core/model/quota.ts";
import type { Decision, PolicyRequest } from "../../core/policy/decision.ts";
import { FAIL_OPEN_TOTAL } from "../../engine/safety/index.ts";
import type { Change, Guard } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import type { SimNet } from "../adapters/world.ts";
import { withBroadcast, withCommit, withGuards, withSafety, withStore, withValues } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in verdicts, approvals, fail-open leases, the breaker, and tenant limits. */
export const SAFETY_MUTANTS: readonly Mutant[] = [
  {
    name: "verdict-lost-on-failed-write",
    about: "a verdict that could not be stored is dropped, and the job is bypassed under a lease",
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
    about: "a fail-open lease is stored with the maximum duration instead of the requested one",
    caughtBy: ["lease", "permit"],
    world: withValues(FAIL_OPENS, (lease) =>
      lease.ended ? lease : { ...lease, endsMs: lease.openedMs + FAIL_OPEN_MS.max },
    ),
  },
  {
    name: "closed-lease-not-guarded",
    about: "a bypass under a cached lease does not check whether the lease was closed",
    caughtBy: ["permit"],
    world: (world) => withGuards(isNotOf(endedOf("").group))(withBroadcast(() => undefined)(world)),
  },
  {
    name: "bypass-not-labelled",
    about: "a bypassed job has no bypass labels",
    caughtBy: ["bypass"],
    world: withValues(JOBS, (job) => {
      if (!job.bypass) return job;
      const { safety_bypassed: _, safety_bypass_reason: __, ...labels } = job.labels;
      return { ...job, labels };
    }),
  },
  {
    name: "bypass-not-counted",
    about: "the durable count of bypasses is not updated",
    caughtBy: ["bypass"],
    world: withCommit((change, commit) => commit({ ...change, totals: [] })),
  },
  {
    name: "half-open-unlimited",
    about: "a half-open breaker lets all requests through",
    caughtBy: ["probes"],
    settings: (settings) => ({
      ...settings,
      safety: { ...settings.safety, breaker: { ...settings.safety.breaker, probes: 1_000 } },
    }),
  },
  {
    name: "approval-of-another-policy",
    about: "an approval is not bound to the policy it was requested under",
    caughtBy: ["approval"],
    world: (world, net) =>
      withSafety((safety) => ({
        local: safety.local && ((request) => withOldSnapshot(net, request, safety.local?.(request))),
        check: async (request) => {
          const checked = await safety.check(request);
          if (checked.kind === "unavailable") return checked;
          return { kind: "decided", decision: withOldSnapshot(net, request, checked.decision) };
        },
      }))(world),
  },
  {
    name: "shadow-rule-enforced",
    about: "a shadow rule that would have decided decides",
    caughtBy: ["policy"],
    world: withDecisions((decision) => {
      const [verdict] = decision.shadow ?? [];
      return verdict === undefined ? decision : { ...decision, effect: verdict.effect, ruleId: verdict.ruleId };
    }),
  },
  {
    name: "shadow-verdict-not-recorded",
    about: "what shadow rules would have decided is not on the job",
    caughtBy: ["policy"],
    world: withDecisions(({ shadow: _, ...decision }) => decision),
  },
  {
    name: "decision-recorded-with-another-time",
    about: "a decision is recorded with a time a second after that of its evaluation",
    caughtBy: ["policy"],
    world: withDecisions((decision) =>
      decision.atMs === undefined ? decision : { ...decision, atMs: decision.atMs + 1_000 },
    ),
  },
  {
    name: "kill-not-read",
    about: "processes that did not engage a kill switch never learn of it",
    caughtBy: ["kill"],
    world: withStore((store) => ({
      list: async (table, query) => {
        const page = await store.list(table, query);
        return query.index === POOLS_LIST ? { ...page, items: page.items.filter(({ id }) => !isKillId(id)) } : page;
      },
    })),
  },
  {
    name: "kill-not-audited",
    about: "a kill switch is engaged and released without an audit entry",
    caughtBy: ["human_actions"],
    world: withCommit((change, commit) =>
      commit({ ...change, puts: change.puts.filter(({ table, value }) => !isKillAudit(table, value)) }),
    ),
  },
  {
    name: "backlog-quota-not-guarded",
    about: "the commit of a submission does not guard the tenant's quota of open jobs",
    caughtBy: ["tenant"],
    world: withGuards(isNotOf(OPEN_JOBS_GROUP)),
  },
  {
    name: "tenant-limit-not-guarded",
    about: "the commit of a dispatch does not guard the tenant's job limit",
    caughtBy: ["tenant"],
    world: withGuards(isNotOf(RUNNING_GROUP)),
  },
];

function withDecisions(change: (decision: Decision) => Decision): (world: World) => World {
  return withSafety((safety) => {
    const { local } = safety;
    return {
      local: local && ((request) => change(local(request))),
      check: async (request) => {
        const checked = await safety.check(request);
        return checked.kind === "unavailable" ? checked : { kind: "decided", decision: change(checked.decision) };
      },
    };
  });
}

function isNotOf(group: string): (guard: Guard) => boolean {
  return (guard) => guard.kind !== "counter" || guard.counter.group !== group;
}

function isKillAudit(table: string, value: unknown): boolean {
  return (
    table === AUDIT_PENDING.name && (value as PendingAudit | null)?.lines.some(({ kind }) => kind === "kill") === true
  );
}

/** The change with a bypass instead of the verdict; null when it has no verdict or no lease is open. */
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

/** The decision with the policy snapshot of the approval request. */
function withOldSnapshot(net: SimNet, { jobId }: PolicyRequest, decision: Decision | undefined): Decision {
  if (decision === undefined) throw new Error("no decision");
  const approval = net.store.load(JOBS, jobId)?.value.approval;
  return approval ? { ...decision, snapshot: approval.snapshot } : decision;
}
