// A source file as the rules see it: text, syntax tree, imports. Rules use the tree, so that comments and strings are
// not taken for code.

import { posix } from "node:path";
import { parseAst } from "vitest/node";

export interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

export interface Import {
  /** As written: `../model/job.ts`, `node:fs`, `fastify`. */
  readonly from: string;
  /** Imported names; empty for the whole module. */
  readonly names: readonly string[];
  /** Erased at run time. */
  readonly isTypeOnly: boolean;
  readonly line: number;
}

export interface Source {
  /** From the project's root, with slashes. */
  readonly path: string;
  readonly text: string;
  readonly tree: Node;
  readonly imports: readonly Import[];
}

export interface Violation {
  readonly path: string;
  readonly line: number;
  /** The problem and the fix. */
  readonly message: string;
}

export function parseSource(path: string, text: string): Source {
  const tree = parseAst(text, { lang: path.endsWith("x") ? "tsx" : "ts" }, path) as unknown as Node;
  const imports: Import[] = [];
  visit(tree, (node) => {
    const found = importOf(node, text);
    if (found !== null) imports.push(found);
  });
  return { path, text, tree, imports };
}

export function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}

/** Calls `enter` for every node, parents first; `leave`, if given, afterwards. */
export function visit(node: Node, enter: (node: Node) => void, leave: (node: Node) => void = () => {}): void {
  enter(node);
  for (const child of childrenOf(node)) visit(child, enter, leave);
  leave(node);
}

export function childrenOf(node: Node): Node[] {
  return Object.values(node).flat().filter(isNode);
}

export function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as Node).type === "string";
}

/** The path that a relative import leads to; null when it names a package. */
export function targetOf(source: Source, from: string): string | null {
  return from.startsWith(".") ? posix.join(posix.dirname(source.path), from) : null;
}

function importOf(node: Node, text: string): Import | null {
  const origin = node.source;
  if (!isNode(origin) || typeof origin.value !== "string") return null;
  const specifiers = (Array.isArray(node.specifiers) ? node.specifiers : []) as Node[];
  const isTypeOnly =
    node.type === "TSImportType" ||
    node.importKind === "type" ||
    node.exportKind === "type" ||
    (specifiers.length > 0 && specifiers.every((one) => one.importKind === "type" || one.exportKind === "type"));
  const names = specifiers.map((one) => (isNode(one.imported) ? String(one.imported.name) : "*"));
  return { from: origin.value, names, isTypeOnly, line: lineOf(text, node.start) };
}
