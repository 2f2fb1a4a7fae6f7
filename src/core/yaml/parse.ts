/**
 * A YAML or JSON text, parsed in time that grows with its length and not with its square, whatever is in it.
 *
 * 1. A text cannot become more than it is: aliases are refused, and so are keys that are written twice, tags, and a second
 *    document.
 * 2. What is wrong is said with its place. One fault often leads to many: only the first are told.
 */
import { type Document, isScalar, LineCounter, type Node, parseDocument, visit, type YAMLError } from "yaml";

export interface ParsedYaml {
  readonly yaml: Document;
  readonly lines: LineCounter;
  readonly faults: readonly YamlFault[];
}

export interface YamlFault {
  readonly offset: number;
  readonly why: string;
}

export function parseYaml(text: string): ParsedYaml {
  const lines = new LineCounter();
  const yaml = parseDocument(text, { lineCounter: lines, stringKeys: true, ...QUICK });
  const faults = [...yaml.errors, ...yaml.warnings].map((fault) => ({ offset: fault.pos[0], why: faultText(fault) }));
  return { yaml, lines, faults: (faults.length > 0 ? faults : refusedIn(yaml)).slice(0, FAULTS_MAX) };
}

export const startOf = (node: Node | null | undefined): number => node?.range?.[0] ?? 0;

/** Both take time in proportion to the square of what is written. */
const QUICK = { uniqueKeys: false, prettyErrors: false } as const;
const FAULTS_MAX = 20;

/** The parser compares each key with all before it; this takes time in proportion to them. */
function refusedIn(yaml: Document): readonly YamlFault[] {
  const refused: YamlFault[] = [];
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

/** The library's messages in our voice. */
function faultText({ code, message }: YAMLError): string {
  if (code === "MULTIPLE_DOCS") return "a second document begins here; give each a file of its own";
  const line = message.split("\n")[0] ?? message;
  return `${line.slice(0, 1).toLowerCase()}${line.slice(1, 200)}`;
}
