import { nfc, nfcList } from "../../model/canonical.ts";
import type { StepRetry } from "../../model/job-details.ts";
import { RESERVED_LABELS } from "../../model/lists/labels.ts";
import type { Expressions } from "./expression.ts";
import { Fields, got, isObject, type Path, type Problems } from "./fields.ts";
import type { Link, ReadAt, StepDraft } from "./graph.ts";
import { isInherited, isStepId, WORKFLOW_LIMITS } from "./limits.ts";
import type { ActType, Compensate, ForEach, OnError, StepMeta } from "./plan.ts";
import { ACT_TYPES, KEYS_OF_ACT, readAct, readSteps, readTopic } from "./read-action.ts";
import { StepValues } from "./step-values.ts";

/** Null if the step is unreadable. `around`: the `parallel` step that repeats it (see `compile.ts`). */
export function readStep(
  id: string,
  source: unknown,
  path: Path,
  problems: Problems,
  expressions: Expressions,
  around: string | null,
): StepDraft | null {
  if (!isObject(source)) {
    problems.add(path, `must be a mapping, such as \`{topic: demo.echo}\`${got(source)}`);
    return null;
  }
  const fields = new Fields(source, path, problems);
  const type = fields.has("type") ? fields.choice("type", ACT_TYPES) : "worker";
  if (type === undefined) return null;
  fields.only(keysOf(type), (key) => misplacedKey(key, type));
  const hasItem = fields.has("for_each") || around !== null;
  const values = new StepValues(fields, expressions, { item: hasItem });
  const links: Link[] = [];
  readSteps(fields, "depends_on", { kind: "depends_on" }, links);
  fields.text("name", WORKFLOW_LIMITS.nameLength);
  fields.text("description", WORKFLOW_LIMITS.descriptionLength);
  const act = readAct(type, fields, values, links);
  const rest = {
    condition: type === "condition" ? null : values.expression("condition", "boolean"),
    forEach: around === null ? readForEach(fields, values) : rejectForEach(fields, around),
    timeoutMs: fields.seconds("timeout_sec", WORKFLOW_LIMITS.timeoutSec) ?? null,
    outputPath: readOutputPath(fields),
    inputSchema: values.schema("input_schema"),
    outputSchema: values.schema("output_schema"),
    input: values.template("input") ?? defaultInput(fields, type, values, hasItem),
    retry: readRetry(fields),
    meta: readMeta(fields) satisfies StepMeta,
    compensate: readCompensate(fields, expressions, hasItem, values.reads),
    outputBytesMax: fields.integer("max_output_bytes", 1, WORKFLOW_LIMITS.outputBytes) ?? null,
  };
  const onError = readOnError(fields, links);
  // An invalid step keeps its place, so that links to it are still checked.
  return { id, path, act: act ?? { type: "transform" }, links, reads: values.reads, onError, rest };
}

const REPEATED = ["for_each", "max_parallel", "failure"];
const EVERY_STEP = [
  "type",
  "name",
  "description",
  "depends_on",
  "condition",
  "on_error",
  "output_path",
  "output_schema",
  "timeout_sec",
];
const JOB = [
  ...["labels", "risk_tags", "requires", "capability"],
  ...["priority", "actor_id", "actor_type", "pack_id"],
];
const INPUT = ["input", "input_schema"];
/** A step whose output is data, not a decision. */
const SIZED = ["max_output_bytes"];

const KEYS: Readonly<Record<ActType, readonly string[]>> = {
  worker: [...INPUT, ...JOB, ...SIZED, "retry", "compensate"],
  approval: [...INPUT, ...JOB],
  condition: [],
  switch: [],
  delay: JOB,
  notify: [],
  transform: [...INPUT, ...SIZED],
  parallel: SIZED,
  subworkflow: [...INPUT, ...JOB, ...SIZED, "retry", "compensate"],
  wait: [],
  loop: [],
};
const COMPENSATE_KEYS = ["topic", "input", "timeout_sec", "retry", ...JOB];

/** A sub-workflow per item can contain them. */
const NOT_REPEATED: readonly ActType[] = ["wait", "loop"];

function keysOf(type: ActType): readonly string[] {
  const repeated = NOT_REPEATED.includes(type) ? [] : REPEATED;
  return [...EVERY_STEP, ...repeated, ...KEYS_OF_ACT[type], ...KEYS[type]];
}

