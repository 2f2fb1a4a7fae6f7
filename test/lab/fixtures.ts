import { figureAt, findRow, type Outcome, type RowKey } from "../../src/lab/experiment.ts";
import type { LiveConditions } from "../../src/lab/live.ts";

/** A figure of the first row with this key. Throws when there is none. */
export function figureIn({ rows }: Outcome, key: Partial<RowKey>, path: string): number {
  const row = findRow(rows, key);
  const value = row && figureAt(row.figures, path);
  if (value === undefined || value === null) throw new Error(`no \`${path}\` in ${JSON.stringify(key)}`);
  return value;
}

export const CONDITIONS: LiveConditions = {
  ...{ processes: null, processesMax: 16, latencyMs: 0.05, latencySpread: 0.2, stepMs: 0, nakLookMs: 0 },
  givenParams: new Set<string>(),
};

export const NEVER = new Promise<void>(() => undefined);
