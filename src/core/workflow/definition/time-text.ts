/**
 * A time as RFC 3339 writes it, in milliseconds; null for anything else. `Date.parse` alone takes `5` for a day in May 2001,
 * and a time without its zone for one of the machine's.
 */
export function timeOf(value: unknown): number | null {
  if (typeof value !== "string" || !RFC3339.test(value)) return null;
  const atMs = Date.parse(value);
  return Number.isNaN(atMs) ? null : atMs;
}

const RFC3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;
