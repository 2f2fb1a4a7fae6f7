/**
 * How deep and how long a YAML text is, before anybody parses it.
 *
 * The parser goes into what is nested by calling itself. Some thousand brackets exhaust the stack, and where that happens
 * in the wrong moment the whole process ends, whatever is caught. The lexer does not: so it looks first.
 */
import { Lexer } from "yaml";

/** Brackets in brackets, indicators (`- - -`) on one line, columns of indentation: far more than anybody writes. */
const NESTING_MAX = { brackets: 64, indicators: 64, columns: 128 } as const;

/** In words why a text cannot be parsed; null when it can. `tokensMax`: what it may consist of. */
export function nestingProblem(text: string, tokensMax = Number.POSITIVE_INFINITY): string | null {
  let brackets = 0;
  let indicators = 0;
  let tokens = 0;
  let before = "\n";
  for (const token of new Lexer().lex(text)) {
    tokens += 1;
    if (tokens > tokensMax) return `has more than ${tokensMax} words and signs in it`;
    // What follows this mark is a text, whatever it looks like.
    const isText = before === SCALAR;
    if (token.endsWith("\n") || isText) indicators = token.endsWith("\n") ? 0 : indicators;
    else if (token === "[" || token === "{") brackets += 1;
    else if (token === "]" || token === "}") brackets = Math.max(0, brackets - 1);
    else if (token === "-" || token === "?" || token === ":") indicators += 1;
    else if (isBlank(token) && before.endsWith("\n") && brackets === 0 && token.length > NESTING_MAX.columns)
      return DEEP;
    if (brackets > NESTING_MAX.brackets || (brackets === 0 && indicators > NESTING_MAX.indicators)) return DEEP;
    before = token;
  }
  return null;
}

const SCALAR = "\u001f";
const DEEP = "is nested too deep to be read";

function isBlank(token: string): boolean {
  return token.trim() === "";
}
