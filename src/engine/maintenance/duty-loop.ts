import type { Cancel } from "../../ports/clock.ts";
import type { Needs } from "../engine.ts";

/** A background duty: what one pass of its loop does, how often, and when it is late. */
export interface Duty {
  readonly name: string;
  /**
   * One pass of bounded work. Null when nothing is left: the next pass follows after the interval. Otherwise the age of the
   * oldest work left in milliseconds: the next pass follows at once.
   */
  pass(): Promise<number | null>;
  /** False: no pass follows until `wake`. Absent: always true. */
  isNeeded?(): boolean;
  /** Time between two passes without work; by default `sweep.every_ms`. */
  readonly everyMs?: number;
  /**
   * What makes the process not ready. `progress`: no pass succeeds, or none ends. `lag`: also work that is left for too long.
   * `nothing`: the duty is only reported.
   */
  readonly readiness: "progress" | "lag" | "nothing";
}

export interface DutyStatus {
  readonly name: string;
  /** By how much a successful pass is overdue, plus the age of the oldest work that the last one left. */
  readonly lagMs: number;
  /** Why the process is not ready; null while the duty is in time. */
  readonly late: string | null;
}

/**
 * Runs one duty. Loops are independent: none waits for another. A failed pass is repeated after `sweep.every_ms`. Intervals
 * are jittered, so that processes that start or stall together do not work in step.
 */
export class DutyLoop {
  readonly duty: Duty;
  readonly #engine: Needs<"world" | "settings">;
  #next: Cancel = () => {};
  #running: Promise<unknown> = Promise.resolve();
  #isStopped = false;
  #isStarted = false;
  #isScheduled = false;
  /** End of the last pass without a failure. Readiness is progress, not a ping (L20). */
  #passedMs: number;
  #leftMs = 0;

  constructor(engine: Needs<"world" | "settings">, duty: Duty) {
    this.#engine = engine;
    this.duty = duty;
    this.#passedMs = engine.world.clock.now();
  }

  start(): void {
    this.#isStarted = true;
    this.wake();
  }

  /** Starts the passes of a duty that is needed again. */
  wake(): void {
    if (!this.#isStarted || this.#isStopped || this.#isScheduled || !this.#isNeeded) return;
    if (this.duty.isNeeded) this.#passedMs = this.#engine.world.clock.now();
    this.#after(this.#sweepEveryMs * this.#engine.world.random.next());
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#next();
    await this.#running;
  }

  /** Runs passes until nothing is left or one fails, and `between` after each that leaves work. */
  async drain(between: () => Promise<void> = async () => undefined): Promise<void> {
    while ((await this.#pass()) === "more") await between();
  }

  status(): DutyStatus {
    const { name, readiness } = this.duty;
    if (!this.#isNeeded) return { name, lagMs: 0, late: null };
    const sinceMs = this.#engine.world.clock.now() - this.#passedMs;
    const overdueMs = Math.max(0, Math.round(sinceMs - this.#everyMs));
    const lagMs = overdueMs + Math.round(this.#leftMs);
    const countedMs = readiness === "lag" ? lagMs : overdueMs;
    const limitMs = Math.max(INTERVALS_MISSED_MAX * this.#everyMs, LAG_MS_MIN);
    const isLate = readiness !== "nothing" && countedMs > limitMs;
    const late = isLate ? `the ${name} loop is ${countedMs} ms behind (limit ${limitMs} ms); see the server log` : null;
    return { name, lagMs, late };
  }

  get #sweepEveryMs(): number {
    return this.#engine.settings.current.sweep.everyMs;
  }

  get #everyMs(): number {
    return Math.max(this.duty.everyMs ?? 0, this.#sweepEveryMs);
  }

  get #isNeeded(): boolean {
    return this.duty.isNeeded?.() ?? true;
  }

  #after(delayMs: number): void {
    this.#isScheduled = !this.#isStopped && this.#isNeeded;
    if (!this.#isScheduled) return;
    this.#next = this.#engine.world.clock.after(delayMs, () => {
      this.#running = this.#pass().then((outcome) => this.#after(this.#delayMs(outcome)));
    });
  }

  #delayMs(outcome: Outcome): number {
    if (outcome === "more") return 0;
    const jitter = 1 - SPREAD * this.#engine.world.random.next();
    return jitter * (outcome === "done" ? this.#everyMs : this.#sweepEveryMs);
  }

  async #pass(): Promise<Outcome> {
    const { clock, log } = this.#engine.world;
    try {
      const leftMs = await this.duty.pass();
      this.#passedMs = clock.now();
      this.#leftMs = leftMs ?? 0;
      return leftMs === null ? "done" : "more";
    } catch (error) {
      log.write("warn", "duty_failed", { duty: this.duty.name, error: String(error) });
      return "failed";
    }
  }
}

type Outcome = "done" | "more" | "failed";

/** Jitter as a share of the interval. */
const SPREAD = 0.25;
const INTERVALS_MISSED_MAX = 10;
/** Lower bound of the limit, so that a short interval does not make a pause of seconds fatal. */
const LAG_MS_MIN = 15_000;
