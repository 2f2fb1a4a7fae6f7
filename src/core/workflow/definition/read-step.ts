/** One step of a definition, read and checked as far as that can be done without the others. */
import type { StepRetry } from "../../model/job.ts";
import type { Expressions } from "./expression.ts";
import { Fields, isObject, isOf } from "./fields.ts";
import { isInherited, isStepId, WORKFLOW_LIMITS } from "./limits.ts";
import type { ActType, ForEach, OnError, StepMeta } from "./plan.ts";
import type { Path, Problems } from "./problems.ts";
import { ACT_TYPES, KEYS_OF_ACT, readAct, readSteps } from "./read-action.ts";
import { readMeta } from "./read-metadata.ts";
import type { Link, StepDraft } from "./step-draft.ts";
import { StepValues } from "./step-values.ts";

/** Null after a problem that leaves nothing to be read. `around`: the step that repeats it (see `repeated.ts`). */
export function readStep(
  id: string,
  source: unknown,
  path: Path,
  problems: Problems,
  expressions: Expressions,
  around: string | null,
): StepDraft | null {
  if (!isObject(source)) {
    problems.add(path, `must be a mapping, such as \`{topic: demo.echo}\`${isOf(source)}`);
    return null;
  }
  const fields = new Fields(source, path, problems);
  const type = fields.has("type") ? fields.choice("type", ACT_TYPES) : "worker";
  if (type === undefined) return null;
  fields.only(keysOf(type), (key) => misplaced(key, type));
  const hasItem = fields.has("for_each") || around !== null;
  const values = new StepValues(fields, expressions, hasItem);
  const links: Link[] = [];
  readSteps(fields, "depends_on", { kind: "depends_on" }, links);
  fields.text("name", WORKFLOW_LIMITS.nameLength);
  fields.text("description", WORKFLOW_LIMITS.descriptionLength);
  const act = readAct(type, fields, values, links);
  const rest = {
    condition: type === "condition" ? null : values.expression("condition", "boolean"),
    forEach: around === null ? readForEach(fields, values) : withoutList(fields, around),
    timeoutMs: fields.seconds("timeout_sec", WORKFLOW_LIMITS.timeoutSec) ?? null,
    outputPath: readOutputPath(fields),
    inputSchema: values.schema("input_schema"),
    outputSchema: values.schema("output_schema"),
    input: values.template("input") ?? defaultInput(fields, type, values, hasItem),
    retry: readRetry(fields),
    meta: readMeta(fields) satisfies StepMeta,
  };
  const onError = readOnError(fields, links);
  // One that cannot be read stands where it was written, so that what the others say about it is looked at as well.
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
  ...REPEATED,
];
const JOB = [
  ...["labels", "risk_tags", "requires", "capability"],
  ...["priority", "actor_id", "actor_type", "pack_id"],
];
const INPUT = ["input", "input_schema"];

const KEYS: Readonly<Record<ActType, readonly string[]>> = {
  worker: [...INPUT, ...JOB, "retry"],
  approval: [...INPUT, ...JOB],
  condition: [],
  switch: [],
  delay: JOB,
  notify: [],
  transform: INPUT,
  parallel: [],
  subworkflow: [...INPUT, ...JOB, "retry"],
};

function keysOf(type: ActType): readonly string[] {
  return [...EVERY_STEP, ...KEYS_OF_ACT[type], ...KEYS[type]];
}

/** A key that is right elsewhere was meant for another type. */
function misplaced(key: string, type: ActType): string | null {
  const types = ACT_TYPES.filter((other) => keysOf(other).includes(key));
  if (types.length === 0) return null;
  const named = types.map((other) => `\`${other}\``).join(", ");
  return `goes with the type ${named}, and this step's is \`${type}\``;
}

