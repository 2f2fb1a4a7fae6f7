import type { Usage } from "./packet.ts";

/**
 * A usage report. Numbers of at least 0, in snake or camel case; anything else is left out, because a result is never refused
 * for its report. Undefined if nothing is left.
 */
export function usageIn(value: unknown): Usage | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const fields = value as Readonly<Record<string, unknown>>;
  const usage: { -readonly [K in keyof Usage]: Usage[K] } = {};
  for (const [key, name, max] of FIELDS) {
    const amount = fields[name] ?? fields[key];
    if (typeof amount !== "number" || !(amount >= 0)) continue;
    usage[key] = Math.min(key === "costUsd" ? amount : Math.round(amount), max);
  }
  return Object.keys(usage).length === 0 ? undefined : usage;
}

/** As in the HTTP API. */
export function usageToJson(usage: Usage): Readonly<Record<string, number>> {
  return Object.fromEntries(
    FIELDS.flatMap(([key, name]) => (usage[key] === undefined ? [] : [[name, usage[key]] as const])),
  );
}

/** Of one attempt. The sums of many stay exact integers, also in millionths of a dollar. */
export const USAGE_MAX = { tokens: 1e10, usd: 1e6 } as const;
const FIELDS = [
  ["inputTokens", "input_tokens", USAGE_MAX.tokens],
  ["outputTokens", "output_tokens", USAGE_MAX.tokens],
  ["totalTokens", "total_tokens", USAGE_MAX.tokens],
  ["costUsd", "cost_usd", USAGE_MAX.usd],
] as const;
