import { isFinal, type Job, type JobState, limitOfRule, type OpenState } from "../model/job.ts";
import type { RetryClass } from "../retry/classes.ts";
import { explainBacklog } from "./explain-backlog.ts";
import { explainStep, stepReasonOf } from "./explain-step.ts";
import { SEE_RULES, SEE_WORKERS, span } from "./explain-text.ts";

/**
 * Why a job does not move, since when, until when, and what unblocks it: for whoever is called at night.
 *
 * 1. Every state that is not final has a reason: the table below does not compile without.
 * 2. It is read off the job and what stands around it; nothing is guessed. Where two things are in the way, the one is
 *    named that has to go first.
 * 3. Who may see one tenant alone is told its own figures; of what it shares with others, what it needs to understand the
 *    wait ("the window is full") and no number: what is null in the surroundings is in no sentence.
 */
export type WaitReason =
  /** It was just submitted, and is looked at next. */
  | "safety_check"
  | "safety_unavailable"
  /** The policy says: later. */
  | "throttled"
  | "approval"
  /** It is in the backlog, and nothing is in its way but those before it. */
  | "turn"
  /** A kill switch is engaged: nothing of its tenant goes out. */
  | "killed"
  | "window_full"
  | "tenant_limit"
  | "rule_limit"
  | "no_worker"
  /** Those who serve its topic may not have it: they cannot do what it requires, or their pool is being drained. */
  | "no_fit_worker"
  /** Sent to a worker that has not said anything yet. */
  | "dispatched"
  | "running"
  /** An attempt failed or was lost: the next one has its time. */
  | "retry"
  | "store_unavailable"
  | "lock_busy"
  /** A step of a run that waits for the clock. */
  | "timer"
  /** A step of a run that is a run itself: it waits for a free slot, or for that run to end. */
  | "run_slot"
  | "sub_run";

export interface Use {
  readonly used: number;
  readonly max: number;
}

/** What stands around a job. */
export interface Surroundings {
  readonly nowMs: number;
  /** Jobs of its topic that are with workers, of all tenants; `use` is null for who may not know how many. */
  readonly window: { readonly isEmpty: boolean; readonly isFull: boolean; readonly use: Use | null };
  /** Jobs of its tenant that are; null where there is no limit. */
  readonly tenant: Use | null;
  /** Jobs that the same rule let run. */
  readonly rule: Use | null;
  /** Those of the topic that wait, of all tenants (null for who may not know) and of its own. */
  readonly backlog: { readonly topic: number | null; readonly tenant: number };
  /** Workers that were heard of, serve the topic and work for the tenant, and how many of them have a place free. */
  readonly workers: { readonly serving: number; readonly free: number };
  /** Why none of them may have it now; null when one may. */
  readonly unfit: string | null;
  /** Nobody was there when a job of the topic was last sent. */
  readonly isIdle: boolean;
  /** Of the circuit breaker before the kernel: why nobody is asked now. */
  readonly breaker: string | null;
  /** The kill switch that keeps back all that is of the tenant. */
  readonly killed: { readonly scope: string; readonly by: string; readonly reason: string } | null;
  /** A fail-open lease that covers the tenant. */
  readonly failOpen: { readonly id: string; readonly endsMs: number } | null;
  /** The tenant's slots for runs, and how many steps wait for one; null for a job that does not. */
  readonly slots: (Use & { readonly waiting: number }) | null;
}

export interface Explanation {
  /** Null for a job that has ended. */
  readonly wait: {
    readonly reason: WaitReason;
    readonly sinceMs: number;
    readonly untilMs: number;
    readonly retryClass: RetryClass | null;
    /** Who chose the time: a policy in config syntax, a rule, a setting, or the worker. */
    readonly setBy: string | null;
  } | null;
  readonly sentence: string;
  readonly unblocks: readonly Unblock[];
}

export interface Unblock {
  readonly what: string;
  readonly command: string | null;
}

export function explainJob(job: Job, around: Surroundings): Explanation {
  if (isFinal(job.state)) return explainEnd(job);
  const blocked = explainStep(job, around) ?? OPEN[job.state as OpenState](job, around);
  const { reason, sinceMs, untilMs, setBy, sentence, unblocks } = blocked;
  return {
    wait: { reason, sinceMs, untilMs, retryClass: job.wait?.retryClass ?? null, setBy },
    sentence,
    unblocks: [...unblocks, { what: "give it up", command: `cordum job cancel ${job.id}` }],
  };
}

