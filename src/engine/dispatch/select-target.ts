import { type Aim, aimAt, type Work, waitForWorker } from "../../core/jobs/select-target.ts";
import type { Job } from "../../core/model/job.ts";
import { type Flow, given } from "../engine.ts";
import { heldByLease } from "../safety/fail-open.ts";

/** Where a job's work would go now, by what this process has heard of workers and pools. */
export function aimOf(flow: Flow, work: Work & { readonly topic: string }): Aim {
  const { topic } = work;
  followSettings(flow);
  const workers = flow.roster.serving(topic, flow.world.clock.now());
  return aimAt(work, workers, { draining: flow.pools.draining, named: flow.pools.namedFor(topic) });
}

/** Whether any job of the topic may go at all. Asked before jobs are taken from the backlog. */
export function isHeld(flow: Flow, topic: string): boolean {
  if (flow.pools.draining.size === 0) return false;
  const aim = aimOf(flow, { topic, org: "", requires: [] });
  return aim.kind === "lease" || (aim.kind === "wait" && aim.isForAll);
}

/**
 * What keeps a job from being sent although there is room; null for nothing. Most jobs require nothing and no pool is
 * being drained: then nobody has to be asked.
 */
export function held(flow: Flow, job: Job): Held | null {
  if (flow.pools.killOf(job.org)) return { kind: "stays" };
  const unpermitted = heldByLease(flow, job);
  if (unpermitted) return unpermitted;
  if (job.requires.length === 0 && flow.pools.draining.size === 0) return null;
  const aim = aimOf(flow, job);
  switch (aim.kind) {
    case "direct":
    case "topic":
      return null;
    case "lease":
      return { kind: "stays" };
    case "wait":
      if (aim.isForAll) return { kind: "stays" };
      flow.roster.rememberUnfit(job.topic, job);
      return { kind: "waits", job: waitForWorker(job, aim.why, given(flow)) };
    default:
      return aim satisfies never;
  }
}

/** `stays`: in the backlog, where workers that come for it find it, or until a pool is resumed or a switch released. */
export type Held = { readonly kind: "stays" } | { readonly kind: "waits"; readonly job: Job };

/**
 * Whether the input has to stand under its pointer for whoever takes the work: workers of others know no other way. Ours
 * say that they take it with the message.
 */
export function needsPointer(flow: Flow, topic: string): boolean {
  if (!flow.world.bus.workers.mayBeOthers) return false;
  const workers = flow.roster.serving(topic, flow.world.clock.now());
  let hasOurs = false;
  for (const { transport, capabilities } of workers) {
    if (transport === "http") continue;
    if (!capabilities.has("inline")) return true;
    hasOurs = true;
  }
  return !hasOurs;
}

/** What the settings say of pools, from now on. */
export function followSettings(flow: Flow): void {
  if (flow.pools.follow(flow.settings.current.pools)) flow.roster.setPools(flow.pools.factsOf);
}
