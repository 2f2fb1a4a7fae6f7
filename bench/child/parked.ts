import { setTimeout as delay } from "node:timers/promises";
import { retryAfter } from "../../src/core/retry/intent.ts";
import { peakToMean, percentile } from "../frame/figures.ts";
import { Ledger } from "./ours/ledger.ts";
import { type Input, inputOf } from "./ours/payload.ts";
import type { Events, OpenSide, Side } from "./side.ts";
import type { ParkedFigures, ParkedTask } from "./task.ts";

/**
 * Healthy jobs at a steady rate, while many others wait for their retry.
 *
 * Four phases in one process, so that nothing else differs: none parked; all parked and none due; all coming back;
 * none again. The better of the first and the last is what the others are held against.
 * A retry is back when a worker gets it; it was meant to be back at the time that its record states.
 */
export async function runParked(task: ParkedTask, open: OpenSide): Promise<ParkedFigures> {
  const scene = new Scene(task);
  const side = await open(task.side, "all", scene);
  await side.start();
  await warmUp(side, scene);
  const healthy = keepHealthy(side, scene, task.healthyPerSecond);
  await delay(task.warmMs);
  const before = await p95During(scene, delay(task.measureMs));
  await parkAll(side, scene, task.parked);
  const firstDueMs = scene.dueMs.reduce((a, b) => Math.min(a, b)) - Date.now();
  const parked = await p95During(scene, delay(Math.max(0, Math.min(firstDueMs, task.measureMs * 2))));
  await delay(Math.max(0, scene.dueMs.reduce((a, b) => Math.min(a, b)) - Date.now()));
  const back = await p95During(scene, Promise.race([scene.allBack, delay(RETURN_MS_MAX)]));
  await delay(task.warmMs);
  const after = await p95During(scene, delay(task.measureMs));
  healthy.stop();
  await Promise.race([scene.drained(), delay(RETURN_MS_MAX)]);
  await side.close();
  return {
    p95NoneMs: Math.min(before, after),
    p95ParkedMs: parked,
    p95ReturnMs: back,
    peakToMean: peakToMean(scene.backMs, BIN_MS),
    peakToMeanIdeal: peakToMean(scene.dueMs, BIN_MS),
    lateP95Ms: percentile(scene.lateMs(), 0.95),
    faults: scene.faults(),
  };
}

class Scene implements Events {
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

  submit(side: Side, isToPark: boolean): void {
    const n = this.ledger.submit(performance.now());
    if (isToPark) this.#toPark.add(n);
    void side.submit(inputOf(n));
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
      throw retryAfter(new Error("come back later"), chosenMs, "unclassified");
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
    const wrong = [...this.#tries.values()].filter((tries) => tries !== 2).length;
    if (wrong > 0) faults.push(`${wrong} of ${this.#task.parked} parked jobs did not get exactly two attempts`);
    return faults;
  }
}

async function p95During(scene: Scene, span: Promise<unknown>): Promise<number> {
  scene.ledger.beginWindow();
  await span;
  return scene.ledger.endWindow().p95Ms;
}

/** So many a second, in small steps; what a late timer missed is made up for. */
function keepHealthy(side: Side, scene: Scene, perSecond: number): { stop(): void } {
  const beganMs = performance.now();
  let submitted = 0;
  const timer = setInterval(() => {
    const wanted = ((performance.now() - beganMs) / 1_000) * perSecond;
    for (; submitted < wanted; submitted++) scene.submit(side, false);
  }, STEP_MS);
  return { stop: () => clearInterval(timer) };
}

/** The steady rate is low: alone it would leave the first phase with code that is still being compiled. */
async function warmUp(side: Side, scene: Scene): Promise<void> {
  await submitMany(side, scene, WARM_JOBS, false);
  await scene.drained();
}

async function parkAll(side: Side, scene: Scene, count: number): Promise<void> {
  await submitMany(side, scene, count, true);
  await scene.allParked;
}

async function submitMany(side: Side, scene: Scene, count: number, isToPark: boolean): Promise<void> {
  for (let sent = 0; sent < count; sent += BATCH) {
    for (let i = sent; i < Math.min(count, sent + BATCH); i++) scene.submit(side, isToPark);
    await delay(BATCH_EVERY_MS);
  }
}

const BIN_MS = 50;
const STEP_MS = 10;
const BATCH = 100;
const BATCH_EVERY_MS = 25;
const WARM_JOBS = 10_000;
const RETURN_MS_MAX = 120_000;
