/**
 * Serializes the decisions of this process that use the same policy window. The store alone would be exact, but of a
 * burst on one window each commit would make all others stale.
 */
export class WindowQueue {
  readonly #tails = new Map<string, Promise<void>>();

  /** Resolves when no earlier caller holds one of the windows. Calling the result twice has no effect. */
  async acquire(ids: readonly string[]): Promise<() => void> {
    const releases: (() => void)[] = [];
    // In one order for all callers, so that two of them never wait for each other.
    for (const id of [...new Set(ids)].sort()) releases.push(await this.#acquireOne(id));
    return () => {
      for (const release of releases.splice(0)) release();
    };
  }

  /** Windows that are held or awaited. */
  get size(): number {
    return this.#tails.size;
  }

  async #acquireOne(id: string): Promise<() => void> {
    const before = this.#tails.get(id);
    let open = () => {};
    const tail = new Promise<void>((resolve) => {
      open = resolve;
    });
    this.#tails.set(id, tail);
    await before;
    return () => {
      if (this.#tails.get(id) === tail) this.#tails.delete(id);
      open();
    };
  }
}
