import type { RetryClass } from "../core/retry/classes.ts";
import type { WireError } from "../core/retry/intent.ts";

/**
 * What travels on the bus, as the core sees it: the packets of CAP (Cordum Agent Protocol, wire version 1).
 *
 * Field names are CAP's in camel case; `codec.ts` turns them into bytes and back. Fields marked "ours" are private to
 * this control plane and its own workers (field numbers from 50,001 on, which others skip as unknown).
 * `unknown` are the fields of CAP that these types do not name, as raw bytes: written again when encoded again.
 */
export interface Packet {
  readonly traceId: string;
  readonly senderId: string;
  readonly createdAtMs: number;
  readonly body: PacketBody;
  /** Ours: the W3C trace context of whoever asked for the work. Also a header of the same name, for workers of others. */
  readonly traceparent?: string;
  readonly unknown?: Uint8Array;
  /** Never written: absent in what was made here, and everywhere while signatures are not in use. */
  readonly origin?: Origin;
}

/**
 * The bytes of a packet that others made. Where it has to be sent again, these are: what we encode anew would not be what
 * its sender signed, and we must not sign what others said.
 */
export type Origin =
  /** `signedBy`: the listed sender whose signature it has; null for none, and for our own processes. */
  | { readonly kind: "arrived"; readonly bytes: Uint8Array; readonly signedBy: string | null }
  /** It stood in a record meanwhile; who signed it is looked at anew when it arrives. */
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
  readonly tenantId?: string;
  readonly principalId?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly meta?: JobMetadata;
  /** Ours: which dispatch of the job this is, from 1. */
  readonly attempt?: number;
  /** Ours: the input itself, when it is small enough to travel. Any JSON value. */
  readonly input?: unknown;
  /** Ours: when the control plane stops waiting for this attempt. */
  readonly deadlineMs?: number;
  /** Ours: what the work must keep to, in the names of the wire (snake case). */
  readonly constraints?: unknown;
  readonly unknown?: Uint8Array;
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

export interface JobResult {
  readonly jobId: string;
  readonly status: ResultStatus;
  readonly workerId: string;
  readonly resultPtr?: string;
  readonly executionMs?: number;
  readonly errorCode?: string;
  readonly errorMessage?: string;
  /** Ours: the attempt that this is the result of; absent from workers of others. */
  readonly attempt?: number;
  /** Ours: the result itself, when it is small enough to travel. Any JSON value. */
  readonly output?: unknown;
  /** Ours: the retry intent of the error that ended the attempt. */
  readonly retryAfterMs?: number;
  readonly retryClass?: RetryClass;
  /** Ours: the work was not tried, or its result not put away, for want of something of ours. Nothing that a handler says. */
  readonly isWaiting?: boolean;
  /** Ours: the error with its chain of causes. */
  readonly error?: WireError;
  readonly unknown?: Uint8Array;
}

/** A worker is still at it. From workers of others it says only that. */
export interface JobProgress {
  readonly jobId: string;
  readonly percent?: number;
  readonly message?: string;
  /** Ours: the attempt that is being worked on. */
  readonly attempt?: number;
  /** Ours: how much longer the worker asks for. */
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
  /** Ours: what it serves; workers of others say so once, in their handshake, or never. */
  readonly topics?: readonly string[];
  /** Ours: it takes no more work and will be gone. */
  readonly isLeaving?: boolean;
  readonly unknown?: Uint8Array;
}

export type ComponentRole = "gateway" | "scheduler" | "worker" | "orchestrator" | "controller";

export interface Handshake {
  readonly componentId: string;
  readonly role: ComponentRole;
  readonly readyTopics?: readonly string[];
  readonly sdkVersion?: string;
  /** Such as `direct`: it listens on a subject of its own as well. */
  readonly capabilities?: Readonly<Record<string, boolean>>;
  readonly unknown?: Uint8Array;
}

export interface SystemAlert {
  readonly level: string;
  readonly message: string;
  readonly component?: string;
  readonly code?: string;
  readonly details?: Readonly<Record<string, string>>;
  readonly unknown?: Uint8Array;
}
