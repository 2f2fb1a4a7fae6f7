import { toWire } from "../core/retry/intent.ts";
import { isRetryClass } from "../core/retry/retry-classes.ts";
import { fromBase64 } from "./base64.ts";
import { MalformedError } from "./bytes.ts";
import type { PlainMessage } from "./fields.ts";
import type { Origin, Packet, PacketBody, ResultStatus } from "./packet.ts";
import { compile, type Named } from "./protobuf.ts";
import { CAP, EXTENSIONS_FROM, type Field } from "./schema.ts";
import { usageIn } from "./usage.ts";

/**
 * Encoding and decoding of packets.
 *
 * 1. Every packet created here carries protocol version 1: third-party workers silently drop packets without it. A received
 *    packet of another version keeps it.
 * 2. A decoded packet is valid: it has a known payload with its required fields. Otherwise `decodePacket` throws a
 *    `MalformedError`. The trace id is optional: heartbeats have none.
 * 3. Fields that `Packet` does not name survive decoding and encoding.
 * 4. A packet with an `origin` is encoded as its original bytes.
 * 5. The encoding is canonical: fields in order, defaults left out, map keys sorted. CAP's SDKs verify a signature by
 *    decoding the packet, clearing the signature and encoding it again. An open packet also has no extensions, which
 *    they do not know and would lose.
 */
export function encodePacket(packet: Packet): Uint8Array {
  const { body, origin } = packet;
  if (origin !== undefined) return bytesOf(origin);
  const { encode } = packet.isOpen ? openCodec : codec;
  // All payload keys are set, so that every object has the same shape and property access stays fast.
  return encode({
    unknown: packet.unknown,
    traceId: packet.traceId,
    senderId: packet.senderId,
    createdAt: packet.createdAtMs,
    protocolVersion: packet.otherVersion ?? PROTOCOL_VERSION,
    jobRequest: body.kind === "job_request" ? body : undefined,
    jobResult: body.kind === "job_result" ? body : undefined,
    jobProgress: body.kind === "job_progress" ? body : undefined,
    jobCancel: body.kind === "job_cancel" ? body : undefined,
    heartbeat: body.kind === "heartbeat" ? body : undefined,
    handshake: body.kind === "handshake" ? body : undefined,
    alert: body.kind === "alert" ? body : undefined,
    traceparent: packet.traceparent,
  });
}

export function decodePacket(bytes: Uint8Array): Packet {
  const message = codec.decode(bytes);
  const packet: Mutable<Packet> = {
    traceId: (message.traceId as string | undefined) ?? "",
    senderId: (message.senderId as string | undefined) ?? "",
    createdAtMs: (message.createdAt as number | undefined) ?? 0,
    body: bodyOf(message),
  };
  const version = message.protocolVersion;
  // Some senders leave the version out.
  if (version !== undefined && version !== PROTOCOL_VERSION && version !== 0) packet.otherVersion = version as number;
  if (message.traceparent !== undefined) packet.traceparent = message.traceparent as string;
  if (message.unknown !== undefined) packet.unknown = message.unknown;
  return packet;
}

/** Restores a packet from a record that contains its original bytes. */
export function restorePacket(base64: string): Packet {
  return { ...decodePacket(fromBase64(base64)), origin: { kind: "kept", base64 } };
}

function bytesOf(origin: Origin): Uint8Array {
  switch (origin.kind) {
    case "arrived":
      return origin.bytes;
    case "kept":
      return fromBase64(origin.base64);
    default:
      return origin satisfies never;
  }
}

export const PROTOCOL_VERSION = 1;

/** Sanity limit, far above the message size of a broker. */
export const PACKET_BYTES_MAX = 8 * 1024 * 1024;

/** Fields that are decoded; all others stay raw in `unknown`. */
const NAMED = {
  BusPacket: [
    "trace_id",
    "sender_id",
    "created_at",
    "protocol_version",
    "job_request",
    "job_result",
    "job_progress",
    "job_cancel",
    "heartbeat",
    "handshake",
    "alert",
    "traceparent",
  ],
  JobRequest: [
    "job_id",
    "topic",
    "priority",
    "context_ptr",
    "adapter_id",
    "env",
    "parent_job_id",
    "workflow_id",
    "step_index",
    "memory_id",
    "context_hints",
    "budget",
    "tenant_id",
    "principal_id",
    "labels",
    "meta",
    "compensation",
    "attempt",
    "input",
    "deadline_ms",
    "constraints",
    "announces",
  ],
  JobMetadata: [
    "tenant_id",
    "actor_id",
    "actor_type",
    "idempotency_key",
    "capability",
    "risk_tags",
    "requires",
    "pack_id",
    "labels",
  ],
  JobProgress: [
    "job_id",
    "step_id",
    "percent",
    "message",
    "result_ptr",
    "artifact_ptrs",
    "status",
    "attempt",
    "extend_ms",
  ],
  JobCancel: ["job_id", "reason", "requested_by"],
  JobResult: [
    "job_id",
    "status",
    "worker_id",
    "result_ptr",
    "execution_ms",
    "error_code",
    "error_message",
    "artifact_ptrs",
    "error_code_enum",
    "attempt",
    "output",
    "retry_after_ms",
    "retry_class",
    "error",
    "is_waiting",
    "usage",
  ],
  Heartbeat: [
    "worker_id",
    "active_jobs",
    "max_parallel_jobs",
    "pool",
    "capabilities",
    "labels",
    "topics",
    "is_leaving",
  ],
  Handshake: ["component_id", "role", "supported_versions", "ready_topics", "sdk_version", "capabilities"],
  SystemAlert: ["level", "message", "component", "code", "severity", "error_code_enum", "source_component", "details"],
} as const;

