import { defaultSettings } from "../../src/config/config.ts";
import { JOBS } from "../../src/core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../../src/core/model/run.ts";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import { startRun } from "../../src/engine/intake/start-run.ts";
import { startControl } from "../../src/engine/start-control.ts";
import type { World } from "../../src/ports/world.ts";
import { simWorld } from "../../src/sim/adapters/world.ts";
import { around } from "../../src/sim/mutants/decorators.ts";
import { RUN_REQUEST, RunHarness } from "./run-harness.ts";

/**
 * A wide run and small runs on virtual time. All processes share one simulated thread; every commit, message and
 * dispatch occupies it for a fixed time.
 */
export class ThrottleScenario {
  readonly harness = new RunHarness(SETTINGS);
  readonly engines: Engine[] = [];
  readonly thread = new Thread(() => this.harness.sim.net.timeline.nowMs);
  /** Lock acquisitions of the wide run and results applied to it. */
  readonly wideRun = { id: "none", startedMs: 0, locks: 0, results: 0 };
  readonly #endedMs = new Map<string, number>();

  static async open(processes: number): Promise<ThrottleScenario> {
    const scenario = new ThrottleScenario();
    const { net } = scenario.harness.sim;
    const lowLatency = { latencyMs: 0.05 };
    net.faults = {
      ...net.faults,
      store: { ...net.faults.store, ...lowLatency },
      bus: { ...net.faults.bus, ...lowLatency },
    };
    for (let n = 1; n <= processes; n++) await scenario.#control(`c${n}`, processes);
    await scenario.harness.worker("w", ["demo.step", "demo.child"], async () => ({ ok: true }), 1_000);
    for (const document of [THREE, FAN]) await scenario.harness.apply(scenario.#first, document);
    return scenario;
  }

  /** Starts one small run every 50 ms while `isActive` holds, and returns their durations. */
  async runSmall(isActive: () => boolean): Promise<readonly number[]> {
    const { timeline } = this.harness.sim.net;
    const started: Promise<{ readonly id: string; readonly atMs: number }>[] = [];
    while (isActive()) {
      const atMs = timeline.nowMs;
      const engine = this.engines[started.length % this.engines.length] ?? this.#first;
      started.push(
        startRun(engine, { ...RUN_REQUEST, workflowId: THREE.id }, "test").then((run) => ({ id: idOf(run), atMs })),
      );
      await this.harness.pass(START_INTERVAL_MS);
    }
    await this.harness.pass(1_000);
    const runs = await Promise.all(started);
    return runs.map(({ id, atMs }) => (this.#endedMs.get(id) ?? Number.POSITIVE_INFINITY) - atMs);
  }

  async startWide(items: number): Promise<void> {
    const input = { items: Array.from({ length: items }, (_, index) => index) };
    this.wideRun.id = await this.harness.started(this.#first, FAN.id, { input });
    this.wideRun.startedMs = this.nowMs;
  }

  get nowMs(): number {
    return this.harness.sim.net.timeline.nowMs;
  }

  get isWideOpen(): boolean {
    return !this.#endedMs.has(this.wideRun.id);
  }

  get wideTookMs(): number {
    return (this.#endedMs.get(this.wideRun.id) ?? Number.POSITIVE_INFINITY) - this.wideRun.startedMs;
  }

  get #first(): Engine {
    const [first] = this.engines;
    if (!first) throw new Error("no process");
    return first;
  }

  async #control(name: string, processes: number): Promise<void> {
    const { process } = this.harness.sim.enter(name);
    const world = this.#slow(simWorld(this.harness.sim.net, process, { safety: "local" }), processes);
    const engine = openEngine(world, { current: this.harness.settings });
    await this.harness.run(startControl(engine));
    this.engines.push(engine);
  }

  #slow(world: World, processes: number): World {
    const { store, bus, locks, clock } = world;
    const spend = (ms: number) => new Promise<void>((resolve) => clock.after(this.thread.take(ms), resolve));
    const commit: typeof store.commit = async (change) => {
      await spend(COMMIT_MS + change.puts.length * PUT_MS);
      const committed = await store.commit(change);
      if (committed.kind !== "committed") return committed;
      for (const { table, id, value } of change.puts) {
        if (table === RUNS.name && value && isRunFinal((value as Run).state)) {
          this.#endedMs.set(id, this.harness.sim.net.timeline.nowMs);
        }
        if (table === JOBS.name && id.startsWith(`${this.wideRun.id}:`) && isSucceeded(value))
          this.wideRun.results += 1;
      }
      return committed;
    };
    const consume: typeof bus.consume = (subject, group, handle) =>
      bus.consume(subject, group, async (delivery) => {
        await spend(MESSAGE_MS);
        return handle(delivery);
      });
    const dispatch: typeof bus.dispatch = async (subject, packet) => {
      await spend(MESSAGE_MS);
      return bus.dispatch(subject, packet);
    };
    const acquire: typeof locks.acquire = async (request) => {
      if (request.key.endsWith(this.wideRun.id)) this.wideRun.locks += 1;
      return locks.acquire(request);
    };
    return {
      ...world,
      store: around(store, { commit }),
      bus: around(bus, { consume, dispatch }),
      locks: around(locks, { acquire, isShared: processes > 1 }),
    };
  }
}

/** A predicate that holds for the next `ms` milliseconds. */
export function forMs(scenario: ThrottleScenario, ms: number): () => boolean {
  const untilMs = scenario.nowMs + ms;
  return () => scenario.nowMs < untilMs;
}

/** A single thread that serves work in order of arrival. */
class Thread {
  busyMs = 0;
  readonly #now: () => number;
  #freeMs = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Reserves `ms` of the thread; returns the time until that work is done. */
  take(ms: number): number {
    this.busyMs += ms;
    this.#freeMs = Math.max(this.#freeMs, this.#now()) + ms;
    return this.#freeMs - this.#now();
  }
}

const isSucceeded = (value: unknown): boolean => (value as { state?: string } | null)?.state === "SUCCEEDED";

function idOf(outcome: Awaited<ReturnType<typeof startRun>>): string {
  if (outcome.kind !== "started") throw new Error(JSON.stringify(outcome));
  return outcome.runId;
}

const THREE = {
  id: "three",
  steps: Object.fromEntries(
    ["a", "b", "c"].map((id, at, all) => [id, { topic: "demo.step", ...(at > 0 && { depends_on: [all[at - 1]] }) }]),
  ),
};
const FAN = { id: "fan", steps: { each: { topic: "demo.child", for_each: "${input.items}" } } };
const SETTINGS = { limits: { ...defaultSettings().limits, concurrentRunsMax: 100_000 } };
const START_INTERVAL_MS = 50;
const COMMIT_MS = 0.8;
const PUT_MS = 0.12;
const MESSAGE_MS = 0.1;
