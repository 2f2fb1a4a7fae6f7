/**
 * A workflow as people write it, in YAML or JSON, read and checked.
 *
 * 1. Every problem has its line and column, and all are told at once.
 * 2. A text cannot become more than it is: aliases are refused, and so are keys that are written twice, tags, and texts of
 *    more than 1 MiB.
 */
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from "yaml";
import { planWorkflow } from "./compile.ts";
import { WORKFLOW_LIMITS } from "./limits.ts";
import type { Plan } from "./plan.ts";
import { type Path, type Problem, problemText } from "./problems.ts";

export type ReadWorkflow =
  | { readonly kind: "ok"; readonly document: unknown; readonly plan: Plan }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export function readWorkflow({ text, file }: { readonly text: string; readonly file: string }): ReadWorkflow {
  if (text.length > WORKFLOW_LIMITS.sourceLength) {
    return bad([`${file}: larger than 1 MiB; give what is large to the run as input`]);
  }
  try {
    return readText(text, file);
  } catch (error) {
    if (isTooDeep(error)) return bad([`${file}:1:1: nested too deep to be read`]);
    throw error;
  }
}

function readText(text: string, file: string): ReadWorkflow {
  const lines = new LineCounter();
  const yaml = parseDocument(text, { lineCounter: lines, stringKeys: true, logLevel: "silent" });
  const at = (offset: number) => `${file}:${lines.linePos(offset).line}:${lines.linePos(offset).col}`;
  const faults = [...yaml.errors, ...yaml.warnings];
  const deep = faults.find(isTooDeep);
  if (deep) return bad([`${at(deep.pos[0])}: nested too deep to be read`]);
  if (faults.length > 0) {
    return bad(faults.slice(0, FAULTS_MAX).map(({ pos, message }) => `${at(pos[0])}: ${firstLine(message)}`));
  }
  const alias = firstAlias(yaml);
  if (alias !== null) return bad([`${at(alias)}: aliases are not read; write it out where it is meant`]);
  const document: unknown = yaml.toJS({ maxAliasCount: 0 });
  const found = planWorkflow(document);
  if (found.kind === "ok") return { kind: "ok", document, plan: found.plan };
  const placed = found.problems.map((problem) => ({ offset: offsetOf(yaml, problem), text: problemText(problem) }));
  return bad(placed.sort((a, b) => a.offset - b.offset).map((one) => `${at(one.offset)}: ${one.text}`));
}

/** One fault often leads to many. */
const FAULTS_MAX = 20;

/** The parser goes into what is nested by calling itself. */
function isTooDeep(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Maximum call stack size exceeded");
}

function firstAlias(yaml: Document): number | null {
  let offset: number | null = null;
  visit(yaml, (_key, node) => {
    if (!isAlias(node)) return undefined;
    offset = node.range?.[0] ?? 0;
    return visit.BREAK;
  });
  return offset;
}

/** Where the place of a problem is; for what is not there, where it would have to be. */
function offsetOf(yaml: Document, { path, isAboutName }: Problem): number {
  let node: Node | null = yaml.contents as Node | null;
  let offset = startOf(node);
  for (const [index, part] of path.entries()) {
    const found = under(node, part);
    if (found === null) return offset;
    const isLast = index === path.length - 1;
    offset = startOf(isLast && !isAboutName ? (found.value ?? found.name) : (found.name ?? found.value));
    node = found.value;
  }
  return offset;
}

function under(node: Node | null, part: Path[number]): { name: Node | null; value: Node | null } | null {
  if (isSeq(node))
    return typeof part === "number" ? { name: null, value: (node.items[part] ?? null) as Node | null } : null;
  if (!isMap(node)) return null;
  const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(part));
  return pair ? { name: pair.key as Node | null, value: pair.value as Node | null } : null;
}

function startOf(node: Node | null): number {
  return node?.range?.[0] ?? 0;
}

function bad(problems: readonly string[]): ReadWorkflow {
  return { kind: "bad", problems };
}

function firstLine(text: string): string {
  return (text.split("\n")[0] ?? text).replace(/ at line \d+, column \d+:?$/, "").replace(/:$/, "");
}
