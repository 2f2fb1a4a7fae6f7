/**
 * Where the steps of a run stand on a screen, and the lines between them: one row a step, each below everything that it
 * depends on, and lines that only ever go down.
 *
 * 1. A line that several steps follow from runs on at the side until the last of them has been drawn.
 * 2. The row between two steps belongs to the lower one: whatever is joined sideways in it leads into that step. A line
 *    that only passes through is not joined, and interrupts what it crosses. So the edges can be read off the picture.
 * 3. Two marks right below each other, with or without a line between, are joined.
 * 4. An edge that follows from others (`a` before `b` before `c`, and `a` before `c`) is not drawn.
 */

export interface GraphNode {
  readonly id: string;
  readonly dependsOn: readonly string[];
}

export interface GraphRow {
  /** Two characters a lane; a mark is `MARK`. */
  readonly text: string;
  /** null: a row of lines alone. */
  readonly stepId: string | null;
  /** Beside what is told of the step in further lines. */
  readonly below: string;
  /** Nothing but lines that go straight down: the picture says the same without it. */
  readonly isPlain: boolean;
}

/** Stands for the sign of the step's state, which is the business of who paints it. */
export const MARK = "\u0000";

export function graphOf(nodes: readonly GraphNode[]): readonly GraphRow[] {
  const order = downwards(nodes);
  const edges = withoutImplied(order);
  const left = new Map<string, number>();
  for (const id of [...edges.values()].flat()) left.set(id, (left.get(id) ?? 0) + 1);
  const lanes = new Lanes(left);
  return order.flatMap(({ id }) => lanes.add(id, edges.get(id) ?? []));
}

/** Each after all that it depends on, else as given. What is unknown, or would point upwards, is left out. */
export function downwards(nodes: readonly GraphNode[]): readonly GraphNode[] {
  const known = new Set(nodes.map(({ id }) => id));
  const rest = nodes.map(({ id, dependsOn }) => ({ id, dependsOn: dependsOn.filter((dep) => known.has(dep)) }));
  const drawn = new Set<string>();
  const order: GraphNode[] = [];
  while (rest.length > 0) {
    const ready = rest.findIndex(({ dependsOn }) => dependsOn.every((dep) => drawn.has(dep)));
    // None is ready only in a circle, which no workflow has; shown all the same, for whoever has to see it.
    const [{ id, dependsOn } = { id: "", dependsOn: [] }] = rest.splice(Math.max(0, ready), 1);
    order.push({ id, dependsOn: [...new Set(dependsOn)].filter((dep) => drawn.has(dep)) });
    drawn.add(id);
  }
  return order;
}

/** The edges of each step that do not follow from other edges. */
export function withoutImplied(order: readonly GraphNode[]): ReadonlyMap<string, readonly string[]> {
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

/** By the directions in which a line leaves the cell. */
const LINES: readonly string[] = [" ", "│", "│", "│", "─", "╯", "╮", "┤", "─", "╰", "╭", "├", "─", "┴", "┬", "┼"];

class Lanes {
  /** The step whose line runs in the lane. */
  readonly #lanes: (string | null)[] = [];
  /** How many steps are still to be drawn that follow from one. */
  readonly #left: Map<string, number>;
  /** A step without followers, in the row above: nothing may stand right below it. */
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
    const goesOn = (this.#left.get(id) ?? 0) > 0;
    this.#lanes[lane] = goesOn ? id : null;
    this.#closed = goesOn ? -1 : lane;
    while (this.#lanes.at(-1) === null) this.#lanes.pop();
    const below = this.#lanes.map((held) => (held === null ? " " : "│")).join(" ");
    return [...rows, { text, stepId: id, below, isPlain: false }];
  }

  /** The leftmost lane that nothing runs in, but not right below a step that it has nothing to do with. */
  #free(): number {
    const at = this.#lanes.findIndex((held, index) => held === null && index !== this.#closed);
    if (at >= 0) return at;
    return this.#lanes.length === this.#closed ? this.#closed + 1 : this.#lanes.length;
  }

  /** The row above a step: the lines of what it depends on come together in its lane. */
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
