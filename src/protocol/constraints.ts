/** Policy constraints with the field names of the wire protocol: snake case instead of camel case. */
export function constraintsOnWire(constraints: object): Readonly<Record<string, unknown>> {
  return snakeCase(constraints) as Readonly<Record<string, unknown>>;
}

function snakeCase(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return Object.fromEntries(entries.map(([name, inner]) => [snakeName(name), snakeCase(inner)]));
}

const snakeName = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Environment variable from which third-party workers read the constraints as JSON. */
export const CONSTRAINTS_ENV = "CORDUM_CONSTRAINTS";
