/**
 * The rows of `cordum lab lock-busy`: what is set differently in each, and nothing else.
 *
 * 1. A retry policy is compared with coalescing and hand-over off: a result asks once and comes back later.
 * 2. What is off in the product's founding profile is set by that profile, not by hand.
 * 3. Redelivery cap off: the broker gives a message as often as it takes, and a busy lock uses up no budget.
 */
import { settingsFrom } from "../../config/config.ts";
import type { Settings } from "../../core/settings.ts";
import type { KnownRow } from "./experiment.ts";

/** `row` is one of the known ones, or a retry policy. */
export function settingsOf(row: string, isCapped: boolean): Settings {
  const uncapped = isCapped ? {} : UNCAPPED;
  switch (row as KnownRow) {
    case "founding":
      return settingsFrom({ ...ROOM, ...uncapped, profile: "baseline" });
    case "founding_capped":
      return settingsFrom({ ...ROOM, profile: "baseline" });
    case "hand_over":
      return settingsFrom({ ...ROOM, ...uncapped, "run_lock.coalesce": "false", "run_lock.engine_wait_ms": WAIT_MS });
    case "hand_over_500ms":
      return settingsFrom({ ...ROOM, ...uncapped, "run_lock.coalesce": "false" });
    case "default":
      return settingsFrom({ ...ROOM, ...uncapped });
    default:
      return settingsFrom({
        ...ROOM,
        ...uncapped,
        "run_lock.coalesce": "false",
        "run_lock.engine_wait_ms": 0,
        "retry.lock_busy.policy": row,
      });
  }
}

/** As much as the settings allow. */
const ROOM_MAX = 100_000;

/** Nothing but the lock is to be waited for: no window, no limit, and no attempt that counts as lost meanwhile. */
const ROOM = {
  "limits.max_concurrent_runs": ROOM_MAX,
  "dispatch.window_max": ROOM_MAX,
  "dispatch.deadline_ms": 24 * 3_600_000,
  "job.deadline_ms": 7 * 24 * 3_600_000,
} as const;

const UNCAPPED = { "bus.max_deliver": 100_000, "retry.lock_busy.budget": "deadline" } as const;
/** As long as the setting allows. */
const WAIT_MS = 60_000;
