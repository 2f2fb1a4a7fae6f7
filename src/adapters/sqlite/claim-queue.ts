/**
 * An ordered line of records as its takers see it: who is hidden, until when.
 *
 * Claims live in memory: the data directory has one process, so the claims of an earlier boot are void at once, and a
 * take costs no write. The order itself is the database's; a lane only knows which of its rows to pass over.
 *
 * 1. A row that was taken is not given again before its lease ends or `moved` is told.
 * 2. Every row in front of the frontier is hidden, so a take begins there: taking a long line in small steps is linear.
 */
export class ClaimQueue {
  readonly #hiddenUntilMs = new Map<string, number>();
  #frontier: Place | null = null;
  /** The first lease to end: from then on, somebody in front of the frontier is visible again. */
  #leaseEndsMs = Number.POSITIVE_INFINITY;

  get isEmpty(): boolean {
    return this.#hiddenUntilMs.size === 0;
  }

  /** `page` answers with rows in order, beginning with the first one at or after a place. */
  take<R extends Place>(claim: Claim, page: (from: Place | null, limit: number) => readonly R[]): readonly R[] {
    const { nowMs, leaseMs, limit } = claim;
    if (nowMs >= this.#leaseEndsMs) this.#expire(nowMs);
    const taken: R[] = [];
    // One more than asked for: a page that begins at the frontier begins with a row that is hidden.
    const pageMax = limit + 1;
    for (let from = this.#frontier; taken.length < limit; ) {
      const rows = page(from, pageMax);
      for (const row of rows) {
        if (taken.length === limit) break;
        from = row;
        const key = keyOf(row);
        if (this.#hiddenUntilMs.has(key)) continue;
        this.#hiddenUntilMs.set(key, nowMs + leaseMs);
        taken.push(row);
      }
      this.#frontier = from;
      if (rows.length < pageMax) break;
    }
    if (taken.length > 0) this.#leaseEndsMs = Math.min(this.#leaseEndsMs, nowMs + leaseMs);
    return taken;
  }

  /** A commit gave the row another place, or none: it is visible there at once. */
  moved(table: string, id: string, score: number | null): void {
    this.#hiddenUntilMs.delete(keyOf({ table, id }));
    // Ids of one score are ordered by the database alone, so a place beside the frontier counts as in front of it.
    if (score !== null && this.#frontier !== null && score <= this.#frontier.score) {
      this.#frontier = { score, table: "", id: "" };
    }
  }

  /** Whoever took them does not want them, or the take did not happen after all. */
  giveBack(rows: readonly Pick<Place, "table" | "id">[]): void {
    for (const row of rows) this.#hiddenUntilMs.delete(keyOf(row));
    this.#frontier = null;
  }

  #expire(nowMs: number): void {
    this.#frontier = null;
    this.#leaseEndsMs = Number.POSITIVE_INFINITY;
    for (const [key, untilMs] of this.#hiddenUntilMs) {
      if (untilMs <= nowMs) this.#hiddenUntilMs.delete(key);
      else this.#leaseEndsMs = Math.min(this.#leaseEndsMs, untilMs);
    }
  }
}

export interface Place {
  readonly score: number;
  readonly table: string;
  readonly id: string;
}

export interface Claim {
  readonly nowMs: number;
  readonly leaseMs: number;
  readonly limit: number;
}

const keyOf = (row: { readonly table: string; readonly id: string }): string => `${row.table}\n${row.id}`;
