import { intentOf, toWire } from "../core/retry/intent.ts";
import type { JobResult } from "../protocol/packet.ts";

/** What a handler gets to work on, whichever way it came. */
export interface WorkItem {
  readonly jobId: string;
  readonly topic: string;
  readonly org: string;
  readonly attempt: number;
  readonly input: unknown;
  readonly labels: Readonly<Record<string, string>>;
  /** What the work must keep to, in the names of the wire protocol; null for nothing in particular. */
  readonly constraints: unknown;
  /** The W3C trace context of whoever asked for it, if it was sent. */
  readonly traceparent: string | null;
  /** Aborts when nobody waits for this attempt any more: its deadline has passed, or the job was cancelled. */
  readonly signal: AbortSignal;
  /** Says how far the work is. Best effort, and never throws. */
  progress(percent: number | null, message?: string): void;
}

/** The rule's limit on how long an attempt may run, where it has one. */
export function runtimeMsMax(constraints: unknown): number {
  const budgets = (constraints as { budgets?: { max_runtime_ms?: unknown } } | null | undefined)?.budgets;
  const ms = budgets?.max_runtime_ms;
  return typeof ms === "number" ? ms : Number.POSITIVE_INFINITY;
}

export type Outcome = Omit<JobResult, "jobId" | "workerId">;

/** What a handler threw, as a result: a plain error is retried within its budget, an intent is obeyed. */
export function failureOf(thrown: unknown): Outcome {
  const intent = intentOf(thrown);
  const error = toWire(thrown);
  const facts = { errorCode: error.name, errorMessage: error.message, error };
  switch (intent.kind) {
    case "permanent":
      return { status: "failed_fatal", ...facts };
    case "retry":
      return {
        status: "failed_retryable",
        ...facts,
        retryAfterMs: Math.ceil(intent.delayMs),
        retryClass: intent.retryClass,
      };
    case "unclassified":
      return { status: "failed_retryable", ...facts };
    default:
      return intent satisfies never;
  }
}
