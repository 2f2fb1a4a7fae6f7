import { setTimeout as delay } from "node:timers/promises";
import { startControl } from "../../../src/engine/control.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { percentile } from "../../frame/figures.ts";
import type { FanFigures, FanTask } from "../task.ts";
import { hearEnds, keepBooks, startWorkers } from "./fan-handlers.ts";
import {
  applyAll,
  FAN,
  MANY_RUNS,
  mustStart,
  ORG,
  openFlowWith,
  THREE,
  watchRunEnds,
  withoutKernel,
} from "./our-workflows.ts";
import { type OurSpec, openWorld, oursOnly } from "./our-world.ts";
import { inputOf } from "./payload.ts";

/**
 * Starts one wide run, and small runs at a steady rate before and beside it.
 *
 * 1. The small runs' latency is taken of those that were started in the phase, and each is waited for.
 * 2. The wide run's time is from the call that starts it to the commit that ends it; a smaller one goes before, to warm up.
 * 3. Where the control plane is elsewhere, ends are heard by a message that it sends after the commit.
 */
export async function runFan(task: FanTask): Promise<FanFigures> {
  const spec = oursOnly(task.side);
  const scene = new Scene();
  const place = await (task.role === "all" ? openAll(task, spec, scene) : openStarter(spec, scene));
  const { engine } = place;
  await applyAll(engine, ORG, [THREE, FAN]);
  const others = keepStarting(engine, scene, task.othersPerSecond);
  await fan(engine, scene, Math.ceil(task.items / 10));
  await delay(task.warmMs);
  const quiet = scene.phase();
  await delay(task.quietMs);
  const meanwhile = scene.phase();
  const beganMs = performance.now();
  const runId = await fan(engine, scene, task.items);
  const seconds = (performance.now() - beganMs) / 1_000;
  scene.phase();
  others.stop();
  await Promise.race([scene.drained(), delay(DRAIN_MS_MAX)]);
  const { control, workers } = await place.close();
  return {
    runId,
    seconds,
    p95QuietMs: percentile(quiet, 0.95),
    p95MeanwhileMs: percentile(meanwhile, 0.95),
    control,
    workers,
    faults: scene.faults(),
  };
}

/** The runs that are open, and what became of the others. */
class Scene {
  readonly #begun = new Map<string, { readonly atMs: number; readonly latencies: number[] }>();
  /** Ended before the call that started them had returned. */
  readonly #early = new Set<string>();
  readonly #waiting = new Map<string, () => void>();
  #latencies: number[] = [];
  #bad = 0;
  #failedStarts = 0;
  /** Calls that have not returned yet. */
  #starting = 0;
  #onDrained: () => void = () => {};

  /** Latencies of the runs that are started from here to the next call; complete when all have ended. */
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
      process.stderr.write(`a run could not be started: ${error instanceof Error ? error.message : error}\n`);
    } finally {
      this.#starting--;
      this.#lookAround();
    }
  }

  /** Resolves when this run has ended. */
  until(runId: string): Promise<void> {
    if (this.#early.delete(runId)) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.set(runId, resolve));
  }

  readonly ended = (runId: string, isGood: boolean): void => {
    if (!isGood) this.#bad++;
    const wakeUp = this.#waiting.get(runId);
    if (wakeUp) {
      this.#waiting.delete(runId);
      wakeUp();
    } else if (this.#begun.has(runId)) this.#close(runId);
    else this.#early.add(runId);
  };

  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#onDrained = resolve;
      this.#lookAround();
    });
  }

  faults(): string[] {
    const sentences: readonly (readonly [number, string])[] = [
      [this.#begun.size, "never ended"],
      [this.#bad, "did not succeed"],
      [this.#failedStarts, "could not be started"],
    ];
    return sentences.filter(([runs]) => runs > 0).map(([runs, what]) => `${runs} runs ${what}`);
  }

  #close(runId: string): void {
    const open = this.#begun.get(runId);
    this.#begun.delete(runId);
    if (open) open.latencies.push(performance.now() - open.atMs);
    this.#lookAround();
  }

  #lookAround(): void {
    if (this.#begun.size === 0 && this.#starting === 0) this.#onDrained();
  }
}

async function fan(engine: Engine, scene: Scene, count: number): Promise<string> {
  const runId = await mustStart(engine, FAN.id, { items: Array.from({ length: count }, (_, item) => item) });
  const overdue = new AbortController();
  const tooLong = delay(FAN_MS_MAX, undefined, { signal: overdue.signal }).then(() => {
    throw new Error(`a run with ${count} children had not ended after ${FAN_MS_MAX / 1_000} s`);
  });
  await Promise.race([scene.until(runId), tooLong]).finally(() => {
    tooLong.catch(() => {});
    overdue.abort();
  });
  return runId;
}

/** So many a second; what a late timer missed is made up for. */
function keepStarting(engine: Engine, scene: Scene, perSecond: number): { stop(): void } {
  const beganMs = performance.now();
  let started = 0;
  const timer = setInterval(() => {
    const wanted = ((performance.now() - beganMs) / 1_000) * perSecond;
    for (; started < wanted; started++) {
      const input = inputOf(started);
      void scene.start(() => mustStart(engine, THREE.id, input));
    }
  }, STEP_MS);
  return { stop: () => clearInterval(timer) };
}

interface Place {
  readonly engine: Engine;
  close(): Promise<Pick<FanFigures, "control" | "workers">>;
}

async function openAll(task: FanTask, spec: OurSpec, scene: Scene): Promise<Place> {
  const opened = await openWorld(spec);
  const books = keepBooks(opened.world);
  watchRunEnds(opened.world, ({ id, state }) => scene.ended(id, state === "SUCCEEDED"));
  const engine = openFlowWith(opened.world, MANY_RUNS);
  const control = await startControl(engine);
  const workers = await startWorkers(opened.world, task.workers, spec.concurrency);
  return {
    engine,
    async close() {
      const figures = await workers.stop();
      await control.stop();
      await opened.close();
      return { control: books(), workers: figures };
    },
  };
}

async function openStarter(spec: OurSpec, scene: Scene): Promise<Place> {
  const opened = await openWorld(spec);
  const stop = await hearEnds(opened.world, scene.ended);
  return {
    engine: openFlowWith(withoutKernel(opened.world), MANY_RUNS),
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