const codec = compile(CAP, "BusPacket", PACKET_BYTES_MAX, { named: NAMED, isCanonical: true });

/** Without extensions. */
const openCodec = compile(CAP, "BusPacket", PACKET_BYTES_MAX, { named: withoutExtensions(NAMED), isCanonical: true });

function withoutExtensions(named: Named): Named {
  const messages: Readonly<Record<string, readonly Field[]>> = CAP.messages;
  const isKept = (message: string, name: string) =>
    messages[message]?.some((field) => field.name === name && field.number < EXTENSIONS_FROM) ?? false;
  return Object.fromEntries(
    Object.entries(named).map(([message, names]) => [message, names.filter((name) => isKept(message, name))]),
  );
}

const PAYLOAD_KEYS = {
  job_request: "jobRequest",
  job_result: "jobResult",
  job_progress: "jobProgress",
  job_cancel: "jobCancel",
  heartbeat: "heartbeat",
  handshake: "handshake",
  alert: "alert",
} as const satisfies Record<PacketBody["kind"], string>;

const KINDS = Object.keys(PAYLOAD_KEYS) as PacketBody["kind"][];

const TERMINAL: ReadonlySet<unknown> = new Set<ResultStatus>([
  "succeeded",
  "failed",
  "failed_retryable",
  "failed_fatal",
  "timeout",
  "cancelled",
  "denied",
]);

const ROLES: ReadonlySet<unknown> = new Set<unknown>(Object.values(CAP.enums.ComponentRole));

function bodyOf(message: PlainMessage): PacketBody {
  for (const kind of KINDS) {
    const body = message[PAYLOAD_KEYS[kind]] as PlainMessage | undefined;
    if (body === undefined) continue;
    body.kind = kind;
    CHECKS[kind](body);
    return body as unknown as PacketBody;
  }
  throw new MalformedError("packet without a known payload");
}

/** Required fields per payload. Invalid optional fields are dropped or rejected. */
const CHECKS: Readonly<Record<PacketBody["kind"], (body: PlainMessage) => void>> = {
  job_request(body) {
    requireText(body, "jobId");
    requireText(body, "topic");
    requireSafeInteger(body, "deadlineMs");
  },
  job_result(body) {
    requireText(body, "jobId");
    requireText(body, "workerId");
    if (body.status === undefined) throw new MalformedError("job_result without `status`");
    if (!TERMINAL.has(body.status)) throw new MalformedError(`job_result with status \`${String(body.status)}\``);
    requireSafeInteger(body, "executionMs");
    requireSafeInteger(body, "retryAfterMs");
    // Drops the unknown class of a later version; the retry still applies.
    if (body.retryClass !== undefined && !isRetryClass(body.retryClass)) delete body.retryClass;
    if (body.error !== undefined) body.error = toWire(body.error);
    if (body.usage !== undefined) body.usage = usageIn(body.usage);
    if (body.usage === undefined) delete body.usage;
  },
  job_progress(body) {
    requireText(body, "jobId");
    requireSafeInteger(body, "extendMs");
  },
  job_cancel(body) {
    requireText(body, "jobId");
  },
  heartbeat(body) {
    requireText(body, "workerId");
  },
  handshake(body) {
    requireText(body, "componentId");
    if (!ROLES.has(body.role)) throw new MalformedError(`handshake with role \`${String(body.role)}\``);
  },
  alert(body) {
    body.level ??= "";
    body.message ??= "";
  },
};

function requireText(body: PlainMessage, key: string): void {
  const value = body[key];
  if (value === undefined || value === "") throw new MalformedError(`${String(body.kind)} without \`${key}\``);
}

/** Integers beyond 2^53 are decoded as bigints. */
function requireSafeInteger(body: PlainMessage, key: string): void {
  if (typeof body[key] === "bigint") throw new MalformedError(`${String(body.kind)} with \`${key}\` out of range`);
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
