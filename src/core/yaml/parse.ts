import { type Document, isScalar, Lexer, LineCounter, type Node, parseDocument, visit, type YAMLError } from "yaml";

/**
 * Parses YAML or JSON text in linear time.
 *
 * 1. Aliases, duplicate keys, tags and multiple documents are rejected, so the result is no larger than the text.
 * 2. Faults carry their offset; only the first few are reported.
 */

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
  const yaml = parseDocument(text, { lineCounter: lines, stringKeys: true, ...LINEAR });
  const faults = [...yaml.errors, ...yaml.warnings].map((fault) => ({ offset: fault.pos[0], why: faultText(fault) }));
  return { yaml, lines, faults: (faults.length > 0 ? faults : unsupportedIn(yaml)).slice(0, FAULTS_MAX) };
}

export const startOf = (node: Node | null | undefined): number => node?.range?.[0] ?? 0;

/** Both options are quadratic in the library. */
const LINEAR = { uniqueKeys: false, prettyErrors: false } as const;
const FAULTS_MAX = 20;

/** Linear replacement for the library's duplicate-key check. */
function unsupportedIn(yaml: Document): readonly YamlFault[] {
  const refused: YamlFault[] = [];
  visit(yaml, {
    Alias: (_key, alias) => {
      refused.push({ offset: startOf(alias), why: "aliases are not supported; repeat the value" });
    },
    Map: (_key, { items }) => {
      const names = new Set<string>();
      for (const { key } of items) {
        const name = isScalar(key) ? String(key.value) : "";
        if (names.has(name)) refused.push({ offset: startOf(key as Node), why: `duplicate key \`${name}\`` });
        names.add(name);
      }
    },
  });
  return refused;
}

/** The library's message as one short, lower-case line. */
function faultText({ code, message }: YAMLError): string {
  if (code === "MULTIPLE_DOCS") return "multiple documents are not supported; use one file per document";
  const line = message.split("\n")[0] ?? message;
  return `${line.slice(0, 1).toLowerCase()}${line.slice(1, 200)}`;
}

/** Nested brackets, indicators (`- - -`) per line, columns of indentation. */
const NESTING_MAX = { brackets: 64, indicators: 64, columns: 128 } as const;

/**
 * Checks depth and size before parsing; null if the text can be parsed. The parser takes some microseconds per token and
 * more for each that it reports, and it is recursive: a few thousand brackets
 * exhaust the stack and can end the process. The lexer is not.
 */
export function sizeProblem(text: string, tokensMax: number): string | null {
  let brackets = 0;
  let indicators = 0;
  let tokens = 0;
  let unsupported = 0;
  let before = "\n";
  for (const token of new Lexer().lex(text)) {
    tokens += 1;
    if (tokens > tokensMax) return `has more than ${tokensMax} tokens`;
    // The token after this mark is a scalar.
    const isText = before === SCALAR;
    if (token.endsWith("\n") || isText) indicators = token.endsWith("\n") ? 0 : indicators;
    else if (UNSUPPORTED.has(token.charAt(0))) {
      unsupported += 1;
      if (unsupported > FAULTS_MAX) return "has tags, anchors, aliases or directives, which are not supported";
    } else if (token === "[" || token === "{") brackets += 1;
    else if (token === "]" || token === "}") brackets = Math.max(0, brackets - 1);
    else if (brackets === 0 && (token === "-" || token === "?" || token === ":")) indicators += 1;
    else if (isBlank(token) && before.endsWith("\n") && brackets === 0 && token.length > NESTING_MAX.columns)
      return DEEP;
    if (brackets > NESTING_MAX.brackets || indicators > NESTING_MAX.indicators) return DEEP;
    before = token;
  }
  return null;
}

/** The first characters of tags, anchors, aliases and directives. Few of them are reported by the parser, with a line. */
const UNSUPPORTED: ReadonlySet<string> = new Set(["!", "&", "*", "%"]);
const SCALAR = "\u001f";
const DEEP = "is nested too deeply";

function isBlank(token: string): boolean {
  return token.trim() === "";
}
