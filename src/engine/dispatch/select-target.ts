import { dispatchJob } from "../../core/jobs/attempt.ts";
import { type DispatchTarget, selectTarget, type Work, waitForWorker } from "../../core/jobs/select-target.ts";
import type { Job } from "../../core/model/job.ts";
import type { Settings } from "../../core/settings.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";

/** The target of a job, by the workers and pools that this process knows. */
export function targetOf(
  engine: Needs<"world" | "settings" | "registry" | "pools">,
  work: Work & { readonly topic: string },
): DispatchTarget {
  const { topic } = work;
  applyPoolSettings(engine);
  const workers = engine.registry.serving(topic, engine.world.clock.now());
  return selectTarget(work, workers, { draining: engine.pools.draining, named: engine.pools.namedFor(topic) });
}

/** Whether no job of the topic can be dispatched. Checked before jobs are claimed. */
export function isTopicBlocked(engine: Needs<"world" | "settings" | "registry" | "pools">, topic: string): boolean {
  if (engine.pools.draining.size === 0 && !engine.registry.hasUnsupported) return false;
  const target = targetOf(engine, { topic, org: "", requires: [] });
  return target.kind === "lease" || (target.kind === "wait" && target.isForAll);
}

/**
 * Why a job cannot be dispatched although there is capacity; null if it can. The common case, no required capability,
 * no draining pool and no unsupported worker, costs no look-up.
 */
export function dispatchBlock(
  engine: Needs<"world" | "settings" | "registry" | "pools" | "safety">,
  job: Job,
): DispatchBlock | null {
  if (engine.pools.isBlocked(job.org)) return { kind: "stays" };
  const unpermitted = engine.safety.block(job);
  if (unpermitted) return unpermitted;
  if (job.requires.length === 0 && engine.pools.draining.size === 0 && !engine.registry.hasUnsupported) return null;
  const target = targetOf(engine, job);
  switch (target.kind) {
    case "direct":
    case "topic":
      return null;
    case "lease":
      return { kind: "stays" };
    case "wait":
      if (target.isForAll) return { kind: "stays" };
      engine.registry.rememberIneligible(job.topic, job);
      return { kind: "waits", job: waitForWorker(job, target.why, decisionContext(engine, job)) };
    default:
      return target satisfies never;
  }
}

/**
 * `stays`: the job remains in the backlog, for polling workers or until a pool is resumed or a kill switch released.
 */
export type DispatchBlock = { readonly kind: "stays" } | { readonly kind: "waits"; readonly job: Job };

/** Applies changed pool settings. */
export function applyPoolSettings(engine: Needs<"settings" | "registry" | "pools">): void {
  if (engine.pools.applySettings(engine.settings.current.pools)) engine.registry.setPools(engine.pools.factsOf);
}

/**
 * The job as dispatched. With configured packet senders the worker is chosen before the commit and recorded: only its own
 * results count.
 */
export function dispatched(engine: Needs<"world" | "settings" | "registry" | "pools">, job: Job): Job {
  const context = decisionContext(engine, job);
  if (!hasSenders(context.settings)) return dispatchJob(job, context);
  const target = targetOf(engine, job);
  return dispatchJob(job, context, target.kind === "direct" ? target.workerId : undefined);
}

function hasSenders({ senders }: Settings): boolean {
  for (const _ in senders) return true;
  return false;
}
