/**
 * A workflow as people write it, in YAML or JSON, read and checked.
 *
 * 1. Every problem has its line and column, and all are told at once.
 * 2. A text cannot become more than it is: aliases are refused, and so are keys that are written twice, tags, and texts of
 *    more than 1 MiB.
 */
import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
  type YAMLError,
} from "yaml";
import { nestingProblem } from "../yaml/nesting.ts";
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
  const tooMuch = nestingProblem(text, TOKENS_MAX);
  return tooMuch === null ? readText(text, file) : bad([`${file}: ${tooMuch}; give what is large to the run as input`]);
}

/** A definition of 256 steps has about 20,000. */
const TOKENS_MAX = 100_000;

function readText(text: string, file: string): ReadWorkflow {
  const lines = new LineCounter();
  const yaml = parseDocument(text, { lineCounter: lines, stringKeys: true, ...QUICK });
  const at = (offset: number) => `${file}:${lines.linePos(offset).line}:${lines.linePos(offset).col}`;
  const faults = [...yaml.errors, ...yaml.warnings];
  if (faults.length > 0) {
    return bad(faults.slice(0, FAULTS_MAX).map((fault) => `${at(fault.pos[0])}: ${faultText(fault)}`));
  }
  const refused = refusedIn(yaml);
  if (refused.length > 0) return bad(refused.slice(0, FAULTS_MAX).map(({ offset, why }) => `${at(offset)}: ${why}`));
  const document: unknown = yaml.toJS({ maxAliasCount: 0 });
  const found = planWorkflow(document);
  if (found.kind === "ok") return { kind: "ok", document, plan: found.plan };
  const placed = found.problems.map((problem) => ({ offset: offsetOf(yaml, problem), text: problemText(problem) }));
  return bad(placed.sort((a, b) => a.offset - b.offset).map((one) => `${at(one.offset)}: ${one.text}`));
}

/** Both take time in proportion to the square of what is written. */
const QUICK = { uniqueKeys: false, prettyErrors: false } as const;
/** One fault often leads to many. */
const FAULTS_MAX = 20;

/** The parser compares each key with all before it; this takes time in proportion to them. */
function refusedIn(yaml: Document): readonly { readonly offset: number; readonly why: string }[] {
  const refused: { offset: number; why: string }[] = [];
  visit(yaml, {
    Alias: (_key, alias) => {
      refused.push({ offset: startOf(alias), why: "aliases are not read; write it out where it is meant" });
    },
    Map: (_key, { items }) => {
      const names = new Set<string>();
      for (const { key } of items) {
        const name = isScalar(key) ? String(key.value) : "";
        if (names.has(name)) refused.push({ offset: startOf(key as Node), why: `\`${name}\` is written twice` });
        names.add(name);
      }
    },
  });
  return refused;
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

/** The library's messages in our voice. */
function faultText({ code, message }: YAMLError): string {
  if (code === "MULTIPLE_DOCS") return "a second document begins here; give each workflow a file of its own";
  const line = message.split("\n")[0] ?? message;
  return `${line.slice(0, 1).toLowerCase()}${line.slice(1, 200)}`;
}
