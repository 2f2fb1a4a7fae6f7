/**
 * Schema of CAP: all messages and enums of the bus, with their field numbers.
 *
 * CAP is append-only: a number never changes its meaning. Extensions are private to this implementation; their numbers
 * start at `EXTENSIONS_FROM`, and others skip them as unknown. `protobuf.ts` compiles these tables into codecs; a test
 * generates `docs/cap.proto` from them.
 */
export type ScalarType = "string" | "bytes" | "bool" | "int32" | "int64" | "float" | "double";

export type FieldType =
  | { readonly kind: "scalar"; readonly scalar: ScalarType }
  /** Milliseconds since the epoch in memory, google.protobuf.Timestamp on the wire. */
  | { readonly kind: "timestamp" }
  /** Any JSON value in memory, bytes of UTF-8 JSON on the wire. */
  | { readonly kind: "json" }
  /** `isOpen`: a number without a name is kept as a number. Values without a name of other enums stay raw. */
  | { readonly kind: "enum"; readonly of: string; readonly isOpen?: true }
  | { readonly kind: "message"; readonly of: string };

export interface Field {
  /** In snake case, as on the wire; properties in memory use camel case. */
  readonly name: string;
  readonly number: number;
  readonly type: FieldType;
  /** `map`: string keys, values of the field's type. */
  readonly shape: "single" | "repeated" | "map";
  /** Fields of one oneof exclude each other. */
  readonly oneof?: string;
  /** A canonical codec writes the default too: absent and 0 differ. Only for messages that workers send to Cordum. */
  readonly keepsDefault?: true;
}

/** Wire number to name in lower case. Number 0 means unspecified and has no name. */
export type EnumTable = Readonly<Record<number, string>>;

export interface Schema {
  readonly messages: Readonly<Record<string, readonly Field[]>>;
  readonly enums: Readonly<Record<string, EnumTable>>;
}

export const EXTENSIONS_FROM = 50_001;

export const PROTO_PACKAGE = "cordum.agent.v1";

/** Retired numbers that must not be reused. */
export const RESERVED: Readonly<Record<string, readonly [from: number, to: number]>> = { Heartbeat: [8, 10] };

export const scalar = (kind: ScalarType) => (name: string, number: number) =>
  field(name, number, { kind: "scalar", scalar: kind });
export const text = scalar("string");
export const bytes = scalar("bytes");
export const bool = scalar("bool");
export const int32 = scalar("int32");
export const int64 = scalar("int64");
const float = scalar("float");
const timestamp = (name: string, number: number) => field(name, number, { kind: "timestamp" });
export const json = (name: string, number: number) => field(name, number, { kind: "json" });
export const oneOf = (name: string, number: number, of: string) => field(name, number, { kind: "enum", of });
/** Applications define codes of their own. */
const errorCode = (number: number) => field("error_code_enum", number, { kind: "enum", of: "ErrorCode", isOpen: true });
export const message = (name: string, number: number, of: string) => field(name, number, { kind: "message", of });
export const repeated = (of: Field): Field => ({ ...of, shape: "repeated" });
export const map = (of: Field): Field => ({ ...of, shape: "map" });
const payload = (name: string, number: number, of: string): Field => ({
  ...message(name, number, of),
  oneof: "payload",
});

const BUS_PACKET = [
  text("trace_id", 1),
  text("sender_id", 2),
  timestamp("created_at", 3),
  int32("protocol_version", 4),
  payload("job_request", 10, "JobRequest"),
  payload("job_result", 11, "JobResult"),
  payload("heartbeat", 12, "Heartbeat"),
  payload("alert", 13, "SystemAlert"),
  payload("job_progress", 15, "JobProgress"),
  payload("job_cancel", 16, "JobCancel"),
  payload("handshake", 17, "Handshake"),
  bytes("signature", 14),
  text("auth_token", 18),
  text("traceparent", EXTENSIONS_FROM),
];

const JOB_REQUEST = [
  text("job_id", 1),
  text("topic", 2),
  oneOf("priority", 3, "JobPriority"),
  text("context_ptr", 4),
  text("adapter_id", 5),
  map(text("env", 6)),
  text("parent_job_id", 7),
  text("workflow_id", 8),
  int32("step_index", 9),
  text("memory_id", 10),
  message("context_hints", 11, "ContextHints"),
  message("budget", 12, "Budget"),
  text("tenant_id", 13),
  text("principal_id", 14),
  map(text("labels", 15)),
  message("meta", 16, "JobMetadata"),
  message("compensation", 17, "Compensation"),
  int32("attempt", EXTENSIONS_FROM),
  json("input", EXTENSIONS_FROM + 1),
  int64("deadline_ms", EXTENSIONS_FROM + 2),
  json("constraints", EXTENSIONS_FROM + 3),
  bool("announces", EXTENSIONS_FROM + 4),
];

const JOB_RESULT = [
  text("job_id", 1),
  oneOf("status", 2, "JobStatus"),
  text("result_ptr", 3),
  text("worker_id", 4),
  int64("execution_ms", 5),
  text("error_code", 6),
  text("error_message", 7),
  repeated(text("artifact_ptrs", 8)),
  errorCode(9),
  int32("attempt", EXTENSIONS_FROM),
  json("output", EXTENSIONS_FROM + 1),
  int64("retry_after_ms", EXTENSIONS_FROM + 2),
  text("retry_class", EXTENSIONS_FROM + 3),
  json("error", EXTENSIONS_FROM + 4),
  bool("is_waiting", EXTENSIONS_FROM + 5),
  json("usage", EXTENSIONS_FROM + 8),
];

