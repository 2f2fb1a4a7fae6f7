/**
 * Schema of the CAP gRPC service `SafetyKernel`. Fields from `EXTENSIONS_FROM` on are extensions, which others skip as
 * unknown.
 */
import {
  bool,
  bytes,
  CAP,
  EXTENSIONS_FROM,
  int32,
  int64,
  json,
  map,
  message,
  oneOf,
  PROTO_PACKAGE,
  repeated,
  type Schema,
  scalar,
  text,
} from "./schema.ts";

const double = scalar("double");

/** Includes the bus messages that a check contains. */
export const SAFETY = {
  messages: {
    Budget: CAP.messages.Budget,
    JobMetadata: CAP.messages.JobMetadata,
    PolicyCheckRequest: [
      text("job_id", 1),
      text("topic", 2),
      text("tenant", 3),
      oneOf("priority", 4, "JobPriority"),
      double("estimated_cost", 5),
      message("budget", 6, "Budget"),
      text("principal_id", 7),
      map(text("labels", 8)),
      text("memory_id", 9),
      bytes("effective_config", 10),
      message("meta", 11, "JobMetadata"),
      bytes("input_content", 20),
      text("input_content_type", 21),
      int64("input_size_bytes", 22),
      bool("input_omitted", EXTENSIONS_FROM),
      message("caller", EXTENSIONS_FROM + 1, "PolicyCaller"),
      int64("now_ms", EXTENSIONS_FROM + 2),
    ],
    PolicyCaller: [
      text("key", EXTENSIONS_FROM),
      text("name", EXTENSIONS_FROM + 1),
      text("role", EXTENSIONS_FROM + 2),
      text("tenant", EXTENSIONS_FROM + 3),
    ],
    PolicyCheckResponse: [
      oneOf("decision", 1, "DecisionType"),
      text("reason", 2),
      text("redacted_context_ptr", 3),
      text("policy_snapshot", 4),
      text("rule_id", 5),
      message("constraints", 6, "PolicyConstraints"),
      bool("approval_required", 7),
      text("approval_ref", 8),
      repeated(message("remediations", 9, "PolicyRemediation")),
      int64("approval_expires_ms", EXTENSIONS_FROM),
      bool("approval_by_submitter", EXTENSIONS_FROM + 1),
      json("explanation", EXTENSIONS_FROM + 2),
      int64("evaluated_at_ms", EXTENSIONS_FROM + 3),
      bool("time_dependent", EXTENSIONS_FROM + 4),
      repeated(message("shadow", EXTENSIONS_FROM + 5, "PolicyShadowVerdict")),
      json("limits", EXTENSIONS_FROM + 8),
      json("budgets", EXTENSIONS_FROM + 9),
    ],
    PolicyShadowVerdict: [
      text("rule_id", EXTENSIONS_FROM),
      oneOf("decision", EXTENSIONS_FROM + 1, "DecisionType"),
      text("fault", EXTENSIONS_FROM + 2),
    ],
    PolicyConstraints: [
      message("budgets", 1, "BudgetConstraints"),
      message("sandbox", 2, "SandboxProfile"),
      message("toolchain", 3, "ToolchainConstraints"),
      message("diff", 4, "DiffConstraints"),
      text("redaction_level", 5),
    ],
    BudgetConstraints: [
      int64("max_runtime_ms", 1),
      int32("max_retries", 2),
      int64("max_artifact_bytes", 3),
      int32("max_concurrent_jobs", 4),
    ],
    SandboxProfile: [
      bool("isolated", 1),
      repeated(text("network_allowlist", 2)),
      repeated(text("fs_read_only", 3)),
      repeated(text("fs_read_write", 4)),
    ],
    ToolchainConstraints: [repeated(text("allowed_tools", 1)), repeated(text("allowed_commands", 2))],
    DiffConstraints: [int64("max_files", 1), int64("max_lines", 2), repeated(text("deny_path_globs", 3))],
    PolicyRemediation: [
      text("id", 1),
      text("title", 2),
      text("summary", 3),
      text("replacement_topic", 4),
      text("replacement_capability", 5),
      map(text("add_labels", 6)),
      repeated(text("remove_labels", 7)),
    ],
    ListSnapshotsRequest: [],
    ListSnapshotsResponse: [repeated(text("snapshots", 1))],
  },
  enums: {
    JobPriority: CAP.enums.JobPriority,
    ActorType: CAP.enums.ActorType,
    DecisionType: {
      1: "allow",
      2: "deny",
      3: "require_human",
      4: "throttle",
      5: "allow_with_constraints",
      6: "quarantine",
      7: "redact",
    },
  },
} as const satisfies Schema;

/** The gRPC service: request and response message of each method. */
export const SAFETY_SERVICE = {
  name: `${PROTO_PACKAGE}.SafetyKernel`,
  methods: {
    Check: ["PolicyCheckRequest", "PolicyCheckResponse"],
    Evaluate: ["PolicyCheckRequest", "PolicyCheckResponse"],
    Explain: ["PolicyCheckRequest", "PolicyCheckResponse"],
    Simulate: ["PolicyCheckRequest", "PolicyCheckResponse"],
    ListSnapshots: ["ListSnapshotsRequest", "ListSnapshotsResponse"],
  },
} as const;

export type SafetyMethod = keyof typeof SAFETY_SERVICE.methods;

export const safetyPath = (method: SafetyMethod): string => `/${SAFETY_SERVICE.name}/${method}`;

/** Extension: see `safety-frame.ts`. */
export const SAFETY_FRAMES = {
  messages: {
    PolicyCheckFrame: [repeated(bytes("checks", EXTENSIONS_FROM))],
    PolicyDecisionFrame: [repeated(message("answers", EXTENSIONS_FROM, "FramedDecision"))],
    FramedDecision: [bytes("decision", EXTENSIONS_FROM), text("malformed", EXTENSIONS_FROM + 1)],
  },
  enums: {},
} as const satisfies Schema;

export const FRAME_PATH = `/${PROTO_PACKAGE}.SafetyKernelFrames/Check`;
