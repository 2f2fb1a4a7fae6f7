import type { Placement, Table } from "./table.ts";

/** What operators have done to a pool of workers. A pool without a record takes work. */
export interface Pool {
  readonly name: string;
  readonly createdMs: number;
  /** It gets nothing new; what its workers have, they finish. */
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
