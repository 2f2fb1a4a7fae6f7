import type { Run } from "../../core/model/run.ts";
import type { Writable } from "../../core/model/table.ts";
import { observeUnit } from "../../core/rollout/unit-measures.ts";
import type { Needs } from "../engine.ts";
import type { PendingRunEvent } from "./run-inbox.ts";

/**
 * Measures what a batch of events says about the arms of its run. The figures are part of the commit that applies the events:
 * each event counts once, whichever process applies it, and a refused commit counts nothing. Earlier refusals of an event
 * were counted in the store (`RETRY_STATES`), in any process.
 */
export function measureBatch(
  { world, settings }: Needs<"world" | "settings">,
  run: Writable<Run>,
  batch: readonly PendingRunEvent[],
): void {
  const nowMs = world.clock.now();
  const { engineWaitMs } = settings.for(run.arms).runLock;
  let { measures } = run;
  for (const { queued, arrivedMs } of batch) {
    if (queued.kind !== "job") continue;
    const { found, next, busy } = queued;
    // The first refusal came at the end of the wait in the hand-over queue.
    const sinceMs = busy === null ? arrivedMs : Math.min(arrivedMs, busy.sinceMs - engineWaitMs);
    const acquired = { kind: "acquired", waitedMs: nowMs - sinceMs, busyTimes: busy?.count ?? 0 } as const;
    measures = observeUnit(run.arms, measures, acquired, nowMs);
    const { dispatchedMs } = found.value;
    if (next.state !== "SUCCEEDED" || dispatchedMs === null || next.step?.kind !== "worker") continue;
    measures = observeUnit(run.arms, measures, { kind: "result", latencyMs: nowMs - dispatchedMs }, nowMs);
  }
  if (measures !== undefined) run.measures = measures;
}
