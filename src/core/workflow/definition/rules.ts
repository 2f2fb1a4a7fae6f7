import { suggestion } from "../../model/suggestion.ts";
import type { Problems } from "./fields.ts";
import type { Graph, Node, ReadAt } from "./graph.ts";

/** Checks rules across steps. `outputReads`: reads of the workflow's `output`, which may read any step. */
export function checkRules(
  graph: Graph,
  known: readonly string[],
  outputReads: readonly ReadAt[],
  problems: Problems,
): void {
  for (const node of graph.nodes.values()) {
    checkBranches(node, graph, problems);
    checkScope(node, graph, problems);
  }
  checkOutputPaths(graph, problems);
  checkReachable(graph, problems);
  for (const id of graph.order) {
    const { draft } = graph.nodes.get(id) ?? {};
    for (const read of draft?.reads ?? []) checkReads(read, id, graph, known, problems);
  }
  for (const read of outputReads) checkReads(read, null, graph, known, problems);
}

function checkBranches(node: Node, graph: Graph, problems: Problems): void {
  const { draft } = node;
  for (const { kind, to, path } of draft.links) {
    const other = graph.nodes.get(to);
    if (other === undefined || kind === "body") continue;
    if (kind === "branch") checkBranch(node, other, problems, path);
    else if (other.branchOf !== null) {
      const what = `\`${to}\` is a branch of \`${other.branchOf}\``;
      if (kind === "depends_on") problems.add(path, `${what}; depend on \`${other.branchOf}\``);
      else problems.add(path, `${what}; only that step starts it`);
    }
  }
}

const BRANCHING: readonly string[] = ["condition", "switch", "parallel", "loop"];

/** Steps in the body of a loop and steps outside refer to each other only through the loop. */
function checkScope({ draft, loopOf }: Node, graph: Graph, problems: Problems): void {
  if (loopOf !== null && draft.rest.compensate !== null) {
    const problem = "steps of a loop cannot be compensated: an earlier iteration cannot be undone";
    problems.add([...draft.path, "compensate"], `${problem}; use a subworkflow`);
  }
  for (const { kind, to, path } of draft.links) {
    const other = graph.nodes.get(to);
    if (other === undefined || kind === "body" || other.loopOf === loopOf) continue;
    const isDependency = kind === "depends_on";
    if (other.loopOf !== null) {
      const advice = isDependency ? `depend on \`${other.loopOf}\`` : "only steps of the loop may name it";
      problems.add(path, `\`${to}\` is a step of the loop \`${other.loopOf}\`; ${advice}`);
    } else {
      const advice = isDependency ? `set \`depends_on\` on \`${loopOf}\`` : "name a step of the loop";
      problems.add(path, `\`${to}\` is not a step of the loop \`${loopOf}\`; ${advice}`);
    }
  }
}

function checkBranch({ draft }: Node, branch: Node, problems: Problems, path: readonly (string | number)[]): void {
  const { id, act, links, onError, rest } = branch.draft;
  if (branch.branchOf !== draft.id) problems.add(path, `\`${id}\` is already a branch of \`${branch.branchOf}\``);
  if (BRANCHING.includes(act.type)) {
    problems.add(path, `\`${id}\` has type \`${act.type}\`, which cannot be a branch; use a subworkflow`);
  }
  if (act.type === "wait" && rest.forEach !== null) {
    problems.add(path, `\`${id}\` has type \`wait\`, which cannot be repeated by \`for_each\`; use a subworkflow`);
  }
  const own = links.find(({ kind }) => kind === "depends_on");
  if (own !== undefined) {
    problems.add([...branch.draft.path, "depends_on"], `branches start with \`${draft.id}\`; set \`depends_on\` there`);
  }
  if (onError.kind !== "fail") {
    problems.add([...branch.draft.path, "on_error"], `failed branches are counted by \`${draft.id}\`; remove it`);
  }
}

