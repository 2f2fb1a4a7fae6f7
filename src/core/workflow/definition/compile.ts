/**
 * From a definition to a plan.
 *
 * 1. Everything that is wrong is said at once, each with its place and, where one can guess, the name that was meant.
 * 2. Nothing is guessed: an unknown key, a step that can never run, an expression that reads what cannot be there, are
 *    errors when the definition is applied, not surprises when a run gets there.
 * 3. The same document gives the same plan.
 */

import { Expressions } from "./expression.ts";
import { Fields, isObject, isOf } from "./fields.ts";
import { type Graph, graphOf } from "./graph.ts";
import { isInherited, isStepId, isWorkflowId, WORKFLOW_LIMITS } from "./limits.ts";
import type { Plan, PlanStep } from "./plan.ts";
import { type Path, type Problem, Problems, problemText } from "./problems.ts";
import { readStep } from "./read-step.ts";
import { handOnLists, repeatedBy } from "./repeat-parallel.ts";
import { checkRules } from "./rules.ts";
import type { StepDraft } from "./step-draft.ts";
import { StepValues } from "./step-values.ts";

export type CompiledWorkflow =
  | { readonly kind: "ok"; readonly plan: Plan }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export function compileWorkflow(document: unknown): CompiledWorkflow {
  const found = planWorkflow(document);
  return found.kind === "ok" ? found : { kind: "bad", problems: found.problems.map(problemText) };
}

/** The same, with the problems as they are: for whoever knows where in a file each place is. */
export function planWorkflow(
  document: unknown,
): { readonly kind: "ok"; readonly plan: Plan } | { readonly kind: "bad"; readonly problems: readonly Problem[] } {
  const problems = new Problems();
  const plan = isPlainAndSmall(document, problems) ? readDocument(document, problems) : null;
  if (plan !== null && problems.all.length === 0) return { kind: "ok", plan };
  return { kind: "bad", problems: problems.all };
}

const KEYS = ["id", "name", "description", "timeout_sec", "input_schema", "output", "steps"];

function readDocument(document: unknown, problems: Problems): Plan | null {
  if (!isObject(document)) {
    problems.add([], `a workflow is a mapping with \`id\` and \`steps\`${isOf(document)}`);
    return null;
  }
  const fields = new Fields(document, [], problems);
  fields.only(KEYS);
  const expressions = new Expressions();
  const values = new StepValues(fields, expressions, false);
  const id = readId(fields);
  fields.text("description", WORKFLOW_LIMITS.descriptionLength);
  const head = {
    id,
    name: fields.text("name", WORKFLOW_LIMITS.nameLength) ?? null,
    timeoutMs: fields.seconds("timeout_sec", WORKFLOW_LIMITS.timeoutSec) ?? null,
    inputSchema: values.schema("input_schema"),
    output: values.template("output"),
  };
  const source = readSteps(fields);
  const known = Object.keys(source);
  const around = repeatedBy(source);
  const drafts = known.flatMap((stepId) => {
    const path = ["steps", stepId];
    const draft = readStep(stepId, source[stepId], path, problems, expressions, around.get(stepId) ?? null);
    return draft === null ? [] : [draft];
  });
  const graph = graphOf(handOnLists(drafts, around), known, problems);
  checkRules(graph, known, values.reads, problems);
  return { ...head, order: graph.order, steps: stepsOf(graph) };
}

function readId(fields: Fields): string {
  const id = fields.get("id");
  if (isWorkflowId(id)) return id;
  const shape = `1 to ${WORKFLOW_LIMITS.idLength} letters, digits or any of \`_ - .\``;
  if (id === undefined) fields.problems.add([], `has no \`id\`: its name, ${shape}`);
  else fields.problem("id", `must be ${shape}${isOf(id)}`);
  return "";
}

/** By their ids; those that cannot be ids are left out, after that was said. */
function readSteps(fields: Fields): Readonly<Record<string, unknown>> {
  if (!fields.has("steps")) fields.problems.add([], "has no `steps`: a mapping from ids to what is done");
  const source =
    fields.map("steps", "must be a mapping from ids to steps, such as `{greet: {topic: demo.echo}}`") ?? {};
  const entries = Object.entries(source);
  if (fields.has("steps") && isObject(fields.get("steps")) && entries.length === 0) {
    fields.problem("steps", "must have at least one step");
  }
  if (entries.length > WORKFLOW_LIMITS.steps) {
    fields.problem(
      "steps",
      `must be at most ${WORKFLOW_LIMITS.steps}, are ${entries.length}; move some to a subworkflow`,
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
  if (id === "fail" || id === "continue") return "cannot be the id of a step: `on_error` means something else by it";
  if (isInherited(id)) return "cannot be the id of a step; choose another";
  if (isStepId(id)) return null;
  return `the id of a step is 1 to ${WORKFLOW_LIMITS.idLength} letters, digits, \`_\` or \`-\``;
}

function stepsOf({ nodes, order, ancestors }: Graph): ReadonlyMap<string, PlanStep> {
  const steps = new Map<string, PlanStep>();
  for (const id of order) {
    const node = nodes.get(id);
    if (node === undefined) continue;
    const { draft, dependsOn, branchOf, handles, arms } = node;
    const dependents = order.filter((other) => nodes.get(other)?.dependsOn.includes(id));
    const place = { dependsOn, dependents, ancestors: ancestors.get(id) ?? new Set<string>(), branchOf, handles, arms };
    steps.set(id, { id, ...placedRest(draft), ...place });
  }
  return steps;
}

function placedRest({ act, onError, rest }: StepDraft): Pick<PlanStep, "act" | "onError" | keyof typeof rest> {
  return { act, onError, ...rest };
}

/** Whatever comes from outside is measured before anything goes through it. */
function isPlainAndSmall(document: unknown, problems: Problems): boolean {
  const open: (readonly [unknown, Path])[] = [[document, []]];
  let length = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [value, path] = next;
    length += typeof value === "string" ? value.length + 2 : 2;
    const isDeep = path.length > WORKFLOW_LIMITS.depth;
    if (length > WORKFLOW_LIMITS.sourceLength || isDeep) {
      const limit = isDeep ? `nested more than ${WORKFLOW_LIMITS.depth} deep` : "larger than 1 MiB";
      problems.add([], `the definition is ${limit}; give what is large to the run as input`);
      return false;
    }
    if (!isPlain(value)) {
      problems.add(path, "is nothing that JSON can say");
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

/** YAML knows more: dates, bytes, infinity. */
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