/** As far as the job alone says, for lists: a job in the backlog waits for its turn, whatever is in the way there. */
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

export interface Blocked {
  readonly reason: WaitReason;
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly setBy: string | null;
  readonly sentence: string;
  readonly unblocks: readonly Unblock[];
}

const OPEN: Readonly<Record<OpenState, (job: Job, around: Surroundings) => Blocked>> = {
  PENDING: explainPending,
  APPROVAL_REQUIRED: explainApproval,
  SCHEDULED: explainBacklog,
  DISPATCHED: explainSent,
  RUNNING: explainSent,
  RETRYING: explainRetry,
};

function explainPending(job: Job, around: Surroundings): Blocked {
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

function explainApproval(job: Job, { nowMs }: Surroundings): Blocked {
  const { requestedMs = job.updatedMs, expiresMs = job.dueMs, ruleId = null } = job.approval ?? {};
  const rule = askerOf(job, ruleId);
  const own = job.approval?.bySubmitter === false ? "; whoever submitted it may not" : "";
  return {
    reason: "approval",
    sinceMs: requestedMs,
    untilMs: expiresMs,
    setBy: rule,
    sentence:
      `${rule} wants a human to decide: ${job.safety?.reason ?? "no reason given"}; ` +
      `it has waited ${span(nowMs - requestedMs)} and ends as TIMEOUT in ${span(expiresMs - nowMs)}${own}`,
    unblocks: [
      { what: "let it run", command: `cordum approval approve ${job.id}` },
      { what: "refuse it", command: `cordum approval reject ${job.id} --reason "..."` },
    ],
  };
}

/** Who wants a human to decide. */
function askerOf({ step }: Job, ruleId: string | null): string {
  if (step?.kind === "approval") return `step \`${step.stepId}\` of run \`${step.runId}\``;
  return ruleId === null ? "the policy's default" : `rule \`${ruleId}\``;
}

function explainSent(job: Job, { nowMs }: Surroundings): Blocked {
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
    sentence: `${said} ${span(nowMs - sinceMs)} ago; nothing heard in ${span(job.dueMs - nowMs)} counts as lost`,
    unblocks: [SEE_WORKERS],
  };
}

function explainRetry(job: Job, around: Surroundings): Blocked {
  const { nowMs } = around;
  const { retryClass = "unclassified", reason: why = "", untilMs = job.dueMs, setBy = null } = job.wait ?? {};
  const sinceMs = job.patience[retryClass]?.sinceMs ?? job.updatedMs;
  const reason = waitReasonOf(job) ?? "retry";
  const tries = job.patience[retryClass]?.count ?? 0;
  const sentence =
    `${LEAD[retryClass]}: ${why}; for ${span(nowMs - sinceMs)}, ${tries} ${tries === 1 ? "try" : "tries"}; ` +
    `next in ${span(untilMs - nowMs)} (${setBy === "worker" ? "as the worker asked" : setBy})`;
  const facts = retryClass === "safety_unavailable" ? kernelFacts(around) : "";
  return { reason, sinceMs, untilMs, setBy, sentence: `${sentence}${facts}`, unblocks: unblocksOf(reason, job) };
}

const LEAD: Readonly<Record<RetryClass, string>> = {
  poison: "what came back could not be read",
  unclassified: "the last attempt failed",
  lock_busy: "somebody else holds a lock that it needs",
  store_unavailable: "a store did not answer",
  safety_unavailable: "the safety kernel did not answer",
  no_worker: "no worker had a place for it",
  throttled: "the policy says later",
};

function kernelFacts({ breaker, failOpen, nowMs }: Surroundings): string {
  const asked = breaker === null ? "" : `; ${breaker}`;
  const open = failOpen === null ? "" : `; fail-open lease \`${failOpen.id}\` ends in ${span(failOpen.endsMs - nowMs)}`;
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
  return { wait: null, sentence: `it has ended as ${job.state}${by}`, unblocks: AFTER[job.state]?.(job) ?? [] };
}

const AFTER: Readonly<Partial<Record<JobState, (job: Job) => readonly Unblock[]>>> = {
  FAILED: (job) => [{ what: "try it again, as the same job", command: `cordum dlq retry ${job.id}` }],
  TIMEOUT: (job) => [{ what: "try it again, as the same job", command: `cordum dlq retry ${job.id}` }],
  DENIED: (job) =>
    (job.safety?.remediations ?? []).map(({ id, title }) => ({ what: `${title} (\`${id}\`)`, command: null })),
};
