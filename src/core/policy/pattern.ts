/**
 * Topic patterns and name patterns.
 *
 * 1. A topic pattern is dot-separated tokens. `*` matches one token; a trailing `>` or `**`, or a leading `**`, matches
 *    one or more. Not both: every pattern is indexed by its first or its last tokens.
 * 2. Topics are compared by their dispatch subject: `job.demo.pay` and `demo.pay` reach the same workers, so a rule
 *    about one applies to both.
 * 3. A name pattern is a name, `*`, or a prefix followed by `*`.
 */
import { bareTopic } from "../model/canonical.ts";

/** Compared from the left if open at the end, from the right if open at the start. */
export interface TopicPattern {
  /** Null matches any token. */
  readonly tokens: readonly (string | null)[];
  readonly open: "no" | "begin" | "end";
}

export function parsePattern(pattern: string): TopicPattern {
  const tokens = bareTopic(pattern).split(".");
  const wild = (token: string | undefined) => token === "**" || token === ">";
  const open = wild(tokens.at(-1)) ? "end" : wild(tokens[0]) ? "begin" : "no";
  const named = open === "end" ? tokens.slice(0, -1) : open === "begin" ? tokens.slice(1) : tokens;
  return { tokens: named.map((token) => (token === "*" ? null : token)), open };
}

export function matchesTopic(pattern: TopicPattern, topic: readonly string[]): boolean {
  const { tokens, open } = pattern;
  const surplus = topic.length - tokens.length;
  if (open === "no" ? surplus !== 0 : surplus < 1) return false;
  const from = open === "begin" ? surplus : 0;
  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index];
    if (token !== null && token !== topic[from + index]) return false;
  }
  return true;
}

/** Null if the pattern is valid. */
export function patternProblem(pattern: string): string | null {
  const problem = (text: string) => `\`${pattern}\` is not a topic pattern: ${text}`;
  const tokens = pattern.split(".");
  const wrong = tokens.find((token) => !/^([A-Za-z0-9_-]+|\*|\*\*|>)$/.test(token));
  if (wrong !== undefined) {
    return problem(`\`${wrong}\` is not a valid token; \`*\` matches a whole token, as in \`demo.*\``);
  }
  const bare = bareTopic(pattern).split(".");
  const wild = bare.flatMap((token, index) => (token === "**" || token === ">" ? [index] : []));
  if (wild.length > 1) return problem("`**` is allowed once, at the start or at the end");
  const [at] = wild;
  if (at === undefined || at === bare.length - 1) return null;
  if (bare[at] === ">") return problem("`>` is only allowed at the end; use `**` at the start");
  return at === 0 ? null : problem("`**` is only allowed at the start or at the end");
}

/** Names and prefixes. */
export class NamePatterns {
  readonly names: ReadonlySet<string>;
  readonly #beginnings: readonly string[];

  constructor(patterns: readonly string[]) {
    this.names = new Set(patterns.filter((pattern) => !pattern.endsWith("*")));
    this.#beginnings = patterns.filter((pattern) => pattern.endsWith("*")).map((pattern) => pattern.slice(0, -1));
  }

  /** True without prefixes: then `names` is complete. */
  get isExact(): boolean {
    return this.#beginnings.length === 0;
  }

  has(name: string): boolean {
    if (this.names.has(name)) return true;
    for (const beginning of this.#beginnings) if (name.startsWith(beginning)) return true;
    return false;
  }
}

export function namePatternProblem(pattern: string): string | null {
  return pattern.slice(0, -1).includes("*")
    ? `\`${pattern}\` is not a name pattern: \`*\` is only allowed at the end, as in \`read_*\``
    : null;
}

/** The topic of a canonical request; split into tokens on first use. */
export class Topic {
  readonly bare: string;
  #tokens: readonly string[] | null = null;

  constructor(bare: string) {
    this.bare = bare;
  }

  get tokens(): readonly string[] {
    this.#tokens ??= this.bare.split(".");
    return this.#tokens;
  }
}
