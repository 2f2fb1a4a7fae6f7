import { permanent, retryAfter } from "../core/retry/intent.ts";
import type { LiveSettings } from "../core/settings.ts";
import { type Control, startControl } from "../engine/control.ts";
import { type Engine, openEngine } from "../engine/engine.ts";
import type { Stop } from "../ports/bus.ts";
import type { World } from "../ports/world.ts";
import { RESULT } from "../protocol/subjects.ts";
import { startWorker, type WorkItem } from "../worker/worker.ts";
import { type SimNet, simWorld } from "./adapters/world.ts";
import { ClaimChecker } from "./checks/claim-watch.ts";
import { LockChecker } from "./checks/lease-checkers.ts";
import type { SafetyChecker } from "./checks/safety-checker.ts";
import type { Violations } from "./checks/violations.ts";
import { Host, type Process } from "./process.ts";
import type { SeededRandom } from "./random.ts";
import { type Act, DENIED_TOPIC } from "./workload/acts.ts";
import type { ControlPlan, Plan, WorkerPlan } from "./workload/plan.ts";
import { startTally, type TallyHooks } from "./workload/tally.ts";

/** The processes of the simulated system: the shipped control plane and the shipped worker, and how each is booted. */
export interface System {
  readonly controls: readonly ControlHost[];
  readonly workers: readonly Host[];
  readonly hosts: readonly Host[];
  /** What tally requests failed with a plain error, and how often. */
  readonly plainErrors: ReadonlyMap<string, number>;
  /** Jobs that a worker finished well, by the number of their order. */
  readonly finishedWell: ReadonlySet<number>;
  /** From now on workers neither hang nor die. */
  calm(): void;
}

export interface ControlHost {
  readonly host: Host;
  /** The flow of the process that lives there now. */
  readonly engine: Engine | null;
}

export interface SystemOptions {
  readonly net: SimNet;
  readonly plan: Plan;
  readonly random: SeededRandom;
  readonly violations: Violations;
  /** `job@attempt` of every attempt that a worker has called failed. */
  readonly failures: Set<string>;
  readonly safety: SafetyChecker;
  readonly settings: LiveSettings;
  /** A planted bug, or nothing. */
  decorate(world: World): World;
  crash(host: Host): void;
  stall(host: Host, ms: number): void;
}

export function buildSystem(options: SystemOptions): System {
  const { net, plan } = options;
  const locks = new LockChecker(options.violations, net.store);
  const claims = new ClaimChecker(options.violations);
  const look = (world: World, process: Process): World => claims.around(locks.around(world, process));
  const plainErrors = new Map<string, number>();
  const stalls = new Map(plan.tallies.map(({ id, stallMs }) => [id, stallMs]));
  const floor: Floor = { ...options, isCalm: false, finishedWell: new Set() };
  const controls = plan.controls.map((control) =>
    controlHost(options, control, look, (host) => ({
      onPlainError: (id) => void plainErrors.set(id, (plainErrors.get(id) ?? 0) + 1),
      onThink: (id) => {
        const stallMs = stalls.get(id) ?? null;
        stalls.delete(id);
        if (stallMs !== null) options.stall(host, stallMs);
      },
    })),
  );
  const workers = plan.workers.map((worker) => workerHost(floor, worker));
  for (const { host } of controls) host.start();
  workers.forEach((host, index) => {
    net.timeline.post(plan.workers[index]?.startsMs ?? 0, () => host.start());
  });
  return {
    controls,
    workers,
    hosts: [...controls.map(({ host }) => host), ...workers],
    plainErrors,
    finishedWell: floor.finishedWell,
    calm: () => {
      floor.isCalm = true;
    },
  };
}

function controlHost(
  { net, random, decorate, settings }: SystemOptions,
  control: ControlPlan,
  look: (world: World, process: Process) => World,
  hooks: (host: Host) => TallyHooks,
): ControlHost {
  let engine: Engine | null = null;
  let starting: Promise<[Control, Stop]> = new Promise(() => undefined);
  const host: Host = new Host(net.timeline, random, {
    name: control.name,
    skewMs: control.skewMs,
    boot: (process) => {
      const world = decorate(simWorld(net, process, { safety: control.safety }));
      engine = openEngine(look(world, process), settings);
      starting = Promise.all([startControl(engine), startTally(engine, hooks(host))]);
    },
    shutdown: async () => {
      const [control, stopTally] = await starting;
      await Promise.all([control.stop(), stopTally()]);
    },
  });
  return {
    host,
    get engine() {
      return host.process === null ? null : engine;
    },
  };
}

