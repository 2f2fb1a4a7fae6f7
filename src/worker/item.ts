import type { JobDetails } from "../core/model/job-details.ts";
import type { Writable } from "../core/model/table.ts";
import { intentOf, toWire } from "../core/retry/intent.ts";
import type { JobRequest, JobResult, Usage } from "../protocol/packet.ts";
import { usageIn } from "../protocol/usage.ts";
import type { Deadline } from "./deadline.ts";

/** A job as a handler receives it, on any transport. */
export interface WorkItem {
  readonly jobId: string;
  readonly topic: string;
  readonly org: string;
  readonly attempt: number;
  readonly input: unknown;
  readonly labels: Readonly<Record<string, string>>;
  /** Optional fields of the request: environment, adapter, budget and so on. */
  readonly details: JobDetails;
  /** Policy constraints, with the field names of the wire protocol; null for none. */
  readonly constraints: unknown;
  /** W3C trace context of the submitter, if any. */
  readonly traceparent: string | null;
  /** Aborts when the deadline of the attempt has passed or the job was cancelled. */
  readonly signal: AbortSignal;
  /** Reports progress. Best effort; never throws. */
  progress(percent: number | null, message?: string): void;
  /** Adds to what the attempt used; sent with its result, also if it fails. Settles the budgets of the policy. */
  reportUsage(usage: Usage): void;
}

/** A class, because an object literal with getters takes thirty times as long to create. */
export class AttemptItem implements WorkItem {
  readonly jobId: string;
  readonly topic: string;
  readonly org: string;
  readonly attempt: number;
  readonly input: unknown;
  readonly labels: Readonly<Record<string, string>>;
  readonly constraints: unknown;
  readonly traceparent: string | null;
  readonly progress: WorkItem["progress"];
  readonly reportUsage: WorkItem["reportUsage"];
  readonly #deadline: Deadline;
  readonly #details: () => JobDetails;

  constructor(fields: Omit<WorkItem, "details" | "signal">, deadline: Deadline, details: () => JobDetails) {
    this.jobId = fields.jobId;
    this.topic = fields.topic;
    this.org = fields.org;
    this.attempt = fields.attempt;
    this.input = fields.input;
    this.labels = fields.labels;
    this.constraints = fields.constraints;
    this.traceparent = fields.traceparent;
    this.progress = fields.progress;
    this.reportUsage = fields.reportUsage;
    this.#deadline = deadline;
    this.#details = details;
  }

  get details(): JobDetails {
    return this.#details();
  }

  get signal(): AbortSignal {
    return this.#deadline.signal;
  }
}

/** The usage that a handler has reported so far. */
export class UsageReport {
  #usage: Usage | undefined;

  get total(): Usage | undefined {
    return this.#usage;
  }

  add(reported: Usage): void {
    const given = usageIn(reported);
    if (given === undefined) return;
    const { inputTokens, outputTokens, totalTokens = (inputTokens ?? 0) + (outputTokens ?? 0) } = given;
    const usage: Usage = totalTokens > 0 ? { ...given, totalTokens } : given;
    const sum: Writable<Usage> = { ...this.#usage };
    for (const [key, amount] of Object.entries(usage) as [keyof Usage, number][]) sum[key] = (sum[key] ?? 0) + amount;
    this.#usage = sum;
  }
}

export function detailsOf(request: JobRequest): JobDetails {
  const { adapterId, env, parentJobId, workflowId, stepIndex, memoryId, contextHints, budget, compensation } = request;
  const principalId = request.principalId === request.meta?.actorId ? undefined : request.principalId;
  const all = {
    adapterId,
    env,
    parentJobId,
    workflowId,
    stepIndex,
    memoryId,
    contextHints,
    budget,
    compensation,
    principalId,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** The runtime limit of the policy constraints. */
export function runtimeMsMax(constraints: unknown): number {
  const budgets = (constraints as { budgets?: { max_runtime_ms?: unknown } } | null | undefined)?.budgets;
  const ms = budgets?.max_runtime_ms;
  return typeof ms === "number" ? ms : Number.POSITIVE_INFINITY;
}

export type Outcome = Omit<JobResult, "jobId" | "workerId">;

/** Converts a thrown error to a result: a retry intent is honored, any other error is retried within its budget. */
export function failureOf(thrown: unknown): Outcome {
  const intent = intentOf(thrown);
  const error = toWire(thrown);
  const fields = { errorCode: error.name, errorMessage: error.message, error };
  switch (intent.kind) {
    case "permanent":
      return { status: "failed_fatal", ...fields };
    case "retry":
      return {
        status: "failed_retryable",
        ...fields,
        retryAfterMs: Math.ceil(intent.delayMs),
        retryClass: intent.retryClass,
      };
    case "unclassified":
      return { status: "failed_retryable", ...fields };
    default:
      return intent satisfies never;
  }
}
