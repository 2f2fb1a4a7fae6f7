/**
 * Reads a workflow definition in YAML or JSON.
 *
 * 1. Every problem has a line and column; all are reported at once.
 * 2. Parsing is bounded (see `yaml/parse.ts`), and the text is limited to 1 MiB.
 */
import { type Document, isMap, isScalar, isSeq, type Node } from "yaml";
import { parseYaml, sizeProblem, startOf } from "../../yaml/parse.ts";
import { planWorkflow } from "./compile.ts";
import { type Path, type Problem, problemText } from "./fields.ts";
import { WORKFLOW_LIMITS } from "./limits.ts";
import type { Plan } from "./plan.ts";

export type ReadWorkflow =
  | { readonly kind: "ok"; readonly document: unknown; readonly plan: Plan }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export function readWorkflow({ text, file }: { readonly text: string; readonly file: string }): ReadWorkflow {
  if (text.length > WORKFLOW_LIMITS.sourceLength) {
    return bad([`${file}: larger than 1 MiB; pass large values as run input`]);
  }
  const tooMuch = sizeProblem(text, TOKENS_MAX);
  return tooMuch === null ? readText(text, file) : bad([`${file}: ${tooMuch}; pass large values as run input`]);
}

/** A definition of 256 steps has about 20,000. */
const TOKENS_MAX = 100_000;

function readText(text: string, file: string): ReadWorkflow {
  const { yaml, lines, faults } = parseYaml(text);
  const at = (offset: number) => `${file}:${lines.linePos(offset).line}:${lines.linePos(offset).col}`;
  if (faults.length > 0) return bad(faults.map(({ offset, why }) => `${at(offset)}: ${why}`));
  const document: unknown = yaml.toJS({ maxAliasCount: 0 });
  const found = planWorkflow(document);
  if (found.kind === "ok") return { kind: "ok", document, plan: found.plan };
  const placed = found.problems.map((problem) => ({ offset: offsetOf(yaml, problem), text: problemText(problem) }));
  return bad(placed.sort((a, b) => a.offset - b.offset).map((one) => `${at(one.offset)}: ${one.text}`));
}

/** The offset of a problem; of a missing key, its parent's. */
function offsetOf(yaml: Document, { path, isAboutKey: isAboutName }: Problem): number {
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

function bad(problems: readonly string[]): ReadWorkflow {
  return { kind: "bad", problems };
}