function readForEach(fields: Fields, values: StepValues): ForEach | null {
  if (!fields.has("for_each")) {
    for (const key of REPEATED) {
      if (fields.has(key)) fields.problem(key, "goes with `for_each`, which this step has not");
    }
    return null;
  }
  const items = values.expression("for_each", "list");
  const parallelMax = fields.whole("max_parallel", 1, WORKFLOW_LIMITS.items) ?? WORKFLOW_LIMITS.parallelDefault;
  const failure = fields.get("failure") ?? "fail_fast";
  const rest = readFailure(fields, failure);
  return items === null ? null : { items, parallelMax, ...rest };
}

function readFailure(fields: Fields, failure: unknown): Pick<ForEach, "mode" | "failuresMax"> {
  if (failure === "fail_fast" || failure === "wait_all") return { mode: failure, failuresMax: 0 };
  if (isObject(failure)) {
    const terms = new Fields(failure, fields.at("failure"), fields.problems);
    terms.only(["tolerate"]);
    if (!terms.has("tolerate")) fields.problem("failure", "has no `tolerate`: how many items may fail");
    return { mode: "wait_all", failuresMax: terms.whole("tolerate", 0, WORKFLOW_LIMITS.items) ?? 0 };
  }
  fields.problem("failure", `must be \`fail_fast\`, \`wait_all\` or \`{tolerate: n}\`${isOf(failure)}`);
  return { mode: "fail_fast", failuresMax: 0 };
}

/** Its list is that of the step around it. */
function withoutList(fields: Fields, around: string): null {
  for (const key of REPEATED.filter((one) => fields.has(one))) {
    const why = key === "for_each" ? "a branch has no second list of its own" : "what that says holds for its branches";
    fields.problem(key, `\`${around}\` has a \`for_each\`, and ${why}; leave it out, or make it a subworkflow`);
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
  fields.problem("output_path", `must be ${shape}${isOf(value)}`);
  return null;
}

/** Workers and other workflows are given what the run, or the child of the `for_each`, was given. */
function defaultInput(fields: Fields, type: ActType, values: StepValues, hasItem: boolean) {
  if (fields.has("input") || (type !== "worker" && type !== "subworkflow")) return null;
  return values.defaultTemplate(hasItem ? `\${item}` : `\${input}`);
}

function readOnError(fields: Fields, links: Link[]): OnError {
  const value = fields.get("on_error");
  if (value === undefined || value === "fail") return { kind: "fail" };
  if (value === "continue") return { kind: "continue" };
  if (!isStepId(value)) {
    fields.problem("on_error", `must be \`fail\`, \`continue\` or the id of a step${isOf(value)}`);
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
  const retriesMax = terms.whole("max_retries", 0, WORKFLOW_LIMITS.retries);
  if (!terms.has("max_retries")) fields.problem("retry", "has no `max_retries`: how often it is tried again");
  const initialMs = terms.seconds("initial_backoff_sec", DAY_SEC) ?? 1_000;
  const maxMs = terms.seconds("max_backoff_sec", DAY_SEC) ?? Math.max(60_000, initialMs);
  if (maxMs < initialMs) terms.problem("max_backoff_sec", "must not be less than `initial_backoff_sec`");
  const multiplier = terms.get("multiplier") ?? 2;
  if (typeof multiplier !== "number" || !(multiplier >= 1 && multiplier <= 100)) {
    terms.problem("multiplier", `must be a number from 1 to 100${isOf(multiplier)}`);
  }
  const jitter = terms.get("jitter");
  // As the founding definitions have it.
  const isSaid = typeof jitter === "boolean";
  const said = isSaid ? undefined : terms.choice("jitter", ["full", "equal", "none"]);
  return {
    retriesMax: retriesMax ?? 0,
    initialMs,
    maxMs,
    multiplier: typeof multiplier === "number" ? multiplier : 2,
    jitter: isSaid ? (jitter ? "full" : "none") : (said ?? "full"),
  };
}

const DAY_SEC = 24 * 60 * 60;
