import type { ScoreRange } from "../../ports/store.ts";

/** An entry of a sorted set. A claimed entry is hidden until its lease expires. */
export interface SortedEntry {
  readonly score: number;
  readonly id: string;
  hiddenUntilMs: number;
}

/** A sorted set by (score, id), stored in chunks, so that an insert moves at most one chunk. */
export class Sorted {
  readonly #chunks: SortedEntry[][] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(score: number, id: string): void {
    const chunkAt = this.#chunkOf(score, id);
    const chunk = this.#chunks[chunkAt];
    if (chunk === undefined) {
      this.#chunks.push([{ score, id, hiddenUntilMs: 0 }]);
      this.#size += 1;
      return;
    }
    const at = positionIn(chunk, score, id);
    const found = chunk[at];
    if (found !== undefined && found.score === score && found.id === id) return;
    chunk.splice(at, 0, { score, id, hiddenUntilMs: 0 });
    this.#size += 1;
    if (chunk.length > CHUNK_MAX) this.#chunks.splice(chunkAt + 1, 0, chunk.splice(CHUNK_MAX >> 1));
  }

  remove(score: number, id: string): boolean {
    const chunkAt = this.#chunkOf(score, id);
    const chunk = this.#chunks[chunkAt];
    if (chunk === undefined) return false;
    const at = positionIn(chunk, score, id);
    const found = chunk[at];
    if (found === undefined || found.score !== score || found.id !== id) return false;
    if (chunk.length === 1) this.#chunks.splice(chunkAt, 1);
    else chunk.splice(at, 1);
    this.#size -= 1;
    return true;
  }

  /** Claims up to `limit` visible entries with at most this score, lowest first, and hides them. */
  claim(
    scoreMax: number,
    limit: number,
    nowMs: number,
    hiddenUntilMs: number,
    scoreMin = Number.NEGATIVE_INFINITY,
  ): readonly SortedEntry[] {
    const claimed: SortedEntry[] = [];
    for (let chunkAt = this.#chunkOf(scoreMin, ""); chunkAt < this.#chunks.length; chunkAt += 1) {
      for (const entry of this.#chunks[chunkAt]!) {
        if (entry.score > scoreMax || claimed.length >= limit) return claimed;
        if (entry.score < scoreMin || entry.hiddenUntilMs > nowMs) continue;
        entry.hiddenUntilMs = hiddenUntilMs;
        claimed.push(entry);
      }
    }
    return claimed;
  }

  /** Ends the claims of these entries. */
  show(ids: readonly string[]): void {
    let left = ids.length;
    for (const entry of this) {
      if (left === 0) return;
      if (!ids.includes(entry.id)) continue;
      entry.hiddenUntilMs = 0;
      left -= 1;
    }
  }

  /** Up to `limit` entries within a range of scores, after a cursor or from the start of the order. */
  page(
    order: "newest" | "oldest",
    behind: { score: number; id: string } | null,
    limit: number,
    { scoreMin = Number.NEGATIVE_INFINITY, scoreMax = Number.POSITIVE_INFINITY }: ScoreRange = {},
  ): readonly SortedEntry[] {
    const step = order === "oldest" ? 1 : -1;
    const found: SortedEntry[] = [];
    let chunkAt = step === 1 ? 0 : this.#chunks.length - 1;
    if (behind !== null) chunkAt = Math.min(this.#chunkOf(behind.score, behind.id), this.#chunks.length - 1);
    for (; chunkAt >= 0 && chunkAt < this.#chunks.length; chunkAt += step) {
      const chunk = this.#chunks[chunkAt]!;
      for (let at = step === 1 ? 0 : chunk.length - 1; at >= 0 && at < chunk.length; at += step) {
        const entry = chunk[at]!;
        if (behind !== null && compare(entry, behind.score, behind.id) * step <= 0) continue;
        if (entry.score < scoreMin || entry.score > scoreMax) continue;
        if (found.length >= limit) return found;
        found.push(entry);
      }
    }
    return found;
  }

  *[Symbol.iterator](): Generator<SortedEntry, void, undefined> {
    for (const chunk of this.#chunks) yield* chunk;
  }

  /** The index of the chunk that contains the entry, or that it would be inserted into. */
  #chunkOf(score: number, id: string): number {
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      const chunk = chunks[middle]!;
      if (compare(chunk[chunk.length - 1]!, score, id) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const CHUNK_MAX = 256;

/** Entries of several sets in one order. */
export function merged(entries: readonly SortedEntry[], order: "newest" | "oldest"): readonly SortedEntry[] {
  const oldestFirst = entries.toSorted((a, b) => compare(a, b.score, b.id));
  return order === "oldest" ? oldestFirst : oldestFirst.reverse();
}

function compare(entry: SortedEntry, score: number, id: string): number {
  if (entry.score !== score) return entry.score < score ? -1 : 1;
  return entry.id === id ? 0 : entry.id < id ? -1 : 1;
}

/** The first position in the chunk that is not before (score, id). */
function positionIn(chunk: readonly SortedEntry[], score: number, id: string): number {
  let low = 0;
  let high = chunk.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(chunk[middle]!, score, id) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
