/** Reads the keys that are specific to a step type. */
import { isTopic, TOPIC_LENGTH_MAX } from "../../../protocol/subjects.ts";
import { bareTopic, hasBareForm } from "../../model/canonical.ts";
import { type Fields, got, isObject, parseTime } from "./fields.ts";
import type { Link } from "./graph.ts";
import { EVENT_NAME_SHAPE, isEventName, isStepId, isWorkflowId, WORKFLOW_LIMITS } from "./limits.ts";
import type { Act, ActType } from "./plan.ts";
import type { StepValues } from "./step-values.ts";

export const ACT_TYPES: readonly ActType[] = [
  "worker",
  "approval",
  "condition",
  "switch",
  "delay",
  "notify",
  "transform",
  "parallel",
  "subworkflow",
  "wait",
  "loop",
];

/** In addition to those of every step. */
export const KEYS_OF_ACT: Readonly<Record<ActType, readonly string[]>> = {
  worker: ["topic"],
  approval: ["reason", "allow_submitter"],
  condition: ["then", "else"],
  switch: ["switch", "cases", "default"],
  delay: ["delay_sec", "delay_until"],
  notify: ["message", "level"],
  transform: [],
  parallel: ["branches", "join", "n"],
  subworkflow: ["workflow", "version"],
  wait: ["event", "correlate"],
  loop: ["steps", "until", "max_iterations"],
};

/** Null after a problem. */
export function readAct(type: ActType, fields: Fields, values: StepValues, links: Link[]): Act | null {
  switch (type) {
    case "worker":
      return readWorker(fields);
    case "approval":
      return { type, reason: values.textTemplate("reason"), bySubmitter: fields.flag("allow_submitter") ?? false };
    case "condition":
      return readCondition(fields, values, links);
    case "switch":
      return readSwitch(fields, values, links);
    case "delay":
      return readDelay(fields, values);
    case "notify":
      return readNotify(fields, values);
    case "transform":
      if (!fields.has("input")) missing(fields, "input", "the value to compute");
      return { type };
    case "parallel":
      return readParallel(fields, links);
    case "subworkflow":
      return readSubworkflow(fields);
    case "wait":
      return readWait(fields, values);
    case "loop":
      return readLoop(fields, values, links);
    default:
      return type satisfies never;
  }
}

/** A list of step ids; each is a link. */
export function readSteps(
  fields: Fields,
  key: string,
  link: Omit<Link, "to" | "path">,
  links: Link[],
): readonly string[] {
  return stepsAt(fields, key, fields.get(key), [], link, links);
}

function readWorker(fields: Fields): Act | null {
  const topic = readTopic(fields);
  return topic === null ? null : { type: "worker", topic };
}

export function readTopic(fields: Fields): string | null {
  const topic = fields.get("topic");
  if (topic === undefined) return missing(fields, "topic", "the topic its job is sent to");
  if (typeof topic === "string" && isTopic(topic) && hasBareForm(topic)) return bareTopic(topic);
  const shape = "tokens of letters, digits, `_` and `-` joined by dots";
  fields.problem(
    "topic",
    `must be ${shape}, at most ${TOPIC_LENGTH_MAX} characters, such as \`demo.echo\`${got(topic)}`,
  );
  return null;
}

function readCondition(fields: Fields, values: StepValues, links: Link[]): Act | null {
  for (const arm of ["then", "else"]) readSteps(fields, arm, { kind: "arm", arm }, links);
  if (!fields.has("condition")) return missing(fields, "condition", "the expression to evaluate");
  const question = values.itemExpression("condition", "boolean");
  return question === null ? null : { type: "condition", question };
}

function readSwitch(fields: Fields, values: StepValues, links: Link[]): Act | null {
  const cases = fields.map("cases", "must be a mapping from strings to lists of steps, such as `{eu: [ship]}`");
  if (!fields.has("cases")) missing(fields, "cases", "the steps for each value");
  const names = Object.keys(cases ?? {});
  if (cases !== undefined && (names.length === 0 || names.length > WORKFLOW_LIMITS.cases)) {
    fields.problem("cases", `must have 1 to ${WORKFLOW_LIMITS.cases} cases, has ${names.length}`);
  }
  for (const [arm, steps] of Object.entries(cases ?? {})) {
    if (arm === "default") {
      fields.problems.add([...fields.at("cases"), arm], "belongs next to `cases`, not inside", true);
    } else stepsAt(fields, "cases", steps, [arm], { kind: "arm", arm }, links);
  }
  readSteps(fields, "default", { kind: "arm", arm: "default" }, links);
  if (!fields.has("switch")) return missing(fields, "switch", "the expression that selects the case");
  const value = values.itemExpression("switch", "any");
  return value === null ? null : { type: "switch", value, cases: names };
}

