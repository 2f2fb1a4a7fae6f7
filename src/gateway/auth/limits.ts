import { Problem } from "../problem.ts";

/** Rate and connection limits per caller and per tenant. They are per process and use bounded memory. */
export interface Rate {
  readonly perSecond: number;
  /** Capacity of the bucket. */
  readonly burst: number;
}

interface Bucket {
  tokens: number;
  atMs: number;
}

/** Token buckets by caller. The oldest bucket is evicted above `BUCKETS_MAX`; an evicted caller starts with a full one. */
export class TokenBuckets {
  readonly #buckets = new Map<string, Bucket>();

  /** False when the bucket is empty. */
  take(caller: string, nowMs: number, rate: Rate): boolean {
    const bucket = this.#refill(caller, nowMs, rate);
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  available(caller: string, nowMs: number, rate: Rate): number {
    return this.#refill(caller, nowMs, rate).tokens;
  }

  #refill(caller: string, nowMs: number, rate: Rate): Bucket {
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
      if (this.#buckets.size <= BUCKETS_MAX) break;
      this.#buckets.delete(oldest);
    }
    return fresh;
  }
}

export interface ConnectionLimits {
  readonly perCaller: number;
  readonly perTenant: number;
  readonly all: number;
}

export type ConnectionSlot =
  | { readonly kind: "acquired"; readonly release: () => void }
  | { readonly kind: "full"; readonly current: number; readonly limit: number };

/** Limits concurrent streams and long polls. */
export class ConnectionLimiter {
  readonly #max: ConnectionLimits;
  readonly #byCaller = new Map<string, number>();
  readonly #byTenant = new Map<string, number>();
  #all = 0;

  constructor(max: ConnectionLimits) {
    this.#max = max;
  }

  /** `tenant` is null for operators, who have no tenant limit. */
  acquire(caller: string, tenant: string | null): ConnectionSlot {
    const { perCaller, perTenant, all } = this.#max;
    const ofCaller = this.#byCaller.get(caller) ?? 0;
    const ofTenant = tenant === null ? 0 : (this.#byTenant.get(tenant) ?? 0);
    if (ofCaller >= perCaller) return { kind: "full", current: ofCaller, limit: perCaller };
    if (ofTenant >= perTenant) return { kind: "full", current: ofTenant, limit: perTenant };
    if (this.#all >= all) return { kind: "full", current: this.#all, limit: all };
    this.#add(caller, tenant, 1);
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      this.#add(caller, tenant, -1);
    };
    return { kind: "acquired", release };
  }

  #add(caller: string, tenant: string | null, delta: 1 | -1): void {
    this.#all += delta;
    addTo(this.#byCaller, caller, delta);
    if (tenant !== null) addTo(this.#byTenant, tenant, delta);
  }
}

/** Open event streams by tenant: every event is compared with the filter of each. */
export class StreamQuota {
  readonly #byTenant = new Map<string, number>();

  /** Returns the release; throws if the tenant has `limit` streams. */
  acquire(org: string, limit: number): () => void {
    const current = this.#byTenant.get(org) ?? 0;
    if (current >= limit) {
      const detail = `tenant \`${org}\` has ${current} open event streams; close some of them, or share one between readers`;
      throw new Problem("quota_exceeded", detail, { quota: "streams", current, limit });
    }
    addTo(this.#byTenant, org, 1);
    return () => addTo(this.#byTenant, org, -1);
  }
}

function addTo(counts: Map<string, number>, name: string, delta: 1 | -1): void {
  const count = (counts.get(name) ?? 0) + delta;
  if (count > 0) counts.set(name, count);
  else counts.delete(name);
}

const BUCKETS_MAX = 10_000;
