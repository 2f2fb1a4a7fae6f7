import { isFinal, type Job, type JobState, limitOfRule, type OpenState } from "../model/job.ts";
import { clientJobId } from "../model/job-id.ts";
import type { RetryClass } from "../retry/retry-classes.ts";
import { explainStep, stepReasonOf } from "./explain-step.ts";

/**
 * Explains why a job does not move: since when, until when, and what unblocks it.
 *
 * 1. Every open state has a reason: the tables below do not compile without one.
 * 2. The explanation is read from the job and its context. If several blocks apply, the one to remove first is
 *    reported.
 * 3. A caller limited to one tenant sees that tenant's figures only. Shared limits are reported as facts without
 *    numbers ("the window is full"): values that are null in the context appear in no sentence.
 */
export type WaitReason =
  /** Submitted, not checked yet. */
  | "safety_check"
  | "safety_unavailable"
  /** The policy decided `throttle`. */
  | "throttled"
  | "approval"
  /** In the backlog, blocked only by the jobs ahead of it. */
  | "turn"
  /** A kill switch stops all dispatch for the tenant. */
  | "killed"
  | "window_full"
  | "tenant_limit"
  | "rule_limit"
  | "no_worker"
  /** The workers of the topic lack a required capability, or their pool is draining. */
  | "no_fit_worker"
  /** Sent to a worker; no sign of life yet. */
  | "dispatched"
  | "running"
  /** An attempt failed or was lost; the next one is scheduled. */
  | "retry"
  | "store_unavailable"
  | "lock_busy"
  /** A `delay` step. */
  | "timer"
  /** A `subworkflow` step that waits for a run slot or for its sub-run. */
  | "run_slot"
  | "sub_run";

export interface Usage {
  readonly used: number;
  readonly max: number;
}

export interface ExplainContext {
  readonly nowMs: number;
  /** Jobs of the topic with workers, across tenants; `use` is null if the caller may not see the numbers. */
  readonly window: { readonly isEmpty: boolean; readonly isFull: boolean; readonly use: Usage | null };
  /** Jobs of the tenant with workers; null without a limit. */
  readonly tenant: Usage | null;
  /** Running jobs that the same rule allowed. */
  readonly rule: Usage | null;
  /** Queued jobs of the topic: across tenants (null if the caller may not see it) and of the job's tenant. */
  readonly backlog: { readonly topic: number | null; readonly tenant: number };
  /** Live workers that serve the topic and the tenant, and how many of them have a free slot. */
  readonly workers: { readonly serving: number; readonly free: number };
  /** Why none of them is eligible now; null if one is. */
  readonly unfit: string | null;
  /** How long the HTTP worker that holds the job has been silent; null if it is not, or no such worker does. */
  readonly silentMs: number | null;
  /** The last dispatch to the topic found no subscriber. */
  readonly isIdle: boolean;
  /** Why the circuit breaker blocks checks; null if it does not. */
  readonly breaker: string | null;
  /** The engaged kill switch that covers the tenant. */
  readonly killed: { readonly scope: string; readonly by: string; readonly reason: string } | null;
  /** The fail-open lease that covers the tenant. */
  readonly failOpen: { readonly id: string; readonly endsMs: number } | null;
  /** The tenant's run slots and the number of steps that wait for one; null for jobs that need none. */
  readonly slots: (Usage & { readonly waiting: number }) | null;
  /** The run of a step; null for other jobs. */
  readonly run: { readonly id: string; readonly deadlineMs: number } | null;
}

export interface Explanation {
  /** Null for a job that has ended. */
  readonly wait: {
    readonly reason: WaitReason;
    readonly sinceMs: number;
    readonly untilMs: number;
    readonly retryClass: RetryClass | null;
    /** What chose the time: a policy in config syntax, a rule, a setting, or the worker. */
    readonly setBy: string | null;
  } | null;
  readonly sentence: string;
  readonly unblocks: readonly Unblock[];
}

export interface Unblock {
  readonly what: string;
  readonly command: string | null;
}

