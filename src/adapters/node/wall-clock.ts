import { uptime } from "node:os";
import type { Clock } from "../../ports/clock.ts";
import { SteadyClock, type TimeSource } from "../../ports/steady-clock.ts";

/** The clocks and timers of the system. */
export const systemTime: TimeSource = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  uptimeMs: () => uptime() * 1_000,
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

/** The clock of this process. Steps of the system clock do not affect it. */
export const wallClock: Clock = new SteadyClock(systemTime);

const TIMER_MS_MAX = 2 ** 31 - 1;
