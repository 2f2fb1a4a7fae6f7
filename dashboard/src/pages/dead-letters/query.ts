/** The filter of the page, as the address has it. Lists and bulk operations use the same, evaluated by the server (L50). */
import { param } from "../../data/location.ts";

export const FILTERS = ["topic", "reason", "error", "fingerprint", "newer_than", "older_than"] as const;

export type DeadLetterFilter = { readonly [name in (typeof FILTERS)[number]]?: string };

export function filterOfAddress(): DeadLetterFilter {
  const given = FILTERS.map((name) => [name, param(name)] as const).filter(([, value]) => value !== "");
  return Object.fromEntries(given);
}

const TEXTS: { readonly [name in (typeof FILTERS)[number]]: string } = {
  topic: "topic",
  reason: "reason",
  error: "error",
  fingerprint: "group",
  newer_than: "younger than",
  older_than: "older than",
};

/** `topic pay.refund, older than 24h`. */
export function describeFilter(filter: DeadLetterFilter): string {
  const parts = FILTERS.flatMap((name) => (filter[name] === undefined ? [] : [`${TEXTS[name]} ${filter[name]}`]));
  return parts.length === 0 ? "all dead letters" : parts.join(", ");
}

/** Arguments of `cordum dlq retry` and `cordum dlq drop`. */
export function filterFlags(filter: DeadLetterFilter): readonly string[] {
  const flags = FILTERS.flatMap((name) => {
    const value = filter[name];
    return value === undefined ? [] : [`--${name.replaceAll("_", "-")}`, value];
  });
  return flags.length === 0 ? ["--all"] : flags;
}
