import { type ExplainContext, type Explanation, explainJob } from "../../core/jobs/explain.ts";
import { servesTenant } from "../../core/jobs/select-target.ts";
import {
  BACKLOG_GROUP,
  backlogGroupOf,
  IN_FLIGHT_GROUP,
  type Job,
  limitOfRule,
  RUNNING_GROUP,
  underRule,
} from "../../core/model/job.ts";
import { RUNS } from "../../core/model/run.ts";
import { jobLimitOf, loadTenantJob, targetOf, windowOf } from "../dispatch/index.ts";
import type { Needs } from "../engine.ts";
import { type BudgetUse, budgetsOfJob } from "../limits/index.ts";
import { runCountsOf, runLimitOf } from "../runs/index.ts";
import { breakerRefusal } from "../safety/index.ts";
import { holderOf } from "../workers/index.ts";

/**
 * Loads what the explanation of a job needs; the rules are in `core/jobs/explain.ts`.
 * `isForAll`: the caller may see all tenants. Other callers see no counts of other tenants and no server errors.
 */
export type Explained =
  | {
      readonly kind: "explained";
      readonly job: Job;
      readonly around: ExplainContext;
      readonly explanation: Explanation;
      /** What is left of the budgets that the job counts towards. */
      readonly budgets: readonly BudgetUse[];
    }
  | { readonly kind: "not_found" };

export interface ExplainRequest {
  readonly org: string;
  readonly jobId: string;
  readonly isForAll: boolean;
}

export async function explain(
  engine: Needs<"world" | "settings" | "tasks" | "jobCache" | "registry" | "pools" | "safety">,
  request: ExplainRequest,
): Promise<Explained> {
  const found = await loadTenantJob(engine, request);
  if (!found) return { kind: "not_found" };
  const job = found.value;
  const [around, budgets] = await Promise.all([
    surroundingsOf(engine, job, request.isForAll),
    job.safety?.budgets === undefined ? [] : budgetsOfJob(engine, job),
  ]);
  return { kind: "explained", job, around, explanation: explainJob(job, around), budgets };
}

async function surroundingsOf(
  engine: Needs<"world" | "settings" | "tasks" | "jobCache" | "registry" | "pools" | "safety">,
  job: Job,
  isForAll: boolean,
): Promise<ExplainContext> {
  const { clock, store } = engine.world;
  const nowMs = clock.now();
  const settings = engine.settings.current;
  const [inFlight, running, backlog, backlogOfTopic, underRules, lease, run, holder] = await Promise.all([
    store.counts(IN_FLIGHT_GROUP, GROUP_MAX),
    store.counts(RUNNING_GROUP, GROUP_MAX),
    store.counts(BACKLOG_GROUP, GROUP_MAX),
    store.counts(backlogGroupOf(job.topic), GROUP_MAX),
    store.counts(underRule(job).group, GROUP_MAX),
    engine.safety.grants.find(job.org),
    job.step ? store.load(RUNS, job.step.runId) : null,
    holderOf(engine, job),
  ]);
  const ofOrg = jobLimitOf(settings, job.org);
  const ofRule = limitOfRule(job);
  const target = targetOf(engine, job);
  const serving = engine.registry.serving(job.topic, nowMs).filter((worker) => servesTenant(worker, job.org));
  const window = { used: inFlight.get(job.topic) ?? 0, max: windowOf(engine, job.topic) };
  const breaker = breakerRefusal(engine);
  return {
    nowMs,
    window: { isEmpty: window.used === 0, isFull: window.used >= window.max, use: isForAll ? window : null },
    tenant: ofOrg === null ? null : { used: running.get(job.org) ?? 0, max: ofOrg },
    rule: ofRule === null ? null : { used: underRules.get(underRule(job).name) ?? 0, max: ofRule },
    backlog: { topic: isForAll ? (backlog.get(job.topic) ?? 0) : null, tenant: backlogOfTopic.get(job.org) ?? 0 },
    workers: { serving: serving.length, free: serving.filter(({ load, loadMax }) => load < loadMax).length },
    unfit: target.kind === "wait" ? target.why : null,
    silentMs: holder?.silentMs ?? null,
    isIdle: engine.jobCache.isIdle(job.topic, nowMs),
    breaker: breaker === null || isForAll ? breaker : LEFT_ALONE,
    killed: engine.pools.killOf(job.org),
    failOpen: lease === null ? null : { id: lease.id, endsMs: lease.endsMs },
    run: run && { id: run.id, deadlineMs: run.value.deadlineMs },
    slots: job.wait?.forSlot ? await slotsOf(engine, job.org) : null,
  };
}

async function slotsOf(engine: Needs<"world" | "settings">, org: string): Promise<ExplainContext["slots"]> {
  const { open, waiting } = await runCountsOf(engine, org);
  return { used: open, max: runLimitOf(engine.settings.current, org), waiting };
}

const LEFT_ALONE = "the topic is idle: no worker responded";
const GROUP_MAX = 10_000;
