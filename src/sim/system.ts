import type { LiveSettings } from "../core/settings.ts";
import { type Engine, openEngine } from "../engine/engine.ts";
import { type Control, startControl } from "../engine/start-control.ts";
import type { Stop } from "../ports/bus.ts";
import type { World } from "../ports/world.ts";
import { simWorld } from "./adapters/world.ts";
import { ClaimChecker, LockChecker } from "./checks/lease-checkers.ts";
import { Host, type Process } from "./process.ts";
import type { ControlPlan } from "./workload/plan.ts";
import { startTally, type TallyHooks } from "./workload/tally.ts";
import { type WorkerContext, workerHost } from "./workload/workers.ts";

/** The hosts of the simulated system, which run the shipped control plane and the shipped worker. */
export interface System {
  readonly controls: readonly ControlHost[];
  readonly hosts: readonly Host[];
  /** The number of unclassified errors of each tally request. */
  readonly plainErrors: ReadonlyMap<string, number>;
  /** Numbers of the orders whose job a worker finished without an error. */
  readonly succeeded: ReadonlySet<number>;
  /** After this, workers neither hang nor crash. */
  stopFaults(): void;
  /** Ends the worker processes. */
  stopWorkers(): void;
}

export interface ControlHost {
  readonly host: Host;
  /** The engine of the running process; null while the host is down. */
  readonly engine: Engine | null;
}

export interface SystemOptions extends Omit<WorkerContext, "succeeded" | "areFaultsStopped"> {
  readonly settings: LiveSettings;
  /** Applies the mutant to the world of a control process. */
  decorate(world: World): World;
  pause(host: Host, ms: number): void;
}

export function buildSystem(options: SystemOptions): System {
  const { net, plan } = options;
  const locks = new LockChecker(options.violations, net.store);
  const claims = new ClaimChecker(options.violations);
  const checked = (world: World, process: Process): World => claims.around(locks.around(world, process));
  const plainErrors = new Map<string, number>();
  const stalls = new Map(plan.tallies.map(({ id, stallMs }) => [id, stallMs]));
  const context: WorkerContext = { ...options, areFaultsStopped: false, succeeded: new Set() };
  const controls = plan.controls.map((control) =>
    controlHost(options, control, checked, (host) => ({
      onPlainError: (id) => void plainErrors.set(id, (plainErrors.get(id) ?? 0) + 1),
      onRead: (id) => {
        const stallMs = stalls.get(id) ?? null;
        stalls.delete(id);
        if (stallMs !== null) options.pause(host, stallMs);
      },
    })),
  );
  const workers = plan.workers.map((worker) => workerHost(context, worker));
  for (const { host } of controls) host.start();
  workers.forEach((host, index) => {
    net.timeline.post(plan.workers[index]?.startsMs ?? 0, () => host.start());
  });
  return {
    controls,
    hosts: [...controls.map(({ host }) => host), ...workers],
    plainErrors,
    succeeded: context.succeeded,
    stopFaults: () => {
      context.areFaultsStopped = true;
    },
    stopWorkers: () => {
      for (const host of workers) host.crash();
    },
  };
}

function controlHost(
  { net, random, decorate, settings }: SystemOptions,
  control: ControlPlan,
  checked: (world: World, process: Process) => World,
  hooks: (host: Host) => TallyHooks,
): ControlHost {
  let engine: Engine | null = null;
  let starting: Promise<[Control, Stop]> = new Promise(() => undefined);
  const host: Host = new Host(net.timeline, random, {
    name: control.name,
    skewMs: control.skewMs,
    server: net.time,
    boot: (process) => {
      const world = decorate(simWorld(net, process, { safety: control.safety }));
      engine = openEngine(checked(world, process), settings);
      starting = Promise.all([startControl(engine), startTally(engine, hooks(host))]);
    },
    shutdown: async () => {
      const [running, stopTally] = await starting;
      await Promise.all([running.stop(), stopTally()]);
    },
  });
  return {
    host,
    get engine() {
      return host.process === null ? null : engine;
    },
  };
}
