import type { Decision } from "../../core/policy/decision.ts";
import { applyLimits, usedOf, withoutLimits } from "../../core/policy/limits/apply-limits.ts";
import type { Limit } from "../../core/policy/limits/limit.ts";
import type { Needs } from "../engine.ts";
import { entriesById, loadWindows } from "./load-windows.ts";

/** A limit and how much of it is used. */
export interface LimitUse {
  readonly limit: Limit;
  readonly used: number;
}

export interface LimitPreview {
  /** What the policy would decide now. */
  readonly decision: Decision;
  readonly limits: readonly LimitUse[];
}

/** Applies the limits of a decision without counting. */
export async function previewLimits(
  engine: Needs<"world" | "settings">,
  org: string,
  given: Decision,
): Promise<LimitPreview> {
  const { limits = [] } = given;
  if (limits.length === 0) return { decision: withoutLimits(given), limits: [] };
  const loaded = await loadWindows(engine, org, limits);
  const windows = entriesById(loaded);
  const ids = new Map(loaded.map(({ limit, id }) => [limit, id]));
  const idOf = (limit: Limit) => ids.get(limit) ?? "";
  const nowMs = engine.world.clock.now();
  const deadlineMs = nowMs + engine.settings.current.job.deadlineMs;
  const { decision } = applyLimits(given, { nowMs, deadlineMs, counted: [], windows, idOf, random: () => 0 });
  const uses = limits.map((limit) => ({ limit, used: usedOf(limit, windows.get(idOf(limit)) ?? [], nowMs) }));
  return { decision, limits: uses };
}
