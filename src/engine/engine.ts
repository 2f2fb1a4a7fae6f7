import { builtInKernel, type LiveKernel } from "../core/policy/kernel.ts";
import type { LiveSettings } from "../core/settings.ts";
import type { World } from "../ports/world.ts";
import { AuditBuffer } from "./audit/index.ts";
import { BackgroundTasks } from "./background-tasks.ts";
import { type Commit, createCommit } from "./commit.ts";
import { drainBacklog, LongPollWaiters } from "./dispatch/index.ts";
import { FairnessThrottle } from "./fairness-throttle.ts";
import { AdmissionLimiter } from "./intake/index.ts";
import { JobCache } from "./job-cache.ts";
import { WindowQueue } from "./limits/index.ts";
import { LockStats } from "./lock-stats.ts";
import { onDue } from "./maintenance/index.ts";
import { ContentionRecorder, EventFeed, RetryArrivals } from "./observe/index.ts";
import { RolloutRegistry, type UnitSettings } from "./rollouts/index.ts";
import {
  afterRunCommit,
  grantSlots,
  PlanCache,
  processRunQueue,
  RunCache,
  type RunEffects,
  RunInbox,
} from "./runs/index.ts";
import { SafetyState } from "./safety/index.ts";
import { Timers } from "./timers.ts";
import { Pools, WorkerRegistry } from "./workers/index.ts";

/** The collaborators of one control-plane process, composed once. Handlers declare the ones they use with `Needs`. */
export interface Engine {
  readonly world: World;
  readonly settings: UnitSettings;
  /** The rollouts in force; the source of `settings`. */
  readonly rollouts: RolloutRegistry;
  readonly commit: Commit;
  /** Dispatches from the backlog of a topic. */
  readonly drain: (topic: string) => void;
  readonly tasks: BackgroundTasks;
  readonly timers: Timers;
  readonly events: EventFeed;
  readonly audit: AuditBuffer;
  readonly throttle: FairnessThrottle;
  readonly lockStats: LockStats;
  readonly arrivals: RetryArrivals;
  readonly contention: ContentionRecorder;
  readonly jobCache: JobCache;
  readonly registry: WorkerRegistry;
  readonly pools: Pools;
  readonly waiters: LongPollWaiters;
  readonly safety: SafetyState;
  readonly windows: WindowQueue;
  /** The policy in force in this process; `world.safety` may call another process. */
  readonly kernel: LiveKernel;
  readonly planCache: PlanCache;
  readonly runCache: RunCache;
  readonly runInbox: RunInbox;
  readonly runEffects: RunEffects;
  readonly admissionLimiter: AdmissionLimiter;
}

/** The part of the engine that a handler uses. */
export type Needs<K extends keyof Engine> = Pick<Engine, K>;

/** What placing, sending and settling a job uses. */
export type DispatchContext = Needs<
  | "world"
  | "settings"
  | "rollouts"
  | "commit"
  | "drain"
  | "tasks"
  | "timers"
  | "jobCache"
  | "registry"
  | "pools"
  | "safety"
  | "windows"
  | "runInbox"
>;

/** What advancing a run uses. */
export type RunContext = DispatchContext &
  Needs<"audit" | "throttle" | "lockStats" | "contention" | "planCache" | "runCache" | "runEffects">;

export function openEngine(world: World, config: LiveSettings, kernel: LiveKernel = builtInKernel()): Engine {
  const rollouts = new RolloutRegistry(config, world);
  const settings: UnitSettings = rollouts;
  const tasks = new BackgroundTasks();
  const events = new EventFeed(world);
  return composeEngine({
    world,
    settings,
    rollouts,
    kernel,
    tasks,
    events,
    audit: new AuditBuffer(world),
    throttle: new FairnessThrottle(world.locks.isShared),
    lockStats: new LockStats(),
    arrivals: new RetryArrivals(),
    contention: new ContentionRecorder({ world, settings, tasks }),
    jobCache: new JobCache(),
    registry: new WorkerRegistry(() => settings.current.worker.silentMs),
    pools: new Pools(),
    waiters: new LongPollWaiters(world, events),
    safety: new SafetyState({ world, settings, tasks, kernel }),
    windows: new WindowQueue(),
    planCache: new PlanCache(),
    runCache: new RunCache(),
    admissionLimiter: new AdmissionLimiter(),
  });
}

type Bound = "commit" | "drain" | "timers" | "runInbox" | "runEffects";

/** Adds the collaborators that call handlers back. They are bound to the composed engine, which breaks the cycle. */
export function composeEngine(parts: Omit<Engine, Bound>): Engine {
  const engine: Engine = {
    ...parts,
    commit: createCommit(parts),
    drain: (topic) => drainBacklog(engine, topic),
    timers: new Timers(parts, (due) => onDue(engine, due)),
    runInbox: new RunInbox(parts, (key, queue) => processRunQueue(engine, key, queue)),
    runEffects: {
      committed: (change, stopped) => afterRunCommit(engine, change, stopped),
      slotFreed: (org) => grantSlots(engine, org),
    },
  };
  return engine;
}
