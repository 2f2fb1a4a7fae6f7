import type { Decision, PolicyRequest } from "../decision.ts";
import { applyLimits, usedOf } from "./apply-limits.ts";
import { type Limit, windowId } from "./limit.ts";
import type { WindowEntry } from "./window.ts";

/** A decision with its limits applied, and how much of each was used before. */
export interface SimulatedDecision {
  readonly decision: Decision;
  readonly limits: readonly { readonly limit: Limit; readonly used: number }[];
}

/** Applies the limits of decisions as if the requests came in the order of their times, and no others. */
export function applyInOrder(
  requests: readonly PolicyRequest[],
  decisions: readonly Decision[],
): readonly SimulatedDecision[] {
  const windows = new Map<string, readonly WindowEntry[]>();
  const applied: SimulatedDecision[] = [];
  const order = requests.map((request, at) => ({ request, at, nowMs: request.nowMs ?? 0 }));
  for (const { request, at, nowMs } of order.sort((a, b) => a.nowMs - b.nowMs)) {
    const given = decisions[at];
    if (given === undefined) continue;
    const idOf = (limit: Limit) => windowId(request.org, limit, limit.key);
    const limits = (given.limits ?? []).map((limit) => ({
      limit,
      used: usedOf(limit, windows.get(idOf(limit)) ?? [], nowMs),
    }));
    const context = { nowMs, deadlineMs: Number.POSITIVE_INFINITY, counted: [], windows, idOf, random: () => 0 };
    const { decision, charges } = applyLimits(given, context);
    for (const { id, entries } of charges) windows.set(id, entries);
    applied[at] = { decision, limits };
  }
  return applied;
}
