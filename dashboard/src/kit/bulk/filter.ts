/** A filter as the address has it. Lists and bulk operations use the same, evaluated by the server (L50). */
import { param } from "../../data/location.ts";
import type { BulkFilter } from "./operation.ts";

export function filterOfAddress(names: readonly string[]): BulkFilter {
  return Object.fromEntries(names.map((name) => [name, param(name)] as const).filter(([, value]) => value !== ""));
}

/** `topic pay.refund, older than 24h`; `texts` name the filters in their order. */
export function describeFilter(filter: BulkFilter, texts: Readonly<Record<string, string>>, all: string): string {
  const parts = Object.entries(texts).flatMap(([name, text]) =>
    filter[name] === undefined ? [] : [`${text} ${filter[name]}`],
  );
  return parts.length === 0 ? all : parts.join(", ");
}
