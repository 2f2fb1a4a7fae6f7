import protobuf from "protobufjs";

/**
 * CAP as a third party knows it: written from the wire description, without the extensions of this implementation, and
 * compiled by a third-party library.
 */
const root = new protobuf.Root();
const timestamp = protobuf.common.get("google/protobuf/timestamp.proto");
if (timestamp?.nested) root.addJSON(timestamp.nested);
protobuf.parse(
  `
syntax = "proto3";
package cordum.agent.v1;
message BusPacket {
  string trace_id = 1; string sender_id = 2; google.protobuf.Timestamp created_at = 3; int32 protocol_version = 4;
  oneof payload {
    JobRequest job_request = 10; JobResult job_result = 11; Heartbeat heartbeat = 12; SystemAlert alert = 13;
    JobProgress job_progress = 15; JobCancel job_cancel = 16; Handshake handshake = 17;
  }
  bytes signature = 14; string auth_token = 18;
}
message JobRequest {
  string job_id = 1; string topic = 2; JobPriority priority = 3; string context_ptr = 4; string adapter_id = 5;
  map<string, string> env = 6; string parent_job_id = 7; string workflow_id = 8; int32 step_index = 9;
  string memory_id = 10; ContextHints context_hints = 11; Budget budget = 12; string tenant_id = 13;
  string principal_id = 14; map<string, string> labels = 15; JobMetadata meta = 16; Compensation compensation = 17;
}
message JobResult {
  string job_id = 1; JobStatus status = 2; string result_ptr = 3; string worker_id = 4; int64 execution_ms = 5;
  string error_code = 6; string error_message = 7; repeated string artifact_ptrs = 8; ErrorCode error_code_enum = 9;
}
message JobProgress {
  string job_id = 1; string step_id = 2; int32 percent = 3; string message = 4; string result_ptr = 5;
  repeated string artifact_ptrs = 6; JobStatus status = 7;
}
message JobCancel { string job_id = 1; string reason = 2; string requested_by = 3; }
message Heartbeat {
  string worker_id = 1; string region = 2; string type = 3; float cpu_load = 4; float gpu_utilization = 5;
  int32 active_jobs = 6; repeated string capabilities = 7; string pool = 11; int32 max_parallel_jobs = 12;
  map<string, string> labels = 13; float memory_load = 14; int32 progress_pct = 15; string last_memo = 16;
  string auth_token = 18; string agent_name = 19;
}
message SystemAlert {
  string level = 1; string message = 2; string component = 3; string code = 4; AlertSeverity severity = 5;
  ErrorCode error_code_enum = 6; string source_component = 7; map<string, string> details = 8; string trace_id = 9;
}
message Handshake {
  string component_id = 1; ComponentRole role = 2; repeated int32 supported_versions = 3;
  map<string, bool> capabilities = 4; string sdk_version = 5; repeated string ready_topics = 6; string agent_name = 7;
}
message JobMetadata {
  string tenant_id = 1; string actor_id = 2; ActorType actor_type = 3; string idempotency_key = 4; string capability = 5;
  repeated string risk_tags = 6; repeated string requires = 7; string pack_id = 8; map<string, string> labels = 9;
}
message ContextHints {
  int32 max_input_tokens = 1; bool allow_summarization = 2; bool allow_retrieval = 3; repeated string tags = 4;
}
message Budget {
  int64 max_input_tokens = 1; int64 max_output_tokens = 2; int64 max_total_tokens = 3; int64 deadline_ms = 4;
}
message Compensation {
  string topic = 1; string context_ptr = 2; JobPriority priority = 3; string adapter_id = 4; map<string, string> env = 5;
  string memory_id = 6; ContextHints context_hints = 7; Budget budget = 8; string tenant_id = 9;
  string principal_id = 10; map<string, string> labels = 11; JobMetadata meta = 12;
}
enum JobPriority { P0 = 0; INTERACTIVE = 1; BATCH = 2; CRITICAL = 3; }
enum JobStatus {
  S0 = 0; PENDING = 1; SCHEDULED = 2; DISPATCHED = 3; RUNNING = 4; SUCCEEDED = 5; FAILED = 6; CANCELLED = 7;
  DENIED = 8; TIMEOUT = 9; FAILED_RETRYABLE = 10; FAILED_FATAL = 11;
}
enum ActorType { A0 = 0; HUMAN = 1; SERVICE = 2; }
enum AlertSeverity { V0 = 0; INFO = 1; WARNING = 2; ERROR = 3; SEVERE = 4; }
enum ComponentRole { C0 = 0; GATEWAY = 1; SCHEDULER = 2; WORKER = 3; ORCHESTRATOR = 4; CONTROLLER = 5; }
enum ErrorCode { E0 = 0; VERSION_MISMATCH = 100; }
`,
  root,
  { keepCase: false },
);
root.resolveAll();

const BUS_PACKET = root.lookupType("cordum.agent.v1.BusPacket");

export type WirePacket = Record<string, unknown> & { signature?: Uint8Array };

export const wireEncode = (packet: object): Uint8Array => BUS_PACKET.encode(BUS_PACKET.fromObject(packet)).finish();

export const wireDecode = (bytes: Uint8Array): WirePacket =>
  BUS_PACKET.toObject(BUS_PACKET.decode(bytes), { longs: Number, oneofs: false }) as WirePacket;

/** How CAP's SDKs verify a packet: decode, clear the signature, encode again, with maps as decoded or sorted by key. */
export function reencodedWithoutSignature(
  bytes: Uint8Array,
  maps: "as decoded" | "sorted",
): { bytes: Uint8Array; signature: Uint8Array } {
  const { signature = new Uint8Array(0), ...packet } = wireDecode(bytes);
  return { bytes: wireEncode(maps === "sorted" ? withSortedKeys(packet) : packet), signature };
}

/** The order of properties matters only in maps: fields of messages are written in the order of their numbers. */
function withSortedKeys(value: object): object {
  if (Array.isArray(value) || value instanceof Uint8Array) return value;
  const entries = Object.entries(value).sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return Object.fromEntries(
    entries.map(([name, inner]) => [name, typeof inner === "object" && inner ? withSortedKeys(inner) : inner]),
  );
}
