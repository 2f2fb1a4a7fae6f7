import type { Run } from "../../model/run.ts";
import type { Plan } from "../definition/plan.ts";

/**
 * The number of sub-runs a run waits for, if it waits for nothing else. Null if a worker, an approval, a timer or the
 * run's own remaining work can advance it.
 */
export function subRunsOnly(plan: Plan, run: Run): number | null {
  // A paused run waits for an operator; a run with remaining work is due before its deadline.
  if (run.state !== "RUNNING" || run.dueMs < run.deadlineMs) return null;
  let count = 0;
  for (const [id, { state, fan }] of Object.entries(run.steps)) {
    if (state !== "RUNNING") continue;
    const type = plan.steps.get(id)?.act.type;
    // Its branches are checked themselves.
    if (type === "parallel") continue;
    if (type !== "subworkflow") return null;
    count += fan?.open ?? 1;
  }
  return count === 0 ? null : count;
}
