import type { Cancel } from "../ports/clock.ts";

/**
 * Virtual time: a heap of future events.
 *
 * 1. Events run in (time, order of asking). Nothing else decides, so one seed has one history.
 * 2. An event that runs code of a process ends when that code waits for something: every microtask it started has run
 *    before the next event. So the code between two events takes no time at all.
 * 3. A quiet event runs no code of a process, only bookkeeping of a simulated server; nothing needs to settle after it.
 *
 * How microtasks are drained: a `nextTick` that is asked for *inside* a microtask runs when the microtask queue is
 * empty, however long the chains in it are. That costs 0.3 us, a `setImmediate` 2 us. Every `BREATH_EVENTS` a real
 * `setImmediate` lets the machine's own event loop turn, so that a test runner or a signal gets its say.
 */
export class Timeline {
  #nowMs = 0;
  #asked = 0;
  #events = 0;
  /** How many had run when this instant began. */
  #eventsBefore = 0;
  #heap: Event[] = [];
  /** How many of them were cancelled. */
  #cancelled = 0;

  /** Milliseconds since the start, with fractions. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** How many events ran; cancelled ones do not count. */
  get events(): number {
    return this.#events;
  }

  after(delayMs: number, fn: () => void): Cancel {
    return this.#cancelOf(this.#add(delayMs, fn, false));
  }

  /** For hot paths: what runs code of a process and is never cancelled. */
  post(delayMs: number, fn: () => void): void {
    this.#add(delayMs, fn, false);
  }

  /** What runs no code of a process (3). */
  postQuiet(delayMs: number, fn: () => void): void {
    this.#add(delayMs, fn, true);
  }

  afterQuiet(delayMs: number, fn: () => void): Cancel {
    return this.#cancelOf(this.#add(delayMs, fn, true));
  }

  /** Runs everything up to and including this time, then stands at it. */
  async runUntil(timeMs: number): Promise<void> {
    await this.#run(timeMs, () => false);
    this.#nowMs = Math.max(this.#nowMs, timeMs);
  }

  /** Runs until the promise settles; rejects when nothing is left to happen and it still has not. */
  async runUntilSettled<T>(promise: Promise<T>, limitMs = Number.POSITIVE_INFINITY): Promise<T> {
    let settled = false;
    const note = (): void => {
      settled = true;
    };
    promise.then(note, note);
    await this.#run(this.#nowMs + limitMs, () => settled);
    if (!settled)
      throw new Error(`the promise did not settle: nothing more happens before ${this.#nowMs + limitMs} ms`);
    return promise;
  }

  #run(untilMs: number, isDone: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      let breathAt = this.#events + BREATH_EVENTS;
      const again = (): void => process.nextTick(step);
      const step = (): void => {
        try {
          if (isDone() || !this.#runToNextWait(untilMs)) {
            resolve();
            return;
          }
        } catch (error) {
          reject(error);
          return;
        }
        if (this.#events < breathAt) {
          SETTLED.then(again);
        } else {
          breathAt = this.#events + BREATH_EVENTS;
          setImmediate(step);
        }
      };
      // The caller's own microtasks come first.
      setImmediate(step);
    });
  }

  /** Runs quiet events and then one that is not; false when there is none. */
  #runToNextWait(untilMs: number): boolean {
    for (;;) {
      const heap = this.#heap;
      const event = heap[0];
      if (event === undefined || event.atMs > untilMs) return false;
      pop(heap);
      const fn = event.fn;
      if (fn === null) {
        this.#cancelled -= 1;
        continue;
      }
      event.fn = null;
      if (event.atMs > this.#nowMs) this.#eventsBefore = this.#events;
      else if (this.#events - this.#eventsBefore > INSTANT_EVENTS_MAX) {
        throw new Error(`${INSTANT_EVENTS_MAX} events at ${event.atMs} ms: something goes on for ever without waiting`);
      }
      this.#nowMs = event.atMs;
      this.#events += 1;
      fn();
      if (!event.isQuiet) return true;
    }
  }

  #cancelOf(event: Event): Cancel {
    return () => {
      if (event.fn === null) return;
      event.fn = null;
      this.#cancelled += 1;
      // Most timers are cancelled long before their time: a heap of the dead makes every event slower.
      if (this.#cancelled > CANCELLED_MIN && this.#cancelled * 2 > this.#heap.length) this.#sweep();
    };
  }

  #sweep(): void {
    // Sorted is a heap, too.
    this.#heap = this.#heap.filter(({ fn }) => fn !== null).sort((a, b) => (isBefore(a, b) ? -1 : 1));
    this.#cancelled = 0;
  }

  #add(delayMs: number, fn: () => void, isQuiet: boolean): Event {
    // A time that is no number would spoil the order of the heap without a word.
    if (!Number.isFinite(delayMs)) throw new Error(`a delay of ${delayMs} ms: give a finite number`);
    this.#asked += 1;
    const event: Event = { atMs: this.#nowMs + Math.max(0, delayMs), order: this.#asked, fn, isQuiet };
    push(this.#heap, event);
    return event;
  }
}

/** How many events may run before the machine's own event loop turns once. */
const BREATH_EVENTS = 10_000;

/** Fewer are not worth the trouble. */
const CANCELLED_MIN = 1_000;

/** Far more than any instant needs. */
const INSTANT_EVENTS_MAX = 1_000_000;

const SETTLED: Promise<void> = Promise.resolve();

interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly isQuiet: boolean;
  fn: (() => void) | null;
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

function push(heap: Event[], event: Event): void {
  let hole = heap.length;
  heap.push(event);
  while (hole > 0) {
    const above = (hole - 1) >> 1;
    const parent = heap[above]!;
    if (!isBefore(event, parent)) break;
    heap[hole] = parent;
    hole = above;
  }
  heap[hole] = event;
}

function pop(heap: Event[]): void {
  const moved = heap.pop()!;
  const size = heap.length;
  if (size === 0) return;
  let hole = 0;
  for (;;) {
    let below = 2 * hole + 1;
    if (below >= size) break;
    if (below + 1 < size && isBefore(heap[below + 1]!, heap[below]!)) below += 1;
    const child = heap[below]!;
    if (!isBefore(child, moved)) break;
    heap[hole] = child;
    hole = below;
  }
  heap[hole] = moved;
}
