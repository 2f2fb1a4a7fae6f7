import { setTimeout as delay } from "node:timers/promises";
import { CpuMeter } from "../cpu.ts";
import type { OpenSide, Side } from "../side.ts";
import type { LoopFigures, LoopTask } from "../task.ts";
import { Ledger } from "./ledger.ts";
import { inputOf, STEPS } from "./payload.ts";

/**
 * A closed loop: so many jobs, or runs of a workflow, in flight, a new one when one has ended.
 *
 * 1. The measured window lies inside the running loop: neither its beginning nor its end is part of the figures.
 * 2. Every job, the warm-up's too, is checked in the end: worked on once (a run: each of its steps, in order), ended once. Of a prefilled backlog, which is
 *    not worked off, the part that was begun.
 */
export async function runLoop(task: LoopTask, open: OpenSide): Promise<LoopFigures> {
  const loop = new Loop(task.load === "runs" ? STEPS : 1);
  const side = await open(task.side, task.role, loop);
  if (task.prefilled) await side.fill(task.inFlight, () => loop.next());
  await side.start();
  loop.begin(side, task.prefilled ? 0 : task.inFlight);
  const figures = await Promise.race([measure(task, loop), loop.failed]);
  loop.end();
  if (!task.prefilled) {
    await Promise.race([loop.drained, loop.failed, delay(DRAIN_MS_MAX)]);
    await delay(SETTLE_MS);
  }
  await side.close();
  const faults = loop.ledger.faults({ isWorkHere: task.role === "all", isDrained: !task.prefilled });
  return { ...figures, submitted: loop.ledger.submitted, faults };
}

class Loop {
  readonly ledger: Ledger;
  /** Resolves when the first job has ended: a backlog that was there before its control plane waits for a sweep. */
  readonly flowing: Promise<void>;
  /** Resolves when the last job has ended, after `end`. */
  readonly drained: Promise<void>;
  readonly failed: Promise<never>;
  #side: Side | null = null;
  #isRunning = false;
  #engine: () => void = () => {};
  #drain: () => void = () => {};
  #fail: (error: unknown) => void = () => {};

  constructor(stepsEach: number) {
    this.ledger = new Ledger(stepsEach);
    this.flowing = new Promise((resolve) => {
      this.#engine = resolve;
    });
    this.drained = new Promise((resolve) => {
      this.#drain = resolve;
    });
    this.failed = new Promise((_, reject) => {
      this.#fail = reject;
    });
    // Somebody races with it later; until then a failure must not end the process.
    this.failed.catch(() => {});
  }

  next() {
    return inputOf(this.ledger.submit(performance.now()));
  }

  begin(side: Side, slots: number): void {
    this.#side = side;
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

  ended(n: number): void {
    if (!this.ledger.end(n, performance.now())) return;
    this.#engine();
    if (this.#isRunning) this.#launch();
    else if (this.ledger.open === 0) this.#drain();
  }

  #launch(): void {
    this.#side?.submit(this.next()).catch(this.#fail);
  }
}

async function measure(task: LoopTask, { ledger, flowing }: Loop): Promise<Omit<LoopFigures, "submitted" | "faults">> {
  await flowing;
  await delay(task.warmMs);
  const cpu = new CpuMeter(task.clientPids, task.serverPids, task.side.kind === "dbos");
  const beganMs = performance.now();
  ledger.beginWindow();
  await delay(task.measureMs);
  const window = ledger.endWindow();
  const seconds = (performance.now() - beganMs) / 1_000;
  return { ...window, seconds, ...cpu.used() };
}

const DRAIN_MS_MAX = 60_000;
/** Long enough for a job that ends or is worked on twice to be seen. */
const SETTLE_MS = 200;
