import type { Handlers } from "./operations.ts";

// What travels to the scribe together, and what comes back.

export type Call = readonly [name: keyof Handlers, ...args: unknown[]];

export interface Batch {
  /** Nobody waits for the answers of these. */
  readonly piggybacked: readonly Call[];
  readonly changes: readonly Call[];
  readonly reads: readonly Call[];
}

export interface Answers {
  /** Those of the changes, then those of the reads. */
  readonly results: readonly unknown[];
  /** In the same order; null when all is well. */
  readonly failures: readonly (Failure | null)[] | null;
  readonly trouble: (Failure & { readonly calls: number }) | null;
}

export interface Failure {
  /** Whose fault it is: one of the calls, or the transaction's. */
  readonly stage: "call" | "commit";
  /** The disk is at fault, not what was asked: it makes sense to try again. */
  readonly isPassing: boolean;
  readonly text: string;
}

export function sizeOf({ piggybacked, changes, reads }: Batch): number {
  return piggybacked.length + changes.length + reads.length;
}

export function failed(batch: Batch, failure: Failure): Answers {
  const failures = Array<Failure>(batch.changes.length + batch.reads.length).fill(failure);
  return { results: [], failures, trouble: { ...failure, calls: sizeOf(batch) } };
}

export function failureOf(stage: Failure["stage"], error: unknown): Failure {
  const { errcode, sqliteCode } = error as { errcode?: number; sqliteCode?: number };
  const isPassing = stage === "commit" || PASSING.has((errcode ?? sqliteCode ?? 0) & 0xff);
  return { stage, isPassing, text: error instanceof Error ? error.message : String(error) };
}

/** SQLite's codes for a state of the machine: busy, locked, no memory, read only, I/O, corrupt, full, cannot open. */
const PASSING: ReadonlySet<number> = new Set([5, 6, 7, 8, 10, 11, 13, 14]);
