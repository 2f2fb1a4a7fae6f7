/** A cached read with its age. Calls during a read share its promise. */
export class CachedRead {
  #now: Promise<void> | null = null;
  #readMs = Number.NEGATIVE_INFINITY;

  run(nowMs: number, read: () => Promise<void>): Promise<void> {
    this.#now ??= read()
      .then(() => {
        this.#readMs = nowMs;
      })
      .finally(() => {
        this.#now = null;
      });
    return this.#now;
  }

  get isUnderWay(): boolean {
    return this.#now !== null;
  }

  /** A clock that was set back also makes the read old. */
  isOlderThan(ms: number, nowMs: number): boolean {
    return Math.abs(nowMs - this.#readMs) >= ms;
  }

  forget(): void {
    this.#readMs = Number.NEGATIVE_INFINITY;
  }

  get wasRead(): boolean {
    return this.#readMs !== Number.NEGATIVE_INFINITY;
  }
}
