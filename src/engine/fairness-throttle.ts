import type { Needs } from "./engine.ts";

/**
 * Fairness within one process. Work with a large backlog of its own (a wide `for_each`, the audit chain) runs in small
 * batches and pauses between them while other runs or jobs have work here.
 *
 * 1. Each millisecond of a batch costs `PAUSE_FACTOR` milliseconds of pause. Passing time pays the debt.
 * 2. Work pauses only while others are active or were active a moment ago. Wide subjects do not count as others to each
 *    other.
 * 3. A subject with few events never pauses.
 * 4. The throttle delays work; it decides nothing.
 */
export class FairnessThrottle {
  /** Operations in progress, by run or job id. */
  readonly #open = new Map<string, number>();
  readonly #wide = new Map<string, Wide>();
  /** The two subjects seen last: at least one of them differs from the caller. */
  #last: Seen = NONE_SEEN;
  #before: Seen = NONE_SEEN;
  readonly #momentMs: number;

  /** `isShared`: other processes work on the same runs, so activity seen here is a sample. */
  constructor(isShared: boolean) {
    this.#momentMs = isShared ? RECENT_MS : HANDLER_GAP_MS;
  }

  begin(about: string, nowMs: number): void {
    this.#open.set(about, (this.#open.get(about) ?? 0) + 1);
    this.#see(about, nowMs);
  }

  end(about: string, nowMs: number): void {
    const left = (this.#open.get(about) ?? 0) - 1;
    if (left > 0) this.#open.set(about, left);
    else this.#open.delete(about);
    this.#see(about, nowMs);
  }

  /** Charges a batch. `width` is the number of events processed and still expected. */
  charge(about: string, width: number, tookMs: number, nowMs: number): void {
    const before = this.#wide.get(about);
    this.#wide.delete(about);
    if (width <= WIDTH_MAX) return;
    if (this.#wide.size >= WIDE_MAX) this.#wide.clear();
    const owedMs = Math.max(0, (before?.paidMs ?? 0) - nowMs) + Math.max(0, tookMs) * PAUSE_FACTOR;
    this.#wide.set(about, { atMs: nowMs, paidMs: nowMs + Math.min(owedMs, PAUSE_MS_MAX) });
  }

  /** The pause before the next batch of the subject. */
  pauseMs(about: string, nowMs: number): number {
    const owedMs = (this.#wide.get(about)?.paidMs ?? 0) - nowMs;
    return owedMs > 0 && this.#hasOthers(about, nowMs, this.#momentMs) ? owedMs : 0;
  }

  /** Whether no other subject is likely to need the process during the next batch. */
  isAlone(about: string, nowMs: number): boolean {
    return !this.#hasOthers(about, nowMs, RECENT_MS);
  }

  #hasOthers(asking: string, nowMs: number, withinMs: number): boolean {
    const last = this.#last.about === asking ? this.#before : this.#last;
    if (last.atMs + withinMs > nowMs && !this.#isWide(last.about, nowMs)) return true;
    let looks = 0;
    for (const about of this.#open.keys()) {
      if (about !== asking && !this.#isWide(about, nowMs)) return true;
      if (++looks === SCAN_MAX) return false;
    }
    return false;
  }

  #isWide(about: string, nowMs: number): boolean {
    return (this.#wide.get(about)?.atMs ?? Number.NEGATIVE_INFINITY) + WIDE_MS > nowMs;
  }

  #see(about: string, nowMs: number): void {
    if (this.#last.about !== about) this.#before = this.#last;
    this.#last = { about, atMs: nowMs };
  }
}

/** Waits for the pause that the subject owes; null if it owes none. */
export function awaitTurn({ throttle, world }: Needs<"throttle" | "world">, about: string): Promise<void> | null {
  const restMs = throttle.pauseMs(about, world.clock.now());
  return restMs > 0 ? new Promise((resolve) => world.clock.after(restMs, resolve)) : null;
}

interface Seen {
  readonly about: string;
  readonly atMs: number;
}

interface Wide {
  /** Time of the last batch. */
  readonly atMs: number;
  /** When the debt is paid. */
  readonly paidMs: number;
}

const NONE_SEEN: Seen = { about: "", atMs: Number.NEGATIVE_INFINITY };
/** Leaves two thirds of the time to others. */
const PAUSE_FACTOR = 2;
/** Bounds the pause after a batch that was slow for other reasons. */
const PAUSE_MS_MAX = 20;
/** A run with few parallel steps never exceeds it. */
const WIDTH_MAX = 16;
/** How long a subject counts as wide after a batch. */
const WIDE_MS = 1_000;
/** Time between two handlers of one job, and between arrivals of steady traffic. */
const HANDLER_GAP_MS = 10;
const RECENT_MS = 250;
const WIDE_MAX = 2_048;
/** Bounds the scan for an active subject that is not wide. */
const SCAN_MAX = 32;
