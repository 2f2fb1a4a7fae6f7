/**
 * The chain of an error: itself, its `cause`s and its `errors`, whatever classes they are of.
 *
 * 1. Outermost first: breadth-first, and on one level the `cause` before the `errors`, these in their order. So the
 *    first finding is the statement of whoever saw the failure last and knew most.
 * 2. It ends: every object is visited once, and no more than `NODES_MAX` places are looked at.
 * 3. It never throws: an error may be a proxy, or have getters that fail; then that part is not there.
 */

/** Far deeper than code wraps errors; a limit so that a hostile or runaway chain costs milliseconds. */
export const NODES_MAX = 10_000;

export function* chainOf(root: unknown): Generator<object, void, undefined> {
  const seen = new Set<unknown>([root]);
  const queue = isObject(root) ? [root] : [];
  let looksLeft = NODES_MAX;
  // The queue grows while it is walked: that is the breadth-first order.
  for (const node of queue) {
    yield node;
    for (const child of childrenOf(node)) {
      looksLeft -= 1;
      if (looksLeft <= 0) break;
      if (!isObject(child) || seen.has(child)) continue;
      seen.add(child);
      queue.push(child);
    }
  }
}

/** The members of an aggregate, whether or not they are errors. Array-like is enough, so a proxy may pose as one. */
export function* errorsOf(node: object): Generator<unknown, void, undefined> {
  const errors = read(node, "errors");
  if (!isObject(errors)) return;
  const length = read(errors, "length");
  if (typeof length !== "number") return;
  for (let index = 0; index < Math.min(length, NODES_MAX); index += 1) yield read(errors, String(index));
}

/** A property, or undefined where reading it fails. */
export function read(node: object, key: string): unknown {
  try {
    return Reflect.get(node, key);
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function* childrenOf(node: object): Generator<unknown, void, undefined> {
  yield read(node, "cause");
  yield* errorsOf(node);
}
