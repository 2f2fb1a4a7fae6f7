/** The history of a job as spans of time: what was done or waited for, how it ended, and which delay followed. */
import type { HistoryLine, JobDetail } from "../../../../src/client/schema.ts";

export interface Span {
  readonly key: string;
  readonly attempt: number;
  /** `attempt`: on its way to or with a worker. `check`: with the policy or an approver. */
  readonly kind: "attempt" | "check";
  readonly fromMs: number;
  readonly toMs: number;
  /** How it ended; null: still open. */
  readonly event: string | null;
  readonly who: string | null;
  readonly why: string | null;
  /** The delay after it. */
  readonly delay: {
    readonly toMs: number;
    readonly ms: number;
    readonly retryClass: string;
    readonly policy: string;
  } | null;
}

const CHECKS = new Set([
  "approval_required",
  "approved",
  "rejected",
  "approval_void",
  "approval_expired",
  "denied",
  "bypassed",
  "throttled",
]);

/** Newest first: the error of the newest attempt is the one that matters (L55). */
export function spansOf(
  job: Pick<JobDetail, "history" | "created_at" | "updated_at" | "attempt" | "state">,
  isOpen: boolean,
  nowMs: number,
): Span[] {
  const spans: Span[] = [];
  let fromMs = Date.parse(job.created_at);
  for (const [at, line] of job.history.entries()) {
    const span = spanOf(line, fromMs, at, job.history[at + 1]);
    spans.push(span);
    fromMs = span.delay?.toMs ?? span.toMs;
  }
  if (isOpen) {
    const kind = job.state === "APPROVAL_REQUIRED" ? "check" : "attempt";
    const open = { key: "open", attempt: job.attempt, kind, event: null, who: null, why: null, delay: null } as const;
    if (fromMs <= nowMs) spans.push({ ...open, fromMs, toMs: nowMs });
  }
  return spans.reverse();
}

function spanOf(line: HistoryLine, fromMs: number, at: number, next: HistoryLine | undefined): Span {
  const toMs = Date.parse(line.at);
  const { event, attempt, who, who_name: name, why, delay_ms, retry_class, policy } = line;
  const untilMs = toMs + (delay_ms ?? 0);
  // A retry that was started early, or a line that was dropped in between.
  const endMs = next === undefined ? untilMs : Math.min(untilMs, Date.parse(next.at));
  const delay =
    delay_ms === null ? null : { toMs: endMs, ms: delay_ms, retryClass: retry_class ?? "", policy: policy ?? "" };
  const kind = CHECKS.has(event) ? "check" : "attempt";
  return {
    key: `${at} ${line.at}`,
    attempt,
    kind,
    fromMs: Math.min(fromMs, toMs),
    toMs,
    event,
    who: name ?? who,
    why,
    delay,
  };
}

/** The history keeps its first and its latest lines. */
export function isShortened(history: readonly HistoryLine[]): boolean {
  return history.some(({ attempt }, at) => at > 0 && attempt - (history[at - 1]?.attempt ?? 0) > 1);
}
