/** Time source and timers. The simulator implements both with virtual time. */
export interface Clock {
  /**
   * Whole milliseconds since the epoch. Steps of the system clock do not affect it (`steady-clock.ts`), so differences are
   * durations; stored times of other processes of the same system can be compared with it.
   */
  now(): number;

  /** Calls `fn` once, at least `delayMs` later. */
  after(delayMs: number, fn: () => void): Cancel;
}

export type Cancel = () => void;
