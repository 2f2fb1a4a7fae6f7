/**
 * The dispatch window of a topic whose workers declare no capacity: how many jobs may be with them at once.
 *
 * A worker does not confirm that it accepted a job. It may queue jobs internally, where they pass their dispatch deadline
 * and are sent, and executed, a second time. So the window follows what the workers answer in time:
 *
 * 1. It starts at 1 and grows after a round: as many successes as it has places, while other jobs wait. A round within a
 *    quarter of the deadline doubles it, any other round in time adds a place.
 * 2. A job that took more than half of its deadline, and waited inside the worker for a third of that time, shrinks the
 *    window by a quarter.
 * 3. A lost attempt halves it. Up to the size at which it was lost, the window then grows by one place per round, and the
 *    round that would reach that size is repeated twice as often with each loss.
 * 4. Attempts that were sent before the last change say nothing about it.
 */
export interface DispatchWindow {
  readonly size: number;
  /** Successes in the current round, and the slowest of them. */
  readonly answered: number;
  readonly slowestMs: number;
  /** The fastest answer so far. */
  readonly fastestMs: number;
  readonly shrunkMs: number;
  /** The size at which an attempt was lost, and how often its round is repeated. */
  readonly lostAt: number;
  readonly caution: number;
}

export const FIRST_WINDOW: DispatchWindow = {
  size: 1,
  answered: 0,
  slowestMs: 0,
  fastestMs: Number.POSITIVE_INFINITY,
  shrunkMs: Number.NEGATIVE_INFINITY,
  lostAt: Number.POSITIVE_INFINITY,
  caution: 1,
};

export interface Answer {
  readonly sentMs: number;
  readonly nowMs: number;
  /** Measured by the worker, if it does. */
  readonly executionMs: number | undefined;
  /** The dispatch deadline, as a duration. */
  readonly deadlineMs: number;
  /** The configured window. */
  readonly sizeMax: number;
}

/** A first attempt succeeded while other jobs waited for a place. */
export function widen(window: DispatchWindow, answer: Answer): DispatchWindow {
  const { sentMs, nowMs, deadlineMs, sizeMax } = answer;
  const tookMs = Math.max(0, nowMs - sentMs);
  const fastestMs = Math.min(window.fastestMs, tookMs);
  if (sentMs < window.shrunkMs) return { ...window, fastestMs };
  const isQueued = tookMs - Math.min(answer.executionMs ?? fastestMs, tookMs) > tookMs / 3;
  if (isQueued && tookMs > deadlineMs / 2) return { ...shrunk(window, (window.size * 3) / 4, nowMs), fastestMs };
  const answered = window.answered + 1;
  const slowestMs = Math.max(window.slowestMs, tookMs);
  const rounds = window.size + 1 >= window.lostAt ? window.caution : 1;
  if (answered < window.size * rounds) return { ...window, answered, slowestMs, fastestMs };
  // A worker that works serially answers a doubled window in twice the time.
  const isDoubled = slowestMs <= deadlineMs / 4 && window.lostAt === Number.POSITIVE_INFINITY;
  const size = Math.min(isDoubled ? window.size * 2 : window.size + 1, sizeMax);
  const next = { ...window, size, answered: 0, slowestMs: 0, fastestMs };
  return window.size >= window.lostAt ? { ...next, lostAt: Number.POSITIVE_INFINITY, caution: 1 } : next;
}

/** An attempt was lost. */
export function narrow(window: DispatchWindow, sentMs: number, nowMs: number): DispatchWindow {
  if (sentMs < window.shrunkMs) return window;
  const caution = Math.min(window.caution * 2, CAUTION_MAX);
  return { ...shrunk(window, window.size / 2, nowMs), lostAt: Math.max(2, window.size), caution };
}

function shrunk(window: DispatchWindow, size: number, nowMs: number): DispatchWindow {
  return { ...window, size: Math.max(1, Math.floor(size)), answered: 0, slowestMs: 0, shrunkMs: nowMs };
}

const CAUTION_MAX = 64;
