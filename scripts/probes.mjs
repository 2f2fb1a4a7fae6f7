// Finds out which test files reach a place of the sources: calls that record it are added to the functions around the places.

import { parseAst } from "vitest/node";

/** In the record: reached outside a test, for example while a module is loaded. Any test may depend on it. */
export const ANY_TEST = "*";

/**
 * The source with calls that append `<place> <test file>` to the file `record`, at least once for each pair. `places` maps
 * the position of a place to its name.
 */
export function withProbes(source, places, record) {
  const root = parseAst(source, { lang: "ts" });
  const inserts = [];
  for (const [position, name] of places) {
    const call = `globalThis.__probe?.(${JSON.stringify(name)})`;
    const body = bodyAround(root, position);
    if (body === null) inserts.push([root.end, `\n${call};`]);
    else if (body.type === "BlockStatement") inserts.push([body.start + 1, `${call};`]);
    else inserts.push([body.start, `(${call}, `], [body.end, ")"]);
  }
  inserts.sort(([a], [b]) => b - a);
  const probed = inserts.reduce((text, [at, insert]) => text.slice(0, at) + insert + text.slice(at), source);
  return `globalThis.__probe ??= (${recorder})(${JSON.stringify(record)}, "${ANY_TEST}");${probed}`;
}

/** The body of the innermost function around the position. Parameters with defaults belong to the function outside. */
function bodyAround(node, position) {
  for (const value of Object.values(node)) {
    for (const inner of Array.isArray(value) ? value : [value]) {
      if (typeof inner?.type !== "string" || position < inner.start || position >= inner.end) continue;
      const found = bodyAround(inner, position);
      if (found !== null) return found;
      const isBody = /Function/.test(node.type) && inner === node.body;
      return isBody ? inner : null;
    }
  }
  return null;
}

/** Runs inside the test process, as text. */
function recorder(record, anyTest) {
  const fs = process.getBuiltinModule("node:fs");
  const last = new Map();
  return (name) => {
    const { filepath, current } = globalThis.__vitest_worker__ ?? {};
    const test = current?.type === "test" ? filepath : anyTest;
    if (last.get(name) === test) return;
    last.set(name, test);
    fs.appendFileSync(record, `${name} ${test}\n`);
  };
}
