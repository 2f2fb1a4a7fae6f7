import type { WireError } from "../core/retry/intent.ts";
import type { RetryClass } from "../core/retry/retry-classes.ts";
import type { CAP } from "./schema.ts";

/**
 * The packets of CAP (Cordum Agent Protocol, wire version 1).
 *
 * Field names are those of CAP in camel case. "Extension" marks private fields of this implementation, with numbers from
 * 50,001, which others skip as unknown. `unknown` holds the raw bytes of fields that these types do not name; encoding
 * writes them again.
 */
export interface Packet {
  readonly traceId: string;
  readonly senderId: string;
  readonly createdAtMs: number;
  readonly body: PacketBody;
  /** A protocol version other than 1, of a received packet. Buses refuse most such packets (`adapters/packet-codec.ts`). */
  readonly otherVersion?: number;
  /** Extension: W3C trace context of the submitter. Also sent as a header for third-party workers. */
  readonly traceparent?: string;
  readonly unknown?: Uint8Array;
  /** Not encoded. The receiver may be any CAP worker: extensions are left out, or sent as headers. */
  readonly isOpen?: true;
  /** Not encoded. Absent from packets created here, and from all packets while signatures are off. */
  readonly origin?: Origin;
}

/**
 * The original bytes of a received packet. Forwarding sends these bytes: a re-encoding would invalidate the sender's
 * signature, and the control plane must not sign it.
 */
export type Origin =
  /** `signedBy`: the configured sender that signed it; null for none, and for control plane processes. */
  | { readonly kind: "arrived"; readonly bytes: Uint8Array; readonly signedBy: string | null }
  /** Restored from a record; its signature is verified again by the receiver. */
  | { readonly kind: "kept"; readonly base64: string };

export type PacketBody =
  | ({ readonly kind: "job_request" } & JobRequest)
  | ({ readonly kind: "job_result" } & JobResult)
  | ({ readonly kind: "job_progress" } & JobProgress)
  | ({ readonly kind: "job_cancel" } & JobCancel)
  | ({ readonly kind: "heartbeat" } & Heartbeat)
  | ({ readonly kind: "handshake" } & Handshake)
  | ({ readonly kind: "alert" } & SystemAlert);

export type JobPriority = "interactive" | "batch" | "critical";

export interface JobRequest {
  readonly jobId: string;
  readonly topic: string;
  readonly priority?: JobPriority;
  readonly contextPtr?: string;
  readonly adapterId?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly parentJobId?: string;
  readonly workflowId?: string;
  readonly stepIndex?: number;
  readonly memoryId?: string;
  readonly contextHints?: ContextHints;
  readonly budget?: TokenBudget;
  readonly tenantId?: string;
  readonly principalId?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly meta?: JobMetadata;
  readonly compensation?: Compensation;
  /** Extension: number of this dispatch, from 1. */
  readonly attempt?: number;
  /** Extension: the input, if small enough. Any JSON value. */
  readonly input?: unknown;
  /** Extension: deadline of this attempt. */
  readonly deadlineMs?: number;
  /** Extension: policy constraints, in snake case. */
  readonly constraints?: unknown;
  /** Extension: announces a job of the store to the schedulers, instead of submitting one. */
  readonly announces?: boolean;
  readonly unknown?: Uint8Array;
}

export interface ContextHints {
  readonly maxInputTokens?: number;
  readonly allowSummarization?: boolean;
  readonly allowRetrieval?: boolean;
  readonly tags?: readonly string[];
}

/** `Budget` of CAP. 64-bit integers beyond 2^53 are bigints. */
export interface TokenBudget {
  readonly maxInputTokens?: number | bigint;
  readonly maxOutputTokens?: number | bigint;
  readonly maxTotalTokens?: number | bigint;
  /** Milliseconds from the submission. */
  readonly deadlineMs?: number | bigint;
}

/** The job that would undo this one. Stored and passed on as data; the control plane does not run it. */
export interface Compensation {
  readonly topic?: string;
  readonly contextPtr?: string;
  readonly priority?: JobPriority;
  readonly adapterId?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly memoryId?: string;
  readonly contextHints?: ContextHints;
  readonly budget?: TokenBudget;
  readonly tenantId?: string;
  readonly principalId?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly meta?: JobMetadata;
}