function checkOutputPaths({ nodes }: Graph, problems: Problems): void {
  const seen: { readonly id: string; readonly path: readonly string[] }[] = [];
  for (const [id, { draft }] of nodes) {
    const path = draft.rest.outputPath;
    if (path === null) continue;
    const other = seen.find((one) => isPrefix(one.path, path) || isPrefix(path, one.path));
    if (other !== undefined) {
      const name = other.path.join(".");
      problems.add(
        [...draft.path, "output_path"],
        `conflicts with the \`output_path\` of \`${other.id}\` (\`${name}\`)`,
      );
    }
    seen.push({ id, path });
  }
}

function isPrefix(short: readonly string[], long: readonly string[]): boolean {
  return short.every((part, index) => long[index] === part);
}

/** `id` is null for the workflow's output, which is evaluated after all steps. */
function checkReads(
  { path, reads }: ReadAt,
  id: string | null,
  { nodes, ancestors }: Graph,
  known: readonly string[],
  problems: Problems,
): void {
  const before = readableAt(path, id, { nodes, ancestors, known });
  checkIteration({ path, reads }, id, nodes, problems);
  for (const step of reads.steps) {
    if (before.has(step)) continue;
    if (!known.includes(step)) problems.add(path, `reads \`steps.${step}\`: ${unknownStep(step, known)}`);
    else if (step === id) problems.add(path, `reads \`steps.${step}\`, which is this step${ownHint(path)}`);
    else problems.add(path, `reads \`steps.${step}\`, which does not precede this step; add it to \`depends_on\``);
  }
  if (reads.contextNames.size === 0) return;
  const names = [...before].flatMap((step) => nodes.get(step)?.draft.rest.outputPath?.[0] ?? []);
  for (const name of reads.contextNames) {
    if (name === null || names.includes(name)) continue;
    const hint = suggestion(name, names) || "; set `output_path` on an earlier step";
    problems.add(path, `reads \`context.${name}\`, which is not the \`output_path\` of an earlier step${hint}`);
  }
}

const ownHint = (path: ReadAt["path"]): string =>
  path.includes("compensate") ? "; write `step.output`, or `step.input`" : "";
/** `until` is evaluated after the body. */
function readableAt(
  path: readonly (string | number)[],
  id: string | null,
  { nodes, ancestors, known }: Pick<Graph, "nodes" | "ancestors"> & { readonly known: readonly string[] },
): ReadonlySet<string> {
  if (id === null) return new Set(known);
  const before = ancestors.get(id) ?? new Set<string>();
  const body = isUntil(path, id, nodes);
  return body === null ? before : new Set([...before, ...body]);
}

/** The body of the loop whose `until` is at this path. */
function isUntil(path: readonly (string | number)[], id: string, nodes: Graph["nodes"]): readonly string[] | null {
  const act = nodes.get(id)?.draft.act;
  return act?.type === "loop" && path.at(-1) === "until" ? act.body : null;
}

/** `iteration` and `previous` exist only in loops. */
function checkIteration({ path, reads }: ReadAt, id: string | null, nodes: Graph["nodes"], problems: Problems): void {
  if (!reads.iteration && reads.previous.size === 0) return;
  const loop = nodes.get(id ?? "")?.loopOf ?? null;
  const around = nodes.get(loop ?? "")?.draft.act;
  const body = id === null ? null : around?.type === "loop" ? around.body : isUntil(path, id, nodes);
  if (body === null) {
    const name = reads.iteration ? "iteration" : "previous";
    problems.add(path, `reads \`${name}\`, which exists only in the steps of a loop and in its \`until\``);
    return;
  }
  for (const step of reads.previous) {
    if (body.includes(step)) continue;
    problems.add(path, `reads \`previous.${step}\`, which is not a step of the loop${suggestion(step, body)}`);
  }
}

function unknownStep(step: string, known: readonly string[]): string {
  // CEL reads `steps.my-step` as `steps.my` minus `step`.
  const dashed = known.find((id) => id.startsWith(`${step}-`));
  if (dashed !== undefined) return `unknown step; write \`steps["${dashed}"]\` for an id with \`-\``;
  return `unknown step${suggestion(step, known)}`;
}

/**
 * Detects unreachable steps. The preconditions of a step (chosen arms, failed and succeeded steps) follow from its
 * dependencies; a contradiction makes it unreachable. Sound but incomplete: a condition may always be false.
 */

