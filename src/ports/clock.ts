/** Time source and timers. The simulator implements both with virtual time. */
export interface Clock {
  /** Wall clock in milliseconds since the epoch. It may jump; compare durations with a tolerance. */
  now(): number;

  /** Calls `fn` once, at least `delayMs` later. */
  after(delayMs: number, fn: () => void): Cancel;
}

export type Cancel = () => void;
