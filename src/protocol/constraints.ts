/**
 * What the work must keep to, as workers read it: the names of the wire protocol. The core has the same names in camel
 * case; there are no others in it, so that spelling them otherwise is all there is to do.
 */
export function constraintsOnWire(constraints: object): Readonly<Record<string, unknown>> {
  return snakeCase(constraints) as Readonly<Record<string, unknown>>;
}

function snakeCase(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return Object.fromEntries(entries.map(([name, inner]) => [snakeName(name), snakeCase(inner)]));
}

const snakeName = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Where workers of others find them, as JSON. */
export const CONSTRAINTS_ENV = "CORDUM_CONSTRAINTS";
