/** What must hold between the steps of a definition. */
import { suggestion } from "../../model/suggestion.ts";
import type { Graph, Node } from "./graph.ts";
import type { Problems } from "./problems.ts";
import { checkReach } from "./reach.ts";
import type { ReadAt } from "./step-draft.ts";

/** `outputReads`: what the workflow's own output reads, which may be of any step. */
export function checkRules(
  graph: Graph,
  known: readonly string[],
  outputReads: readonly ReadAt[],
  problems: Problems,
): void {
  for (const node of graph.nodes.values()) checkBranches(node, graph, problems);
  checkOutputPaths(graph, problems);
  checkReach(graph, problems);
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
    if (other === undefined) continue;
    if (kind === "branch") checkBranch(node, other, problems, path);
    else if (other.branchOf !== null) {
      const what = `\`${to}\` is a branch of \`${other.branchOf}\``;
      if (kind === "depends_on") problems.add(path, `${what}; depend on \`${other.branchOf}\``);
      else problems.add(path, `${what}, which alone starts it`);
    }
  }
}

const BRANCHING: readonly string[] = ["condition", "switch", "parallel"];

function checkBranch({ draft }: Node, branch: Node, problems: Problems, path: readonly (string | number)[]): void {
  const { id, act, links, onError } = branch.draft;
  if (branch.branchOf !== draft.id) problems.add(path, `\`${id}\` is a branch of \`${branch.branchOf}\` already`);
  if (BRANCHING.includes(act.type)) {
    problems.add(path, `\`${id}\` is of the type \`${act.type}\`, which cannot be a branch; make it a subworkflow`);
  }
  const own = links.find(({ kind }) => kind === "depends_on");
  if (own !== undefined) {
    problems.add(
      [...branch.draft.path, "depends_on"],
      `a branch starts with \`${draft.id}\`; give \`depends_on\` to that`,
    );
  }
  if (onError.kind !== "fail") {
    problems.add([...branch.draft.path, "on_error"], `a branch that fails is counted by \`${draft.id}\`; leave it out`);
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
      problems.add([...draft.path, "output_path"], `is where \`${other.id}\` puts its output (\`${name}\`)`);
    }
    seen.push({ id, path });
  }
}

function isPrefix(short: readonly string[], long: readonly string[]): boolean {
  return short.every((part, index) => long[index] === part);
}

/** `id`: the step that reads; null for the workflow's output, which comes after all steps. */
function checkReads(
  { path, reads }: ReadAt,
  id: string | null,
  { nodes, ancestors }: Graph,
  known: readonly string[],
  problems: Problems,
): void {
  const before = id === null ? new Set(known) : (ancestors.get(id) ?? new Set<string>());
  for (const step of reads.steps) {
    if (before.has(step)) continue;
    if (!known.includes(step)) problems.add(path, `reads \`steps.${step}\`, ${unknownStep(step, known)}`);
    else if (step === id) problems.add(path, `reads \`steps.${step}\`, which is this step itself`);
    else problems.add(path, `reads \`steps.${step}\`, which is not before this step; add it to \`depends_on\``);
  }
  const names = [...before].flatMap((step) => nodes.get(step)?.draft.rest.outputPath?.[0] ?? []);
  for (const name of reads.contextNames) {
    if (name === null || names.includes(name)) continue;
    const hint = suggestion(name, names) || "; give a step before it `output_path`";
    problems.add(path, `reads \`context.${name}\`, which no step before it has as its \`output_path\`${hint}`);
  }
}

function unknownStep(step: string, known: readonly string[]): string {
  // `steps.my-step` is `steps.my` minus `step`.
  const dashed = known.find((id) => id.startsWith(`${step}-`));
  if (dashed !== undefined)
    return `and there is no such step; write \`steps["${dashed}"]\` for a name with \`-\` in it`;
  return `and there is no such step${suggestion(step, known)}`;
}
