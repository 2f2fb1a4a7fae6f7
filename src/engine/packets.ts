import type { Submission } from "../core/jobs/submission.ts";
import { checkSubmission } from "../core/jobs/submission.ts";
import type { Caller } from "../core/model/caller.ts";
import type { Job, JobState } from "../core/model/job.ts";
import { clientJobId, DEFAULT_ORG } from "../core/model/job-id.ts";
import { STEP_LABELS } from "../core/model/lists/labels.ts";
import type { Writable } from "../core/model/table.ts";
import { permanent } from "../core/retry/intent.ts";
import type { SenderSettings, Settings } from "../core/settings.ts";
import type { Message } from "../ports/bus.ts";
import { CONSTRAINTS_ENV, constraintsOnWire } from "../protocol/constraints.ts";
import type { JobMetadata, JobRequest, JobResult, Packet, PacketBody } from "../protocol/packet.ts";
import { toPointer } from "../protocol/pointer.ts";
import { DLQ, SUBMIT, workSubject } from "../protocol/subjects.ts";

/** Conversion between jobs and packets. */
export function packet(sender: string, traceId: string, nowMs: number, body: PacketBody): Packet {
  return { traceId, senderId: sender, createdAtMs: nowMs, body };
}

/** Announces a job to the schedulers. It carries no input; the record is authoritative. */
export function submitMessage(sender: string, job: Job): Message {
  return {
    id: `submit:${job.id}`,
    subject: SUBMIT,
    packet: packet(sender, job.traceId, job.createdMs, {
      kind: "job_request",
      jobId: job.id,
      topic: job.topic,
      tenantId: job.org,
      announces: true,
    }),
  };
}

/** For our own workers: a small input travels in the packet. */
export function workPacket(sender: string, job: Job): Packet {
  // Optional fields are assigned afterwards: spreading them costs more than the rest of the packet.
  const body: Writable<JobRequest> & { kind: "job_request" } = {
    kind: "job_request",
    jobId: job.id,
    topic: job.topic,
    priority: job.priority,
    tenantId: job.org,
    labels: job.labels,
    attempt: job.attempt,
    deadlineMs: job.dueMs,
  };
  if (job.input.kind === "inline") body.input = job.input.value;
  else body.contextPtr = toPointer(job.input.ptr);
  if (job.safety?.constraints) body.constraints = constraintsOnWire(job.safety.constraints);
  if (job.details !== undefined) Object.assign(body, job.details);
  const packed = packet(sender, job.traceId, job.updatedMs, body);
  return job.traceparent === undefined ? packed : { ...packed, traceparent: job.traceparent };
}

/** For any CAP worker: input by pointer, environment, every field that CAP defines, and no extension. */
export function openWorkPacket(sender: string, job: Job, inputKey: string): Packet {
  const ours = workPacket(sender, job);
  const { input: _, constraints, ...body } = requestIn(ours);
  return {
    ...ours,
    isOpen: true,
    body: {
      kind: "job_request",
      ...body,
      // CAP workers find their handler by the subject.
      topic: workSubject(job.topic),
      contextPtr: toPointer(inputKey),
      ...(job.actorId === null || body.principalId !== undefined ? {} : { principalId: job.actorId }),
      ...(job.step && job.labels.workflow_id ? { workflowId: job.labels.workflow_id } : {}),
      ...envOf(job, constraints),
      meta: metadataOf(job),
    },
  };
}

/**
 * The submitted environment, the constraints, and the step for jobs of a run: some workers read it from the environment
 * instead of the labels.
 */
function envOf({ labels, step, details }: Job, constraints: unknown): Pick<JobRequest, "env"> {
  const env: Record<string, string> = { ...details?.env };
  if (constraints !== undefined) env[CONSTRAINTS_ENV] = JSON.stringify(constraints);
  for (const name of step ? STEP_LABELS : []) if (labels[name] !== undefined) env[name] = labels[name];
  return Object.keys(env).length === 0 ? {} : { env };
}

