import type { Run } from "../../core/model/run.ts";
import { SCHEDULES, scheduleKey, withDue } from "../../core/schedule/schedule.ts";
import { put } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

/**
 * Makes a schedule due that waits for the end of this run. Best effort: the schedule looks again at its own due time
 * (`CHECK_MS`), and a stale commit means that it changed.
 */
export async function wakeSchedule(
  { world: { store, clock }, commit }: Needs<"world" | "commit">,
  { org, schedule }: Run,
): Promise<void> {
  const found = schedule && (await store.load(SCHEDULES, scheduleKey(org, schedule.id)));
  if (!found) return;
  const { queuedMs, backfill, checkMs } = found.value;
  const nowMs = clock.now();
  if (queuedMs === undefined && !backfill?.isBlocked) return;
  const woken = withDue({
    ...found.value,
    ...(checkMs !== undefined && { checkMs: Math.min(checkMs, nowMs) }),
    ...(backfill?.isBlocked && { backfill: { ...backfill, dueMs: Math.min(backfill.dueMs, nowMs) } }),
  });
  if (woken.dueMs !== found.value.dueMs) {
    await commit({ org, puts: [put(SCHEDULES, found.id, found, woken)] });
  }
}
