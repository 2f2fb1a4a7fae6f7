/**
 * Steps that can never run.
 *
 * What must have happened for a step to run follows from its dependencies: which arms were chosen, which steps failed, and
 * which did not. Where that contradicts itself the step is named. Whatever is named can never run; not all that can never
 * run is named (a condition may always be false).
 */
import type { Graph, Node } from "./graph.ts";
import type { Problems } from "./problems.ts";

export function checkReach({ nodes, order }: Graph, problems: Problems): void {
  const needs = new Map<string, Needs | null>();
  for (const id of order) {
    const node = nodes.get(id);
    if (node === undefined) continue;
    const found = needsOf(node, nodes, needs);
    needs.set(id, found.kind === "ok" ? found.needs : null);
    if (found.kind === "never" && found.why !== null) problems.add(node.draft.path, `can never run: ${found.why}`);
  }
}

/** Per step what it must have done: failed, or not failed, or chosen one of these arms. */
type Needs = ReadonlyMap<string, Need>;

interface Need {
  readonly hasFailed?: boolean;
  readonly arms?: readonly string[];
}

type Found = { readonly kind: "ok"; readonly needs: Needs } | { readonly kind: "never"; readonly why: string | null };

function needsOf(node: Node, nodes: ReadonlyMap<string, Node>, known: ReadonlyMap<string, Needs | null>): Found {
  const all: Needs[] = [];
  // Somebody before it must have run: what all of them need, it needs.
  const runnable = node.dependsOn.flatMap((id) => known.get(id) ?? []);
  if (node.dependsOn.length > 0 && runnable.length === 0) return { kind: "never", why: null };
  all.push(common(runnable));
  for (const { stepId, arms } of node.arms) {
    const before = known.get(stepId);
    if (!before) return { kind: "never", why: null };
    // Of one that is asked for each item, several arms may run.
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
      return { kind: "never", why: `\`${id}\` would have to fail and to succeed` };
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

/** What every one of them needs. */
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
