/**
 * A kind of record, and where a record of that kind stands.
 *
 * Everything that can be derived from a record (which lists show it, which queue it waits in, what it counts towards,
 * when somebody must look at it) is derived here, by a pure function. So a slot cannot leak and an index cannot lie:
 * they change with the record, in the same commit, or not at all.
 */
export interface Table<T> {
  readonly name: string;
  placement(value: T): Placement;
}

export interface Placement {
  /** Lists that show the record. The score is immutable for a given list: usually the time of creation. */
  readonly lists: readonly Entry[];
  /** The queue it waits in; lowest score first. */
  readonly queue: Entry | null;
  readonly counters: readonly CounterName[];
  /** When the sweeper must look at it; null for never. */
  readonly dueMs: number | null;
}

export interface Entry {
  readonly name: string;
  /** An integer from 0 to 2^52 - 1. */
  readonly score: number;
}

/** Counters come in groups, so that "which topics have a backlog" is one look-up. */
export interface CounterName {
  readonly group: string;
  readonly name: string;
}