const HEARTBEAT = [
  text("worker_id", 1),
  text("region", 2),
  text("type", 3),
  float("cpu_load", 4),
  float("gpu_utilization", 5),
  int32("active_jobs", 6),
  repeated(text("capabilities", 7)),
  text("pool", 11),
  int32("max_parallel_jobs", 12),
  map(text("labels", 13)),
  float("memory_load", 14),
  int32("progress_pct", 15),
  text("last_memo", 16),
  text("auth_token", 18),
  text("agent_name", 19),
  repeated(text("topics", EXTENSIONS_FROM)),
  bool("is_leaving", EXTENSIONS_FROM + 1),
];

const COMPENSATION = [
  text("topic", 1),
  text("context_ptr", 2),
  oneOf("priority", 3, "JobPriority"),
  text("adapter_id", 4),
  map(text("env", 5)),
  text("memory_id", 6),
  message("context_hints", 7, "ContextHints"),
  message("budget", 8, "Budget"),
  text("tenant_id", 9),
  text("principal_id", 10),
  map(text("labels", 11)),
  message("meta", 12, "JobMetadata"),
];

export const CAP = {
  messages: {
    BusPacket: BUS_PACKET,
    JobRequest: JOB_REQUEST,
    JobResult: JOB_RESULT,
    JobProgress: [
      text("job_id", 1),
      text("step_id", 2),
      { ...int32("percent", 3), keepsDefault: true },
      text("message", 4),
      text("result_ptr", 5),
      repeated(text("artifact_ptrs", 6)),
      oneOf("status", 7, "JobStatus"),
      int32("attempt", EXTENSIONS_FROM),
      int64("extend_ms", EXTENSIONS_FROM + 1),
    ],
    JobCancel: [text("job_id", 1), text("reason", 2), text("requested_by", 3)],
    Heartbeat: HEARTBEAT,
    SystemAlert: [
      text("level", 1),
      text("message", 2),
      text("component", 3),
      text("code", 4),
      oneOf("severity", 5, "AlertSeverity"),
      errorCode(6),
      text("source_component", 7),
      map(text("details", 8)),
      text("trace_id", 9),
    ],
    Handshake: [
      text("component_id", 1),
      oneOf("role", 2, "ComponentRole"),
      repeated(int32("supported_versions", 3)),
      map(bool("capabilities", 4)),
      text("sdk_version", 5),
      repeated(text("ready_topics", 6)),
      text("agent_name", 7),
    ],
    JobMetadata: [
      text("tenant_id", 1),
      text("actor_id", 2),
      oneOf("actor_type", 3, "ActorType"),
      text("idempotency_key", 4),
      text("capability", 5),
      repeated(text("risk_tags", 6)),
      repeated(text("requires", 7)),
      text("pack_id", 8),
      map(text("labels", 9)),
    ],
    ContextHints: [
      int32("max_input_tokens", 1),
      bool("allow_summarization", 2),
      bool("allow_retrieval", 3),
      repeated(text("tags", 4)),
    ],
    Budget: [
      int64("max_input_tokens", 1),
      int64("max_output_tokens", 2),
      int64("max_total_tokens", 3),
      int64("deadline_ms", 4),
    ],
    Compensation: COMPENSATION,
  },
  enums: {
    JobPriority: { 1: "interactive", 2: "batch", 3: "critical" },
    JobStatus: {
      1: "pending",
      2: "scheduled",
      3: "dispatched",
      4: "running",
      5: "succeeded",
      6: "failed",
      7: "cancelled",
      8: "denied",
      9: "timeout",
      10: "failed_retryable",
      11: "failed_fatal",
    },
    ActorType: { 1: "human", 2: "service" },
    AlertSeverity: { 1: "info", 2: "warning", 3: "error", 4: "critical" },
    ComponentRole: { 1: "gateway", 2: "scheduler", 3: "worker", 4: "orchestrator", 5: "controller" },
    ErrorCode: {
      100: "version_mismatch",
      101: "malformed_packet",
      102: "unknown_payload",
      103: "signature_invalid",
      104: "signature_missing",
      200: "timeout",
      201: "resource_exhausted",
      202: "permission_denied",
      203: "invalid_input",
      204: "not_found",
      205: "duplicate",
      206: "worker_unavailable",
      300: "denied",
      301: "policy_violation",
      302: "risk_tag_blocked",
      400: "publish_failed",
      401: "subscribe_failed",
      402: "connection_lost",
    },
  },
} as const satisfies Schema;

type ErrorCodeName = (typeof CAP.enums.ErrorCode)[keyof typeof CAP.enums.ErrorCode];

/** An error code by its name, in any case. */
export function errorCodeNamed(name: string): ErrorCodeName | undefined {
  const lower = name.toLowerCase();
  return Object.values(CAP.enums.ErrorCode).find((known) => known === lower);
}

/** The name of an error code, or its number if it has none. */
export function errorCodeOf(number: number): ErrorCodeName | number | undefined {
  return (CAP.enums.ErrorCode as Readonly<Record<number, ErrorCodeName>>)[number] ?? (number > 0 ? number : undefined);
}

/** `job_id` → `jobId`. */
export const camelCase = (name: string): string => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());

function field(name: string, number: number, type: FieldType): Field {
  return { name, number, type, shape: "single" };
}