export interface JobMetadata {
  readonly tenantId?: string;
  readonly actorId?: string;
  readonly actorType?: "human" | "service";
  readonly packId?: string;
  readonly idempotencyKey?: string;
  readonly capability?: string;
  readonly riskTags?: readonly string[];
  readonly requires?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly unknown?: Uint8Array;
}

export type ResultStatus =
  | "succeeded"
  | "failed"
  | "failed_retryable"
  | "failed_fatal"
  | "timeout"
  | "cancelled"
  | "denied";

/** A name of `ErrorCode` in lower case, or the number of an application code. */
export type ErrorCode = (typeof CAP.enums.ErrorCode)[keyof typeof CAP.enums.ErrorCode] | number;

export interface Usage {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  /** Default: the sum of the others. */
  readonly totalTokens?: number;
  readonly costUsd?: number;
}

export interface JobResult {
  readonly jobId: string;
  readonly status: ResultStatus;
  readonly workerId: string;
  readonly resultPtr?: string;
  readonly executionMs?: number;
  readonly errorCode?: string;
  readonly errorMessage?: string;
  readonly artifactPtrs?: readonly string[];
  readonly errorCodeEnum?: ErrorCode;
  /** Extension: what the attempt used, for budgets. */
  readonly usage?: Usage;
  /** Extension: the attempt; absent from third-party workers. */
  readonly attempt?: number;
  /** Extension: the output, if small enough. Any JSON value. */
  readonly output?: unknown;
  /** Extension: retry intent of the error. */
  readonly retryAfterMs?: number;
  readonly retryClass?: RetryClass;
  /** Extension: the worker could not run the job or store its output. Never set by a handler. */
  readonly isWaiting?: boolean;
  /** Extension: the error with its chain of causes. */
  readonly error?: WireError;
  readonly unknown?: Uint8Array;
}

/** The attempt is still running. */
export interface JobProgress {
  readonly jobId: string;
  readonly stepId?: string;
  readonly resultPtr?: string;
  readonly artifactPtrs?: readonly string[];
  readonly status?: (typeof CAP.enums.JobStatus)[keyof typeof CAP.enums.JobStatus];
  readonly percent?: number;
  readonly message?: string;
  /** Extension: the attempt. */
  readonly attempt?: number;
  /** Extension: requested extension of the deadline. */
  readonly extendMs?: number;
  readonly unknown?: Uint8Array;
}

export interface JobCancel {
  readonly jobId: string;
  readonly reason?: string;
  readonly requestedBy?: string;
  readonly unknown?: Uint8Array;
}

export interface Heartbeat {
  readonly workerId: string;
  readonly activeJobs?: number;
  readonly maxParallelJobs?: number;
  readonly pool?: string;
  readonly capabilities?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  /** Extension: served topics. Third-party workers send these in the handshake only, if at all. */
  readonly topics?: readonly string[];
  /** Extension: the worker is stopping. */
  readonly isLeaving?: boolean;
  readonly unknown?: Uint8Array;
}

export type ComponentRole = "gateway" | "scheduler" | "worker" | "orchestrator" | "controller";

export interface Handshake {
  readonly componentId: string;
  readonly role: ComponentRole;
  /** Protocol versions; empty or absent means 1. */
  readonly supportedVersions?: readonly number[];
  readonly readyTopics?: readonly string[];
  readonly sdkVersion?: string;
  /** For example `direct`: the worker also serves a subject of its own. */
  readonly capabilities?: Readonly<Record<string, boolean>>;
  readonly unknown?: Uint8Array;
}

export interface SystemAlert {
  readonly level: string;
  readonly message: string;
  readonly component?: string;
  readonly code?: string;
  readonly severity?: "info" | "warning" | "error" | "critical";
  readonly errorCodeEnum?: ErrorCode;
  readonly sourceComponent?: string;
  readonly details?: Readonly<Record<string, string>>;
  readonly unknown?: Uint8Array;
}
