import type { Plan } from "../../core/workflow/definition/plan.ts";
import type { Needs } from "../engine.ts";
import { planOf, versionToRun } from "./workflows.ts";

/**
 * The steps of a plan that end only after a person approved: `approval` steps, and sub-workflows that contain one. A
 * sub-workflow that cannot be read any more counts as one.
 */
export async function askingSteps(
  engine: Needs<"world" | "planCache">,
  org: string,
  plan: Plan,
  depth = 0,
): Promise<ReadonlySet<string>> {
  const asking = new Set<string>();
  for (const [id, { act }] of plan.steps) {
    if (act.type === "approval") asking.add(id);
    else if (act.type === "subworkflow" && (await asksWithin(engine, org, act, depth))) asking.add(id);
  }
  return asking;
}

async function asksWithin(
  engine: Needs<"world" | "planCache">,
  org: string,
  { workflowId, version }: { readonly workflowId: string; readonly version: number | null },
  depth: number,
): Promise<boolean> {
  if (depth >= DEPTH_MAX) return true;
  const wanted = await versionToRun(engine, org, workflowId, version);
  const plan = wanted === null ? null : await planOf(engine, org, workflowId, wanted);
  return plan === null || (await askingSteps(engine, org, plan, depth + 1)).size > 0;
}

/** Sub-runs are not nested deeper. */
const DEPTH_MAX = 8;
