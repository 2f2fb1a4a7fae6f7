import type { DecisionContext } from "../core/jobs/transitions.ts";
import { builtInKernel, type LiveKernel } from "../core/policy/kernel.ts";
import type { LiveSettings } from "../core/settings.ts";
import type { World } from "../ports/world.ts";
import { AuditBuffer } from "./audit/audit-log.ts";
import { LongPollWaiters } from "./dispatch/long-poll-waiters.ts";
import { FairnessThrottle } from "./fairness-throttle.ts";
import { AdmissionLimiter } from "./intake/admission-limiter.ts";
import { JobCache } from "./job-cache.ts";
import { EventFeed } from "./observe/event-feed.ts";
import { RetryArrivals } from "./observe/retry-arrivals.ts";
import { PlanCache } from "./runs/plan-cache.ts";
import { RunInbox } from "./runs/run-inbox.ts";
import { SafetyState } from "./safety/safety-state.ts";
import { Pools } from "./workers/worker-pools.ts";
import { WorkerRegistry } from "./workers/worker-registry.ts";

/** What every station of one process works with: the outside, the settings in force, and what the process remembers. */
export interface Engine {
  readonly world: World;
  readonly settings: LiveSettings;
  readonly jobCache: JobCache;
  readonly events: EventFeed;
  readonly audit: AuditBuffer;
  readonly arrivals: RetryArrivals;
  readonly safety: SafetyState;
  /** The policy in force in this process; the World's `safety` may ask another process. */
  readonly kernel: LiveKernel;
  /** The workers that were heard of, and the pools that they are in. */
  readonly registry: WorkerRegistry;
  readonly pools: Pools;
  /** Who waits for work over HTTP. */
  readonly waiters: LongPollWaiters;
  /** The workflows that it has compiled. */
  readonly planCache: PlanCache;
  /** News that waits for the lock of its run. */
  readonly runInbox: RunInbox;
  /** Who lets whom pass. */
  readonly throttle: FairnessThrottle;
  /** Who wants a run, where many do at once. */
  readonly admissionLimiter: AdmissionLimiter;
}

export function openEngine(world: World, settings: LiveSettings, kernel: LiveKernel = builtInKernel()): Engine {
  const notices = new EventFeed(world);
  return {
    world,
    settings,
    jobCache: new JobCache(),
    events: notices,
    audit: new AuditBuffer(world),
    arrivals: new RetryArrivals(),
    safety: new SafetyState(),
    kernel,
    registry: new WorkerRegistry(() => settings.current.worker.silentMs),
    pools: new Pools(),
    waiters: new LongPollWaiters(world, notices),
    planCache: new PlanCache(),
    runInbox: new RunInbox(),
    throttle: new FairnessThrottle(world.locks.isShared),
    admissionLimiter: new AdmissionLimiter(),
  };
}

/** The time, the settings and the chance that a decision is given. */
export function decisionContext({ world, settings }: Engine, nowMs = world.clock.now()): DecisionContext {
  return { nowMs, settings: settings.current, random: () => world.random.next() };
}
