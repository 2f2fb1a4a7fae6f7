import type { Cancel, Clock } from "../ports/clock.ts";
import type { SeededRandom } from "./random.ts";
import type { Timeline } from "./timeline.ts";

/**
 * One life of a simulated process.
 *
 * 1. After a crash no code of it ever runs again: promises it waits for never settle, its timers never fire. What it
 *    asked of others before is still done; only the answers are lost.
 * 2. While it is paused (SIGSTOP, a long garbage collection) timers and answers are held back and come at the resume, in
 *    their order; the time of everybody else goes on.
 * 3. Cut off from the bus or the store, it lives, but nothing gets through either way.
 * 4. It is one thread. Each time that its code runs (a message, an answer, a timer) that takes `stepMs`, one after the other,
 *    and what it sends leaves at the end of it; 0, unless told: then code takes no time, however much comes at once.
 */
export class Process {
  readonly name: string;
  readonly random: SeededRandom;
  readonly clock: Clock;
  readonly #timeline: Timeline;
  readonly #stepMs: number;
  readonly #cuts = new Set<Peer>();
  readonly #onEnd: (() => void)[] = [];
  #held: (() => void)[] | null = null;
  #isAlive = true;
  /** Until when its thread is busy (4). */
  #busyUntilMs = 0;
  #steps = 0;
  #silentSinceMs: number | null = null;

  constructor(timeline: Timeline, name: string, random: SeededRandom, skewMs = 0, stepMs = 0) {
    this.#timeline = timeline;
    this.#stepMs = stepMs;
    this.name = name;
    this.random = random;
    this.clock = {
      // Whole milliseconds, as the machine's clock gives them.
      now: () => Math.floor(EPOCH_MS + skewMs + timeline.nowMs),
      after: (delayMs, fn) => this.after(delayMs, fn),
    };
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  get isPaused(): boolean {
    return this.#held !== null;
  }

  /** How often its code has run. */
  get steps(): number {
    return this.#steps;
  }

  /** Runs code of this process now, when its thread is free, at the resume, or never. Only inside an event that is not quiet. */
  enter(fn: () => void): void {
    if (!this.#isAlive) return;
    if (this.#held !== null) this.#held.push(fn);
    else this.#step(fn);
  }

  after(delayMs: number, fn: () => void): Cancel {
    let isWanted = this.#isAlive;
    // A held timer can still be cancelled by what runs before it at the resume.
    const fire = (): void => {
      if (!isWanted) return;
      isWanted = false;
      fn();
    };
    const cancel = this.#timeline.after(delayMs, () => this.enter(fire));
    return () => {
      isWanted = false;
      cancel();
    };
  }

  crash(): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    this.#held = null;
    this.#silentSinceMs ??= this.#timeline.nowMs;
    for (const fn of this.#onEnd) fn();
  }

  pause(): void {
    if (!this.#isAlive || this.#held !== null) return;
    this.#held = [];
    this.#silentSinceMs ??= this.#timeline.nowMs;
  }

  resume(): void {
    const held = this.#held;
    if (held === null) return;
    this.#held = null;
    this.#hearAgain();
    // One event each: what one of them starts is settled before the next.
    for (const fn of held) this.#timeline.post(0, () => this.enter(fn));
  }

  cut(peer: Peer): void {
    this.#cuts.add(peer);
    if (peer === "bus") this.#silentSinceMs ??= this.#timeline.nowMs;
  }

  heal(peer: Peer): void {
    this.#cuts.delete(peer);
    this.#hearAgain();
  }

  reaches(peer: Peer): boolean {
    return this.#isAlive && !this.#cuts.has(peer);
  }

  /** Since when the bus has had no sign of life from it; null while it sends them. */
  get silentSinceMs(): number | null {
    return this.#silentSinceMs;
  }

  /** Called when this life ends: the other side of its connections notices. */
  onEnd(fn: () => void): void {
    this.#onEnd.push(fn);
  }

  #step(fn: () => void): void {
    this.#steps += 1;
    if (this.#stepMs === 0) {
      fn();
      return;
    }
    const { nowMs } = this.#timeline;
    this.#busyUntilMs = Math.max(nowMs, this.#busyUntilMs) + this.#stepMs;
    this.#timeline.post(this.#busyUntilMs - nowMs, () => {
      if (!this.#isAlive) return;
      if (this.#held !== null) this.#held.push(fn);
      else fn();
    });
  }

  #hearAgain(): void {
    if (this.#isAlive && this.#held === null && !this.#cuts.has("bus")) this.#silentSinceMs = null;
  }
}

/** What a process can be cut off from. Locks, blobs and records live in the same store. */
export type Peer = "bus" | "store";

/** The virtual epoch: any fixed day will do. */
export const EPOCH_MS = 1_700_000_000_000;

export interface HostOptions {
  readonly name: string;
  readonly skewMs?: number;
  boot(process: Process): void;
  shutdown?(process: Process): Promise<void>;
}

/** A place where processes live one after another: each boot runs the same function with nothing remembered. */
export class Host {
  readonly name: string;
  readonly #timeline: Timeline;
  readonly #random: SeededRandom;
  readonly #options: HostOptions;
  #lives = 0;
  #process: Process | null = null;

  constructor(timeline: Timeline, random: SeededRandom, options: HostOptions) {
    this.name = options.name;
    this.#timeline = timeline;
    this.#random = random.fork(options.name);
    this.#options = options;
  }

  /** The process that lives here now; null while it is down. */
  get process(): Process | null {
    return this.#process;
  }

  get boots(): number {
    return this.#lives;
  }

  start(): void {
    if (this.#process !== null) return;
    this.#lives += 1;
    const life = this.#random.fork(String(this.#lives));
    this.#process = new Process(this.#timeline, this.name, life, this.#options.skewMs ?? 0);
    this.#options.boot(this.#process);
  }

  /** Asks the process to finish what it does; it is gone when it has. False if it does not know how to stop. */
  stop(onGone: () => void): boolean {
    const process = this.#process;
    const { shutdown } = this.#options;
    if (process === null || shutdown === undefined) return false;
    process.enter(() => {
      shutdown(process).then(() => {
        if (this.#process !== process) return;
        this.crash();
        onGone();
      });
    });
    return true;
  }

  crash(): void {
    this.#process?.crash();
    this.#process = null;
  }
}
