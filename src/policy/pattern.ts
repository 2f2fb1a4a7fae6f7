/**
 * Topic patterns: tokens joined by dots; `*` stands for one token, `>` or `**` at the end for one or more.
 *
 * Topics are compared as the subjects their work is served on: `job.demo.pay` and `demo.pay` reach the same workers, so
 * a rule about one of them is a rule about both.
 */
export type Token =
  | { readonly kind: "exact"; readonly text: string }
  | { readonly kind: "one" }
  | { readonly kind: "rest" };

/** The tokens of a topic, as patterns see them. */
export function tokensOfTopic(topic: string): readonly string[] {
  return bare(topic).split(".");
}

export function tokensOfPattern(pattern: string): readonly Token[] {
  return bare(pattern)
    .split(".")
    .map((text): Token => {
      if (text === "*") return { kind: "one" };
      return text === ">" || text === "**" ? { kind: "rest" } : { kind: "exact", text };
    });
}

/** What is wrong with a pattern, or null. */
export function patternProblem(pattern: string): string | null {
  const tokens = pattern.split(".");
  const wrong = tokens.find((token) => !/^([A-Za-z0-9_-]+|\*|\*\*|>)$/.test(token));
  if (wrong !== undefined) {
    return `\`${pattern}\` is not a topic pattern: \`${wrong}\` is no token; \`*\` stands for a whole token, as in \`demo.*\``;
  }
  const early = tokens.slice(0, -1).find((token) => token === ">" || token === "**");
  return early === undefined ? null : `\`${pattern}\` is not a topic pattern: \`${early}\` may only stand at the end`;
}

/** Without the prefix that `workSubject` gives to topics that lack it: equal exactly when the subjects are equal. */
function bare(topic: string): string {
  return topic.startsWith("job.") ? topic.slice(4) : topic;
}
