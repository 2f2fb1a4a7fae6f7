import type { Cancel, Clock } from "../ports/clock.ts";
import { SteadyClock } from "../ports/steady-clock.ts";
import { EPOCH_MS, type TimeServer } from "./adapters/time.ts";
import type { SeededRandom } from "./random.ts";
import type { Timeline } from "./timeline.ts";

/**
 * A simulated process, from boot to crash.
 *
 * 1. After a crash none of its code runs: pending promises never settle and timers never fire. Requests that were sent
 *    before still take effect; their replies are lost.
 * 2. While it is paused (SIGSTOP, a long garbage collection) its timers and replies are held back. They run in order at
 *    the resume. The virtual clock keeps running.
 * 3. During a partition from the bus or the store it runs, but no request or reply passes.
 * 4. It is single-threaded. Each callback (message, reply, timer) occupies the thread for `stepMs`, and its effects happen
 *    at the end of the step. The default is 0.
 * 5. Its clock ignores steps of the system clock and follows the time server, if it has one (`ports/steady-clock.ts`).
 */
export class Process {
  readonly name: string;
  readonly random: SeededRandom;
  readonly clock: SimClock;
  readonly #timeline: Timeline;
  readonly #stepMs: number;
  readonly #cuts = new Set<Peer>();
  readonly #onEnd: (() => void)[] = [];
  #held: (() => void)[] | null = null;
  #isAlive = true;
  /** When the thread becomes free (4). */
  #busyUntilMs = 0;
  #steps = 0;
  #silentSinceMs: number | null = null;