export function explainJob(job: Job, context: ExplainContext): Explanation {
  if (isFinal(job.state)) return explainEnd(job);
  const blocked = explainStep(job, context) ?? EXPLAIN_OPEN[job.state as OpenState](job, context);
  const { reason, sinceMs, untilMs, setBy, sentence, unblocks } = endOfRun(blocked, context);
  return {
    wait: { reason, sinceMs, untilMs, retryClass: job.wait?.retryClass ?? null, setBy },
    sentence,
    unblocks: [...unblocks, { what: "cancel the job", command: `cordum job cancel ${clientJobId(job.org, job.id)}` }],
  };
}

/** The earliest end is reported: a run that times out first cancels its open steps. */
function endOfRun(blocked: Block, { run, nowMs }: ExplainContext): Block {
  if (run === null || run.deadlineMs >= blocked.untilMs) return blocked;
  const first = `run \`${run.id}\` ends as TIMEOUT before that, in ${formatSpan(run.deadlineMs - nowMs)}`;
  return {
    ...blocked,
    untilMs: run.deadlineMs,
    setBy: `timeout of run \`${run.id}\``,
    sentence: `${blocked.sentence}; ${first}`,
  };
}

/** The reason as far as the job record alone shows it, for lists. A job in the backlog always reports `turn`. */
export function waitReasonOf(job: Job): WaitReason | null {
  if (isFinal(job.state)) return null;
  return stepReasonOf(job) ?? REASONS[job.state as OpenState](job);
}

const REASONS: Readonly<Record<OpenState, (job: Job) => WaitReason>> = {
  PENDING: (job) => (job.wait ? REASON_OF_CLASS[job.wait.retryClass] : "safety_check"),
  APPROVAL_REQUIRED: () => "approval",
  SCHEDULED: () => "turn",
  DISPATCHED: () => "dispatched",
  RUNNING: () => "running",
  RETRYING(job) {
    const retryClass = job.wait?.retryClass ?? "unclassified";
    return retryClass === "throttled" && limitOfRule(job) !== null ? "rule_limit" : REASON_OF_CLASS[retryClass];
  },
};

const REASON_OF_CLASS: Readonly<Record<RetryClass, WaitReason>> = {
  poison: "retry",
  unclassified: "retry",
  lock_busy: "lock_busy",
  store_unavailable: "store_unavailable",
  safety_unavailable: "safety_unavailable",
  no_worker: "no_worker",
  throttled: "throttled",
};

export interface Block {
  readonly reason: WaitReason;
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly setBy: string | null;
  readonly sentence: string;
  readonly unblocks: readonly Unblock[];
}

const EXPLAIN_OPEN: Readonly<Record<OpenState, (job: Job, context: ExplainContext) => Block>> = {
  PENDING: explainPending,
  APPROVAL_REQUIRED: explainApproval,
  SCHEDULED: explainBacklog,
  DISPATCHED: explainSent,
  RUNNING: explainSent,
  RETRYING: explainRetry,
};

function explainPending(job: Job, context: ExplainContext): Block {
  if (job.wait) return explainRetry(job, context);
  return {
    reason: "safety_check",
    sinceMs: job.updatedMs,
    untilMs: job.dueMs,
    setBy: null,
    sentence: "submitted; waiting for the safety check",
    unblocks: [{ what: "check that the control plane makes progress", command: "cordum status" }],
  };
}

function explainApproval(job: Job, { nowMs }: ExplainContext): Block {
  const { requestedMs = job.updatedMs, expiresMs = job.dueMs, ruleId = null } = job.approval ?? {};
  const rule = approvalSource(job, ruleId);
  const own = job.approval?.bySubmitter === false ? "; submitters cannot approve their own jobs" : "";
  return {
    reason: "approval",
    sinceMs: requestedMs,
    untilMs: expiresMs,
    setBy: rule,
    sentence:
      `${rule} requires approval: ${job.safety?.reason ?? "no reason given"}; ` +
      `waiting for ${formatSpan(nowMs - requestedMs)}, ends as TIMEOUT in ${formatSpan(expiresMs - nowMs)}${own}`,
    unblocks: [
      { what: "approve it", command: `cordum approval approve ${clientJobId(job.org, job.id)}` },
      { what: "reject it", command: `cordum approval reject ${clientJobId(job.org, job.id)} --reason "..."` },
    ],
  };
}

