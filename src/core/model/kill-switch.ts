import { POOLS, POOLS_LIST } from "./pool.ts";
import type { Placement, Table } from "./table.ts";

/**
 * A kill switch that is engaged: no work of its scope goes out to anybody until somebody releases it.
 *
 * 1. The record is there for as long as it is engaged, and no clock ends it. Who engaged and released it, and why, stands
 *    in the audit log.
 * 2. There is one for each scope, which is the record's id.
 * 3. It stands among the pools that were drained: what keeps work back is read in one look by every process, over and over.
 */
export interface Kill {
  /** A tenant, or `*` for all of them. */
  readonly scope: string;
  readonly reason: string;
  readonly by: string;
  readonly engagedMs: number;
}

export const KILLS: Table<Kill> = {
  name: POOLS.name,
  placement: ({ engagedMs }): Placement => ({
    // The newest are listed first: however many pools there are, it is seen.
    lists: [{ name: POOLS_LIST, score: engagedMs }],
    queue: null,
    counters: [],
    dueMs: null,
  }),
};

/** No pool has such a name. */
export const killId = (scope: string): string => `${PREFIX}${scope}`;
export const isKillId = (id: string): boolean => id.startsWith(PREFIX);

export const EVERY_SCOPE = "*";

/** The switch that keeps the work of an org back; null for none. */
export function killOf(kills: ReadonlyMap<string, Kill>, org: string): Kill | null {
  if (kills.size === 0) return null;
  return kills.get(EVERY_SCOPE) ?? kills.get(org) ?? null;
}

const PREFIX = "kill:";
