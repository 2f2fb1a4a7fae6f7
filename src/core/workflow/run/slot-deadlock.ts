import type { Run } from "../../model/run.ts";
import type { Plan } from "../definition/plan.ts";

/**
 * How many jobs a run waits for, if all of them are runs themselves: then it depends on those alone whether it goes on.
 * Null if anything else can move it: a worker, a human, the clock, or what it is about to do by itself.
 */
export function subRunsOnly(plan: Plan, run: Run): number | null {
  // One that is paused waits for a human; one that has more to do is due before its deadline.
  if (run.state !== "RUNNING" || run.dueMs < run.deadlineMs) return null;
  let count = 0;
  for (const [id, { state, fan }] of Object.entries(run.steps)) {
    if (state !== "RUNNING") continue;
    const type = plan.steps.get(id)?.act.type;
    // It waits for its branches, which are looked at themselves.
    if (type === "parallel") continue;
    if (type !== "subworkflow") return null;
    count += fan?.open ?? 1;
  }
  return count === 0 ? null : count;
}
