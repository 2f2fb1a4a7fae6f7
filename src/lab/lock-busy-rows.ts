/**
 * The rows of `cordum lab lock-busy`: what is set differently in each, and nothing else.
 *
 * 1. A retry policy is compared with coalescing and hand-over off: a result asks once and comes back later.
 * 2. What is off in the product's founding profile is set by that profile, not by hand.
 * 3. Redelivery cap off: the broker gives a message as often as it takes, and a busy lock uses up no budget.
 */
import { settingsFrom } from "../config.ts";
import type { Settings } from "../settings.ts";

export const KNOWN_ROWS = {
  founding: "fixed 500 ms, no queue, each result for itself: as the system began",
  founding_capped: "the same with its cap of 100 deliveries: who is not done by then becomes a dead letter",
  hand_over: "each result for itself, 500 ms in the queue for the lock, then back with bounded jitter",
  hand_over_patient: "each result for itself, in the queue until it is its turn",
  default: "as shipped: results that meet in one process share one turn of the lock, and wait in its queue",
} as const;

export type KnownRow = keyof typeof KNOWN_ROWS;

export const DEFAULT_ROWS: readonly string[] = [
  "founding",
  "founding_capped",
  "bounded:500ms:0.1",
  "bounded:500ms:0.2",
  "bounded:500ms:0.3",
  "bounded:500ms:0.5",
  "capped_exponential:1s:30s:500ms",
  "full:1s:30s",
  "decorrelated:500ms:30s",
  "hand_over",
  "hand_over_patient",
  "default",
];

/** Much wider than the delay that it spreads: what that does to the last ones. */
export const WIDE_ROWS: readonly string[] = ["bounded:500ms:0.9", "full:2500ms:5s"];

/** `row` is one of the known ones, or a retry policy. */
export function settingsOf(row: string, isCapped: boolean): Settings {
  const uncapped = isCapped ? {} : UNCAPPED;
  switch (row as KnownRow) {
    case "founding":
      return settingsFrom({ ...ROOM, ...uncapped, profile: "founding" });
    case "founding_capped":
      return settingsFrom({ ...ROOM, profile: "founding" });
    case "hand_over":
      return settingsFrom({ ...ROOM, ...uncapped, "run_lock.coalesce": "false" });
    case "hand_over_patient":
      return settingsFrom({ ...ROOM, ...uncapped, "run_lock.coalesce": "false", "run_lock.engine_wait_ms": WAIT_MS });
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

export const CONTENDERS_MAX = 100_000;

/** Nothing but the lock is to be waited for: no window, no limit, and no attempt that counts as lost meanwhile. */
const ROOM = {
  "limits.max_concurrent_runs": CONTENDERS_MAX,
  "dispatch.window_max": CONTENDERS_MAX,
  "dispatch.deadline_ms": 24 * 3_600_000,
  "job.deadline_ms": 7 * 24 * 3_600_000,
} as const;

const UNCAPPED = { "bus.max_deliver": 100_000, "retry.lock_busy.budget": "deadline" } as const;
/** As long as the setting allows. */
const WAIT_MS = 60_000;