  constructor(timeline: Timeline, name: string, random: SeededRandom, time: ProcessTime = NO_SKEW, stepMs = 0) {
    this.#timeline = timeline;
    this.#stepMs = stepMs;
    this.name = name;
    this.random = random;
    this.clock = new SimClock(timeline, this, time);
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  get isPaused(): boolean {
    return this.#held !== null;
  }

  /** The number of callbacks run. */
  get steps(): number {
    return this.#steps;
  }

  /** Runs process code: now, when the thread is free, at the resume, or never. Must not be called in a quiet event. */
  enter(fn: () => void): void {
    if (!this.#isAlive) return;
    if (this.#held !== null) this.#held.push(fn);
    else this.#step(fn);
  }

  after(delayMs: number, fn: () => void): Cancel {
    let isActive = this.#isAlive;
    // A held timer can be cancelled by a callback that runs before it at the resume.
    const fire = (): void => {
      if (!isActive) return;
      isActive = false;
      fn();
    };
    const cancel = this.#timeline.after(delayMs, () => this.enter(fire));
    return () => {
      isActive = false;
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
    this.#endSilence();
    // One event each: the microtasks of a callback are drained before the next one.
    for (const fn of held) this.#timeline.post(0, () => this.enter(fn));
  }

  cut(peer: Peer): void {
    this.#cuts.add(peer);
    if (peer === "bus") this.#silentSinceMs ??= this.#timeline.nowMs;
  }

  heal(peer: Peer): void {
    this.#cuts.delete(peer);
    this.#endSilence();
  }

  reaches(peer: Peer): boolean {
    return this.#isAlive && !this.#cuts.has(peer);
  }

  /** When the bus last stopped receiving keep-alives from the process; null while it receives them. */
  get silentSinceMs(): number | null {
    return this.#silentSinceMs;
  }

  /** Registers a callback for the crash: servers see the connection close. */
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

  #endSilence(): void {
    if (this.#isAlive && this.#held === null && !this.#cuts.has("bus")) this.#silentSinceMs = null;
  }
}

/** The servers a process can be partitioned from. Locks, blobs and records share the store. */
export type Peer = "bus" | "store";

/** What a process knows of the time. */
export interface ProcessTime {
  readonly skewMs: number;
  /** The steps of the system clock so far. */
  steppedMs(): number;
  /** Absent: the process has its system clock only. */
  readonly server?: TimeServer;
}

const NO_SKEW: ProcessTime = { skewMs: 0, steppedMs: () => 0 };

/** The shipped clock on virtual time. It reads the time server at its first use and every second. */
export class SimClock implements Clock {
  /** The system clock of the process. */
  readonly wallMs: () => number;
  readonly #timeline: Timeline;
  readonly #process: Process;
  readonly #time: ProcessTime;
  readonly #steady: SteadyClock;
  #readMs: number | null = null;

  constructor(timeline: Timeline, process: Process, time: ProcessTime) {
    const monotonicMs = () => timeline.nowMs;
    const wallMs = () => EPOCH_MS + time.skewMs + time.steppedMs() + timeline.nowMs;
    this.wallMs = () => Math.floor(wallMs());
    const after: Clock["after"] = (delayMs, fn) => process.after(delayMs, fn);
    this.#timeline = timeline;
    this.#process = process;
    this.#time = time;
    this.#steady = new SteadyClock({ wallMs, monotonicMs, uptimeMs: monotonicMs, after });
  }

  now(): number {
    const isDue = this.#readMs === null || this.#timeline.nowMs - this.#readMs >= READ_EVERY_MS;
    if (isDue) this.#read();
    return this.#steady.now();
  }

  after(delayMs: number, fn: () => void): Cancel {
    return this.#steady.after(delayMs, fn);
  }

  #read(): void {
    const { server, skewMs } = this.#time;
    const isFirst = this.#readMs === null;
    if (!server || !(isFirst || (this.#process.reaches("store") && !this.#process.isPaused))) return;
    const { followedMs } = this.#steady;
    this.#readMs = this.#timeline.nowMs;
    this.#steady.follow(server.read(followedMs === null ? null : followedMs - skewMs) + skewMs);
    // After its first read: `server.read` asks the running processes, and this one is not running yet.
    if (isFirst) this.#process.onEnd(server.addReader(() => this.#read()));
  }
}

const READ_EVERY_MS = 1_000;

export interface HostOptions {
  readonly name: string;
  readonly skewMs?: number;
  /** Hosts of the control plane follow it. */
  readonly server?: TimeServer;
  boot(process: Process): void;
  shutdown?(process: Process): Promise<void>;
}

/** Boots processes one after another. Each boot runs the same function on a new `Process` without state. */
export class Host {
  readonly name: string;
  readonly #timeline: Timeline;
  readonly #random: SeededRandom;
  readonly #options: HostOptions;
  #boots = 0;
  #steppedMs = 0;
  #process: Process | null = null;

  constructor(timeline: Timeline, random: SeededRandom, options: HostOptions) {
    this.name = options.name;
    this.#timeline = timeline;
    this.#random = random.fork(options.name);
    this.#options = options;
  }

  /** The running process; null while the host is down. */
  get process(): Process | null {
    return this.#process;
  }

  start(): void {
    if (this.#process !== null) return;
    this.#boots += 1;
    const random = this.#random.fork(String(this.#boots));
    const { skewMs = 0, server } = this.#options;
    const time = { skewMs, steppedMs: () => this.#steppedMs, ...(server && { server }) };
    this.#process = new Process(this.#timeline, this.name, random, time);
    this.#options.boot(this.#process);
  }

  /** Steps the system clock of the host. */
  stepClock(ms: number): void {
    this.#steppedMs += ms;
  }

  /** Starts a graceful shutdown and calls `onExit` when it is complete. False when the host has no shutdown function. */
  stop(onExit: () => void): boolean {
    const process = this.#process;
    const { shutdown } = this.#options;
    if (process === null || shutdown === undefined) return false;
    process.enter(() => {
      shutdown(process).then(() => {
        if (this.#process !== process) return;
        this.crash();
        onExit();
      });
    });
    return true;
  }

  crash(): void {
    this.#process?.crash();
    this.#process = null;
  }
}
