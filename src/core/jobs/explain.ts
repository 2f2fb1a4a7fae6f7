import { isFinal, type Job, type JobState, limitOfRule, type OpenState } from "../model/job.ts";
import type { RetryClass } from "../retry/classes.ts";

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

export function explainJob(job: Job, around: ExplainContext): Explanation {
  if (isFinal(job.state)) return explainEnd(job);
  const blocked = explainStep(job, around) ?? EXPLAIN_OPEN[job.state as OpenState](job, around);
  const { reason, sinceMs, untilMs, setBy, sentence, unblocks } = blocked;
  return {
    wait: { reason, sinceMs, untilMs, retryClass: job.wait?.retryClass ?? null, setBy },
    sentence,
    unblocks: [...unblocks, { what: "give it up", command: `cordum job cancel ${job.id}` }],
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

const EXPLAIN_OPEN: Readonly<Record<OpenState, (job: Job, around: ExplainContext) => Block>> = {
  PENDING: explainPending,
  APPROVAL_REQUIRED: explainApproval,
  SCHEDULED: explainBacklog,
  DISPATCHED: explainSent,
  RUNNING: explainSent,
  RETRYING: explainRetry,
};

function explainPending(job: Job, around: ExplainContext): Block {
  if (job.wait) return explainRetry(job, around);
  return {
    reason: "safety_check",
    sinceMs: job.updatedMs,
    untilMs: job.dueMs,
    setBy: null,
    sentence: "it has just come in and is about to be checked by the safety kernel",
    unblocks: [{ what: "see whether the control plane makes progress", command: "cordum status" }],
  };
}

function explainApproval(job: Job, { nowMs }: ExplainContext): Block {
  const { requestedMs = job.updatedMs, expiresMs = job.dueMs, ruleId = null } = job.approval ?? {};
  const rule = approvalSource(job, ruleId);
  const own = job.approval?.bySubmitter === false ? "; whoever submitted it may not" : "";
  return {
    reason: "approval",
    sinceMs: requestedMs,
    untilMs: expiresMs,
    setBy: rule,
    sentence:
      `${rule} wants a human to decide: ${job.safety?.reason ?? "no reason given"}; ` +
      `it has waited ${formatSpan(nowMs - requestedMs)} and ends as TIMEOUT in ${formatSpan(expiresMs - nowMs)}${own}`,
    unblocks: [
      { what: "let it run", command: `cordum approval approve ${job.id}` },
      { what: "refuse it", command: `cordum approval reject ${job.id} --reason "..."` },
    ],
  };
}

function approvalSource({ step }: Job, ruleId: string | null): string {
  if (step?.kind === "approval") return `step \`${step.stepId}\` of run \`${step.runId}\``;
  return ruleId === null ? "the policy's default" : `rule \`${ruleId}\``;
}

function explainSent(job: Job, { nowMs }: ExplainContext): Block {
  const isRunning = job.state === "RUNNING";
  const sinceMs = job.dispatchedMs ?? job.updatedMs;
  const who = job.workerId === null ? "a worker" : `worker \`${job.workerId}\``;
  const percent = job.progress?.percent;
  const far = percent === null || percent === undefined ? "" : ` (${percent} % done)`;
  const said = isRunning
    ? `${who} works on attempt ${job.attempt}${far}`
    : `attempt ${job.attempt} was sent to a worker`;
  return {
    reason: isRunning ? "running" : "dispatched",
    sinceMs,
    untilMs: job.dueMs,
    setBy: "dispatch.deadline_ms",
    sentence: `${said} ${formatSpan(nowMs - sinceMs)} ago; nothing heard in ${formatSpan(job.dueMs - nowMs)} counts as lost`,
    unblocks: [SEE_WORKERS],
  };
}

function explainRetry(job: Job, around: ExplainContext): Block {
  const { nowMs } = around;
  const { retryClass = "unclassified", reason: why = "", untilMs = job.dueMs, setBy = null } = job.wait ?? {};
  const sinceMs = job.patience[retryClass]?.sinceMs ?? job.updatedMs;
  const reason = waitReasonOf(job) ?? "retry";
  const tries = job.patience[retryClass]?.count ?? 0;
  const sentence =
    `${CAUSES[retryClass]}: ${why}; for ${formatSpan(nowMs - sinceMs)}, ${tries} ${tries === 1 ? "try" : "tries"}; ` +
    `next in ${formatSpan(untilMs - nowMs)} (${setBy === "worker" ? "as the worker asked" : setBy})`;
  const facts = retryClass === "safety_unavailable" ? kernelFacts(around) : "";
  return { reason, sinceMs, untilMs, setBy, sentence: `${sentence}${facts}`, unblocks: unblocksOf(reason, job) };
}

const CAUSES: Readonly<Record<RetryClass, string>> = {
  poison: "what came back could not be read",
  unclassified: "the last attempt failed",
  lock_busy: "somebody else holds a lock that it needs",
  store_unavailable: "a store did not answer",
  safety_unavailable: "the safety kernel did not answer",
  no_worker: "no worker had a place for it",
  throttled: "the policy says later",
};

function kernelFacts({ breaker, failOpen, nowMs }: ExplainContext): string {
  const asked = breaker === null ? "" : `; ${breaker}`;
  const open =
    failOpen === null ? "" : `; fail-open lease \`${failOpen.id}\` ends in ${formatSpan(failOpen.endsMs - nowMs)}`;
  return `${asked}${open}`;
}

function unblocksOf(reason: WaitReason, job: Job): readonly Unblock[] {
  switch (reason) {
    case "safety_unavailable":
      return [
        { what: "see why the kernel does not answer", command: "cordum doctor" },
        {
          what: "let this tenant's jobs go without a verdict, for a while; it is audited",
          command: `cordum failopen open --scope ${job.org} --reason "..."`,
        },
      ];
    case "throttled":
    case "rule_limit":
      return [SEE_RULES];
    case "no_worker":
      return [SEE_WORKERS];
    case "retry":
      return [{ what: "see what failed, attempt by attempt", command: `cordum job get ${job.id}` }];
    default:
      return [{ what: "see how the control plane is", command: "cordum status" }];
  }
}

function explainEnd(job: Job): Explanation {
  const by = job.error === null ? "" : `: ${job.error.message}`;
  return { wait: null, sentence: `it has ended as ${job.state}${by}`, unblocks: NEXT_STEPS[job.state]?.(job) ?? [] };
}

const NEXT_STEPS: Readonly<Partial<Record<JobState, (job: Job) => readonly Unblock[]>>> = {
  FAILED: (job) => [{ what: "try it again, as the same job", command: `cordum dlq retry ${job.id}` }],
  TIMEOUT: (job) => [{ what: "try it again, as the same job", command: `cordum dlq retry ${job.id}` }],
  DENIED: (job) =>
    (job.safety?.remediations ?? []).map(({ id, title }) => ({ what: `${title} (\`${id}\`)`, command: null })),
};

export const SEE_WORKERS: Unblock = {
  what: "see the workers, or start one for the topic",
  command: "cordum worker list",
};
export const SEE_POOLS: Unblock = { what: "see which pools are being drained", command: "cordum pool list" };
export const SEE_RULES: Unblock = { what: "see the rules in force", command: "cordum policy list" };
export const MORE_WINDOW: Unblock = { what: "raise `dispatch.window_max`", command: "cordum config explain" };

/** Rounded, for people; the exact times are separate fields. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

/** Reasons that only workflow steps have: a delay, a run slot, a sub-run. */
export function stepReasonOf({ step, state, wait }: Job): WaitReason | null {
  if (step?.kind === "delay") return "timer";
  if (step?.kind !== "subworkflow") return null;
  if (state === "RUNNING") return "sub_run";
  if (wait === null) return state === "PENDING" ? "run_slot" : null;
  // After a failure the step waits for its retry like any other job.
  return wait.retryClass === "throttled" ? "run_slot" : null;
}

export function explainStep(job: Job, around: ExplainContext): Block | null {
  const reason = stepReasonOf(job);
  const at = { sinceMs: job.createdMs, untilMs: job.dueMs, setBy: "the workflow" };
  switch (reason) {
    case "timer": {
      const until = new Date(job.dueMs).toISOString();
      const sentence = `it is a delay, and ends in ${secondsTo(job.dueMs, around)} s, at ${until}`;
      return { ...at, reason, sentence, unblocks: [] };
    }
    case "run_slot": {
      const sentence = `it is a run of \`${job.step?.workflowId ?? ""}\` that waits to begin: ${whyNotYet(job, around)}`;
      return { ...at, reason, sentence, unblocks: job.wait && !job.wait.forSlot ? [seeRun(job)] : moreSlots(job) };
    }
    case "sub_run": {
      const runId = job.step?.subRunId ?? "";
      const sentence = `it waits for run \`${runId}\` of \`${job.step?.workflowId ?? ""}\` to end`;
      return {
        ...at,
        reason,
        sentence,
        unblocks: [{ what: "see why that one waits", command: `cordum run explain ${runId}` }],
      };
    }
    default:
      return null;
  }
}

function whyNotYet(job: Job, around: ExplainContext): string {
  if (job.wait === null) return "it is about to start";
  const again = `asked again in ${secondsTo(job.dueMs, around)} s`;
  const { slots } = around;
  if (slots === null) return `${job.wait.reason}; ${again}`;
  const { used, max, waiting } = slots;
  const line =
    waiting > 1
      ? `${waiting} steps wait for a slot, and are given one in the order of their age`
      : "no other step waits for a slot";
  const open = `${used} of ${max} runs of \`${job.org}\` are open, its own among them`;
  return `${open}; ${line}, before any new run; woken when a run ends, and ${again}`;
}

function moreSlots({ org, step }: Job): readonly Unblock[] {
  const unblocks: Unblock[] = [
    { what: "see which runs hold the slots", command: "cordum run list --state RUNNING" },
    { what: `raise \`orgs.${org}.limits.max_concurrent_runs\``, command: "cordum config explain" },
  ];
  if (step?.index !== undefined) {
    unblocks.push({
      what: `have fewer of the list at once: \`max_parallel\` of step \`${step.stepId}\``,
      command: null,
    });
  }
  return unblocks;
}

function seeRun({ step }: Job): Unblock {
  return { what: "see what holds up its run", command: `cordum run explain ${step?.runId ?? ""}` };
}

const secondsTo = (dueMs: number, { nowMs }: ExplainContext): number => Math.max(0, Math.ceil((dueMs - nowMs) / 1_000));

/** Why a job in the backlog is not sent. The block that has to be removed first is reported first. */
export function explainBacklog(job: Job, around: ExplainContext): Block {
  const { nowMs, window, tenant, rule, backlog } = around;
  const wait = `of \`${job.topic}\` wait`;
  const [all, own] = backlog.topic === null ? ["", wait] : [`${backlog.topic} ${wait}, `, "of them"];
  const ahead = `${all}${backlog.tenant} ${own} of tenant \`${job.org}\``;
  const at = { sinceMs: job.updatedMs, untilMs: job.deadlineMs, setBy: null };
  const since = `for ${formatSpan(nowMs - job.updatedMs)}`;
  const { workers, killed } = around;
  if (killed !== null) {
    const whose = killed.scope === job.org ? `tenant \`${job.org}\`` : "all tenants";
    const sentence = `the kill switch of ${whose} was engaged by \`${killed.by}\`: ${killed.reason}; ${ahead}`;
    const release = { what: "release it, if you may", command: `cordum kill release --scope '${killed.scope}'` };
    return { ...at, reason: "killed", sentence, unblocks: [release] };
  }
  if (workers.serving === 0 && (around.isIdle || window.isEmpty)) {
    const sentence = `no worker that serves \`${job.topic}\` has been heard of; it has waited ${since}; ${ahead}`;
    return { ...at, reason: "no_worker", sentence, unblocks: [SEE_WORKERS] };
  }
  if (around.unfit !== null) {
    const sentence = `${around.unfit}; it has waited ${since}; ${ahead}`;
    return { ...at, reason: "no_fit_worker", sentence, unblocks: [SEE_WORKERS, SEE_POOLS] };
  }
  if (tenant && tenant.used >= tenant.max) {
    const sentence = `tenant \`${job.org}\` has ${tenant.used} jobs with workers and may have ${tenant.max}; ${ahead}`;
    const what = `raise \`orgs.${job.org}.limits.max_concurrent_jobs\``;
    return { ...at, reason: "tenant_limit", sentence, unblocks: [{ what, command: "cordum config explain" }] };
  }
  if (window.isFull) {
    const many = window.use === null ? "the window is full: jobs" : `${window.use.used} jobs`;
    const sentence = `${many} of \`${job.topic}\` are with workers, as many as its window has; ${ahead}`;
    return { ...at, reason: "window_full", sentence, unblocks: [SEE_WORKERS, MORE_WINDOW] };
  }
  if (rule && rule.used >= rule.max) {
    const sentence = `rule \`${job.safety?.ruleId}\` lets ${rule.max} of its jobs run at once, and ${rule.used} do`;
    return { ...at, reason: "rule_limit", sentence, unblocks: [SEE_RULES] };
  }
  const free = workers.free === 0 && workers.serving > 0 ? "; no worker that was heard of has a place free" : "";
  const out = window.use === null ? "" : `; ${window.use.used} of ${window.use.max} are with workers`;
  const sentence = `it waits for its turn ${since}: ${ahead}${out}${free}`;
  return { ...at, reason: "turn", sentence, unblocks: [SEE_WORKERS] };
}
