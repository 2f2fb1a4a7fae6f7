import { setTimeout as delay } from "node:timers/promises";
import type { Engine } from "../../../src/engine/engine.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { percentile } from "../../frame/figures.ts";
import { inputOf } from "../payload.ts";
import type { FanFigures, FanTask } from "../task.ts";
import { countRunWork, startWorkers, subscribeEnds } from "./fan-out-processes.ts";
import {
  applyAll,
  FAN,
  MANY_RUNS,
  ORG,
  openEngineWith,
  startOrThrow,
  THREE,
  watchRunEnds,
  withoutKernel,
} from "./workflows.ts";
import { type CordumSpec, cordumOnly, openWorld } from "./world.ts";

/**
 * Starts one wide run, and small runs at a steady rate before and during it.
 *
 * 1. The latency of a phase is that of all small runs started in it.
 * 2. The duration of the wide run is from the call that starts it to the commit that ends it. A smaller wide run warms up.
 * 3. Control planes in other processes broadcast the end of a run after its commit.
 */
export async function runFanOut(task: FanTask): Promise<FanFigures> {
  const spec = cordumOnly(task.backend);
  const tracker = new RunTracker();
  const setup = await (task.role === "all" ? openAll(task, spec, tracker) : openStarter(spec, tracker));
  const { engine } = setup;
  await applyAll(engine, ORG, [THREE, FAN]);
  const others = startSteadily(engine, tracker, task.othersPerSecond);
  await fan(engine, tracker, Math.ceil(task.items / 10));
  await delay(task.warmMs);
  const quiet = tracker.phase();
  await delay(task.quietMs);
  const meanwhile = tracker.phase();
  const beganMs = performance.now();
  const runId = await fan(engine, tracker, task.items);
  const seconds = (performance.now() - beganMs) / 1_000;
  tracker.phase();
  others.stop();
  await Promise.race([tracker.drained(), delay(DRAIN_MS_MAX)]);
  const { control, workers } = await setup.close();
  return {
    runId,
    seconds,
    p95QuietMs: percentile(quiet, 0.95),
    p95MeanwhileMs: percentile(meanwhile, 0.95),
    control,
    workers,
    faults: tracker.faults(),
  };
}

/** Tracks open runs and counts failures. */
class RunTracker {
  readonly #begun = new Map<string, { readonly atMs: number; readonly latencies: number[] }>();
  /** Runs that ended before the call that started them returned. */
  readonly #early = new Set<string>();
  readonly #waiting = new Map<string, () => void>();
  #latencies: number[] = [];
  #failed = 0;
  #failedStarts = 0;
  /** Starts in flight. */
  #starting = 0;
  #onDrained: () => void = () => {};

  /** Starts a phase. The returned latencies are complete when all of its runs have ended. */
  phase(): readonly number[] {
    this.#latencies = [];
    return this.#latencies;
  }

  async start(begin: () => Promise<string>): Promise<void> {
    const open = { atMs: performance.now(), latencies: this.#latencies };
    this.#starting++;
    try {
      const runId = await begin();
      this.#begun.set(runId, open);
      if (this.#early.delete(runId)) this.#close(runId);
    } catch (error) {
      this.#failedStarts++;
      process.stderr.write(`a run did not start: ${error instanceof Error ? error.message : error}\n`);
    } finally {
      this.#starting--;
      this.#checkDrained();
    }
  }

  /** Resolves when this run has ended. */
  until(runId: string): Promise<void> {
    if (this.#early.delete(runId)) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.set(runId, resolve));
  }

  readonly ended = (runId: string, isSucceeded: boolean): void => {
    if (!isSucceeded) this.#failed++;
    const resolve = this.#waiting.get(runId);
    if (resolve) {
      this.#waiting.delete(runId);
      resolve();
    } else if (this.#begun.has(runId)) this.#close(runId);
    else this.#early.add(runId);
  };

  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#onDrained = resolve;
      this.#checkDrained();
    });
  }

  faults(): string[] {
    const sentences: readonly (readonly [number, string])[] = [
      [this.#begun.size, "never ended"],
      [this.#failed, "did not succeed"],
      [this.#failedStarts, "did not start"],
    ];
    return sentences.filter(([runs]) => runs > 0).map(([runs, what]) => `${runs} runs ${what}`);
  }

  #close(runId: string): void {
    const open = this.#begun.get(runId);
    this.#begun.delete(runId);
    if (open) open.latencies.push(performance.now() - open.atMs);
    this.#checkDrained();
  }

  #checkDrained(): void {
    if (this.#begun.size === 0 && this.#starting === 0) this.#onDrained();
  }
}

async function fan(engine: Engine, tracker: RunTracker, count: number): Promise<string> {
  const runId = await startOrThrow(engine, FAN.id, { items: Array.from({ length: count }, (_, item) => item) });
  const timer = new AbortController();
  const tooLong = delay(FAN_MS_MAX, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`a run with ${count} children did not end within ${FAN_MS_MAX / 1_000} s`);
  });
  await Promise.race([tracker.until(runId), tooLong]).finally(() => {
    tooLong.catch(() => {});
    timer.abort();
  });
  return runId;
}

/** Starts runs at a steady rate; a late timer catches up. */
function startSteadily(engine: Engine, tracker: RunTracker, perSecond: number): { stop(): void } {
  const beganMs = performance.now();
  let started = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - beganMs) / 1_000) * perSecond;
    for (; started < due; started++) {
      const input = inputOf(started);
      void tracker.start(() => startOrThrow(engine, THREE.id, input));
    }
  }, STEP_MS);
  return { stop: () => clearInterval(timer) };
}

interface Setup {
  readonly engine: Engine;
  close(): Promise<Pick<FanFigures, "control" | "workers">>;
}

async function openAll(task: FanTask, spec: CordumSpec, tracker: RunTracker): Promise<Setup> {
  const opened = await openWorld(spec);
  const counts = countRunWork(opened.world);
  watchRunEnds(opened.world, ({ id, state }) => tracker.ended(id, state === "SUCCEEDED"));
  const engine = openEngineWith(opened.world, MANY_RUNS);
  const control = await startControl(engine);
  const workers = await startWorkers(opened.world, task.workers, spec.concurrency);
  return {
    engine,
    async close() {
      const figures = await workers.stop();
      await control.stop();
      await opened.close();
      return { control: counts(), workers: figures };
    },
  };
}

async function openStarter(spec: CordumSpec, tracker: RunTracker): Promise<Setup> {
  const opened = await openWorld(spec);
  const stop = await subscribeEnds(opened.world, tracker.ended);
  return {
    engine: openEngineWith(withoutKernel(opened.world), MANY_RUNS),
    async close() {
      await stop();
      await opened.close();
      return { control: null, workers: null };
    },
  };
}

const STEP_MS = 10;
const DRAIN_MS_MAX = 60_000;
const FAN_MS_MAX = 300_000;