/** A key that belongs to another step type. */
function misplacedKey(key: string, type: ActType): string | null {
  const types = ACT_TYPES.filter((other) => keysOf(other).includes(key));
  if (types.length === 0) return null;
  const named = types.map((other) => `\`${other}\``).join(", ");
  return `is only allowed for type ${named}, not \`${type}\``;
}

function readForEach(fields: Fields, values: StepValues): ForEach | null {
  if (!fields.has("for_each")) {
    for (const key of REPEATED) {
      if (fields.has(key)) fields.problem(key, "requires `for_each`");
    }
    return null;
  }
  const items = values.expression("for_each", "list");
  const parallelMax = fields.integer("max_parallel", 1, WORKFLOW_LIMITS.items) ?? WORKFLOW_LIMITS.parallelDefault;
  const failure = fields.get("failure") ?? "fail_fast";
  const rest = readFailure(fields, failure);
  return items === null ? null : { items, parallelMax, ...rest };
}

function readFailure(fields: Fields, failure: unknown): Pick<ForEach, "mode" | "failuresMax"> {
  if (failure === "fail_fast" || failure === "wait_all") return { mode: failure, failuresMax: 0 };
  if (isObject(failure)) {
    const terms = new Fields(failure, fields.at("failure"), fields.problems);
    terms.only(["tolerate"]);
    if (!terms.has("tolerate")) fields.problem("failure", "missing `tolerate`: how many items may fail");
    return { mode: "wait_all", failuresMax: terms.integer("tolerate", 0, WORKFLOW_LIMITS.items) ?? 0 };
  }
  fields.problem("failure", `must be \`fail_fast\`, \`wait_all\` or \`{tolerate: n}\`${got(failure)}`);
  return { mode: "fail_fast", failuresMax: 0 };
}

/** A branch uses the list of its `parallel` step. */
function rejectForEach(fields: Fields, around: string): null {
  for (const key of REPEATED.filter((one) => fields.has(one))) {
    fields.problem(
      key,
      `not allowed in a branch: the \`for_each\` of \`${around}\` applies; remove it, or use a subworkflow`,
    );
  }
  return null;
}

function readOutputPath(fields: Fields): readonly string[] | null {
  const value = fields.get("output_path");
  if (value === undefined) return null;
  const parts = typeof value === "string" ? value.split(".") : [];
  const isFine = parts.length > 0 && parts.length <= WORKFLOW_LIMITS.pathDepth && parts.every(isStepId);
  if (isFine && !parts.some(isInherited)) return parts;
  const shape = `1 to ${WORKFLOW_LIMITS.pathDepth} names joined by dots, such as \`order.id\``;
  fields.problem("output_path", `must be ${shape}${got(value)}`);
  return null;
}

/** Workers and sub-workflows get the input of the run, or the item of the `for_each`. */
function defaultInput(fields: Fields, type: ActType, values: StepValues, hasItem: boolean) {
  if (fields.has("input") || (type !== "worker" && type !== "subworkflow")) return null;
  return values.defaultTemplate(hasItem ? `\${item}` : `\${input}`);
}

function readOnError(fields: Fields, links: Link[]): OnError {
  const value = fields.get("on_error");
  if (value === undefined || value === "fail") return { kind: "fail" };
  if (value === "continue") return { kind: "continue" };
  if (!isStepId(value)) {
    fields.problem("on_error", `must be \`fail\`, \`continue\` or a step id${got(value)}`);
    return { kind: "fail" };
  }
  links.push({ kind: "on_error", to: value, path: fields.at("on_error") });
  return { kind: "step", stepId: value };
}

function readRetry(fields: Fields): StepRetry | null {
  const source = fields.map("retry", "must be a mapping, such as `{max_retries: 3}`");
  if (source === undefined) return null;
  const terms = new Fields(source, fields.at("retry"), fields.problems);
  terms.only(["max_retries", "initial_backoff_sec", "max_backoff_sec", "multiplier", "jitter"]);
  const retriesMax = terms.integer("max_retries", 0, WORKFLOW_LIMITS.retries);
  if (!terms.has("max_retries")) fields.problem("retry", "missing `max_retries`: the number of retries");
  const initialMs = terms.seconds("initial_backoff_sec", DAY_SEC) ?? 1_000;
  const maxMs = terms.seconds("max_backoff_sec", DAY_SEC) ?? Math.max(60_000, initialMs);
  if (maxMs < initialMs) terms.problem("max_backoff_sec", "must not be less than `initial_backoff_sec`");
  const multiplier = terms.get("multiplier") ?? 2;
  if (typeof multiplier !== "number" || !(multiplier >= 1 && multiplier <= 100)) {
    terms.problem("multiplier", `must be a number from 1 to 100${got(multiplier)}`);
  }
  const jitter = terms.get("jitter");
  // Booleans are accepted for compatibility with earlier definitions.
  const isFlag = typeof jitter === "boolean";
  const choice = isFlag ? undefined : terms.choice("jitter", ["full", "equal", "none"]);
  return {
    retriesMax: retriesMax ?? 0,
    initialMs,
    maxMs,
    multiplier: typeof multiplier === "number" ? multiplier : 2,
    jitter: isFlag ? (jitter ? "full" : "none") : (choice ?? "full"),
  };
}

