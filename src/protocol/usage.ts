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

const TOKENS_MAX = 1e12;
const USD_MAX = 1e9;
const FIELDS = [
  ["inputTokens", "input_tokens", TOKENS_MAX],
  ["outputTokens", "output_tokens", TOKENS_MAX],
  ["totalTokens", "total_tokens", TOKENS_MAX],
  ["costUsd", "cost_usd", USD_MAX],
] as const;