function approvalSource({ step }: Job, ruleId: string | null): string {
  if (step?.kind === "approval") return `step \`${step.stepId}\` of run \`${step.runId}\``;
  return ruleId === null ? "the policy default" : `rule \`${ruleId}\``;
}

function explainSent(job: Job, { nowMs, silentMs }: ExplainContext): Block {
  const isRunning = job.state === "RUNNING";
  const sinceMs = job.dispatchedMs ?? job.updatedMs;
  const who = job.workerId === null ? "a worker" : `worker \`${job.workerId}\``;
  const percent = job.progress?.percent;
  const far = percent === null || percent === undefined ? "" : ` (${percent} % done)`;
  const ago = `${formatSpan(nowMs - sinceMs)} ago`;
  const attempt = isRunning
    ? `${who} started attempt ${job.attempt} ${ago}${far}`
    : `attempt ${job.attempt} was sent to ${who} ${ago}`;
  const progress = job.progress ? `last progress ${formatSpan(nowMs - job.progress.atMs)} ago` : "no progress reported";
  const silent = silentMs === null ? "" : `; the worker is silent for ${formatSpan(silentMs)}`;
  return {
    reason: isRunning ? "running" : "dispatched",
    sinceMs,
    untilMs: job.dueMs,
    setBy: "dispatch.deadline_ms",
    sentence: `${attempt}; ${progress}${silent}; counts as lost without a report within ${formatSpan(job.dueMs - nowMs)}`,
    unblocks: [SEE_WORKERS],
  };
}

function explainRetry(job: Job, context: ExplainContext): Block {
  const { nowMs } = context;
  const { retryClass = "unclassified", reason: why = "", untilMs = job.dueMs, setBy = null } = job.wait ?? {};
  const sinceMs = job.patience[retryClass]?.sinceMs ?? job.updatedMs;
  const reason = waitReasonOf(job) ?? "retry";
  const tries = job.patience[retryClass]?.count ?? 0;
  const sentence =
    `${CAUSES[retryClass]}: ${why}; retrying for ${formatSpan(nowMs - sinceMs)}, ${tries} ${tries === 1 ? "try" : "tries"}; ` +
    `next try in ${formatSpan(untilMs - nowMs)} (${setBy === "worker" ? "requested by the worker" : setBy})`;
  const facts = retryClass === "safety_unavailable" ? kernelFacts(context) : "";
  return { reason, sinceMs, untilMs, setBy, sentence: `${sentence}${facts}`, unblocks: unblocksOf(reason, job) };
}

const CAUSES: Readonly<Record<RetryClass, string>> = {
  poison: "the result could not be decoded",
  unclassified: "the last attempt failed",
  lock_busy: "lock busy",
  store_unavailable: "store unavailable",
  safety_unavailable: "safety kernel unavailable",
  no_worker: "no worker available",
  throttled: "throttled",
};

function kernelFacts({ breaker, failOpen, nowMs }: ExplainContext): string {
  const breakerText = breaker === null ? "" : `; ${breaker}`;
  const open =
    failOpen === null ? "" : `; fail-open lease \`${failOpen.id}\` ends in ${formatSpan(failOpen.endsMs - nowMs)}`;
  return `${breakerText}${open}`;
}

function unblocksOf(reason: WaitReason, job: Job): readonly Unblock[] {
  switch (reason) {
    case "safety_unavailable":
      return [
        { what: "diagnose the safety kernel", command: "cordum doctor" },
        {
          what: "dispatch this tenant's jobs without a verdict for a limited time (audited)",
          command: `cordum failopen open --scope ${job.org} --reason "..."`,
        },
      ];
    case "throttled":
    case "rule_limit":
      return [SEE_RULES];
    case "no_worker":
      return [SEE_WORKERS];
    case "retry":
      return [{ what: "show the failed attempts", command: `cordum job get ${clientJobId(job.org, job.id)}` }];
    default:
      return [{ what: "show the status of the control plane", command: "cordum status" }];
  }
}

function explainEnd(job: Job): Explanation {
  const by = job.error === null ? "" : `: ${job.error.message}`;
  return { wait: null, sentence: `ended as ${job.state}${by}`, unblocks: NEXT_STEPS[job.state]?.(job) ?? [] };
}