/** The keys of a worker job. Its templates may read `step`, the step that is undone. */
function readCompensate(
  around: Fields,
  expressions: Expressions,
  hasItem: boolean,
  reads: ReadAt[],
): Compensate | null {
  const source = around.map("compensate", "must be a mapping, such as `{topic: crm.restore}`");
  if (source === undefined) return null;
  const fields = new Fields(source, around.at("compensate"), around.problems);
  fields.only(COMPENSATE_KEYS);
  const values = new StepValues(fields, expressions, { item: hasItem, step: true });
  const topic = readTopic(fields);
  const input = fields.has("input") ? values.template("input") : values.defaultTemplate(DEFAULT_UNDO_INPUT);
  const timeoutMs = fields.seconds("timeout_sec", WORKFLOW_LIMITS.timeoutSec) ?? null;
  const rest = { timeoutMs, retry: readRetry(fields), meta: readMeta(fields) };
  reads.push(...values.reads);
  return topic === null || input === null ? null : { topic, input, ...rest };
}

const DEFAULT_UNDO_INPUT = { input: `\${step.input}`, output: `\${step.output}` };

const DAY_SEC = 24 * 60 * 60;

/** Job metadata of a step, used by policies, pools and operators. */

const PRIORITIES = ["interactive", "batch", "critical"] as const;
const ACTOR_TYPES = ["human", "service"] as const;
const LABELS_MAX = 60;
const TEXT_LENGTH_MAX = 256;
const NAME = /^[A-Za-z0-9_.:@-]+$/;

export function readMeta(fields: Fields): StepMeta {
  return {
    priority: fields.choice("priority", PRIORITIES) ?? null,
    labels: readLabels(fields),
    riskTags: nfcList(fields.strings("risk_tags", LABELS_MAX, TEXT_LENGTH_MAX) ?? []),
    requires: nfcList(fields.strings("requires", LABELS_MAX, TEXT_LENGTH_MAX) ?? []),
    capability: readName(fields, "capability"),
    actorId: readName(fields, "actor_id"),
    actorType: fields.choice("actor_type", ACTOR_TYPES) ?? null,
    packId: readName(fields, "pack_id"),
  };
}

function readName(fields: Fields, key: string): string | null {
  const value = fields.get(key);
  if (value === undefined) return null;
  if (typeof value === "string" && value.length <= TEXT_LENGTH_MAX && NAME.test(value)) return value;
  fields.problem(key, `must be 1 to ${TEXT_LENGTH_MAX} letters, digits or any of \`_ . : @ -\`${got(value)}`);
  return null;
}

function readLabels(fields: Fields): Readonly<Record<string, string>> {
  const source = fields.map("labels", "must be a mapping from names to strings, such as `{env: prod}`");
  const entries = Object.entries(source ?? {});
  if (entries.length > LABELS_MAX)
    fields.problem("labels", `has ${entries.length} labels, at most ${LABELS_MAX} allowed`);
  const labels = new Map<string, string>();
  for (const [name, value] of entries.slice(0, LABELS_MAX)) {
    const path = [...fields.at("labels"), name];
    const text = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
    if (RESERVED_LABELS.includes(name)) {
      fields.problems.add(path, "is reserved for the control plane; remove it", true);
    } else if (name in {} || name.length > TEXT_LENGTH_MAX) {
      fields.problems.add(path, "is not a valid label name", true);
    } else if (typeof text !== "string" || text.length > TEXT_LENGTH_MAX) {
      fields.problems.add(path, `must be a string of up to ${TEXT_LENGTH_MAX} characters${got(value)}`);
    } else if (text.includes("${")) {
      fields.problems.add(path, "contains `${`, but labels are not templates; use `input`");
    } else labels.set(nfc(name), nfc(text));
  }
  return Object.fromEntries(labels);
}
