/**
 * Topic patterns and name patterns.
 *
 * 1. A topic pattern is tokens joined by dots. `*` stands for one token, `>` or `**` at the end for one or more, `**` at
 *    the beginning for one or more. Not both at once: every pattern is found from its first or from its last tokens.
 * 2. Topics are compared as the subjects their work is served on: `job.demo.pay` and `demo.pay` reach the same workers,
 *    so a rule about one of them is a rule about both.
 * 3. A name pattern is a name, `*` for any, or the beginning of names with `*` at the end.
 */

/** Reads left to right where it is open at the end, and right to left where it is open at the beginning. */
export interface TopicPattern {
  /** Null stands for any one token. */
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

/** What is wrong with a pattern, or null. */
export function patternProblem(pattern: string): string | null {
  const problem = (text: string) => `\`${pattern}\` is not a topic pattern: ${text}`;
  const tokens = pattern.split(".");
  const wrong = tokens.find((token) => !/^([A-Za-z0-9_-]+|\*|\*\*|>)$/.test(token));
  if (wrong !== undefined) {
    return problem(`\`${wrong}\` is no token; \`*\` stands for a whole token, as in \`demo.*\``);
  }
  const bare = bareTopic(pattern).split(".");
  const wild = bare.flatMap((token, index) => (token === "**" || token === ">" ? [index] : []));
  if (wild.length > 1) return problem("`**` may stand at the beginning or at the end, not twice");
  const [at] = wild;
  if (at === undefined || at === bare.length - 1) return null;
  if (bare[at] === ">") return problem("`>` may only stand at the end; at the beginning write `**`");
  return at === 0 ? null : problem("`**` may only stand at the beginning or at the end");
}

/** Without the prefix that `workSubject` gives to topics that lack it: equal exactly when the subjects are equal. */
export function bareTopic(topic: string): string {
  return topic.startsWith("job.") ? topic.slice(4) : topic;
}

/** Names, some of them patterns. */
export class NamePatterns {
  readonly names: ReadonlySet<string>;
  readonly #beginnings: readonly string[];

  constructor(patterns: readonly string[]) {
    this.names = new Set(patterns.filter((pattern) => !pattern.endsWith("*")));
    this.#beginnings = patterns.filter((pattern) => pattern.endsWith("*")).map((pattern) => pattern.slice(0, -1));
  }

  /** Whether no pattern is among them: then the names alone say what can match. */
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
    ? `\`${pattern}\` is not a name pattern: \`*\` may only stand at the end, as in \`read_*\``
    : null;
}
