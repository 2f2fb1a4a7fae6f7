import type { Cancel, Clock } from "../../src/ports/clock.ts";

/** A clock that advances only on request. Between two timers the event loop runs long enough for pending work to finish. */
export class ManualClock implements Clock {
  #nowMs: number;
  #timers: { readonly atMs: number; readonly fn: () => void }[] = [];

  constructor(nowMs = 1_700_000_000_000) {
    this.#nowMs = nowMs;
  }

  now(): number {
    return this.#nowMs;
  }

  after(delayMs: number, fn: () => void): Cancel {
    const timer = { atMs: this.#nowMs + Math.max(0, delayMs), fn };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Advances the time; every timer fires at its due time. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await rest();
    for (let timer = this.#next(untilMs); timer; timer = this.#next(untilMs)) {
      this.#fire(timer);
      await rest();
    }
    this.#nowMs = untilMs;
    await rest();
  }

  /** Advances the time before any timer fires, like a process that was suspended. */
  async pause(ms: number): Promise<void> {
    this.#nowMs += ms;
    await this.pass(0);
  }

  /** Advances the time until the promise settles. */
  async run<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const settle = () => {
      isSettled = true;
    };
    promise.then(settle, settle);
    for (await rest(); !isSettled; await rest()) {
      const timer = this.#next(Number.POSITIVE_INFINITY);
      if (timer) this.#fire(timer);
    }
    return promise;
  }

  #next(untilMs: number): { readonly atMs: number; readonly fn: () => void } | undefined {
    const due = this.#timers.filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs);
    return due[0];
  }

  #fire(timer: { readonly atMs: number; readonly fn: () => void }): void {
    this.#timers = this.#timers.filter((other) => other !== timer);
    this.#nowMs = Math.max(this.#nowMs, timer.atMs);
    timer.fn();
  }
}

const REST_TURNS = 60;

async function rest(): Promise<void> {
  for (let turn = 0; turn < REST_TURNS; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}
