// Structure of the tree: import cycles, folder sizes, imports past an index, references to files that do not exist.

import { posix } from "node:path";
import { type Source, targetOf, type Violation } from "./source.ts";
import type { TextFile } from "./words.ts";

const FOLDER_FILES_MAX = 24;
/** Folders whose index is their only entry point. */
const INDEXED = /^(src\/engine\/[a-z]+)\//;

/** Cycles of imports that exist at run time; type-only imports do not count. */
export function checkCycles(sources: readonly Source[]): Violation[] {
  const byPath = new Map(sources.map((source) => [source.path, source]));
  const edges = new Map(sources.map((source) => [source.path, valueImports(source).filter((to) => byPath.has(to))]));
  return components(edges)
    .filter((group) => group.length > 1 || edges.get(group[0] ?? "")?.includes(group[0] ?? ""))
    .map((group) => {
      const [path = "", ...others] = [...group].sort();
      const message = `imports itself through ${others.join(", ") || "itself"}: pass a callback, or move the shared part down`;
      return { path, line: 1, message };
    });
}

function valueImports(source: Source): string[] {
  return source.imports.flatMap(({ from, isTypeOnly }) => {
    const target = isTypeOnly ? null : targetOf(source, from);
    return target === null ? [] : [target];
  });
}

/** Strongly connected components (Tarjan). */
function components(edges: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const groups: string[][] = [];
  const visit = (node: string): void => {
    order.set(node, order.size);
    low.set(node, order.size - 1);
    stack.push(node);
    for (const next of edges.get(node) ?? []) {
      if (!order.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node) ?? 0, low.get(next) ?? 0));
    }
    if (low.get(node) === order.get(node)) groups.push(stack.splice(stack.indexOf(node)));
  };
  for (const node of edges.keys()) if (!order.has(node)) visit(node);
  return groups;
}

export function checkFolderSize(paths: readonly string[]): Violation[] {
  const counts = new Map<string, number>();
  for (const path of paths) counts.set(posix.dirname(path), (counts.get(posix.dirname(path)) ?? 0) + 1);
  return [...counts].flatMap(([path, count]) => {
    // Decisions keep their page, so their number only grows; pictures are taken by a script.
    if (count <= FOLDER_FILES_MAX || path === "docs/decisions" || path === "docs/dashboard") return [];
    return [
      { path, line: 1, message: `${count} files, ${FOLDER_FILES_MAX} at most: a prefix that repeats is a folder` },
    ];
  });
}

/** Code outside an indexed folder imports its index, not the files behind it. */
export function checkIndexImports(sources: readonly Source[]): Violation[] {
  return sources.flatMap((source) =>
    source.imports.flatMap(({ from, line }) => {
      const target = targetOf(source, from);
      const folder = target?.match(INDEXED)?.[1];
      if (folder === undefined || source.path.startsWith(`${folder}/`) || target === `${folder}/index.ts`) return [];
      return [
        { path: source.path, line, message: `imports \`${from}\` past \`${folder}/index.ts\`: import the index` },
      ];
    }),
  );
}

/** Paths of this repository that a text mentions must exist. */
export function checkReferences(files: readonly TextFile[], paths: readonly string[]): Violation[] {
  const known = new Set(paths);
  return files
    .filter(({ path }) => /\.md$|^src\/.*\.ts$/.test(path) && path !== "CHANGELOG.md")
    .flatMap(({ path, text }) =>
      text.split("\n").flatMap((line, index) =>
        [...line.matchAll(REFERENCE)].flatMap(([, reference = ""]) => {
          if (known.has(reference)) return [];
          return [{ path, line: index + 1, message: `refers to \`${reference}\`, which does not exist` }];
        }),
      ),
    );
}

const REFERENCE = /(?<![\w./-])((?:src|test|bench|docs|scripts|examples)\/[\w./-]+\.(?:ts|mjs|md|yaml|proto))\b/g;
