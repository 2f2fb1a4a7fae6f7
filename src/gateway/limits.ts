/**
 * What one caller may take: so many requests a second, so many streams and waiting requests at once.
 *
 * Both are counted in this process alone and in bounded memory: a caller that was forgotten starts anew.
 */
export interface Rate {
  readonly perSecond: number;
  /** How many may come at once after a quiet time. */
  readonly burst: number;
}

interface Bucket {
  tokens: number;
  atMs: number;
}

/** Buckets of tokens, one a caller: a request takes one, time puts them back. */
export class Buckets {
  readonly #buckets = new Map<string, Bucket>();

  /** Whether there was one to take. */
  take(caller: string, nowMs: number, rate: Rate): boolean {
    const bucket = this.#filled(caller, nowMs, rate);
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  left(caller: string, nowMs: number, rate: Rate): number {
    return this.#filled(caller, nowMs, rate).tokens;
  }

  #filled(caller: string, nowMs: number, rate: Rate): Bucket {
    const known = this.#buckets.get(caller);
    if (known) {
      const elapsedMs = Math.max(0, nowMs - known.atMs);
      known.tokens = Math.min(rate.burst, known.tokens + (elapsedMs * rate.perSecond) / 1_000);
      known.atMs = nowMs;
      return known;
    }
    const fresh = { tokens: rate.burst, atMs: nowMs };
    this.#buckets.set(caller, fresh);
    for (const oldest of this.#buckets.keys()) {
      if (this.#buckets.size <= CALLERS_MAX) break;
      this.#buckets.delete(oldest);
    }
    return fresh;
  }
}

export interface PlacesMax {
  readonly perCaller: number;
  readonly all: number;
}

export type Place =
  | { readonly kind: "taken"; readonly leave: () => void }
  | { readonly kind: "full"; readonly current: number; readonly limit: number };

/** Places for those who stay: streams and requests that wait. */
export class Places {
  readonly #max: PlacesMax;
  readonly #byCaller = new Map<string, number>();
  #all = 0;

  constructor(max: PlacesMax) {
    this.#max = max;
  }

  enter(caller: string): Place {
    const current = this.#byCaller.get(caller) ?? 0;
    if (current >= this.#max.perCaller) return { kind: "full", current, limit: this.#max.perCaller };
    if (this.#all >= this.#max.all) return { kind: "full", current: this.#all, limit: this.#max.all };
    this.#byCaller.set(caller, current + 1);
    this.#all += 1;
    let isHere = true;
    const leave = () => {
      if (!isHere) return;
      isHere = false;
      this.#all -= 1;
      const rest = (this.#byCaller.get(caller) ?? 1) - 1;
      if (rest === 0) this.#byCaller.delete(caller);
      else this.#byCaller.set(caller, rest);
    };
    return { kind: "taken", leave };
  }
}

const CALLERS_MAX = 10_000;