export function checkReachable({ nodes, order }: Graph, problems: Problems): void {
  const needs = new Map<string, Needs | null>();
  for (const id of order) {
    const node = nodes.get(id);
    if (node === undefined) continue;
    const found = needsOf(node, nodes, needs);
    needs.set(id, found.kind === "ok" ? found.needs : null);
    if (found.kind === "never" && found.why !== null) problems.add(node.draft.path, `unreachable: ${found.why}`);
  }
}

/** Per step: it must have failed, not failed, or chosen one of these arms. */
type Needs = ReadonlyMap<string, Need>;

interface Need {
  readonly hasFailed?: boolean;
  readonly arms?: readonly string[];
}

type Found = { readonly kind: "ok"; readonly needs: Needs } | { readonly kind: "never"; readonly why: string | null };

function needsOf(node: Node, nodes: ReadonlyMap<string, Node>, known: ReadonlyMap<string, Needs | null>): Found {
  const all: Needs[] = [];
  // At least one dependency must have run: what all of them need, this step needs.
  const runnable = node.dependsOn.flatMap((id) => known.get(id) ?? []);
  if (node.dependsOn.length > 0 && runnable.length === 0) return { kind: "never", why: null };
  all.push(common(runnable));
  for (const { stepId, arms } of node.arms) {
    const before = known.get(stepId);
    if (!before) return { kind: "never", why: null };
    // With `for_each`, several arms may be chosen.
    const isRepeated = (nodes.get(stepId)?.draft.rest.forEach ?? null) !== null;
    all.push(before, new Map([[stepId, { hasFailed: false, ...(isRepeated ? {} : { arms }) }]]));
  }
  if (node.handles.length > 0) {
    const failing = node.handles.flatMap((id) => {
      const before = known.get(id);
      return before ? [merged([before, new Map([[id, { hasFailed: true }]])])] : [];
    });
    const possible = failing.flatMap((one) => (one.kind === "ok" ? [one.needs] : []));
    if (possible.length === 0) return { kind: "never", why: null };
    all.push(common(possible));
  }
  for (const id of node.dependsOn) {
    const kind = nodes.get(id)?.draft.onError.kind;
    if (!node.handles.includes(id) && kind !== "continue") all.push(new Map([[id, { hasFailed: false }]]));
  }
  return merged(all);
}

function merged(all: readonly Needs[]): Found {
  const needs = new Map<string, Need>();
  for (const [id, need] of all.flatMap((one) => [...one])) {
    const before = needs.get(id) ?? {};
    if (before.hasFailed !== undefined && need.hasFailed !== undefined && before.hasFailed !== need.hasFailed) {
      return { kind: "never", why: `\`${id}\` would have to both fail and succeed` };
    }
    const arms = before.arms && need.arms ? before.arms.filter((arm) => need.arms?.includes(arm)) : undefined;
    if (arms?.length === 0) {
      const sides = [before.arms, need.arms].map((some) => (some ?? []).map((arm) => `\`${arm}\``).join(" or "));
      return { kind: "never", why: `\`${id}\` would have to choose both ${sides.join(" and ")}` };
    }
    needs.set(id, { ...before, ...need, ...(arms ? { arms } : {}) });
  }
  return { kind: "ok", needs };
}

/** Preconditions shared by all. */
function common(all: readonly Needs[]): Needs {
  const [first, ...rest] = all;
  if (first === undefined) return new Map();
  const needs = new Map<string, Need>();
  for (const [id, need] of first) {
    const others = rest.map((one) => one.get(id));
    const both: { hasFailed?: boolean; arms?: readonly string[] } = {};
    if (need.hasFailed !== undefined && others.every((other) => other?.hasFailed === need.hasFailed)) {
      both.hasFailed = need.hasFailed;
    }
    if (need.arms && others.every((other) => other?.arms)) {
      both.arms = [...new Set([...need.arms, ...others.flatMap((other) => other?.arms ?? [])])];
    }
    if (both.hasFailed !== undefined || both.arms) needs.set(id, both);
  }
  return needs;
}
