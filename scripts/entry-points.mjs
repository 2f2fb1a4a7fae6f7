// The files that dist/ is built from. `exports` of package.json follows from the entries with a specifier.
//
// An entry whose source does not exist is left out.

import { existsSync } from "node:fs";
import { join } from "node:path";

const ENTRY_POINTS = [
  { name: "main", source: "src/main.ts" },
  { name: "index", source: "src/index.ts", specifier: "." },
  { name: "worker", source: "src/worlds/worker-sdk.ts", specifier: "./worker" },
  { name: "client", source: "src/worlds/client-sdk.ts", specifier: "./client" },
  { name: "testing", source: "src/testing/index.ts", specifier: "./testing" },
  { name: "sim", source: "src/sim/simulate.ts", specifier: "./sim" },
  { name: "lab-thread", source: "src/cli/up/lab-thread.ts" },
  { name: "evaluation-thread", source: "src/adapters/node/evaluation-thread.ts" },
];

export function entryPointsIn(root) {
  return ENTRY_POINTS.filter(({ source }) => existsSync(join(root, source)));
}

/** The value of `exports` in package.json. */
export function exportsOf(entryPoints) {
  const modules = entryPoints
    .filter(({ specifier }) => specifier !== undefined)
    .map(({ name, source, specifier }) => [specifier, { types: declarationOf(source), default: `./dist/${name}.js` }]);
  return { ...Object.fromEntries(modules), "./package.json": "./package.json" };
}

function declarationOf(source) {
  return source.replace(/^src\//, "./dist/types/").replace(/\.ts$/, ".d.ts");
}
