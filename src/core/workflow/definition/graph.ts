import { suggestion } from "../../model/suggestion.ts";
import type { Path, Problems } from "./fields.ts";
import type { Act, OnError, PlanStep } from "./plan.ts";
import type { Reads } from "./references.ts";

/**
 * The dependency graph of a definition.
 *
 * 1. The order is topological; ties keep the order of the definition.
 * 2. Every cycle is reported with all its steps.
 */

export interface Node {
  readonly draft: StepDraft;
  /** Declared dependencies and those implied by links of other steps, in definition order. */
  readonly dependsOn: readonly string[];
  readonly branchOf: string | null;
  readonly loopOf: string | null;
  readonly handles: readonly string[];
  readonly arms: readonly { readonly stepId: string; readonly arms: readonly string[] }[];
}

export interface Graph {
  readonly nodes: ReadonlyMap<string, Node>;
  /** Excludes steps in or after cycles. */
  readonly order: readonly string[];
  readonly ancestors: ReadonlyMap<string, ReadonlySet<string>>;
}

/** `known`: all declared ids, including steps that could not be read. */
export function graphOf(drafts: readonly StepDraft[], known: readonly string[], problems: Problems): Graph {
  const links = linksByNode(drafts, known, problems);
  const nodes = new Map(drafts.map((draft) => [draft.id, nodeOf(draft, links.get(draft.id) ?? [], drafts)]));
  const order = orderOf(nodes);
  if (order.length < nodes.size) reportCycles(nodes, new Set(order), problems);
  return { nodes, order, ancestors: ancestorsOf(nodes, order) };
}

interface FromLink extends Link {
  readonly from: string;
}

/** By the step whose dependencies they determine, so that each link is visited once. */
function linksByNode(
  drafts: readonly StepDraft[],
  known: readonly string[],
  problems: Problems,
): ReadonlyMap<string, readonly FromLink[]> {
  const names = new Set(known);
  const links = new Map<string, FromLink[]>(known.map((id) => [id, []]));
  for (const { id: from, links: own } of drafts) {
    for (const link of own) {
      if (names.has(link.to)) links.get(link.kind === "depends_on" ? from : link.to)?.push({ ...link, from });
      // A step of a body that could not be read is reported itself.
      else if (link.kind !== "body")
        problems.add(link.path, `unknown step \`${link.to}\`${suggestion(link.to, known)}`);
    }
  }
  return links;
}

function nodeOf(draft: StepDraft, links: readonly FromLink[], drafts: readonly StepDraft[]): Node {
  const before = new Set<string>();
  const arms = new Map<string, string[]>();
  const handles: string[] = [];
  let branchOf: string | null = null;
  let loopOf: string | null = null;
  for (const { from, kind, to, arm } of links) {
    if (kind === "depends_on") {
      before.add(to);
      continue;
    }
    before.add(from);
    if (kind === "branch") branchOf ??= from;
    if (kind === "body") loopOf ??= from;
    if (kind === "on_error") handles.push(from);
    if (kind === "arm") arms.set(from, [...(arms.get(from) ?? []), arm ?? ""]);
  }
  return {
    draft,
    dependsOn: drafts.map((other) => other.id).filter((other) => before.has(other)),
    branchOf,
    loopOf,
    handles,
    arms: [...arms].map(([stepId, chosen]) => ({ stepId, arms: chosen })),
  };
}

function orderOf(nodes: ReadonlyMap<string, Node>): readonly string[] {
  const done = new Set<string>();
  const open = [...nodes.keys()];
  for (;;) {
    const at = open.findIndex((id) => nodes.get(id)?.dependsOn.every((other) => done.has(other)));
    const next = open[at];
    if (next === undefined) return [...done];
    open.splice(at, 1);
    done.add(next);
  }
}

/** Reports one cycle per affected step, and no step twice. */
function reportCycles(nodes: ReadonlyMap<string, Node>, done: ReadonlySet<string>, problems: Problems): void {
  const reported = new Set<string>();
  const seen = new Set(done);
  const way: string[] = [];
  const visit = (id: string): void => {
    const cycle = way.slice(way.indexOf(id));
    if (way.includes(id) && !cycle.some((other) => reported.has(other))) {
      for (const other of cycle) reported.add(other);
      problems.add(nodes.get(id)?.draft.path ?? [], `${cycleText(cycle)}; remove one of these dependencies`);
    }
    if (seen.has(id)) return;
    seen.add(id);
    way.push(id);
    for (const other of nodes.get(id)?.dependsOn ?? []) visit(other);
    way.pop();
  };
  for (const id of nodes.keys()) visit(id);
}

function cycleText(cycle: readonly string[]): string {
  const [first = "", ...rest] = cycle;
  if (rest.length === 0) return `\`${first}\` depends on itself`;
  const shown = rest.length > CYCLE_SHOWN_MAX ? [...rest.slice(0, CYCLE_SHOWN_MAX), "…"] : rest;
  return `\`${first}\` depends on ${[...shown, first].map((id) => `\`${id}\``).join(", which depends on ")}`;
}

const CYCLE_SHOWN_MAX = 16;

/** Steps that have ended before a step starts. The branches of a `parallel` step and the body of a loop end with it. */
function ancestorsOf(
  nodes: ReadonlyMap<string, Node>,
  order: readonly string[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const ancestors = new Map<string, ReadonlySet<string>>();
  for (const id of order) {
    const { dependsOn = [], branchOf = null, loopOf = null } = nodes.get(id) ?? {};
    const all = new Set<string>();
    for (const other of dependsOn) {
      all.add(other);
      for (const before of ancestors.get(other) ?? []) all.add(before);
      const { act } = nodes.get(other)?.draft ?? {};
      if (act?.type === "parallel" && branchOf !== other) for (const branch of act.branches) all.add(branch);
      if (act?.type === "loop" && loopOf !== other) for (const step of act.body) all.add(step);
    }
    all.delete(id);
    // The loop ends after its body.
    if (loopOf !== null) all.delete(loopOf);
    ancestors.set(id, all);
  }
  return ancestors;
}

/** A step as read, before its place in the graph is known. */

export interface StepDraft {
  readonly id: string;
  readonly path: Path;
  readonly act: Act;
  readonly links: readonly Link[];
  readonly reads: readonly ReadAt[];
  readonly onError: OnError;
  readonly rest: Pick<
    PlanStep,
    | "condition"
    | "forEach"
    | "timeoutMs"
    | "outputPath"
    | "inputSchema"
    | "outputSchema"
    | "input"
    | "retry"
    | "meta"
    | "compensate"
    | "outputBytesMax"
  >;
}

/** A reference to another step. */
export interface Link {
  readonly kind: "depends_on" | "arm" | "branch" | "body" | "on_error";
  readonly to: string;
  readonly path: Path;
  /** The arm's name, for `arm` links. */
  readonly arm?: string;
}

/** Reads of the expression at this path. */
export interface ReadAt {
  readonly path: Path;
  readonly reads: Reads;
}
