import type { LiveKernel } from "../core/policy/kernel.ts";
import type { LiveSettings } from "../core/settings.ts";
import { type Engine, openEngine } from "../engine/engine.ts";
import { watchSafety } from "../engine/safety/index.ts";
import { startControl } from "../engine/start-control.ts";
import { watchWorkers } from "../engine/workers/index.ts";
import { EPOCH_MS } from "../sim/adapters/time.ts";
import { openNet, type SimNet, simWorld } from "../sim/adapters/world.ts";
import { drawFaults, FaultInjector, type FaultProfile } from "../sim/faults.ts";
import { Host, type Process } from "../sim/process.ts";
import { SeededRandom } from "../sim/random.ts";
import { startWorker, type WorkItem } from "../worker/worker.ts";

/**
 * The simulated processes of a test plane.
 *
 * Without faults: one control-plane process with a local kernel, and one worker. With faults: a gateway, which does not
 * crash, two control-plane processes and two workers, which do, and a remote kernel with outages.
 */
export class TestSystem {
  readonly net: SimNet;
  readonly random: SeededRandom;
  readonly hosts: readonly Host[];
  readonly #gateway: Host;
  readonly #injector: FaultInjector;
  readonly #options: TestSystemOptions;
  #engine: Engine | null = null;

  constructor(options: TestSystemOptions) {
    this.#options = options;
    const { seed, settings, kernel, faults: profile } = options;
    this.random = new SeededRandom(seed);
    const faults = drawFaults(profile, this.random.fork("faults"));
    const { ackWaitMs, deliverMax, ackPendingMax: inFlightMax } = settings.current.bus;
    this.net = openNet({
      random: this.random,
      faults: faults.net,
      bus: { ackWaitMs, deliverMax, inFlightMax },
      kernel: {
        decide: (request) => kernel.decide(request),
        health: "up",
        timeoutMs: settings.current.safety.timeoutMs,
      },
    });
    const hasFaults = profile !== "none";
    this.#gateway = this.#controlHost(hasFaults ? "gateway" : "control", hasFaults ? "gateway" : "all");
    const others = hasFaults
      ? [this.#controlHost("control-1", "control"), this.#controlHost("control-2", "control")]
      : [];
    const workers = (hasFaults ? ["worker-1", "worker-2"] : ["worker"]).map((name) => this.#workerHost(name));
    this.hosts = [this.#gateway, ...others, ...workers];
    this.#injector = new FaultInjector(this.net, faults.process, [...others, ...workers], this.random.fork("chaos"));
    this.net.onCommit = (process) => this.#injector.afterCommit(process);
    // Before the first process reads it, a step of the clock sets the start.
    this.net.time.stepClock(options.startMs - EPOCH_MS);
    for (const host of this.hosts) {
      host.stepClock(options.startMs - EPOCH_MS);
      host.start();
    }
  }

  startFaults(): void {
    this.#injector.start();
  }

  stop(): void {
    this.#injector.stop();
    for (const host of this.hosts) host.crash();
  }

  get crashes(): number {
    return this.#injector.crashes;
  }

  /** The time of the control plane. */
  get nowMs(): number {
    return Math.floor(this.net.time.nowMs);
  }

  /** The engine and the process that serve requests. */
  get gateway(): { readonly engine: Engine; readonly process: Process } {
    const { process } = this.#gateway;
    if (this.#engine === null || process === null) throw new Error("the gateway is not running");
    return { engine: this.#engine, process };
  }

  /** Whether every process runs and reaches its servers, and no message, lock or lock waiter is left. */
  get isCalm(): boolean {
    const { kernel, bus, store, locks } = this.net;
    if (kernel.health !== "up" || !bus.open().next().done) return false;
    if (store.unsent(Number.POSITIVE_INFINITY, 1).length > 0 || locks.list(1).length > 0) return false;
    return this.hosts.every(
      ({ process }) => process !== null && !process.isPaused && process.reaches("bus") && process.reaches("store"),
    );
  }

  #controlHost(name: string, role: "all" | "gateway" | "control"): Host {
    const { settings, kernel } = this.#options;
    let stop = async (): Promise<void> => {};
    return new Host(this.net.timeline, this.random, {
      name,
      server: this.net.time,
      boot: (process) => {
        const world = simWorld(this.net, process, { safety: role === "all" ? "local" : "remote" });
        const engine = openEngine(world, settings, kernel);
        if (role !== "control") this.#engine = engine;
        if (role === "gateway") {
          engine.events.start();
          void Promise.all([watchWorkers(engine), watchSafety(engine)]);
          return;
        }
        const starting = startControl(engine);
        stop = async () => (await starting).stop();
      },
      shutdown: () => stop(),
    });
  }

  #workerHost(name: string): Host {
    const { topics, concurrency, capabilities, handle } = this.#options;
    return new Host(this.net.timeline, this.random, {
      name,
      boot: (process) => {
        const world = simWorld(this.net, process, { safety: "remote" });
        const options = { id: name, topics, concurrency, capabilities };
        void startWorker(world, { ...options, handle: (item) => handle(process, item) });
      },
    });
  }
}

export interface TestSystemOptions {
  readonly seed: number;
  readonly faults: FaultProfile;
  readonly settings: LiveSettings;
  readonly kernel: LiveKernel;
  readonly startMs: number;
  readonly topics: readonly string[];
  readonly concurrency: number;
  readonly capabilities: readonly string[];
  handle(process: Process, item: WorkItem): Promise<unknown>;
}
