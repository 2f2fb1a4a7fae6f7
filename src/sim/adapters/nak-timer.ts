import type { Cancel } from "../../ports/clock.ts";
import type { Timeline } from "../timeline.ts";

/**
 * What a group is to give out again later, by one timer for all of it, as JetStream does.
 *
 * 1. Whatever is put off sets the timer anew, `lookMs` from now: the broker looks what is due then, and not before. So
 *    while something is put off more often than that, nothing comes back at all, however long it has been due.
 * 2. Having looked, it looks again when the next is due, a little later than that: what is due together comes together.
 */
export class NakTimer<T> {
  readonly #timeline: Timeline;
  readonly #give: (thing: T) => void;
  #waiting: { readonly thing: T; readonly dueMs: number }[] = [];
  #cancelLook: Cancel = () => undefined;

  constructor(timeline: Timeline, give: (thing: T) => void) {
    this.#timeline = timeline;
    this.#give = give;
  }

  add(thing: T, delayMs: number, lookMs: number): void {
    this.#waiting.push({ thing, dueMs: this.#timeline.nowMs + delayMs });
    this.#lookAfter(lookMs);
  }

  #lookAfter(delayMs: number): void {
    this.#cancelLook();
    this.#cancelLook = this.#timeline.afterQuiet(delayMs, () => this.#look());
  }

  #look(): void {
    const { nowMs } = this.#timeline;
    const due = this.#waiting.filter(({ dueMs }) => dueMs <= nowMs);
    this.#waiting = this.#waiting.filter(({ dueMs }) => dueMs > nowMs);
    const nextMs = this.#waiting.reduce((least, { dueMs }) => Math.min(least, dueMs), Number.POSITIVE_INFINITY);
    if (this.#waiting.length > 0) this.#lookAfter(nextMs - nowMs + LATE_MS);
    for (const { thing } of due) this.#give(thing);
  }
}

/** By how much JetStream looks later than need be. */
const LATE_MS = 1;
