/**
 * A record type and its indexes. Lists, queues, counters and due times are derived from the record by a pure function
 * and change in the same commit: slots cannot leak and indexes cannot diverge.
 */
export interface Table<T> {
  readonly name: string;
  placement(value: T): Placement;
}

export interface Placement {
  /** The score is immutable for a given list: usually the creation time. */
  readonly lists: readonly Entry[];
  /** Lowest score first. */
  readonly queue: Entry | null;
  readonly counters: readonly Count[];
  /** When the sweeper processes the record; null for never. */
  readonly dueMs: number | null;
}

export interface Entry {
  readonly name: string;
  /** An integer from 0 to 2^52 - 1. */
  readonly score: number;
}

/** Grouped, so that "which topics have a backlog" is one read. */
export interface CounterName {
  readonly group: string;
  readonly name: string;
}

/** A counter, and what one record adds to it: 1 if `by` is absent. */
export interface Count extends CounterName {
  /** A positive integer. */
  readonly by?: number;
}

/** For values under construction. */
export type Writable<T> = { -readonly [K in keyof T]: T[K] };
