import type { Unblock } from "./explain.ts";

/** What explanations share: where to look, and how long a time is. */
export const SEE_WORKERS: Unblock = {
  what: "see the workers, or start one for the topic",
  command: "cordum worker list",
};
export const SEE_POOLS: Unblock = { what: "see which pools are being drained", command: "cordum pool list" };
export const SEE_RULES: Unblock = { what: "see the rules in force", command: "cordum policy list" };
export const MORE_WINDOW: Unblock = { what: "raise `dispatch.window_max`", command: "cordum config explain" };

/** As people say it; the exact times stand beside. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
