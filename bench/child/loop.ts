import { setTimeout as delay } from "node:timers/promises";
import type { Backend, OpenBackend } from "./backend.ts";
import { CpuMeter } from "./clocks.ts";
import { Ledger } from "./ledger.ts";
import { inputOf, STEPS } from "./payload.ts";
import type { LoopFigures, LoopTask } from "./task.ts";

/**
 * A closed loop with a fixed number of jobs or runs in flight.
 *
 * 1. The measured window is inside the running loop, without its start and its end.
 * 2. Every job, with those of the warm-up, is checked: processed once (a run: each step once, in order) and ended once. A
 *    prefilled backlog is not drained, so only its started jobs are checked.
 */
export async function runLoop(task: LoopTask, open: OpenBackend): Promise<LoopFigures> {
  const loop = new Loop(task.load === "runs" ? STEPS : 1);
  const backend = await open(task.backend, task.role, loop);
  if (task.prefilled) await backend.fill(task.inFlight, () => loop.next());
  await backend.start();
  loop.begin(backend, task.prefilled ? 0 : task.inFlight);
  const figures = await Promise.race([measure(task, loop), loop.failed]);
  loop.end();
  if (!task.prefilled) await settled(loop);
  await backend.close();
  const faults = loop.ledger.faults({ isWorkHere: task.role === "all", isDrained: !task.prefilled });
  return { ...figures, submitted: loop.ledger.submitted, faults };
}

export class Loop {
  readonly ledger: Ledger;
  /** Resolves when the first job has ended. A prefilled backlog waits for the first sweep. */
  readonly flowing: Promise<void>;
  /** Resolves when the last job has ended, after `end`. */
  readonly drained: Promise<void>;
  readonly failed: Promise<never>;
  #backend: Backend | null = null;
  #isRunning = false;
  #mark: { left: number; readonly resolve: () => void } | null = null;
  #engine: () => void = () => {};
  #drain: () => void = () => {};
  #fail: (error: unknown) => void = () => {};

  constructor(stepsEach: number, isOrdered = true) {
    this.ledger = new Ledger(stepsEach, isOrdered);
    this.flowing = new Promise((resolve) => {
      this.#engine = resolve;
    });
    this.drained = new Promise((resolve) => {
      this.#drain = resolve;
    });
    this.failed = new Promise((_, reject) => {
      this.#fail = reject;
    });
    // Handled by a later race; until then a rejection must not end the process.
    this.failed.catch(() => {});
  }

  next() {
    return inputOf(this.ledger.submit(performance.now()));
  }

  begin(backend: Backend, slots: number): void {
    this.#backend = backend;
    this.#isRunning = true;
    for (let slot = 0; slot < slots; slot++) this.#launch();
  }

  end(): void {
    this.#isRunning = false;
    if (this.ledger.open === 0) this.#drain();
  }

  worked({ n }: { readonly n: number }, _attempt: number, step = 0): void {
    this.ledger.work(n, step);
  }

  /** Resolves when this many more jobs have ended. */
  afterEnds(count: number): Promise<void> {
    return new Promise((resolve) => {
      this.#mark = { left: count, resolve };
    });
  }

  ended(n: number): void {
    if (!this.ledger.end(n, performance.now())) return;
    if (this.#mark !== null && --this.#mark.left === 0) this.#mark.resolve();
    this.#engine();
    if (this.#isRunning) this.#launch();
    else if (this.ledger.open === 0) this.#drain();
  }

  #launch(): void {
    this.#backend?.submit(this.next()).catch(this.#fail);
  }
}

/** All jobs have ended, and there was time to observe a duplicate. */
export async function settled({ drained, failed }: Loop): Promise<void> {
  await Promise.race([drained, failed, delay(DRAIN_MS_MAX)]);
  await delay(SETTLE_MS);
}

async function measure(task: LoopTask, { ledger, flowing }: Loop): Promise<Omit<LoopFigures, "submitted" | "faults">> {
  await flowing;
  await delay(task.warmMs);
  const cpu = new CpuMeter(task.clientPids, task.serverPids, task.backend.kind === "dbos");
  const beganMs = performance.now();
  ledger.beginWindow();
  await delay(task.measureMs);
  const window = ledger.endWindow();
  const seconds = (performance.now() - beganMs) / 1_000;
  return { ...window, seconds, ...cpu.used() };
}

const DRAIN_MS_MAX = 60_000;
const SETTLE_MS = 200;
