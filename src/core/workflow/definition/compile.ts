import { Expressions } from "./expression.ts";
import { Fields, got, isObject, type Json, type Path, type Problem, Problems, problemText } from "./fields.ts";
import { type Graph, graphOf, type StepDraft } from "./graph.ts";
import { isInherited, isStepId, isWorkflowId, WORKFLOW_LIMITS } from "./limits.ts";
import type { Act, Plan, PlanStep } from "./plan.ts";
import { readStep } from "./read-step.ts";
import { checkRules } from "./rules.ts";
import { StepValues } from "./step-values.ts";

/**
 * Compiles a workflow definition into a plan.
 *
 * 1. All problems are reported at once, each with its path and, where possible, a suggested name.
 * 2. Unknown keys, unreachable steps and expressions that read unavailable values are errors when the definition is
 *    applied.
 * 3. The same document gives the same plan.
 */

export type CompiledWorkflow =
  | { readonly kind: "ok"; readonly plan: Plan }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export function compileWorkflow(document: unknown): CompiledWorkflow {
  const found = planWorkflow(document);
  return found.kind === "ok" ? found : { kind: "bad", problems: found.problems.map(problemText) };
}

/** The same with structured problems, for callers that map paths to file positions. */
export function planWorkflow(
  document: unknown,
): { readonly kind: "ok"; readonly plan: Plan } | { readonly kind: "bad"; readonly problems: readonly Problem[] } {
  const problems = new Problems();
  const plan = isWithinLimits(document, problems) ? readDocument(document, problems) : null;
  if (plan !== null && problems.all.length === 0) return { kind: "ok", plan };
  return { kind: "bad", problems: problems.all };
}

const KEYS = ["id", "name", "description", "timeout_sec", "input_schema", "output", "steps"];

function readDocument(document: unknown, problems: Problems): Plan | null {
  if (!isObject(document)) {
    problems.add([], `a workflow is a mapping with \`id\` and \`steps\`${got(document)}`);
    return null;
  }
  const fields = new Fields(document, [], problems);
  fields.only(KEYS);
  const expressions = new Expressions();
  const values = new StepValues(fields, expressions, { item: false });
  const id = readId(fields);
  fields.text("description", WORKFLOW_LIMITS.descriptionLength);
  const head = {
    id,
    name: fields.text("name", WORKFLOW_LIMITS.nameLength) ?? null,
    timeoutMs: fields.seconds("timeout_sec", WORKFLOW_LIMITS.timeoutSec) ?? null,
    inputSchema: values.schema("input_schema"),
    output: values.template("output"),
  };
  const { steps: source, paths } = readAllSteps(fields);
  const known = Object.keys(source);
  const around = repeatedBranches(source);
  const drafts = known.flatMap((stepId) => {
    const path = paths.get(stepId) ?? [];
    const draft = readStep(stepId, source[stepId], path, problems, expressions, around.get(stepId) ?? null);
    return draft === null ? [] : [draft];
  });
  const graph = graphOf(inheritForEach(drafts, around), known, problems);
  checkRules(graph, known, values.reads, problems);
  const within: Plan["within"] = (budget, work) => expressions.within(budget, work);
  return { ...head, order: graph.order, steps: stepsOf(graph), within };
}

function readId(fields: Fields): string {
  const id = fields.get("id");
  if (isWorkflowId(id)) return id;
  const shape = `1 to ${WORKFLOW_LIMITS.idLength} letters, digits or any of \`_ - .\``;
  if (id === undefined) fields.problems.add([], `missing \`id\`: ${shape}`);
  else fields.problem("id", `must be ${shape}${got(id)}`);
  return "";
}

/** The steps of the workflow and those in the bodies of its loops. All have different ids. */
function readAllSteps(fields: Fields): {
  readonly steps: Readonly<Record<string, unknown>>;
  readonly paths: ReadonlyMap<string, Path>;
} {
  const steps: Record<string, unknown> = {};
  const paths = new Map<string, Path>();
  const add = (owner: Fields, isBody: boolean): void => {
    for (const [id, step] of Object.entries(readSteps(owner))) {
      const path = [...owner.at("steps"), id];
      if (paths.has(id)) {
        owner.problems.add(path, `another step has this id; ids are unique in a workflow, also in loops`, true);
        continue;
      }
      paths.set(id, path);
      steps[id] = step;
      if (!isObject(step) || step.type !== "loop") continue;
      if (isBody) owner.problems.add(path, "a loop cannot contain a loop; move the inner one to a subworkflow");
      else add(new Fields(step, path, owner.problems), true);
    }
  };
  add(fields, false);
  if (paths.size > WORKFLOW_LIMITS.steps && Object.keys(fields.get("steps") ?? {}).length <= WORKFLOW_LIMITS.steps) {
    const problem = `has ${paths.size} steps with those of its loops, at most ${WORKFLOW_LIMITS.steps} allowed`;
    fields.problem("steps", `${problem}; move some to a subworkflow`);
  }
  return { steps, paths };
}

