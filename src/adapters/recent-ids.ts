/**
 * Ids seen in the last minutes, in bounded memory: two generations, of which the older is forgotten as a whole.
 * An id is remembered for at least half of `forMs`, and for `forMs` at most; less when more than `idsMax` come.
 */
export class RecentIds {
  readonly #forMs: number;
  readonly #idsMax: number;
  #young = new Set<string>();
  #old = new Set<string>();
  #turnedMs = 0;

  constructor(forMs: number, idsMax: number) {
    this.#forMs = forMs;
    this.#idsMax = idsMax;
  }

  add(id: string, nowMs: number): void {
    this.#turn(nowMs);
    this.#young.add(id);
  }

  has(id: string, nowMs: number): boolean {
    this.#turn(nowMs);
    return this.#young.has(id) || this.#old.has(id);
  }

  #turn(nowMs: number): void {
    const ageMs = nowMs - this.#turnedMs;
    if (ageMs < this.#forMs / 2 && this.#young.size < this.#idsMax / 2) return;
    this.#old = ageMs < this.#forMs ? this.#young : new Set();
    this.#young = new Set();
    this.#turnedMs = nowMs;
  }
}
