import type { Cancel, Clock } from "./clock.ts";

/** Where a process reads its time from. */
export interface TimeSource {
  /** The system clock, in milliseconds since the epoch. It may step in both directions. */
  wallMs(): number;
  /** Time since an arbitrary moment. It never steps, and may stop while the machine is suspended. */
  monotonicMs(): number;
  /** Coarse time since an arbitrary moment that also counts while the machine is suspended. */
  uptimeMs(): number;
  after(delayMs: number, fn: () => void): Cancel;
}

/**
 * A wall clock that does not follow steps of the system clock.
 *
 * 1. The time starts at the system clock, or at a later time that is given, and advances with monotonic time.
 * 2. It approaches the system clock by at most 0.5 %: a step of a second is gone after 200 seconds, one of a day after half
 *    a year or at the next start. Durations are right within 0.5 %.
 * 3. A suspend of the machine counts as time that has passed.
 * 4. In a cluster all processes follow the time that the store keeps (`advanceSharedTime`) instead of their system clocks.
 */
export class SteadyClock implements Clock {
  readonly #source: TimeSource;
  /** Added to monotonic time. */
  #offsetMs: number;
  #lastMs = Number.NEGATIVE_INFINITY;
  #checkedMs: number;
  /** Uptime minus monotonic time: grows by the duration of a suspend. */
  #leadMs: number;
  #isFollowing = false;

  constructor(source: TimeSource, startMs = source.wallMs()) {
    const monotonicMs = source.monotonicMs();
    this.#source = source;
    this.#offsetMs = startMs - monotonicMs;
    this.#checkedMs = monotonicMs;
    this.#leadMs = source.uptimeMs() - monotonicMs;
  }

  /** Whole milliseconds, as a wall clock. */
  now(): number {
    const monotonicMs = this.#source.monotonicMs();
    if (monotonicMs - this.#checkedMs >= CHECK_MS) this.#check(monotonicMs);
    const nowMs = Math.floor(this.#offsetMs + monotonicMs);
    if (nowMs > this.#lastMs) this.#lastMs = nowMs;
    return this.#lastMs;
  }

  after(delayMs: number, fn: () => void): Cancel {
    return this.#source.after(delayMs, fn);
  }

  /** The system clock minus this clock. */
  get deviationMs(): number {
    return Math.round(this.#source.wallMs() - this.now());
  }

  /** The time of this clock; null before it follows a shared time, when it only has the system clock of its host. */
  get followedMs(): number | null {
    return this.#isFollowing ? this.now() : null;
  }

  /** Never goes back: continues from a time that was stored earlier. */
  continueFrom(storedMs: number): void {
    if (storedMs > this.now()) this.#offsetMs = storedMs - this.#source.monotonicMs();
  }

  /** Adopts the time of the store. A process that was ahead of it by more than a moment goes back. */
  follow(sharedMs: number): void {
    this.#isFollowing = true;
    this.#offsetMs = sharedMs - this.#source.monotonicMs();
    if (this.#lastMs - sharedMs > AHEAD_MS_MAX) this.#lastMs = Math.floor(sharedMs);
  }

  #check(monotonicMs: number): void {
    this.#checkedMs = monotonicMs;
    const leadMs = this.#source.uptimeMs() - monotonicMs;
    if (leadMs - this.#leadMs > SUSPEND_MS_MIN) this.#offsetMs += leadMs - this.#leadMs;
    if (Math.abs(leadMs - this.#leadMs) > SUSPEND_MS_MIN) this.#leadMs = leadMs;
    if (!this.#isFollowing) this.#offsetMs += slewMs(this.#source.wallMs() - this.#offsetMs - monotonicMs, CHECK_MS);
  }
}

/** The time of a cluster, and what the clock of the store's server showed at that time. */
export interface SharedTime {
  readonly atMs: number;
  readonly wallMs: number;
}

/**
 * The time that the processes of a cluster share. The store keeps it; each process reads it every second.
 *
 * 1. It advances with the clock of the server. If that clock steps, it continues with the time of the process that reads it
 *    next (`ownMs`: `SteadyClock.followedMs`, null before its first read).
 * 2. It never goes back, and approaches the clock of the server by at most 0.5 %.
 * 3. After a gap (`isGap`) the first read of a process cannot tell a step from time that has passed without any process: it
 *    waits until a process that runs has read the time, if there is one.
 */
export function advanceSharedTime(last: SharedTime | null, wallMs: number, ownMs: number | null): SharedTime {
  if (last === null) return { atMs: ownMs ?? wallMs, wallMs };
  const elapsedMs = wallMs - last.wallMs;
  const nextMs = last.atMs + Math.max(0, elapsedMs);
  // A caller that was behind before the last read has missed time; it cannot tell what happened since.
  const canTell = ownMs !== null && ownMs > last.atMs - STEP_MS_MIN;
  if (elapsedMs < 0 || (canTell && Math.abs(nextMs - ownMs) > STEP_MS_MIN))
    return { atMs: Math.max(last.atMs, ownMs ?? 0), wallMs };
  return { atMs: nextMs + slewMs(wallMs - nextMs, Math.min(elapsedMs, GAP_MS)), wallMs };
}

/** Whether no process has read the time for longer than processes that run do, or the clock of the server has stepped. */
export function isGap(last: SharedTime | null, wallMs: number): boolean {
  const elapsedMs = wallMs - (last?.wallMs ?? wallMs);
  return elapsedMs < 0 || elapsedMs > GAP_MS;
}

/** Moves towards zero deviation, bounded by a share of the time that has passed. */
function slewMs(deviationMs: number, passedMs: number): number {
  const mostMs = passedMs * SLEW;
  return Math.max(-mostMs, Math.min(mostMs, deviationMs));
}

export const SLEW = 0.005;
const CHECK_MS = 1_000;
/** Uptime is coarse. */
const SUSPEND_MS_MIN = 2_000;
/** Within it a clock waits instead of going back. */
const AHEAD_MS_MAX = 1_000;
/** A smaller difference can be the duration of a slow read. */
export const STEP_MS_MIN = 3_000;
/** Three times the interval of reads. */
export const GAP_MS = 3_000;
