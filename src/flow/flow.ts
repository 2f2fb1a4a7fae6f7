import type { Given } from "../jobs/moves.ts";
import { builtInKernel, type LiveKernel } from "../policy/kernel.ts";
import type { LiveSettings } from "../settings.ts";
import type { World } from "../world.ts";
import { RetryArrivals } from "./arrivals.ts";
import { AuditDesk } from "./audit.ts";
import { Bells } from "./bells.ts";
import { Desk } from "./desk.ts";
import { Notices } from "./notices.ts";
import { Pace } from "./pace.ts";
import { Plans } from "./plans.ts";
import { Pools } from "./pools.ts";
import { Roster } from "./roster.ts";
import { RunDesk } from "./run-desk.ts";
import { SafetyDesk } from "./safety-desk.ts";
import { StartLine } from "./start-line.ts";

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
