import { defaultSettings } from "../../src/config/config.ts";
import { JOBS } from "../../src/core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../../src/core/model/run.ts";
import { startControl } from "../../src/engine/control.ts";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import { startRun } from "../../src/engine/intake/start-run.ts";
import type { World } from "../../src/ports/world.ts";
import { simWorld } from "../../src/sim/adapters/world.ts";
import { around } from "../../src/sim/mutants/decorators.ts";
import { RunHarness, RUN_REQUEST } from "./run-harness.ts";

/**
 * A wide run and small ones beside it, on virtual time, where work takes time: whatever a process does is done by one
 * thread, first come first served, and each record that is written, message that is handled and job that is sent costs.
 */
export class ThrottleScenario {
  readonly harness = new RunHarness(MANY);
  readonly engines: Engine[] = [];
  readonly thread = new Thread(() => this.harness.sim.net.timeline.nowMs);
  /** Turns of the wide run's lock, and results that were applied to it. */
  readonly wide = { id: "none", startedMs: 0, locks: 0, results: 0 };
  readonly #endedMs = new Map<string, number>();

  static async open(processes: number): Promise<ThrottleScenario> {
    const scene = new ThrottleScenario();
    const { net } = scene.harness.sim;
    const swift = { latencyMs: 0.05 };
    net.faults = { ...net.faults, store: { ...net.faults.store, ...swift }, bus: { ...net.faults.bus, ...swift } };
    for (let n = 1; n <= processes; n++) await scene.#control(`c${n}`, processes);
    await scene.harness.worker("w", ["demo.step", "demo.child"], async () => ({ ok: true }), 1_000);
    for (const document of [THREE, FAN]) await scene.harness.apply(scene.#first, document);
    return scene;
  }

  /** Small runs, one every 50 ms, as long as it is asked for: how long each of them took. */
  async others(goesOn: () => boolean): Promise<readonly number[]> {
    const { timeline } = this.harness.sim.net;
    const started: Promise<{ readonly id: string; readonly atMs: number }>[] = [];
    while (goesOn()) {
      const atMs = timeline.nowMs;
      const engine = this.engines[started.length % this.engines.length] ?? this.#first;
      started.push(
        startRun(engine, { ...RUN_REQUEST, workflowId: THREE.id }, "test").then((run) => ({ id: idOf(run), atMs })),
      );
      await this.harness.pass(EVERY_MS);
    }
    await this.harness.pass(1_000);
    const runs = await Promise.all(started);
    return runs.map(({ id, atMs }) => (this.#endedMs.get(id) ?? Number.POSITIVE_INFINITY) - atMs);
  }

  async startWide(items: number): Promise<void> {
    const input = { items: Array.from({ length: items }, (_, index) => index) };
    this.wide.id = await this.harness.started(this.#first, FAN.id, { input });
    this.wide.startedMs = this.nowMs;
  }

  get nowMs(): number {
    return this.harness.sim.net.timeline.nowMs;
  }

  get isWideOpen(): boolean {
    return !this.#endedMs.has(this.wide.id);
  }

  get wideTookMs(): number {
    return (this.#endedMs.get(this.wide.id) ?? Number.POSITIVE_INFINITY) - this.wide.startedMs;
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
        if (table === JOBS.name && id.startsWith(`${this.wide.id}:`) && isEnd(value)) this.wide.results += 1;
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
      if (request.key.endsWith(this.wide.id)) this.wide.locks += 1;
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

/** For so long, from now on. */
export function forMs(scene: ThrottleScenario, ms: number): () => boolean {
  const untilMs = scene.nowMs + ms;
  return () => scene.nowMs < untilMs;
}

/** One at a time, in the order of asking. */
class Thread {
  busyMs = 0;
  readonly #now: () => number;
  #freeMs = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** How long it takes until this has been done. */
  take(ms: number): number {
    this.busyMs += ms;
    this.#freeMs = Math.max(this.#freeMs, this.#now()) + ms;
    return this.#freeMs - this.#now();
  }
}

const isEnd = (value: unknown): boolean => (value as { state?: string } | null)?.state === "SUCCEEDED";

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
const MANY = { limits: { ...defaultSettings().limits, concurrentRunsMax: 100_000 } };
const EVERY_MS = 50;
const COMMIT_MS = 0.8;
const PUT_MS = 0.12;
const MESSAGE_MS = 0.1;
