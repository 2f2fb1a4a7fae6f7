import type { Arms, Measures } from "../model/arms.ts";
import { NO_MEASURE, type Observation, observe } from "./measure.ts";

/**
 * The measures of a unit after an observation at `atMs`. Each rollout has its own horizon: what happens after it is not
 * counted. Returns the same object if nothing is counted.
 */
export function observeUnit(
  arms: Arms | undefined,
  measures: Measures | undefined,
  observation: Observation,
  atMs: number,
): Measures | undefined {
  let next = measures;
  for (const id in arms) {
    const untilMs = arms[id]?.untilMs;
    if (untilMs === undefined || atMs > untilMs) continue;
    next = { ...next, [id]: observe(next?.[id] ?? NO_MEASURE, observation) };
  }
  return next;
}
