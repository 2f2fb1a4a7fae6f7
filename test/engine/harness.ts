import { defaultSettings } from "../../src/config/config.ts";
import { checkSubmission } from "../../src/core/jobs/submission.ts";
import { JOBS, type Job } from "../../src/core/model/job.ts";
import type { PolicyRequest } from "../../src/core/policy/decision.ts";
import type { Settings } from "../../src/core/settings.ts";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import { type Admitted, admitJob } from "../../src/engine/intake/admit-job.ts";
import { type Control, startControl } from "../../src/engine/start-control.ts";
import type { Notifier } from "../../src/ports/notifier.ts";
import type { Kernel } from "../../src/sim/adapters/safety.ts";
import { simWorld } from "../../src/sim/adapters/world.ts";
import type { Process } from "../../src/sim/process.ts";
import { SeededRandom } from "../../src/sim/random.ts";
import { startWorker, type WorkerOptions, type WorkItem } from "../../src/worker/worker.ts";
import { type Bench, openBench } from "../sim/harness.ts";

/** A fault-free control plane on virtual time, for tests of single engine functions. */
export class Harness {
  readonly sim: Bench;
  readonly settings: Settings;
  readonly kernel: Kernel;
  /** Of the engines that are opened afterwards. */
  notifier: Notifier | null = null;

  constructor(settings: Partial<Settings> = {}, seed = 1) {
    this.settings = { ...defaultSettings(), ...settings };
    this.kernel = { decide, health: "up", timeoutMs: 1_000 };
    this.sim = openBench({ kernel: this.kernel, random: new SeededRandom(seed) });
  }

  /** An engine that is not connected to the bus; `control` also starts its consumers. */
  engine(name: string, safety: "local" | "remote" = "local"): Engine {
    const { process } = this.sim.enter(name);
    const world = simWorld(this.sim.net, process, { safety });
    const engine = openEngine(this.notifier ? { ...world, notifier: this.notifier } : world, {
      current: this.settings,
    });
    this.#processes.set(name, process);
    return engine;
  }

  async control(name: string, safety: "local" | "remote" = "local"): Promise<{ engine: Engine; control: Control }> {
    const engine = this.engine(name, safety);
    return { engine, control: await this.run(startControl(engine)) };
  }

  crash(name: string): void {
    this.process(name).crash();
  }

  process(name: string): Process {
    const process = this.#processes.get(name);
    if (!process) throw new Error(`no process ${name}`);
    return process;
  }

  /** Starts a worker that does not extend its leases by default, so that a hanging handler is lost at its deadline. */
  async worker(
    id: string,
    topics: readonly string[],
    handle: (item: WorkItem) => Promise<unknown>,
    concurrency = 10,
    options: Partial<WorkerOptions> = {},
  ) {
    const { world, process } = this.sim.enter(id);
    this.#processes.set(id, process);
    return this.run(startWorker(world, { id, topics, concurrency, handle, extendsForMs: 0, ...options }));
  }

  admit(engine: Engine, raw: Record<string, unknown>): Promise<Admitted> {
    const checked = checkSubmission(raw);
    if (checked.kind === "bad") throw new Error(checked.problems.join());
    return this.run(admitJob(engine, checked.submission));
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.sim.run(promise);
  }

  pass(ms: number): Promise<void> {
    return this.sim.pass(ms);
  }

  async job(id: string): Promise<Job> {
    const found = this.sim.net.store.load(JOBS, id);
    if (!found) throw new Error(`no job ${id}`);
    return found.value;
  }

  readonly #processes = new Map<string, Process>();
}

export const idOf = (admitted: Admitted): string => admitted.jobId;

function decide(request: PolicyRequest) {
  const effect = request.topic.startsWith("danger.") ? "deny" : "allow";
  return { effect, ruleId: effect, reason: `${effect} by rule`, snapshot: "s1" } as const;
}
