import type { Cancel, Clock } from "../ports/clock.ts";

/**
 * Work that outlives the call that started it: tracked promises, timers, and tasks that run once at a time per key.
 * `close` cancels the timers, starts nothing new and waits for the tracked promises.
 */
export class BackgroundTasks {
  readonly #pending = new Set<Promise<unknown>>();
  readonly #timers = new Set<Cancel>();
  readonly #exclusive = new Map<string, { again: boolean }>();
  #isClosed = false;

  /** The promise must not reject. */
  track(work: Promise<unknown>): void {
    this.#pending.add(work);
    void work.then(() => this.#pending.delete(work));
  }

  /** Calls `fn` after the delay, unless closed by then. Beyond `TIMERS_MAX` only vital timers are set. */
  after(clock: Clock, delayMs: number, fn: () => void, isVital = false): void {
    if (this.#isClosed || (this.#timers.size >= TIMERS_MAX && !isVital)) return;
    const cancel = clock.after(delayMs, () => {
      this.#timers.delete(cancel);
      fn();
    });
    this.#timers.add(cancel);
  }

  /** Runs at most one task per key; a call while it runs makes it run once more. */
  runExclusive(key: string, task: () => Promise<void>): void {
    const running = this.#exclusive.get(key);
    if (running) {
      running.again = true;
      return;
    }
    const entry = { again: false };
    this.#exclusive.set(key, entry);
    this.track(this.#repeat(key, entry, task));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  async #repeat(key: string, entry: { again: boolean }, task: () => Promise<void>): Promise<void> {
    do {
      entry.again = false;
      await task();
    } while (entry.again && !this.#isClosed);
    this.#exclusive.delete(key);
  }
}

const TIMERS_MAX = 10_000;
