/**
 * Entries in the order of (score, id), in chunks: an insert moves at most one chunk, whatever the size of the whole.
 *
 * An entry can be hidden until some time; who looks decides what time it is.
 */
export interface Place {
  readonly score: number;
  readonly id: string;
  hiddenUntilMs: number;
}

export class Sorted {
  readonly #chunks: Place[][] = [];
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
    const there = chunk[at];
    if (there !== undefined && there.score === score && there.id === id) return;
    chunk.splice(at, 0, { score, id, hiddenUntilMs: 0 });
    this.#size += 1;
    if (chunk.length > CHUNK_MAX) this.#chunks.splice(chunkAt + 1, 0, chunk.splice(CHUNK_MAX >> 1));
  }

  remove(score: number, id: string): boolean {
    const chunkAt = this.#chunkOf(score, id);
    const chunk = this.#chunks[chunkAt];
    if (chunk === undefined) return false;
    const at = positionIn(chunk, score, id);
    const there = chunk[at];
    if (there === undefined || there.score !== score || there.id !== id) return false;
    if (chunk.length === 1) this.#chunks.splice(chunkAt, 1);
    else chunk.splice(at, 1);
    this.#size -= 1;
    return true;
  }

  /** Hides up to `limit` entries that are not hidden and have at most this score; the lowest first. */
  claim(scoreMax: number, limit: number, nowMs: number, hiddenUntilMs: number): readonly Place[] {
    const claimed: Place[] = [];
    for (const chunk of this.#chunks) {
      for (const place of chunk) {
        if (place.score > scoreMax || claimed.length >= limit) return claimed;
        if (place.hiddenUntilMs > nowMs) continue;
        place.hiddenUntilMs = hiddenUntilMs;
        claimed.push(place);
      }
    }
    return claimed;
  }

  /** Shows entries that were hidden. */
  show(ids: readonly string[]): void {
    let left = ids.length;
    for (const place of this) {
      if (left === 0) return;
      if (!ids.includes(place.id)) continue;
      place.hiddenUntilMs = 0;
      left -= 1;
    }
  }

  /** Up to `limit` entries behind a place (or from the end that the order begins with). */
  page(order: "newest" | "oldest", behind: { score: number; id: string } | null, limit: number): readonly Place[] {
    const step = order === "oldest" ? 1 : -1;
    const found: Place[] = [];
    let chunkAt = step === 1 ? 0 : this.#chunks.length - 1;
    if (behind !== null) chunkAt = Math.min(this.#chunkOf(behind.score, behind.id), this.#chunks.length - 1);
    for (; chunkAt >= 0 && chunkAt < this.#chunks.length; chunkAt += step) {
      const chunk = this.#chunks[chunkAt]!;
      for (let at = step === 1 ? 0 : chunk.length - 1; at >= 0 && at < chunk.length; at += step) {
        const place = chunk[at]!;
        if (behind !== null && compare(place, behind.score, behind.id) * step <= 0) continue;
        if (found.length >= limit) return found;
        found.push(place);
      }
    }
    return found;
  }

  *[Symbol.iterator](): Generator<Place, void, undefined> {
    for (const chunk of this.#chunks) yield* chunk;
  }

  /** The chunk in which an entry is, or would be put. */
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

function compare(place: Place, score: number, id: string): number {
  if (place.score !== score) return place.score < score ? -1 : 1;
  return place.id === id ? 0 : place.id < id ? -1 : 1;
}

/** The first position in the chunk that is not before (score, id). */
function positionIn(chunk: readonly Place[], score: number, id: string): number {
  let low = 0;
  let high = chunk.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(chunk[middle]!, score, id) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
