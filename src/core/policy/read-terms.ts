/** Reads what accompanies a decision: constraints, remediations, approval terms. Names follow the wire protocol. */
import { isMap, isScalar, type Node } from "yaml";
import { parseDuration } from "../retry/duration.ts";
import type { ApprovalTerms, Constraints, Remediation } from "./decision.ts";
import { patternProblem } from "./pattern.ts";
import { optionalField, present, type YamlFields } from "./yaml-fields.ts";

const CONSTRAINTS_KEYS = ["budgets", "sandbox", "toolchain", "diff", "redaction_level"] as const;
const BUDGET_KEYS = ["max_runtime_ms", "max_retries", "max_artifact_bytes", "max_concurrent_jobs"] as const;
const SANDBOX_KEYS = ["isolated", "network_allowlist", "fs_read_only", "fs_read_write"] as const;
const TOOLCHAIN_KEYS = ["allowed_tools", "allowed_commands"] as const;
const DIFF_KEYS = ["max_files", "max_lines", "deny_path_globs"] as const;
const REMEDIATION_KEYS = [
  "id",
  "title",
  "summary",
  "replacement_topic",
  "replacement_capability",
  "add_labels",
  "remove_labels",
] as const;
const APPROVAL_KEYS = ["expires", "by_submitter"] as const;
const LIMITS = { remediations: 16, summaryLength: 1_024 } as const;
/** One second to 30 days. */
const EXPIRES = { msMin: 1_000, msMax: 30 * 24 * 3_600_000 } as const;

export function readConstraints(yaml: YamlFields, node: Node): Constraints {
  const fields = yaml.map(node, CONSTRAINTS_KEYS, "`constraints` is a map, such as `{budgets: {max_retries: 1}}`");
  if (isMap(node) && node.items.length === 0)
    yaml.problem(node, "`constraints` is empty; add one, or use `decision: allow`");
  return present({
    budgets: optionalField(fields, "budgets", (value) => readBudgets(yaml, value)),
    sandbox: optionalField(fields, "sandbox", (value) => readSandbox(yaml, value)),
    toolchain: optionalField(fields, "toolchain", (value) => readToolchain(yaml, value)),
    diff: optionalField(fields, "diff", (value) => readDiff(yaml, value)),
    redactionLevel: optionalField(fields, "redaction_level", (value) => yaml.text(value, "redaction_level")),
  });
}

export function readRemediations(yaml: YamlFields, node: Node): readonly Remediation[] {
  return yaml.list(node, "remediations", LIMITS.remediations).map((item) => readRemediation(yaml, item));
}

export function readApproval(yaml: YamlFields, node: Node): ApprovalTerms {
  const fields = yaml.map(node, APPROVAL_KEYS, "`approval` is a map, such as `{expires: 30m}`");
  return {
    expiresMs: optionalField(fields, "expires", (value) => readExpires(yaml, value)) ?? null,
    bySubmitter: optionalField(fields, "by_submitter", (value) => yaml.flag(value, "by_submitter")) ?? false,
  };
}

function readBudgets(yaml: YamlFields, node: Node): NonNullable<Constraints["budgets"]> {
  const fields = yaml.map(node, BUDGET_KEYS, "`budgets` is a map, such as `{max_retries: 1}`");
  const count = (key: (typeof BUDGET_KEYS)[number]) => optionalField(fields, key, (value) => yaml.count(value, key));
  const maxRuntimeMs = count("max_runtime_ms");
  if (maxRuntimeMs === 0)
    yaml.problem(fields.get("max_runtime_ms"), "`max_runtime_ms` must be above 0; use `decision: deny` to block jobs");
  return present({
    maxRuntimeMs,
    maxRetries: count("max_retries"),
    maxArtifactBytes: count("max_artifact_bytes"),
    maxConcurrentJobs: count("max_concurrent_jobs"),
  });
}

function readSandbox(yaml: YamlFields, node: Node): NonNullable<Constraints["sandbox"]> {
  const fields = yaml.map(node, SANDBOX_KEYS, "`sandbox` is a map, such as `{isolated: true}`");
  return present({
    isolated: optionalField(fields, "isolated", (value) => yaml.flag(value, "isolated")),
    networkAllowlist: optionalField(fields, "network_allowlist", (value) => yaml.names(value, "network_allowlist")),
    fsReadOnly: optionalField(fields, "fs_read_only", (value) => yaml.names(value, "fs_read_only")),
    fsReadWrite: optionalField(fields, "fs_read_write", (value) => yaml.names(value, "fs_read_write")),
  });
}

function readToolchain(yaml: YamlFields, node: Node): NonNullable<Constraints["toolchain"]> {
  const fields = yaml.map(node, TOOLCHAIN_KEYS, "`toolchain` is a map, such as `{allowed_tools: [git]}`");
  return present({
    allowedTools: optionalField(fields, "allowed_tools", (value) => yaml.names(value, "allowed_tools")),
    allowedCommands: optionalField(fields, "allowed_commands", (value) => yaml.names(value, "allowed_commands")),
  });
}

function readDiff(yaml: YamlFields, node: Node): NonNullable<Constraints["diff"]> {
  const fields = yaml.map(node, DIFF_KEYS, "`diff` is a map, such as `{max_files: 20}`");
  return present({
    maxFiles: optionalField(fields, "max_files", (value) => yaml.count(value, "max_files")),
    maxLines: optionalField(fields, "max_lines", (value) => yaml.count(value, "max_lines")),
    denyPathGlobs: optionalField(fields, "deny_path_globs", (value) => yaml.names(value, "deny_path_globs")),
  });
}

function readRemediation(yaml: YamlFields, node: Node): Remediation {
  const fields = yaml.map(node, REMEDIATION_KEYS, "a remediation is a map with `id` and `title`");
  const text = (key: "id" | "title" | "replacement_capability") =>
    optionalField(fields, key, (value) => yaml.text(value, key));
  const [id, title] = [text("id"), text("title")];
  if (id === undefined || title === undefined) yaml.problem(node, "a remediation needs an `id` and a `title`");
  const rest = {
    summary: optionalField(fields, "summary", (value) => yaml.text(value, "summary", LIMITS.summaryLength)),
    replacementTopic: optionalField(fields, "replacement_topic", (value) => readTopic(yaml, value)),
    replacementCapability: text("replacement_capability"),
    addLabels: optionalField(fields, "add_labels", (value) => yaml.texts(value, "add_labels")),
    removeLabels: optionalField(fields, "remove_labels", (value) => yaml.names(value, "remove_labels")),
  };
  return { id: id ?? "", title: title ?? "", ...present(rest) };
}

/** A concrete topic, not a pattern. */
function readTopic(yaml: YamlFields, node: Node): string {
  const topic = yaml.text(node, "replacement_topic");
  if (topic !== "" && (patternProblem(topic) !== null || /[*>]/.test(topic))) {
    yaml.problem(node, `\`replacement_topic\` must be one topic, not \`${topic}\``);
  }
  return topic;
}

function readExpires(yaml: YamlFields, node: Node): number | null {
  try {
    return parseDuration(isScalar(node) ? String(node.value) : "", EXPIRES);
  } catch (error) {
    yaml.problem(node, `\`expires\`: ${error instanceof Error ? error.message : error}`);
    return null;
  }
}
