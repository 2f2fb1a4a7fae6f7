/**
 * Set of recently seen ids in bounded memory: two generations, the older of which is dropped as a whole.
 * An id is kept for between `forMs / 2` and `forMs`, or shorter when more than `idsMax` ids arrive in that time.
 */
export class RecentIds {
  readonly #forMs: number;
  readonly #idsMax: number;
  #young = new Set<string>();
  #old = new Set<string>();
  #rotatedMs = 0;

  constructor(forMs: number, idsMax: number) {
    this.#forMs = forMs;
    this.#idsMax = idsMax;
  }

  add(id: string, nowMs: number): void {
    this.#rotate(nowMs);
    this.#young.add(id);
  }

  has(id: string, nowMs: number): boolean {
    this.#rotate(nowMs);
    return this.#young.has(id) || this.#old.has(id);
  }

  #rotate(nowMs: number): void {
    const ageMs = nowMs - this.#rotatedMs;
    if (ageMs < this.#forMs / 2 && this.#young.size < this.#idsMax / 2) return;
    this.#old = ageMs < this.#forMs ? this.#young : new Set();
    this.#young = new Set();
    this.#rotatedMs = nowMs;
  }
}
