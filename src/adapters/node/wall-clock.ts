import type { Clock } from "../../ports/clock.ts";

/** The system clock and timers. */
export const wallClock: Clock = {
  now: () => Date.now(),
  after(delayMs, fn) {
    const dueMs = performance.now() + delayMs;
    let timer: NodeJS.Timeout;
    // Timers can fire a millisecond early and are limited to 25 days: set a new one for the rest.
    const sleep = () => {
      const restMs = dueMs - performance.now();
      if (restMs <= 0) fn();
      else timer = setTimeout(sleep, Math.min(Math.ceil(restMs), TIMER_MS_MAX));
    };
    timer = setTimeout(sleep, Math.min(Math.max(0, Math.ceil(delayMs)), TIMER_MS_MAX));
    return () => clearTimeout(timer);
  },
};

const TIMER_MS_MAX = 2 ** 31 - 1;
