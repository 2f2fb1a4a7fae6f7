import type { HandlerGate } from "./handler-gate.ts";
import type { OpenWork } from "./open-work.ts";
import { PlaneError } from "./plane-error.ts";
import type { TestSystem } from "./test-system.ts";

/** What a caller waits for in virtual time. */
export interface Goal {
  /** True: reached. Throws to reject. `isCalm`: nothing moves, and the next event is due in the future. */
  check(isCalm: boolean): boolean;
  /** The goal ends at this time of the timeline; `check` is called, then it is rejected unless reached. */
  readonly untilMs: number;
  /** The error at `untilMs`; null: the time itself is the goal. */
  readonly onTimeout: (() => PlaneError) | null;
}

/**
 * Drives the timeline for all waiting callers.
 *
 * 1. Time advances only while a caller waits, so a test is in control of it.
 * 2. Idle time is skipped: while every process is up and no work is in progress, the clock moves to shortly before the next
 *    due record. The margin lets heartbeats and leases recover before it, as after a suspend of the machine.
 * 3. Events and jobs are bounded over the life of the plane.
 */
export class VirtualTime {
  readonly #system: TestSystem;
  readonly #work: OpenWork;
  readonly #handlers: HandlerGate;
  readonly #limits: { readonly events: number; readonly jobs: number };
  readonly #goals = new Map<Goal, { resolve(): void; reject(error: unknown): void }>();
  #requests = 0;
  #isRunning = false;
  #hasChanged = false;
  #isClosed = false;

  constructor(
    system: TestSystem,
    work: OpenWork,
    handlers: HandlerGate,
    limits: { readonly events: number; readonly jobs: number },
  ) {
    this.#system = system;
    this.#work = work;
    this.#handlers = handlers;
    this.#limits = limits;
    system.net.timeline.gate = () => handlers.wait();
    work.onChange = () => this.#changed();
  }

  get timelineMs(): number {
    return this.#system.net.timeline.nowMs;
  }

  /** Advances until the goal is reached. */
  reach(goal: Goal): Promise<void> {
    if (this.#isClosed) return Promise.reject(closedError());
    return this.#handlers.virtually(
      () =>
        new Promise((resolve, reject) => {
          this.#goals.set(goal, { resolve, reject });
          this.#changed();
          if (!this.#isRunning) void this.#run();
        }),
    );
  }

  /** Advances until the promise settles. `start` runs in an event, so that its calls are part of the history. */
  async settled<T>(start: () => Promise<T>, withinMs: number, onTimeout: () => PlaneError): Promise<T> {
    let outcome: { readonly get: () => T } | null = null;
    const end = (get: () => T): void => {
      outcome = { get };
      this.#changed();
    };
    this.#requests += 1;
    try {
      this.#system.net.timeline.post(0, () => {
        start().then(
          (value) => end(() => value),
          (error: unknown) =>
            end(() => {
              throw error;
            }),
        );
      });
      await this.reach({ check: () => outcome !== null, untilMs: this.timelineMs + withinMs, onTimeout });
    } finally {
      this.#requests -= 1;
    }
    return (outcome as { readonly get: () => T } | null)!.get();
  }

  close(): void {
    this.#isClosed = true;
    this.#rejectAll(closedError());
  }

  #changed(): void {
    this.#hasChanged = true;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    const { timeline } = this.#system.net;
    try {
      while (this.#checkGoals()) {
        this.#checkLimits();
        this.#skipIdle();
        this.#hasChanged = false;
        const untilMs = Math.min(timeline.nowMs + STEP_MS, this.#nextEndMs());
        await timeline.runWhile(() => this.#hasChanged, untilMs);
      }
    } catch (error) {
      this.#rejectAll(error);
    } finally {
      this.#isRunning = false;
    }
  }

  /** False if no goal is left. */
  #checkGoals(): boolean {
    const isCalm = this.#isCalm();
    for (const [goal, { resolve, reject }] of this.#goals) {
      try {
        if (!goal.check(isCalm)) {
          if (this.timelineMs < goal.untilMs) continue;
          if (goal.onTimeout !== null) throw goal.onTimeout();
        }
        this.#goals.delete(goal);
        resolve();
      } catch (error) {
        this.#goals.delete(goal);
        reject(error);
      }
    }
    return this.#goals.size > 0;
  }

  #isCalm(): boolean {
    return this.#requests === 0 && this.#handlers.running === 0 && this.#work.isCalm && this.#system.isCalm;
  }

  #skipIdle(): void {
    const { net, nowMs } = this.#system;
    const { timeline, store } = net;
    if (!this.#isCalm()) return;
    const nextMs = timeline.nowMs + (store.nextDueMs ?? Number.POSITIVE_INFINITY) - nowMs;
    timeline.skip(Math.min(nextMs, this.#nextEndMs()) - MARGIN_MS - timeline.nowMs);
  }

  #nextEndMs(): number {
    return Math.min(...[...this.#goals.keys()].map(({ untilMs }) => untilMs));
  }

  #checkLimits(): void {
    const { events } = this.#system.net.timeline;
    if (events > this.#limits.events) {
      const message = `${events} events; \`limits.events\` is ${this.#limits.events}: raise it, or advance in smaller steps`;
      throw new PlaneError("limit_reached", message);
    }
    const { jobsCreated } = this.#work;
    if (jobsCreated <= this.#limits.jobs) return;
    const message = `${jobsCreated} jobs; \`limits.jobs\` is ${this.#limits.jobs}: raise it, or check for an endless loop`;
    throw new PlaneError("limit_reached", message);
  }

  #rejectAll(error: unknown): void {
    const waiting = [...this.#goals.values()];
    this.#goals.clear();
    for (const { reject } of waiting) reject(error);
  }
}

const closedError = (): PlaneError => new PlaneError("plane_closed", "the test plane is closed; create another one");

const STEP_MS = 500;
/** Longer than the horizon of the sweeper and the interval of heartbeats. */
const MARGIN_MS = 20_000;
