import { type DispatchTarget, selectTarget, type Work, waitForWorker } from "../../core/jobs/select-target.ts";
import type { Job } from "../../core/model/job.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";

/** Where a job's work would go now, by what this process has heard of workers and pools. */
export function targetOf(
  engine: Needs<"world" | "settings" | "registry" | "pools">,
  work: Work & { readonly topic: string },
): DispatchTarget {
  const { topic } = work;
  followSettings(engine);
  const workers = engine.registry.serving(topic, engine.world.clock.now());
  return selectTarget(work, workers, { draining: engine.pools.draining, named: engine.pools.namedFor(topic) });
}

/** Whether any job of the topic may go at all. Asked before jobs are taken from the backlog. */
export function isTopicBlocked(engine: Needs<"world" | "settings" | "registry" | "pools">, topic: string): boolean {
  if (engine.pools.draining.size === 0) return false;
  const aim = targetOf(engine, { topic, org: "", requires: [] });
  return aim.kind === "lease" || (aim.kind === "wait" && aim.isForAll);
}

/**
 * What keeps a job from being sent although there is room; null for nothing. Most jobs require nothing and no pool is
 * being drained: then nobody has to be asked.
 */
export function dispatchBlock(
  engine: Needs<"world" | "settings" | "registry" | "pools" | "safety">,
  job: Job,
): DispatchBlock | null {
  if (engine.pools.killOf(job.org)) return { kind: "stays" };
  const unpermitted = engine.safety.grants.block(job);
  if (unpermitted) return unpermitted;
  if (job.requires.length === 0 && engine.pools.draining.size === 0) return null;
  const aim = targetOf(engine, job);
  switch (aim.kind) {
    case "direct":
    case "topic":
      return null;
    case "lease":
      return { kind: "stays" };
    case "wait":
      if (aim.isForAll) return { kind: "stays" };
      engine.registry.rememberUnfit(job.topic, job);
      return { kind: "waits", job: waitForWorker(job, aim.why, decisionContext(engine)) };
    default:
      return aim satisfies never;
  }
}

/** `stays`: in the backlog, where workers that come for it find it, or until a pool is resumed or a switch released. */
export type DispatchBlock = { readonly kind: "stays" } | { readonly kind: "waits"; readonly job: Job };

/**
 * Whether the input has to stand under its pointer for whoever takes the work: workers of others know no other way. Ours
 * say that they take it with the message.
 */
export function needsPointer(engine: Needs<"world" | "registry">, topic: string): boolean {
  if (!engine.world.bus.hasThirdPartyWorkers) return false;
  const workers = engine.registry.serving(topic, engine.world.clock.now());
  let hasOurs = false;
  for (const { transport, capabilities } of workers) {
    if (transport === "http") continue;
    if (!capabilities.has("inline")) return true;
    hasOurs = true;
  }
  return !hasOurs;
}

/** What the settings say of pools, from now on. */
export function followSettings(engine: Needs<"settings" | "registry" | "pools">): void {
  if (engine.pools.follow(engine.settings.current.pools)) engine.registry.setPools(engine.pools.factsOf);
}
