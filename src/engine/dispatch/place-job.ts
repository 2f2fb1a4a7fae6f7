import { waitForRule } from "../../core/jobs/attempt.ts";
import { exhaustBudget } from "../../core/jobs/budget.ts";
import { backlogOfOrg, inFlightOf, isFinal, JOBS, type Job, type JobState, limitOfRule } from "../../core/model/job.ts";
import { type Committed, type Guard, type Put, put, type Total, type Versioned } from "../../ports/store.ts";
import { decisionContext } from "../context.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { BudgetExhausted, budgetRefusal, countExhausted, roomGuards } from "../limits/index.ts";
import { failureMessage } from "../packets.ts";
import { admissionGuards, throwIfExceeded } from "../quotas.ts";
import { drainBacklog, sendJob } from "./backlog.ts";
import { capacityGuards, limitOfGuard } from "./capacity-guards.ts";
import { windowOf } from "./dispatch-window.ts";
import { dispatchBlock, dispatched } from "./select-target.ts";
import { settleJob } from "./settle-job.ts";

/**
 * Places a job that may run.
 *
 * 1. The job is dispatched at once if there is capacity and no job of its org waits before it; otherwise it enters the
 *    backlog. Both are one commit, together with the caller's puts.
 * 2. Capacity is a guard of the commit (`capacity-guards.ts`), so no race exceeds it.
 * 3. A new job (`before` is null) also needs room in the quotas of its tenant; without it the call throws `QuotaExceeded`.
 * 4. A job without room in a budget of its rule ends with `budget_exhausted`; a new one is refused (`BudgetExhausted`).
 * 5. A job without an eligible worker waits on its own record (`select-target.ts`) and does not block the backlog.
 */
export async function placeJob(
  engine: DispatchContext,
  before: Versioned<Job> | null,
  job: Job,
  puts: readonly Put[] = [],
  guards: readonly Guard[] = [],
  totals: readonly Total[] = [],
): Promise<JobState | "stale"> {
  const holding = job.state === "SCHEDULED" ? dispatchBlock(engine, job) : null;
  if (holding?.kind === "waits") return commitUndispatched(engine, before, holding.job, puts, guards, totals);
  if (job.state === "SCHEDULED" && !holding && canDispatchNow(engine, job)) {
    const sent = dispatched(engine, job);
    const quotas = before === null ? admissionGuards(engine.settings.current, sent) : NONE;
    const first: Guard = { kind: "counter", counter: backlogOfOrg(job.topic, job.org), max: 0 };
    const committed = await engine.commit({
      org: job.org,
      puts: [...puts, put(JOBS, job.id, before, sent)],
      guards: [
        ...guards,
        ...quotas,
        first,
        ...capacityGuards(sent, engine.settings.current, windowOf(engine, job.topic)),
      ],
      totals,
    });
    throwIfExceeded(engine, job.org, quotas, committed);
    switch (committed.kind) {
      case "committed":
        sendJob(engine, { id: job.id, version: (before?.version ?? 0) + 1, value: sent });
        return sent.state;
      case "stale":
        return "stale";
      case "refused":
        if (guards.includes(committed.guard)) return "stale";
        switch (limitOfGuard(committed.guard, job)) {
          case "rule":
            return commitUndispatched(
              engine,
              before,
              waitForRule(job, limitOfRule(job) ?? 0, decisionContext(engine, job)),
              puts,
              guards,
              totals,
            );
          case "budget":
            return endExhausted(engine, before, job, committed, puts, guards);
          case "window":
            engine.jobCache.markFull(job.topic);
            break;
          case "lease":
            engine.safety.grants.recordEnded(job);
        }
        break;
      default:
        committed satisfies never;
    }
  }
  return commitUndispatched(engine, before, job, puts, guards, totals);
}

/** A new job is refused, an admitted one ends. */
async function endExhausted(
  engine: DispatchContext,
  before: Versioned<Job> | null,
  job: Job,
  { guard, value }: Extract<Committed, { kind: "refused" }>,
  puts: readonly Put[],
  guards: readonly Guard[],
): Promise<JobState | "stale"> {
  const context = decisionContext(engine, job);
  const refusal = budgetRefusal(job, guard, value, context.nowMs);
  if (refusal === null) return "stale";
  countExhausted(engine, refusal);
  if (before === null) throw new BudgetExhausted(refusal);
  const ended = exhaustBudget(job, refusal.text, context);
  return (await settleJob(engine, before, ended, puts, { guards })) ? ended.state : "stale";
}

/** Commits a job that is not dispatched: into the backlog, or to its end. */
async function commitUndispatched(
  engine: DispatchContext,
  before: Versioned<Job> | null,
  job: Job,
  puts: readonly Put[],
  guards: readonly Guard[],
  totals: readonly Total[],
): Promise<JobState | "stale"> {
  if (before && job.step && isFinal(job.state)) {
    return (await settleJob(engine, before, job, puts, { guards })) ? job.state : "stale";
  }
  const message = failureMessage(engine.world.name, job);
  const quotas = before === null ? admissionGuards(engine.settings.current, job) : NONE;
  const room = before === null ? roomGuards(job, engine.world.clock.now()) : NONE;
  const committed = await engine.commit({
    org: job.org,
    puts: [...puts, put(JOBS, job.id, before, job)],
    guards: quotas.length === 0 ? guards : [...guards, ...quotas, ...room],
    totals,
    ...(message ? { sends: [message] } : {}),
    watch: [inFlightOf(job.topic)],
  });
  throwIfExceeded(engine, job.org, quotas, committed);
  if (committed.kind === "refused" && room.includes(committed.guard))
    return endExhausted(engine, before, job, committed, puts, guards);
  if (committed.kind !== "committed") return "stale";
  if (isFinal(job.state)) engine.world.metrics.add("cordum_jobs_total", { state: job.state });
  // All jobs in flight may have ended since the refusal; then no other commit drains this backlog.
  else if (job.state === "SCHEDULED" && (committed.seen[0] ?? 0) < windowOf(engine, job.topic))
    drainBacklog(engine, job.topic);
  return job.state;
}

function canDispatchNow(engine: Needs<"world" | "jobCache">, job: Job): boolean {
  return !engine.jobCache.isFull(job.topic) && !engine.jobCache.isIdle(job.topic, engine.world.clock.now());
}

const NONE: readonly Guard[] = [];
