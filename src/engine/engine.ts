import type { Given } from "../core/jobs/transitions.ts";
import { builtInKernel, type LiveKernel } from "../core/policy/kernel.ts";
import type { LiveSettings } from "../core/settings.ts";
import type { World } from "../ports/world.ts";
import { AuditDesk } from "./audit/audit-log.ts";
import { Bells } from "./dispatch/long-poll-waiters.ts";
import { Pace } from "./fairness-throttle.ts";
import { StartLine } from "./intake/admission-limiter.ts";
import { Desk } from "./job-cache.ts";
import { Notices } from "./observe/event-feed.ts";
import { RetryArrivals } from "./observe/retry-arrivals.ts";
import { Plans } from "./runs/plan-cache.ts";
import { RunDesk } from "./runs/run-inbox.ts";
import { SafetyDesk } from "./safety/safety-state.ts";
import { Pools } from "./workers/worker-pools.ts";
import { Roster } from "./workers/worker-registry.ts";

/** What every station of one process works with: the outside, the settings in force, and what the process remembers. */
export interface Flow {
  readonly world: World;
  readonly settings: LiveSettings;
  readonly desk: Desk;
  readonly notices: Notices;
  readonly audit: AuditDesk;
  readonly arrivals: RetryArrivals;
  readonly safety: SafetyDesk;
  /** The policy in force in this process; the World's `safety` may ask another process. */
  readonly kernel: LiveKernel;
  /** The workers that were heard of, and the pools that they are in. */
  readonly roster: Roster;
  readonly pools: Pools;
  /** Who waits for work over HTTP. */
  readonly bells: Bells;
  /** The workflows that it has compiled. */
  readonly plans: Plans;
  /** News that waits for the lock of its run. */
  readonly runs: RunDesk;
  /** Who lets whom pass. */
  readonly pace: Pace;
  /** Who wants a run, where many do at once. */
  readonly starts: StartLine;
}

export function openFlow(world: World, settings: LiveSettings, kernel: LiveKernel = builtInKernel()): Flow {
  const notices = new Notices(world);
  return {
    world,
    settings,
    desk: new Desk(),
    notices,
    audit: new AuditDesk(world),
    arrivals: new RetryArrivals(),
    safety: new SafetyDesk(),
    kernel,
    roster: new Roster(() => settings.current.worker.silentMs),
    pools: new Pools(),
    bells: new Bells(world, notices),
    plans: new Plans(),
    runs: new RunDesk(),
    pace: new Pace(world.locks.isShared),
    starts: new StartLine(),
  };
}

/** The time, the settings and the chance that a decision is given. */
export function given({ world, settings }: Flow, nowMs = world.clock.now()): Given {
  return { nowMs, settings: settings.current, random: () => world.random.next() };
}
