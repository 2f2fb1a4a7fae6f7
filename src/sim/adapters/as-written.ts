import { applyPatch, diff, type Patch } from "../../ports/record-patch.ts";
import type { Put } from "../../ports/store.ts";

/**
 * What a store is handed, looked at as closely as a test can afford.
 *
 * 1. It is a document: what is none a real store could not write.
 * 2. It is frozen, with all that is in it: values are never changed in place.
 * 3. What was told to stand there before does: a store that writes only what has changed since ends up with the same.
 */
export function asWritten({ table, id, value, before, expect }: Put, stored: unknown): unknown {
  const whole = JSON.stringify(value);
  const patch = expect === null ? null : diff(before, value);
  if (patch !== null) {
    const pieced = applyPatch(JSON.parse(JSON.stringify(stored)), JSON.parse(JSON.stringify(patch)) as Patch);
    if (JSON.stringify(pieced) !== whole && inOrder(pieced) !== inOrder(JSON.parse(whole))) {
      throw new Error(`${table} \`${id}\` was based on something else than version ${expect} of it`);
    }
  }
  return deepFrozen(value);
}

/** Whatever the order of its fields was. */
function inOrder(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

function deepFrozen(value: unknown): unknown {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value) && !ArrayBuffer.isView(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFrozen(inner);
  }
  return value;
}
