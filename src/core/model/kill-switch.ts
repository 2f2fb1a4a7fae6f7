import type { Placement, Table } from "./table.ts";

/** Operator settings of a worker pool. A pool without a record accepts jobs. */
export interface Pool {
  readonly name: string;
  readonly createdMs: number;
  /** Gets no new jobs; running jobs finish. */
  readonly isDraining: boolean;
  readonly by: string;
  readonly atMs: number;
}

export const POOLS: Table<Pool> = {
  name: "pool",
  placement: ({ createdMs }): Placement => ({
    lists: [{ name: POOLS_LIST, score: createdMs }],
    queue: null,
    counters: [],
    dueMs: null,
  }),
};

export const POOLS_LIST = "pools";
export const isPoolName = (text: string): boolean => /^[A-Za-z0-9_.-]{1,64}$/.test(text);

/**
 * An engaged kill switch: no job of its scope is dispatched until it is released.
 *
 * 1. The record exists while the switch is engaged. No timer removes it. The audit log shows who engaged and released
 *    it.
 * 2. There is one per scope; the scope is part of the record's id.
 * 3. It shares the table of draining pools, because every process polls both in one read.
 */
export interface Kill {
  /** A tenant, or `*` for all. */
  readonly scope: string;
  readonly reason: string;
  readonly by: string;
  readonly engagedMs: number;
}

export const KILLS: Table<Kill> = {
  name: POOLS.name,
  placement: ({ engagedMs }): Placement => ({
    // Listed newest first, so it is seen however many pools there are.
    lists: [{ name: POOLS_LIST, score: engagedMs }],
    queue: null,
    counters: [],
    dueMs: null,
  }),
};

/** Not a valid pool name. */
export const killId = (scope: string): string => `${PREFIX}${scope}`;
export const isKillId = (id: string): boolean => id.startsWith(PREFIX);

export const EVERY_SCOPE = "*";

/** The switch that covers a tenant; null if none. */
export function killOf(kills: ReadonlyMap<string, Kill>, org: string): Kill | null {
  if (kills.size === 0) return null;
  return kills.get(EVERY_SCOPE) ?? kills.get(org) ?? null;
}

const PREFIX = "kill:";