/** Steps by id; invalid ids are reported and left out. */
function readSteps(fields: Fields): Readonly<Record<string, unknown>> {
  if (!fields.has("steps")) fields.problems.add(fields.path, "missing `steps`: a mapping from step ids to steps");
  const source =
    fields.map("steps", "must be a mapping from step ids to steps, such as `{greet: {topic: demo.echo}}`") ?? {};
  const entries = Object.entries(source);
  if (fields.has("steps") && isObject(fields.get("steps")) && entries.length === 0) {
    fields.problem("steps", "must have at least one step");
  }
  if (entries.length > WORKFLOW_LIMITS.steps) {
    fields.problem(
      "steps",
      `has ${entries.length} steps, at most ${WORKFLOW_LIMITS.steps} allowed; move some to a subworkflow`,
    );
    return {};
  }
  return Object.fromEntries(
    entries.filter(([id]) => {
      const problem = idProblem(id);
      if (problem !== null) fields.problems.add(["steps", id], problem, true);
      return problem === null;
    }),
  );
}

function idProblem(id: string): string | null {
  if (id === "fail" || id === "continue") return "is reserved by `on_error`; choose another step id";
  if (isInherited(id)) return "is not allowed as a step id; choose another";
  if (isStepId(id)) return null;
  return `a step id is 1 to ${WORKFLOW_LIMITS.idLength} letters, digits, \`_\` or \`-\``;
}

function stepsOf({ nodes, order, ancestors }: Graph): ReadonlyMap<string, PlanStep> {
  const steps = new Map<string, PlanStep>();
  for (const id of order) {
    const node = nodes.get(id);
    if (node === undefined) continue;
    const { draft, dependsOn, branchOf, loopOf, handles, arms } = node;
    const dependents = order.filter((other) => nodes.get(other)?.dependsOn.includes(id));
    const before = ancestors.get(id) ?? new Set<string>();
    const place = { dependsOn, dependents, ancestors: before, branchOf, loopOf, handles, arms };
    steps.set(id, { id, ...withoutLinks(draft), act: carrying(draft, nodes), ...place });
  }
  return steps;
}

/** What the body and `until` of a loop read of the previous iteration. */
function carrying({ act, reads }: StepDraft, nodes: Graph["nodes"]): Act {
  if (act.type !== "loop") return act;
  const all = [...reads, ...act.body.flatMap((id) => nodes.get(id)?.draft.reads ?? [])];
  return { ...act, carries: act.body.filter((id) => all.some((read) => read.reads.previous.has(id))) };
}

function withoutLinks({ onError, rest }: StepDraft): Pick<PlanStep, "onError" | keyof typeof rest> {
  return { onError, ...rest };
}

/** Bounds size and depth before anything else walks the document. */
function isWithinLimits(document: unknown, problems: Problems): boolean {
  const open: (readonly [unknown, Path])[] = [[document, []]];
  let length = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [value, path] = next;
    length += typeof value === "string" ? value.length + 2 : 2;
    const isDeep = path.length > WORKFLOW_LIMITS.depth;
    if (length > WORKFLOW_LIMITS.sourceLength || isDeep) {
      const limit = isDeep ? `nested more than ${WORKFLOW_LIMITS.depth} deep` : "larger than 1 MiB";
      problems.add([], `the definition is ${limit}; pass large values as run input`);
      return false;
    }
    if (!isPlain(value)) {
      problems.add(path, "is not a JSON value");
      return false;
    }
    if (typeof value !== "object" || value === null) continue;
    for (const [key, entry] of Object.entries(value)) {
      if (!Array.isArray(value)) length += key.length + 3;
      open.push([entry, [...path, Array.isArray(value) ? Number(key) : key]]);
    }
  }
  return true;
}

/** YAML has more types: dates, bytes, infinity. */
function isPlain(value: unknown): boolean {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value);
    case "object": {
      const prototype: unknown = value === null ? null : Object.getPrototypeOf(value);
      return prototype === null || prototype === Object.prototype || prototype === Array.prototype;
    }
    default:
      return false;
  }
}

/**
 * Branches repeated by a `parallel` step with `for_each`: branch id to step id. Determined before steps are read,
 * because `item` is available in such a branch.
 */
export function repeatedBranches(steps: Json): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [id, step] of Object.entries(steps)) {
    if (!isObject(step) || step.type !== "parallel" || !Object.hasOwn(step, "for_each")) continue;
    for (const branch of [step.branches].flat()) {
      if (typeof branch === "string" && branch !== id && !found.has(branch)) found.set(branch, id);
    }
  }
  return found;
}

export function inheritForEach(drafts: readonly StepDraft[], by: ReadonlyMap<string, string>): readonly StepDraft[] {
  const lists = new Map(drafts.map(({ id, rest }) => [id, rest.forEach]));
  return drafts.map((draft) => {
    const around = by.get(draft.id);
    if (around === undefined && draft.act.type !== "parallel") return draft;
    const forEach = lists.get(around ?? "") ?? null;
    return { ...draft, rest: { ...draft.rest, forEach } };
  });
}
