/**
 * Time as the core sees it. The core never asks the machine what time it is and never sleeps:
 * it is told (`now`), and it asks to be called (`after`). In the simulator both are invented.
 */
export interface Clock {
  /** Milliseconds since the epoch. May jump; durations are only ever compared with a tolerance. */
  now(): number;

  /** Calls `fn` once, not before `delayMs` has passed. Returns a function that cancels it. */
  after(delayMs: number, fn: () => void): Cancel;
}

export type Cancel = () => void;
