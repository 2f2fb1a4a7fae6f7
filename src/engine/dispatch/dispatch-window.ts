import { narrow, widen } from "../../core/jobs/dispatch-window.ts";
import type { Job } from "../../core/model/job.ts";
import type { JobResult } from "../../protocol/packet.ts";
import type { Needs } from "../engine.ts";

/**
 * How many jobs of a topic may be with workers at once. If every known worker of the topic declares its capacity, the
 * configured window applies: these workers return jobs that they cannot start. Otherwise the window is learned
 * (`core/jobs/dispatch-window.ts`), by each process from the results and losses that it sees.
 */
export function windowOf(engine: Needs<"world" | "settings" | "jobCache" | "registry">, topic: string): number {
  const { windowMax } = engine.settings.current.dispatch;
  if (!engine.world.bus.hasThirdPartyWorkers) return windowMax;
  let [hasDeclared, hasSilent, leased] = [false, false, 0];
  for (const { transport, loadMax } of engine.registry.serving(topic, engine.world.clock.now())) {
    const isDeclared = Number.isFinite(loadMax);
    // Jobs that HTTP workers lease count towards the same counter.
    if (transport === "http") leased += isDeclared ? loadMax : 0;
    else if (isDeclared) hasDeclared = true;
    else hasSilent = true;
  }
  if (hasDeclared && !hasSilent) return windowMax;
  return Math.min(windowMax, engine.jobCache.windowOf(topic).size + leased);
}

/** Repeated attempts are left out: their result may be that of an earlier attempt. */
export function recordSuccess(
  engine: Needs<"world" | "settings" | "jobCache">,
  { topic, attempt, dispatchedMs }: Job,
  { executionMs }: JobResult,
): void {
  const { bus, clock } = engine.world;
  if (!bus.hasThirdPartyWorkers || attempt !== 1 || dispatchedMs === null || !engine.jobCache.isFull(topic)) return;
  const { deadlineMs, windowMax: sizeMax } = engine.settings.current.dispatch;
  const answer = { sentMs: dispatchedMs, nowMs: clock.now(), executionMs, deadlineMs, sizeMax };
  engine.jobCache.setWindow(topic, widen(engine.jobCache.windowOf(topic), answer));
}

/** Called for a job whose attempt ended without a result. */
export function recordLoss(engine: Needs<"world" | "jobCache">, { topic, dispatchedMs, leaseId, state }: Job): void {
  const { bus, clock } = engine.world;
  const isWithWorker = state === "DISPATCHED" || state === "RUNNING";
  if (!bus.hasThirdPartyWorkers || !isWithWorker || dispatchedMs === null || leaseId !== undefined) return;
  engine.jobCache.setWindow(topic, narrow(engine.jobCache.windowOf(topic), dispatchedMs, clock.now()));
}
