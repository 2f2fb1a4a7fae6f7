// Rules on single files, each a function from sources to violations.

import { fileURLToPath } from "node:url";
import { entryPointsIn } from "../../scripts/entry-points.mjs";
import { globalUses } from "./globals.ts";
import { areaOf } from "./layers.ts";
import { isNode, lineOf, type Node, type Source, targetOf, type Violation, visit } from "./source.ts";

const FILE_LINES_MAX = 400;
const FUNCTION_LINES_MAX = 60;
const ENTRY_POINTS = entryPointsIn(fileURLToPath(new URL("../..", import.meta.url))).map(({ source }) => source);
const EMPTY_NAMES = new Set(["util", "utils", "helper", "helpers", "common", "misc"]);

/** Areas that access the real environment; all others receive time, randomness and settings as arguments. */
const OUTSIDE = new Set(["adapters", "worlds", "gateway", "cli", "main"]);
const HIDDEN = new Set([
  ...["Date", "Date.now", "new Date()", "Temporal.Now", "performance", "Math", "Math.random"],
  ...["setTimeout", "setInterval", "setImmediate", "AbortSignal.timeout", "crypto", "fetch", "process", "globalThis"],
]);
/** Every member of these is hidden input: `performance.now`, `process.env`, `crypto.subtle`. */
const HIDDEN_WHOLE = new Set(["performance", "crypto", "process"]);
/** The simulator's timeline drains microtasks between two events; no time passes. */
const EXCEPTED: Readonly<Record<string, readonly string[]>> = {
  "src/sim/timeline.ts": ["setImmediate", "process.nextTick"],
  // Handlers of users run in real time: a handler that hangs is reported after a real limit.
  "src/testing/handler-gate.ts": ["setTimeout"],
};

/** Hidden time, randomness or environment would make the core impossible to simulate and replay. */
export function checkHiddenInputs(sources: readonly Source[]): Violation[] {
  return sources
    .filter(({ path }) => !OUTSIDE.has(areaOf(path)))
    .flatMap((source) =>
      globalUses(source.tree)
        .filter(({ name }) => HIDDEN.has(name) || HIDDEN_WHOLE.has(name.split(".")[0] ?? ""))
        .filter(({ name }) => !EXCEPTED[source.path]?.includes(name))
        .map(({ name, start }) => ({
          path: source.path,
          line: lineOf(source.text, start),
          message: `uses \`${name}\`: take \`now\`, \`random\` or a setting as an argument, or use a port`,
        })),
    );
}

export function checkFileLength(sources: readonly Source[]): Violation[] {
  return sources.flatMap(({ path, text }) => {
    const lines = text.trimEnd().split("\n").length;
    if (lines <= FILE_LINES_MAX || text.startsWith("// Generated from ")) return [];
    return [{ path, line: FILE_LINES_MAX + 1, message: `${lines} lines, ${FILE_LINES_MAX} at most: split it by noun` }];
  });
}

export function checkFunctionLength(sources: readonly Source[]): Violation[] {
  const violations: Violation[] = [];
  for (const { path, text, tree } of sources) {
    visit(tree, (node) => {
      if (!["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"].includes(node.type)) return;
      const first = lineOf(text, node.start);
      const lines = lineOf(text, node.end) - first + 1;
      if (lines <= FUNCTION_LINES_MAX) return;
      const message = `a function of ${lines} lines, ${FUNCTION_LINES_MAX} at most: extract named functions`;
      violations.push({ path, line: first, message });
    });
  }
  return violations;
}

export function checkNames(paths: readonly string[]): Violation[] {
  return paths.flatMap((path) => {
    const empty = path.split("/").find((part) => EMPTY_NAMES.has(part.replace(/\..*$/, "").toLowerCase()));
    if (empty === undefined) return [];
    return [{ path, line: 1, message: `\`${empty}\` is not a name: name the file after its noun` }];
  });
}

/** Only the public API and the indexes of engine folders re-export. */
export function checkBarrels(sources: readonly Source[]): Violation[] {
  return sources
    .filter(({ path }) => !ENTRY_POINTS.includes(path) && !/^src\/engine\/[a-z]+\/index\.ts$/.test(path))
    .flatMap(({ path, text, tree }) => {
      const statements = tree.body as Node[];
      const star = statements.find((statement) => statement.type === "ExportAllDeclaration");
      const isPassedOn = (statement: Node): boolean =>
        statement.type.startsWith("Import") || (statement.type.startsWith("Export") && !isNode(statement.declaration));
      const exports = statements.filter((statement) => statement.type.startsWith("Export"));
      const barrel = star ?? (exports.length > 0 && statements.every(isPassedOn) ? exports[0] : undefined);
      if (barrel === undefined) return [];
      const message = "only re-exports: import from the files themselves";
      return [{ path, line: lineOf(text, barrel.start), message }];
    });
}

export function checkDefaultExports(sources: readonly Source[]): Violation[] {
  return sources.flatMap(({ path, text, tree }) =>
    (tree.body as Node[])
      .filter(
        (statement) =>
          statement.type === "ExportDefaultDeclaration" ||
          (Array.isArray(statement.specifiers) &&
            (statement.specifiers as Node[]).some((one) => isNode(one.exported) && one.exported.name === "default")),
      )
      .map(({ start }) => ({
        path,
        line: lineOf(text, start),
        message: "a default export: export it by name, so that it has one name everywhere",
      })),
  );
}

/** Every file is reached by imports from an entry point of the package. */
export function checkDeadFiles(sources: readonly Source[]): Violation[] {
  const byPath = new Map(sources.map((source) => [source.path, source]));
  const reached = new Set<string>();
  const open = [...ENTRY_POINTS];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    const source = byPath.get(path);
    if (source === undefined || reached.has(path)) continue;
    reached.add(path);
    open.push(...source.imports.map(({ from }) => targetOf(source, from)).filter((target) => target !== null));
  }
  return sources
    .filter(({ path }) => !reached.has(path))
    .map(({ path }) => ({
      path,
      line: 1,
      message: `not reached from ${ENTRY_POINTS.join(", ")}: use it or remove it`,
    }));
}
