/** Equal texts for equal values. The order of a list means something, the order of keys does not. */
export function canonicalText(value: unknown): string {
  return JSON.stringify(canonical(value)) ?? "";
}

function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== "object" || value === null) return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, entry]) => [key, canonical(entry)]);
}
