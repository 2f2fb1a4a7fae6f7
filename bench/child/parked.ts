import { setTimeout as delay } from "node:timers/promises";
import { retryAfter } from "../../src/core/retry/intent.ts";
import { peakToMean, percentile } from "../frame/figures.ts";
import type { Backend, Events, OpenBackend } from "./backend.ts";
import { Ledger } from "./ledger.ts";
import { type Input, inputOf } from "./payload.ts";
import type { ParkedFigures, ParkedTask } from "./task.ts";

/**
 * Healthy jobs at a steady rate, next to many parked retries.
 *
 * Four phases in one process: no parked retries, all parked and none due, all returning, none again. The better of the first
 * and the last phase is the reference. A retry returns when a worker gets it; its planned time is that of its record.
 */
export async function runParked(task: ParkedTask, open: OpenBackend): Promise<ParkedFigures> {
  const tracker = new Tracker(task);
  const backend = await open(task.backend, "all", tracker);
  await backend.start();
  await warmUp(backend, tracker);
  const healthy = submitSteadily(backend, tracker, task.healthyPerSecond);
  await delay(task.warmMs);
  const before = await p95During(tracker, delay(task.measureMs));
  await parkAll(backend, tracker, task.parked);
  const firstDueMs = tracker.dueMs.reduce((a, b) => Math.min(a, b)) - Date.now();
  const parked = await p95During(tracker, delay(Math.max(0, Math.min(firstDueMs, task.measureMs * 2))));
  await delay(Math.max(0, tracker.dueMs.reduce((a, b) => Math.min(a, b)) - Date.now()));
  const back = await p95During(tracker, Promise.race([tracker.allBack, delay(DRAIN_MS_MAX)]));
  await delay(task.warmMs);
  const after = await p95During(tracker, delay(task.measureMs));
  healthy.stop();
  await Promise.race([tracker.drained(), delay(DRAIN_MS_MAX)]);
  await backend.close();
  return {
    p95NoneMs: Math.min(before, after),
    p95ParkedMs: parked,
    p95ReturnMs: back,
    peakToMean: peakToMean(tracker.backMs, BIN_MS),
    peakToMeanIdeal: peakToMean(tracker.dueMs, BIN_MS),
    lateP95Ms: percentile(tracker.lateMs(), 0.95),
    faults: tracker.faults(),
  };
}

class Tracker implements Events {
  readonly ledger = new Ledger();
  readonly dueMs: number[] = [];
  readonly backMs: number[] = [];
  readonly allParked: Promise<void>;
  readonly allBack: Promise<void>;
  readonly #task: ParkedTask;
  readonly #dueOf = new Map<number, number>();
  readonly #backOf = new Map<number, number>();
  readonly #toPark = new Set<number>();
  readonly #tries = new Map<number, number>();
  #onParked: () => void = () => {};
  #onBack: () => void = () => {};
  #onDrained: () => void = () => {};

  constructor(task: ParkedTask) {
    this.#task = task;
    this.allParked = new Promise((resolve) => {
      this.#onParked = resolve;
    });
    this.allBack = new Promise((resolve) => {
      this.#onBack = resolve;
    });
  }

  submit(backend: Backend, isToPark: boolean): void {
    const n = this.ledger.submit(performance.now());
    if (isToPark) this.#toPark.add(n);
    void backend.submit(inputOf(n));
  }

  worked({ n }: Input, attempt: number): void {
    if (!this.#toPark.has(n)) {
      this.ledger.work(n);
      return;
    }
    this.#tries.set(n, (this.#tries.get(n) ?? 0) + 1);
    if (attempt === 1) {
      const { delayMs, delayPct } = this.#task;
      const chosenMs = Math.round(delayMs * (1 - delayPct + 2 * delayPct * Math.random()));
      throw retryAfter(new Error("retry later"), chosenMs, "unclassified");
    }
    this.ledger.work(n);
    this.#backOf.set(n, Date.now());
    this.backMs.push(Date.now());
    if (this.backMs.length === this.#task.parked) this.#onBack();
  }

  retrying(n: number, dueMs: number): void {
    this.#dueOf.set(n, dueMs);
    this.dueMs.push(dueMs);
    if (this.dueMs.length === this.#task.parked) this.#onParked();
  }

  ended(n: number): void {
    this.ledger.end(n, performance.now(), !this.#toPark.has(n));
    if (this.ledger.open === 0) this.#onDrained();
  }

  drained(): Promise<void> {
    if (this.ledger.open === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onDrained = resolve;
    });
  }

  lateMs(): number[] {
    return [...this.#backOf].map(([n, backMs]) => backMs - (this.#dueOf.get(n) ?? backMs));
  }

  faults(): string[] {
    const faults = this.ledger.faults({ isWorkHere: true, isDrained: true });
    const deviating = [...this.#tries.values()].filter((tries) => tries !== 2).length;
    if (deviating > 0)
      faults.push(`${deviating} of ${this.#task.parked} parked jobs did not have exactly two attempts`);
    return faults;
  }
}

async function p95During(tracker: Tracker, span: Promise<unknown>): Promise<number> {
  tracker.ledger.beginWindow();
  await span;
  return tracker.ledger.endWindow().p95Ms;
}

/** Submits at a steady rate in small steps; a late timer catches up. */
function submitSteadily(backend: Backend, tracker: Tracker, perSecond: number): { stop(): void } {
  const beganMs = performance.now();
  let submitted = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - beganMs) / 1_000) * perSecond;
    for (; submitted < due; submitted++) tracker.submit(backend, false);
  }, STEP_MS);
  return { stop: () => clearInterval(timer) };
}

/** The steady rate is too low to warm up the compiler. */
async function warmUp(backend: Backend, tracker: Tracker): Promise<void> {
  await submitMany(backend, tracker, WARM_JOBS, false);
  await tracker.drained();
}

async function parkAll(backend: Backend, tracker: Tracker, count: number): Promise<void> {
  await submitMany(backend, tracker, count, true);
  await tracker.allParked;
}

async function submitMany(backend: Backend, tracker: Tracker, count: number, isToPark: boolean): Promise<void> {
  for (let sent = 0; sent < count; sent += BATCH) {
    for (let i = sent; i < Math.min(count, sent + BATCH); i++) tracker.submit(backend, isToPark);
    await delay(BATCH_EVERY_MS);
  }
}

const BIN_MS = 50;
const STEP_MS = 10;
const BATCH = 100;
const BATCH_EVERY_MS = 25;
const WARM_JOBS = 10_000;
const DRAIN_MS_MAX = 120_000;
