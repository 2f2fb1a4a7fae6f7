/**
 * Walks the chain of an error: the error, its `cause`s and its `errors`, by shape.
 *
 * 1. Breadth-first, `cause` before `errors`: outer errors come first.
 * 2. It terminates: every object is visited once, and at most `NODES_MAX` references are followed.
 * 3. It never throws: properties of proxies or failing getters are treated as absent.
 */

/** Bounds the cost of hostile or runaway chains. */
export const NODES_MAX = 10_000;

export function* chainOf(root: unknown): Generator<object, void, undefined> {
  const seen = new Set<unknown>([root]);
  const queue = isObject(root) ? [root] : [];
  let referencesLeft = NODES_MAX;
  // The queue grows during iteration.
  for (const node of queue) {
    yield node;
    for (const child of childrenOf(node)) {
      referencesLeft -= 1;
      if (referencesLeft <= 0) break;
      if (!isObject(child) || seen.has(child)) continue;
      seen.add(child);
      queue.push(child);
    }
  }
}

/** The members of an aggregate, errors or not. Any array-like object is accepted. */
export function* errorsOf(node: object): Generator<unknown, void, undefined> {
  const errors = read(node, "errors");
  if (!isObject(errors)) return;
  const length = read(errors, "length");
  if (typeof length !== "number") return;
  for (let index = 0; index < Math.min(length, NODES_MAX); index += 1) yield read(errors, String(index));
}

/** Undefined if reading fails. */
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