const NEXT_STEPS: Readonly<Partial<Record<JobState, (job: Job) => readonly Unblock[]>>> = {
  FAILED: (job) => [
    ...(job.error?.code === "budget_exhausted"
      ? [{ what: "raise the budget of the rule", command: "cordum policy publish FILE" }]
      : []),
    { what: "redrive the job", command: `cordum dlq retry ${clientJobId(job.org, job.id)}` },
  ],
  TIMEOUT: (job) => [{ what: "redrive the job", command: `cordum dlq retry ${clientJobId(job.org, job.id)}` }],
  DENIED: (job) =>
    (job.safety?.remediations ?? []).map(({ id, title }) => ({ what: `${title} (\`${id}\`)`, command: null })),
};

export const SEE_WORKERS: Unblock = {
  what: "list the workers, or start one for the topic",
  command: "cordum worker list",
};
export const SEE_POOLS: Unblock = { what: "list the draining pools", command: "cordum pool list" };
export const SEE_RULES: Unblock = { what: "list the rules in force", command: "cordum policy list" };
export const MORE_WINDOW: Unblock = { what: "raise `dispatch.window_max`", command: "cordum config explain" };

/** Rounded, for people; the exact times are separate fields. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

/** Why a job in the backlog is not sent. The block that has to be removed first is reported first. */
export function explainBacklog(job: Job, context: ExplainContext): Block {
  const { nowMs, window, tenant, rule, backlog } = context;
  const ahead =
    backlog.topic === null
      ? `${backlog.tenant} queued for \`${job.topic}\` in tenant \`${job.org}\``
      : `${backlog.topic} queued for \`${job.topic}\`, ${backlog.tenant} of them in tenant \`${job.org}\``;
  const at = { sinceMs: job.updatedMs, untilMs: job.deadlineMs, setBy: null };
  const since = `for ${formatSpan(nowMs - job.updatedMs)}`;
  const { workers, killed } = context;
  if (killed !== null) {
    const whose = killed.scope === job.org ? `tenant \`${job.org}\`` : "all tenants";
    const sentence = `kill switch for ${whose} engaged by \`${killed.by}\`: ${killed.reason}; ${ahead}`;
    const release = { what: "release the kill switch", command: `cordum kill release --scope '${killed.scope}'` };
    return { ...at, reason: "killed", sentence, unblocks: [release] };
  }
  if (workers.serving === 0 && (context.isIdle || window.isEmpty)) {
    const sentence = `no worker serves \`${job.topic}\`; waiting ${since}; ${ahead}`;
    return { ...at, reason: "no_worker", sentence, unblocks: [SEE_WORKERS] };
  }
  if (context.unfit !== null) {
    const sentence = `${context.unfit}; waiting ${since}; ${ahead}`;
    return { ...at, reason: "no_fit_worker", sentence, unblocks: [SEE_WORKERS, SEE_POOLS] };
  }
  if (tenant && tenant.used >= tenant.max) {
    const sentence = `job limit of tenant \`${job.org}\` reached: ${tenant.used} of ${tenant.max} with workers; ${ahead}`;
    const what = `raise \`orgs.${job.org}.limits.max_concurrent_jobs\``;
    return { ...at, reason: "tenant_limit", sentence, unblocks: [{ what, command: "cordum config explain" }] };
  }
  if (window.isFull) {
    const use = window.use === null ? "" : `: ${window.use.used} of ${window.use.max} with workers`;
    const sentence = `dispatch window of \`${job.topic}\` full${use}; ${ahead}`;
    return { ...at, reason: "window_full", sentence, unblocks: [SEE_WORKERS, MORE_WINDOW] };
  }
  if (rule && rule.used >= rule.max) {
    const sentence = `job limit of rule \`${job.safety?.ruleId}\` reached: ${rule.used} of ${rule.max} with workers`;
    return { ...at, reason: "rule_limit", sentence, unblocks: [SEE_RULES] };
  }
  const free = workers.free === 0 && workers.serving > 0 ? "; no worker has a free slot" : "";
  const out = window.use === null ? "" : `; ${window.use.used} of ${window.use.max} with workers`;
  const sentence = `waiting for its turn ${since}: ${ahead}${out}${free}`;
  return { ...at, reason: "turn", sentence, unblocks: [SEE_WORKERS] };
}