function metadataOf(job: Job): JobMetadata {
  const { org: tenantId, actorId, actorType, capability, riskTags, requires, packId, labels, idempotencyKey } = job;
  return {
    tenantId,
    riskTags,
    requires,
    labels,
    ...(actorId === null ? {} : { actorId }),
    ...(actorType === undefined ? {} : { actorType }),
    ...(capability === null ? {} : { capability }),
    ...(packId === undefined ? {} : { packId }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  };
}

/** Tells subscribers of `sys.job.dlq` that a job ended without success; null for any other job. */
export function failureMessage(sender: string, job: Job): Message | null {
  const status = FAILURES[job.state];
  if (status === undefined) return null;
  const code = job.resultDetails?.errorCodeEnum ?? (status === "failed" ? undefined : status);
  return {
    id: deadLetterIdOf(job),
    subject: DLQ,
    packet: packet(sender, job.traceId, job.updatedMs, {
      kind: "job_result",
      jobId: job.id,
      status,
      workerId: job.workerId ?? sender,
      errorCode: job.resultDetails?.errorCode ?? job.error?.name ?? "Error",
      errorMessage: job.error?.message ?? job.state,
      ...(code === undefined ? {} : { errorCodeEnum: code }),
    }),
  };
}

const FAILURES: Readonly<Partial<Record<JobState, "failed" | "timeout" | "denied">>> = {
  FAILED: "failed",
  TIMEOUT: "timeout",
  DENIED: "denied",
};

/**
 * Contains the update time: a redriven job may end again in the same attempt, and the broker must not drop that message
 * as a duplicate.
 */
export const deadLetterIdOf = ({ id, attempt, updatedMs }: Job): string => `dlq:${id}@${attempt}.${updatedMs}`;

export function requestIn(packet: Packet): JobRequest {
  if (packet.body.kind === "job_request") return packet.body;
  throw permanent(new Error(`expected a job_request, got a ${packet.body.kind}`));
}

export function resultIn(packet: Packet): JobResult {
  if (packet.body.kind === "job_result") return packet.body;
  throw permanent(new Error(`expected a job_result, got a ${packet.body.kind}`));
}

/** The sender of a packet as the name of an actor. */
export const busClientOf = ({ senderId }: Packet): string =>
  `bus:${senderId}`.replace(/[^A-Za-z0-9_.:@-]/g, "_").slice(0, 256);

/** A submission on the bus. */
export function submissionIn(packet: Packet, request: JobRequest, { senders }: Pick<Settings, "senders">): Submission {
  const { origin } = packet;
  const sender = origin?.kind === "arrived" ? origin.signedBy : null;
  const caller = sender === null ? undefined : callerOf(sender, senders[sender]);
  const actorId = request.meta?.actorId || request.principalId || undefined;
  const actorType = request.meta?.actorType;
  refuseOtherActor("actor_id", actorId, caller?.actorId);
  refuseOtherActor("actor_type", actorType, caller?.actorType);
  const checked = checkSubmission({
    org: request.tenantId,
    topic: request.topic,
    input: request.input,
    inputPtr: request.contextPtr,
    // A client of another tenant than `default` may use the wire id, so that its pointer is its own.
    jobId: clientJobId(request.tenantId || DEFAULT_ORG, request.jobId),
    priority: request.priority,
    labels: { ...request.meta?.labels, ...request.labels },
    riskTags: request.meta?.riskTags,
    requires: request.meta?.requires,
    capability: request.meta?.capability || undefined,
    actorId: caller?.actorId ?? actorId,
    actorType: caller?.actorType ?? actorType,
    packId: request.meta?.packId || undefined,
    submittedBy: packet.senderId ? busClientOf(packet) : undefined,
    caller,
    traceparent: packet.traceparent,
    idempotencyKey: request.meta?.idempotencyKey || undefined,
    traceId: packet.traceId || undefined,
    details: request,
  });
  if (checked.kind === "ok") return checked.submission;
  throw refused("INVALID_INPUT", `bad job request: ${checked.problems.join("; ")}`);
}

function callerOf(name: string, { person, actorId, actorType }: Partial<SenderSettings> = {}): Caller {
  return {
    name,
    ...(person === undefined ? {} : { person }),
    ...(actorId === undefined ? {} : { actorId }),
    ...(actorType === undefined ? {} : { actorType }),
  };
}

function refuseOtherActor(field: string, claimed: string | undefined, bound: string | undefined): void {
  if (bound === undefined || claimed === undefined || claimed === bound) return;
  throw refused("PERMISSION_DENIED", `this sender submits with \`${field}\` \`${bound}\` only; omit \`${field}\``);
}

/** A permanent error with a code of the wire protocol, which the sender of the packet is told. */
export const refused = (code: string, message: string): Error => Object.assign(permanent(new Error(message)), { code });
