import type { PreparedPut } from "./change.ts";
import { type Claim, ClaimQueue, type Place } from "./claim-queue.ts";
import type { Participant } from "./participant.ts";

/**
 * Who has taken which record: one lane for each queue, one for everything that is due.
 * A take is undone when its batch fails; a move is told to the lanes once its batch stands.
 */
export class Claims implements Participant {
  readonly #queues = new Map<string, ClaimQueue>();
  readonly #due = new ClaimQueue();
  #taken: { readonly lane: ClaimQueue; readonly rows: readonly Place[] }[] = [];
  #moved: PreparedPut[] = [];

  takeQueued<R extends Place>(table: string, queue: string, claim: Claim, page: Page<R>): readonly R[] {
    const key = keyOf(table, queue);
    const lane = this.#queues.get(key) ?? new ClaimQueue();
    const rows = this.#take(lane, claim, page);
    if (lane.isEmpty) this.#queues.delete(key);
    else this.#queues.set(key, lane);
    return rows;
  }

  untake(table: string, queue: string, ids: readonly string[]): void {
    const key = keyOf(table, queue);
    const lane = this.#queues.get(key);
    lane?.giveBack(ids.map((id) => ({ table, id })));
    if (lane?.isEmpty) this.#queues.delete(key);
  }

  takeDue<R extends Place>(claim: Claim, page: Page<R>): readonly R[] {
    return this.#take(this.#due, claim, page);
  }

  /** What a put does to the claims on its record. */
  follow(put: PreparedPut): void {
    if (put.isQueueMoved || put.isDueMoved) this.#moved.push(put);
  }

  readonly fill = 0;
  /** Claims are memory alone. */
  tell(): void {}
  recover(): void {}
  handOver(): void {}
  setAside(): void {}
  folded(): void {}

  kept(): void {
    for (const put of this.#moved) this.#move(put);
    if (this.#moved.length > 0) this.#moved = [];
    if (this.#taken.length > 0) this.#taken = [];
  }

  undone(): void {
    for (const { lane, rows } of this.#taken) lane.giveBack(rows);
    this.#taken = [];
    this.#moved = [];
  }

  #take<R extends Place>(lane: ClaimQueue, claim: Claim, page: Page<R>): readonly R[] {
    const rows = lane.take(claim, page);
    if (rows.length > 0) this.#taken.push({ lane, rows });
    return rows;
  }

  #move({ table, id, dueMs, isDueMoved, queue, score, isQueueMoved, queueLeft }: PreparedPut): void {
    if (isDueMoved) this.#due.moved(table, id, dueMs);
    if (!isQueueMoved) return;
    if (queueLeft !== null) this.#moveQueued(table, id, queueLeft, null);
    if (queue !== null) this.#moveQueued(table, id, queue, score);
  }

  #moveQueued(table: string, id: string, queue: string, score: number | null): void {
    const key = keyOf(table, queue);
    const lane = this.#queues.get(key);
    if (!lane) return;
    lane.moved(table, id, score);
    if (lane.isEmpty) this.#queues.delete(key);
  }
}

type Page<R> = (from: Place | null, limit: number) => readonly R[];

const keyOf = (table: string, queue: string): string => `${table}\n${queue}`;
