import type { Table } from "../../core/model/table.ts";
import type { Index, ScoreRange, Versioned } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

/**
 * One page of a bulk operation: the records of an index, oldest first, each changed in a commit of its own.
 *
 * 1. The state of the operation is its cursor, so it survives a restart of any process. A record leaves the index in the commit
 *    that changes it: repeating a page, also concurrently, changes nothing twice.
 * 2. `range` ends at the start of the operation: later records are not part of it.
 */
export interface BulkPages<T> {
  readonly table: Table<T>;
  readonly index: Index;
  readonly range: ScoreRange;
  readonly limit: number;
  readonly cursor: string | undefined;
}

export interface BulkPage<T, O> {
  readonly done: number;
  /** Left unchanged; they stay in the index, before the cursor. */
  readonly rejected: readonly Handled<T, O>[];
  /** A limit stopped the page; `cursor` is before the records that it stopped. */
  readonly stopped: Handled<T, O> | null;
  readonly cursor: string | undefined;
  readonly isEnd: boolean;
}

export interface Handled<T, O> {
  readonly record: Versioned<T>;
  readonly outcome: O;
}

/** `gone`: another request was first. */
export type Verdict = "done" | "rejected" | "stopped" | "gone";

export async function changePage<T, O>(
  engine: Needs<"world">,
  { table, index, range, limit, cursor: start }: BulkPages<T>,
  change: (record: Versioned<T>) => Promise<O>,
  verdictOf: (outcome: O) => Verdict,
): Promise<BulkPage<T, O>> {
  const rejected: Handled<T, O>[] = [];
  let cursor = start;
  let done = 0;
  for (let seen = 0; seen < limit; seen += CHUNK) {
    const query = { ...range, index, limit: Math.min(CHUNK, limit - seen), cursor };
    const page = await engine.world.store.list(table, { ...query, order: "oldest" });
    const handled = await Promise.all(page.items.map(async (record) => ({ record, outcome: await change(record) })));
    const all = (verdict: Verdict) => handled.filter(({ outcome }) => verdictOf(outcome) === verdict);
    done += all("done").length;
    const [stopped = null] = all("stopped");
    if (stopped !== null) return { done, rejected, stopped, cursor, isEnd: false };
    rejected.push(...all("rejected"));
    if (page.cursor === null) return { done, rejected, stopped, cursor, isEnd: true };
    cursor = page.cursor;
  }
  return { done, rejected, stopped: null, cursor, isEnd: false };
}

/** Commits in flight at a time. */
const CHUNK = 10;
