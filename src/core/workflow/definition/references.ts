/**
 * Static analysis of what an expression reads. Runs load only those values, and definitions that read unavailable
 * values are rejected when they are applied.
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { childrenOf } from "../../expression/metered-source.ts";
import { suggestion } from "../../model/suggestion.ts";
import type { Refs } from "./plan.ts";

export const STEP_FIELDS = ["output", "state", "error"] as const;
const RUN_FIELDS = ["id", "workflow_id", "tenant"] as const;
const OWN_FIELDS = ["input", "output"] as const;
const NAMES: ReadonlySet<string> = new Set(["input", "steps", "context", "run", "item", "index"]);

/** Only in the body of a loop and in its `until`. A macro variable of the same name hides them. */
const LOOP_NAMES: ReadonlySet<string> = new Set(["iteration", "previous"]);

export interface Reads extends Refs {
  /** Top-level names read below `context`; null means all of it. */
  readonly contextNames: ReadonlySet<string | null>;
  /** `item` or `index`. */
  readonly item: boolean;
}

export type FoundReads =
  | { readonly kind: "ok"; readonly reads: Reads }
  | { readonly kind: "bad"; readonly why: string };

/** `hasStep`: `step` is a variable, as in a `compensate`. */
export function readsOf(ast: ASTNode, hasStep = false): FoundReads {
  const steps = new Set<string>();
  const own = new Set<string>();
  const contextNames = new Set<string | null>();
  const previous = new Set<string>();
  const bound = boundNames(ast);
  let [input, item, iteration] = [false, false, false];
  let why: string | null = null;
  const refuse = (problem: string) => {
    why ??= problem;
  };
  const visit = (node: ASTNode): void => {
    const hidden = boundName(node);
    if (hidden !== null && (NAMES.has(hidden) || (hasStep && hidden === "step")))
      refuse(`redefines \`${hidden}\`; choose another variable name`);
    const owner = ownerOf(node);
    if (owner?.of === "run" && !RUN_FIELDS.some((field) => field === owner.name)) {
      refuse(
        `reads \`run.${owner.name}\`${suggestion(owner.name, RUN_FIELDS) || "; a run has `id`, `workflow_id` and `tenant`"}`,
      );
    } else if (owner?.of === "context") {
      contextNames.add(owner.name);
    } else if (owner?.of === "steps") {
      steps.add(owner.name);
    } else if (hasStep && owner?.of === "step") {
      own.add(owner.name);
      if (!OWN_FIELDS.some((field) => field === owner.name))
        refuse(`reads \`step.${owner.name}\`${suggestion(owner.name, OWN_FIELDS) || OWN_HINT}`);
    } else if (hasStep && node.op === "id" && node.args === "step") {
      refuse(`reads \`step\`${OWN_HINT}`);
    } else if (owner?.of === "previous" && !bound.has("previous")) {
      previous.add(owner.name);
    } else if (node.op === "id" && node.args === "previous" && !bound.has("previous")) {
      refuse("must name the step of the previous iteration, as in `previous.fetch.output`");
    } else if (node.op === "id" && node.args === "steps") {
      refuse('must name the step that it reads, as in `steps.fetch.output` or `steps["my-step"].output`');
    } else if (node.op === "id" && node.args === "context") {
      contextNames.add(null);
    } else {
      if (node.op === "id" && node.args === "input") input = true;
      if (node.op === "id" && (node.args === "item" || node.args === "index")) item = true;
      if (node.op === "id" && node.args === "iteration" && !bound.has("iteration")) iteration = true;
      const field = stepFieldOf(node);
      if (field !== null && !STEP_FIELDS.some((known) => known === field.name)) {
        const hint = suggestion(field.name, STEP_FIELDS) || "; a step has `output`, `state` and `error`";
        refuse(`reads \`${field.name}\` of step \`${field.step}\`${hint}`);
      }
      for (const child of childrenOf(node)) visit(child);
    }
  };
  visit(ast);
  if (why !== null) return { kind: "bad", why };
  const context = contextNames.size > 0;
  return { kind: "ok", reads: { steps, input, context, contextNames, item, own, previous, iteration } };
}

const OWN_HINT = "; the step that is undone has `step.input` and `step.output`";

export function mergeReads(all: readonly Reads[]): Reads {
  return {
    steps: new Set(all.flatMap(({ steps }) => [...steps])),
    input: all.some(({ input }) => input),
    context: all.some(({ context }) => context),
    contextNames: new Set(all.flatMap(({ contextNames }) => [...contextNames])),
    item: all.some(({ item }) => item),
    own: new Set(all.flatMap(({ own }) => [...own])),
    previous: new Set(all.flatMap(({ previous }) => [...previous])),
    iteration: all.some(({ iteration }) => iteration),
  };
}

/** The owner and field of `steps.a` or `steps["a"]`. Null if the field is dynamic. */
function ownerOf(node: ASTNode): { readonly of: string; readonly name: string } | null {
  if (node.op !== "." && node.op !== "[]") return null;
  const [owner, field] = node.args;
  const name = typeof field === "string" ? field : field.op === "value" ? field.args : null;
  return owner.op === "id" && typeof name === "string" ? { of: owner.args, name } : null;
}

/** `output` of `steps.a.output`. */
function stepFieldOf(node: ASTNode): { readonly step: string; readonly name: string } | null {
  if (node.op !== "." && node.op !== "[]") return null;
  const [owner, field] = node.args;
  const step = ownerOf(owner);
  const name = typeof field === "string" ? field : field.op === "value" ? field.args : null;
  return (step?.of === "steps" || step?.of === "previous") && typeof name === "string"
    ? { step: step.name, name }
    : null;
}

/** Macro variables that hide a name of loops. */
function boundNames(ast: ASTNode): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (node: ASTNode): void => {
    const name = boundName(node);
    if (name !== null && LOOP_NAMES.has(name)) found.add(name);
    for (const child of childrenOf(node)) visit(child);
  };
  visit(ast);
  return found;
}

/** The variable that a macro or `cel.bind` introduces. */
function boundName(node: ASTNode): string | null {
  if (node.op !== "rcall" || !BINDERS.has(node.args[0])) return null;
  const name = node.args[2][0];
  return name?.op === "id" ? name.args : null;
}

const BINDERS: ReadonlySet<string> = new Set(["all", "exists", "exists_one", "map", "filter", "bind"]);
