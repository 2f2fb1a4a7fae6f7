/**
 * Text layout of a step graph: one row per step in topological order, with downward lines in lanes.
 *
 * 1. The lane of a step stays open until its last dependent is drawn.
 * 2. The row above a step contains the joins into this step only. Lines that pass through interrupt horizontal lines.
 * 3. Two marks directly below each other are connected.
 * 4. Edges implied by transitivity are not drawn.
 */

export interface GraphNode {
  readonly id: string;
  readonly dependsOn: readonly string[];
}

export interface GraphRow {
  /** Two characters per lane; `MARK` is the step. */
  readonly text: string;
  /** null: a row of lines only. */
  readonly stepId: string | null;
  /** The prefix of continuation lines. */
  readonly below: string;
  /** Vertical lines only; the row may be omitted. */
  readonly isPlain: boolean;
}

/** Placeholder for the state sign of a step. */
export const MARK = "\u0000";

export function layoutGraph(nodes: readonly GraphNode[]): readonly GraphRow[] {
  const order = topologicalOrder(nodes);
  const edges = transitiveReduction(order);
  const left = new Map<string, number>();
  for (const id of [...edges.values()].flat()) left.set(id, (left.get(id) ?? 0) + 1);
  const lanes = new Lanes(left);
  return order.flatMap(({ id }) => lanes.add(id, edges.get(id) ?? []));
}

/** Stable topological order. Unknown and cyclic dependencies are dropped. */
export function topologicalOrder(nodes: readonly GraphNode[]): readonly GraphNode[] {
  const known = new Set(nodes.map(({ id }) => id));
  const rest = nodes.map(({ id, dependsOn }) => ({ id, dependsOn: dependsOn.filter((dep) => known.has(dep)) }));
  const drawn = new Set<string>();
  const order: GraphNode[] = [];
  while (rest.length > 0) {
    const ready = rest.findIndex(({ dependsOn }) => dependsOn.every((dep) => drawn.has(dep)));
    // Only a cycle has no ready step; valid workflows have none.
    const [{ id, dependsOn } = { id: "", dependsOn: [] }] = rest.splice(Math.max(0, ready), 1);
    order.push({ id, dependsOn: [...new Set(dependsOn)].filter((dep) => drawn.has(dep)) });
    drawn.add(id);
  }
  return order;
}

export function transitiveReduction(order: readonly GraphNode[]): ReadonlyMap<string, readonly string[]> {
  const before = new Map<string, ReadonlySet<string>>();
  const edges = new Map<string, readonly string[]>();
  for (const { id, dependsOn } of order) {
    const implied = new Set(dependsOn.flatMap((dep) => [...(before.get(dep) ?? [])]));
    before.set(id, new Set([...dependsOn, ...implied]));
    edges.set(
      id,
      dependsOn.filter((dep) => !implied.has(dep)),
    );
  }
  return edges;
}

const [UP, DOWN, LEFT, RIGHT] = [1, 2, 4, 8] as const;

/** Indexed by the directions of the lines that leave the cell. */
const LINES: readonly string[] = [" ", "│", "│", "│", "─", "╯", "╮", "┤", "─", "╰", "╭", "├", "─", "┴", "┬", "┼"];

class Lanes {
  /** The step whose line occupies the lane. */
  readonly #lanes: (string | null)[] = [];
  /** Dependents of each step that are not drawn yet. */
  readonly #left: Map<string, number>;
  /** Lane of a step without dependents in the row above; see 3. */
  #closed = -1;

  constructor(left: Map<string, number>) {
    this.#left = left;
  }

  add(id: string, deps: readonly string[]): GraphRow[] {
    const from = deps.map((dep) => this.#lanes.indexOf(dep));
    for (const dep of deps) this.#left.set(dep, (this.#left.get(dep) ?? 0) - 1);
    const ending = from.filter((_, at) => this.#left.get(deps[at] ?? "") === 0);
    const lane = ending.length > 0 ? Math.min(...ending) : this.#free();
    const rows = deps.length === 0 ? [] : [this.#joint(from, ending, lane)];
    for (const ended of ending) this.#lanes[ended] = null;
    while (this.#lanes.length <= lane) this.#lanes.push(null);
    const text = this.#lanes.map((held, at) => (at === lane ? MARK : held === null ? " " : "│")).join(" ");
    const hasDependents = (this.#left.get(id) ?? 0) > 0;
    this.#lanes[lane] = hasDependents ? id : null;
    this.#closed = hasDependents ? -1 : lane;
    while (this.#lanes.at(-1) === null) this.#lanes.pop();
    const below = this.#lanes.map((held) => (held === null ? " " : "│")).join(" ");
    return [...rows, { text, stepId: id, below, isPlain: false }];
  }

  /** The leftmost free lane that is not directly below an unrelated step. */
  #free(): number {
    const at = this.#lanes.findIndex((held, index) => held === null && index !== this.#closed);
    if (at >= 0) return at;
    return this.#lanes.length === this.#closed ? this.#closed + 1 : this.#lanes.length;
  }

  /** The row above a step, which joins the lines of its dependencies. */
  #joint(from: readonly number[], ending: readonly number[], lane: number): GraphRow {
    const [first, last] = [Math.min(lane, ...from), Math.max(lane, ...from)];
    const width = Math.max(this.#lanes.length, last + 1);
    let text = "";
    for (let at = 0; at < width; at += 1) {
      const isHeld = (this.#lanes[at] ?? null) !== null;
      const isInside = at >= first && at <= last;
      const isJoined = at === lane || from.includes(at);
      let cell = (isHeld ? UP : 0) | (at === lane || (isHeld && !ending.includes(at)) ? DOWN : 0);
      if (isInside && (isJoined || !isHeld)) cell |= (at > first ? LEFT : 0) | (at < last ? RIGHT : 0);
      text += LINES[cell] + (at >= first && at < last ? "─" : " ");
    }
    return { text: text.trimEnd(), stepId: null, below: "", isPlain: first === last };
  }
}