interface Floor extends SystemOptions {
  isCalm: boolean;
  readonly finishedWell: Set<number>;
}

function workerHost(floor: Floor, worker: WorkerPlan): Host {
  const { net, random } = floor;
  const host: Host = new Host(net.timeline, random, {
    name: worker.name,
    skewMs: worker.skewMs,
    boot: (process) => {
      const world = simWorld(net, process, { safety: "remote" });
      void startWorker(world, {
        id: worker.name,
        topics: worker.topics,
        concurrency: worker.concurrency,
        // Some orders are to be lost by taking too long.
        extendsForMs: 0,
        handle: (item) => work(floor, host, process, world, item),
      });
    },
  });
  return host;
}

/** What a worker does with a job: as the order says, attempt by attempt. */
async function work(floor: Floor, host: Host, process: Process, world: World, item: WorkItem): Promise<unknown> {
  const { net, plan, violations } = floor;
  const number = Number(item.labels.order ?? item.labels.run_order);
  const isOfRun = item.labels.run_id !== undefined;
  const input = item.input as { readonly number?: number; readonly step?: string } | null;
  if (input?.number !== number || input.step !== item.labels.step_id) {
    violations.add("payload", item.jobId, `a worker got the input of another order than ${number}`);
  }
  const isBypassed = item.labels.safety_bypassed === "true";
  if (!floor.safety.isPermitted(item.jobId, item.attempt) || (item.topic === DENIED_TOPIC && !isBypassed)) {
    violations.add("denied", item.jobId, `a worker got attempt ${item.attempt} of it, and nobody had allowed that`);
  }
  const acts = isOfRun ? actsOfStep(plan, item) : (plan.orders[number]?.acts ?? ["ok"]);
  const planned = acts[Math.min(item.attempt, acts.length) - 1] ?? "ok";
  const act: Act = floor.isCalm && (planned === "hang" || planned === "die" || planned === "late") ? "ok" : planned;
  net.trace.note(net.timeline.nowMs, process.name, act, item.jobId);
  if (act !== "ok" && act !== "late") floor.failures.add(`${item.jobId}@${item.attempt}`);
  await sleep(world, WORK_MS[act]?.(plan.settings.dispatch.deadlineMs) ?? process.random.exponential(40));
  switch (act) {
    case "ok":
    case "late":
      break;
    case "retry":
      throw retryAfter(new Error("not now"), process.random.between(0, 4_000));
    case "throw":
    case "hang":
      throw new Error("it broke");
    case "fatal":
      throw permanent(new Error("it can never work"));
    case "die":
      floor.crash(host);
      // Nobody dies any more once the faults have stopped: then it has worked like any other.
      break;
    case "twice":
      await answerAsWell(world, item);
      break;
    default:
      act satisfies never;
  }
  if (!isOfRun) floor.finishedWell.add(number);
  return { number };
}

/** Children of a step take turns with what is planned for it. */
function actsOfStep({ runs }: Plan, { labels, jobId }: WorkItem): readonly Act[] {
  const steps = runs.workflows.find(({ id }) => id === labels.workflow_id)?.steps;
  const acts = steps?.find(({ id }) => id === labels.step_id)?.acts ?? [];
  const index = Number(/\.(\d+)@/.exec(jobId)?.[1] ?? 0);
  return acts[index % acts.length] ?? ["ok"];
}

/** Both are too long for the control plane; `hang` keeps its worker busy for several attempts of others as well. */
const WORK_MS: Partial<Record<Act, (deadlineMs: number) => number>> = {
  late: (deadlineMs) => deadlineMs * 1.5,
  hang: (deadlineMs) => deadlineMs * 4,
};

/** A second answer of its own id, with a failure in it: only one of the two may count. */
function answerAsWell(world: World, { jobId, attempt }: WorkItem): Promise<void> {
  const body = { kind: "job_result", jobId, status: "failed_retryable", workerId: world.name, attempt } as const;
  const packet = { traceId: jobId, senderId: world.name, createdAtMs: world.clock.now(), body };
  return world.bus
    .publish({ id: `again:${jobId}@${attempt}:${world.random.id()}`, subject: RESULT, packet })
    .catch(() => undefined);
}

function sleep(world: World, delayMs: number): Promise<void> {
  return new Promise((resolve) => world.clock.after(delayMs, resolve));
}