function readDelay(fields: Fields, values: StepValues): Act | null {
  const keys = ["delay_sec", "delay_until"].filter((key) => fields.has(key));
  if (keys.length !== 1) {
    fields.problems.add(fields.path, "needs exactly one of `delay_sec` and `delay_until`");
    return null;
  }
  const forSec = values.template("delay_sec");
  const until = values.textTemplate("delay_until");
  const sec = forSec?.constant?.value;
  if (forSec?.constant && !(typeof sec === "number" && sec >= 0 && sec <= WORKFLOW_LIMITS.timeoutSec)) {
    const shape = `a number of seconds from 0 to ${WORKFLOW_LIMITS.timeoutSec}, or an expression in \`\${…}\``;
    fields.problem("delay_sec", `must be ${shape}${got(sec)}`);
  }
  if (until?.constant && parseTime(until.constant.value) === null) {
    const shape = `a time such as \`2030-01-31T08:00:00Z\`, or an expression in \`\${…}\``;
    fields.problem("delay_until", `must be ${shape}${got(until.constant.value)}`);
  }
  return forSec === null && until === null ? null : { type: "delay", forSec, until };
}

function readNotify(fields: Fields, values: StepValues): Act | null {
  const level = fields.choice("level", ["info", "warn", "error"]) ?? "info";
  if (!fields.has("message")) return missing(fields, "message", "the text to send");
  const message = values.textTemplate("message");
  return message === null ? null : { type: "notify", message, level: LEVELS[level] };
}

const LEVELS = { info: "INFO", warn: "WARN", error: "ERROR" } as const;

function readParallel(fields: Fields, links: Link[]): Act | null {
  const join = fields.choice("join", ["all", "any", "n_of_m"]) ?? "all";
  if (!fields.has("branches")) return missing(fields, "branches", "the steps to start");
  const branches = readSteps(fields, "branches", { kind: "branch" }, links);
  if (branches.length === 0) {
    if (Array.isArray(fields.get("branches"))) fields.problem("branches", "must name at least one step");
    return null;
  }
  if (join !== "n_of_m") {
    if (fields.has("n")) fields.problem("n", `requires \`join: n_of_m\`, but \`join\` is \`${join}\``);
    return { type: "parallel", branches, need: join === "all" ? branches.length : 1 };
  }
  if (!fields.has("n")) return missing(fields, "n", "how many branches must succeed");
  const need = fields.integer("n", 1, branches.length);
  return need === undefined ? null : { type: "parallel", branches, need };
}

function readSubworkflow(fields: Fields): Act | null {
  const version = fields.integer("version", 1, Number.MAX_SAFE_INTEGER) ?? null;
  const workflowId = fields.get("workflow");
  if (workflowId === undefined) return missing(fields, "workflow", "the id of the workflow to run");
  if (isWorkflowId(workflowId)) return { type: "subworkflow", workflowId, version };
  fields.problem("workflow", `must be a workflow id${got(workflowId)}`);
  return null;
}

function readWait(fields: Fields, values: StepValues): Act | null {
  if (!fields.has("timeout_sec")) missing(fields, "timeout_sec", "how long to wait for the event");
  const correlate = values.expression("correlate", "any");
  const event = fields.get("event");
  if (event === undefined) return missing(fields, "event", "the name of the event to wait for");
  if (isEventName(event)) return { type: "wait", event, correlate };
  fields.problem("event", `must be ${EVENT_NAME_SHAPE}${got(event)}`);
  return null;
}

/** Its steps are read by `compile.ts`. */
function readLoop(fields: Fields, values: StepValues, links: Link[]): Act | null {
  const steps = fields.get("steps");
  const body = isObject(steps) ? Object.keys(steps).filter(isStepId) : [];
  for (const to of body) links.push({ kind: "body", to, path: [...fields.at("steps"), to] });
  if (!fields.has("timeout_sec")) missing(fields, "timeout_sec", "the limit of all iterations together");
  if (!fields.has("max_iterations")) missing(fields, "max_iterations", "the largest number of iterations");
  const iterationsMax = fields.integer("max_iterations", 1, WORKFLOW_LIMITS.iterations);
  const count = body.length * (iterationsMax ?? 0);
  if (count > WORKFLOW_LIMITS.iterationSteps) {
    const problem = `${iterationsMax} iterations of ${body.length} steps are ${count} steps`;
    fields.problem("max_iterations", `${problem}; at most ${WORKFLOW_LIMITS.iterationSteps} are allowed`);
  }
  if (!fields.has("until")) return missing(fields, "until", "the expression that ends the loop when it is true");
  const until = values.expression("until", "boolean");
  if (until === null || iterationsMax === undefined) return null;
  return { type: "loop", body, until, iterationsMax, carries: [] };
}

function missing(fields: Fields, key: string, what: string): null {
  fields.problems.add(fields.path, `missing \`${key}\`: ${what}`);
  return null;
}

function stepsAt(
  fields: Fields,
  key: string,
  value: unknown,
  under: readonly string[],
  link: Omit<Link, "to" | "path">,
  links: Link[],
): readonly string[] {
  if (value === undefined) return [];
  const path = [...fields.at(key), ...under];
  // A single step may be written without brackets.
  const list = typeof value === "string" ? [value] : value;
  if (!Array.isArray(list) || list.length > WORKFLOW_LIMITS.steps) {
    fields.problems.add(path, `must be a list of step ids${got(value)}`);
    return [];
  }
  const ids = new Set<string>();
  for (const [index, id] of list.entries()) {
    const at = typeof value === "string" ? path : [...path, index];
    if (!isStepId(id)) fields.problems.add(at, `must be a step id${got(id)}`);
    else if (ids.has(id)) fields.problems.add(at, `lists \`${id}\` twice`);
    else {
      links.push({ ...link, to: id, path: at });
      ids.add(id);
    }
  }
  return [...ids];
}
