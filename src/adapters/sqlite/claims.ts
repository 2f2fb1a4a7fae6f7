import type { Participant } from "./commit-executor.ts";
import type { PreparedPut } from "./store.ts";

/**
 * Claims on records: one `ClaimQueue` per queue, one for all due times. Claims live in memory, because the directory has one
 * process: a take costs no write, and a restart voids all claims.
 */
export class Claims implements Participant {
  readonly #queues = new Map<string, ClaimQueue>();
  readonly #due = new ClaimQueue();
  /** Taken and moved by the current batch. */
  #taken: { readonly queue: ClaimQueue; readonly rows: readonly Place[] }[] = [];
  #moved: PreparedPut[] = [];

  takeQueued<R extends Place>(table: string, name: string, claim: Claim, page: ReadPage<R>): readonly R[] {
    const key = queueKey(table, name);
    const queue = this.#queues.get(key) ?? new ClaimQueue();
    const rows = this.#take(queue, claim, page);
    if (queue.isEmpty) this.#queues.delete(key);
    else this.#queues.set(key, queue);
    return rows;
  }

  untake(table: string, name: string, ids: readonly string[]): void {
    const key = queueKey(table, name);
    const queue = this.#queues.get(key);
    queue?.release(ids.map((id) => ({ table, id })));
    if (queue?.isEmpty) this.#queues.delete(key);
  }

  takeDue<R extends Place>(claim: Claim, page: ReadPage<R>): readonly R[] {
    return this.#take(this.#due, claim, page);
  }

  /** Ends the claims on a record that moves, once its batch commits. */
  follow(put: PreparedPut): void {
    if (put.isQueueMoved || put.isDueMoved) this.#moved.push(put);
  }

  readonly fill = 0;
  encodeChanges(): void {}
  replay(): void {}
  collect(): void {}
  freeze(): void {}
  dropFrozen(): void {}

  onCommit(): void {
    for (const put of this.#moved) this.#move(put);
    if (this.#moved.length > 0) this.#moved = [];
    if (this.#taken.length > 0) this.#taken = [];
  }

  onRollback(): void {
    for (const { queue, rows } of this.#taken) queue.release(rows);
    this.#taken = [];
    this.#moved = [];
  }

  #take<R extends Place>(queue: ClaimQueue, claim: Claim, page: ReadPage<R>): readonly R[] {
    const rows = queue.take(claim, page);
    if (rows.length > 0) this.#taken.push({ queue, rows });
    return rows;
  }

  #move({ table, id, dueMs, isDueMoved, queue, score, isQueueMoved, queueLeft }: PreparedPut): void {
    if (isDueMoved) this.#due.move(table, id, dueMs);
    if (!isQueueMoved) return;
    if (queueLeft !== null) this.#moveQueued(table, id, queueLeft, null);
    if (queue !== null) this.#moveQueued(table, id, queue, score);
  }

  #moveQueued(table: string, id: string, name: string, score: number | null): void {
    const key = queueKey(table, name);
    const queue = this.#queues.get(key);
    if (!queue) return;
    queue.move(table, id, score);
    if (queue.isEmpty) this.#queues.delete(key);
  }
}

const queueKey = (table: string, name: string): string => `${table}\n${name}`;

/**
 * The claimed rows of one ordered queue. The order is that of the database; this class knows which rows to skip.
 *
 * 1. A claimed row is not returned again before its lease ends or the row moves.
 * 2. Every row before the frontier is claimed. A take starts there, so draining a long queue in small steps is linear.
 * 3. A take from a given score leaves rows before it free. It has a frontier of its own: every row between the score and that
 *    frontier is claimed.
 */
class ClaimQueue {
  readonly #claimedUntilMs = new Map<string, number>();
  #frontier: Place | null = null;
  /** (3) */
  #window: { readonly fromScore: number; frontier: Place } | null = null;
  /** The earliest end of a lease. From then on, rows before the frontier may be free. */
  #leaseEndsMs = Number.POSITIVE_INFINITY;

  get isEmpty(): boolean {
    return this.#claimedUntilMs.size === 0;
  }

  take<R extends Place>({ nowMs, leaseMs, limit, fromMs }: Claim, readPage: ReadPage<R>): readonly R[] {
    if (nowMs >= this.#leaseEndsMs) this.#expire(nowMs);
    const taken: R[] = [];
    // One more than the limit: the row at the frontier is claimed.
    const pageSize = limit + 1;
    for (let from = this.#startOf(fromMs); taken.length < limit; ) {
      const rows = readPage(from, pageSize);
      for (const row of rows) {
        if (taken.length === limit) break;
        from = row;
        const key = rowKey(row);
        if (this.#claimedUntilMs.has(key)) continue;
        this.#claimedUntilMs.set(key, nowMs + leaseMs);
        taken.push(row);
      }
      if (fromMs === undefined) this.#frontier = from;
      else if (from !== null) this.#window = { fromScore: fromMs, frontier: from };
      if (rows.length < pageSize) break;
    }
    if (taken.length > 0) this.#leaseEndsMs = Math.min(this.#leaseEndsMs, nowMs + leaseMs);
    return taken;
  }

  /** A commit moved the row to `score`, or out of the queue. This ends its claim. */
  move(table: string, id: string, score: number | null): void {
    this.#claimedUntilMs.delete(rowKey({ table, id }));
    if (score === null) return;
    // Only the database can compare ids of equal score, so an equal score counts as before the frontier.
    if (this.#frontier !== null && score <= this.#frontier.score) this.#frontier = firstOf(score);
    if (this.#window !== null && score <= this.#window.frontier.score) this.#window.frontier = firstOf(score);
  }

  release(rows: readonly Pick<Place, "table" | "id">[]): void {
    for (const row of rows) this.#claimedUntilMs.delete(rowKey(row));
    this.#frontier = null;
    this.#window = null;
  }

  #startOf(fromMs: number | undefined): Place | null {
    if (fromMs === undefined) return this.#frontier;
    const window = this.#window !== null && this.#window.fromScore <= fromMs ? this.#window.frontier : null;
    return window !== null && window.score >= fromMs ? window : firstOf(fromMs);
  }

  #expire(nowMs: number): void {
    this.#frontier = null;
    this.#window = null;
    this.#leaseEndsMs = Number.POSITIVE_INFINITY;
    for (const [key, untilMs] of this.#claimedUntilMs) {
      if (untilMs <= nowMs) this.#claimedUntilMs.delete(key);
      else this.#leaseEndsMs = Math.min(this.#leaseEndsMs, untilMs);
    }
  }
}

/** Position of a row in a queue. */
export interface Place {
  readonly score: number;
  readonly table: string;
  readonly id: string;
}

/** The first place of a score. */
const firstOf = (score: number): Place => ({ score, table: "", id: "" });

interface Claim {
  readonly nowMs: number;
  readonly leaseMs: number;
  readonly limit: number;
  /** The score of the first row. */
  readonly fromMs?: number;
}

/** Reads rows in order, starting with the first one at or after `from`. */
type ReadPage<R> = (from: Place | null, limit: number) => readonly R[];

const rowKey = ({ table, id }: { readonly table: string; readonly id: string }): string => `${table}\n${id}`;
