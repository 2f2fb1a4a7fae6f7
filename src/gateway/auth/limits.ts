/**
 * What one caller, and one tenant, may take: so many requests a second, so many streams and waiting requests at once.
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
  readonly perTenant: number;
  readonly all: number;
}

export type Place =
  | { readonly kind: "taken"; readonly leave: () => void }
  | { readonly kind: "full"; readonly current: number; readonly limit: number };

/** Places for those who stay: streams and requests that wait. */
export class Places {
  readonly #max: PlacesMax;
  readonly #byCaller = new Map<string, number>();
  readonly #byTenant = new Map<string, number>();
  #all = 0;

  constructor(max: PlacesMax) {
    this.#max = max;
  }

  /** `tenant`: null for who is of none. */
  enter(caller: string, tenant: string | null): Place {
    const { perCaller, perTenant, all } = this.#max;
    const current = this.#byCaller.get(caller) ?? 0;
    const ofTenant = tenant === null ? 0 : (this.#byTenant.get(tenant) ?? 0);
    if (current >= perCaller) return { kind: "full", current, limit: perCaller };
    if (ofTenant >= perTenant) return { kind: "full", current: ofTenant, limit: perTenant };
    if (this.#all >= all) return { kind: "full", current: this.#all, limit: all };
    addTo(this.#byCaller, caller, 1);
    if (tenant !== null) addTo(this.#byTenant, tenant, 1);
    this.#all += 1;
    let isHere = true;
    const leave = () => {
      if (!isHere) return;
      isHere = false;
      this.#all -= 1;
      addTo(this.#byCaller, caller, -1);
      if (tenant !== null) addTo(this.#byTenant, tenant, -1);
    };
    return { kind: "taken", leave };
  }
}

function addTo(counts: Map<string, number>, name: string, delta: 1 | -1): void {
  const count = (counts.get(name) ?? 0) + delta;
  if (count > 0) counts.set(name, count);
  else counts.delete(name);
}

const CALLERS_MAX = 10_000;
