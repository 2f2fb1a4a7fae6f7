import type { Caller } from "../../core/model/caller.ts";
import { isRunFinal, type RunState } from "../../core/model/run.ts";
import { halfUndone, keepSteps, rerunScope } from "../../core/workflow/run/open-run.ts";
import type { Needs } from "../engine.ts";
import { valueIn } from "../payloads.ts";
import { askingSteps, loadTenantRun, planOf } from "../runs/index.ts";
import { type DryRun, dryPlan } from "./dry-run.ts";

/** Dry run of a rerun: same version and input, without the steps whose results are kept. */
export interface DryRerunRequest {
  readonly org: string;
  readonly runId: string;
  readonly fromStep: string;
  readonly by: string;
  readonly caller?: Caller | undefined;
  readonly keepsApprovals?: boolean;
}

export type DryRerun =
  | DryRun
  | { readonly kind: "not_found" }
  | { readonly kind: "unknown_step"; readonly known: readonly string[] }
  | { readonly kind: "still_open"; readonly state: RunState };

export async function dryRerun(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety" | "kernel" | "planCache" | "runCache">,
  { org, runId, fromStep, by, caller, keepsApprovals = false }: DryRerunRequest,
): Promise<DryRerun> {
  const found = await loadTenantRun(engine, org, runId);
  if (!found) return { kind: "not_found" };
  const run = found.value;
  const { workflowId, version, labels, priority, actorId } = run;
  const plan = await planOf(engine, org, workflowId, version);
  if (!plan) return { kind: "no_workflow" };
  if (!plan.steps.has(fromStep)) return { kind: "unknown_step", known: plan.order };
  if (!isRunFinal(run.state)) return { kind: "still_open", state: run.state };
  const halfDone = halfUndone(plan, run, fromStep);
  if (halfDone !== null) return { kind: "invalid", problems: [halfDone] };
  const { value: input, problem } = await valueIn(engine, runId, run.input);
  if (problem !== undefined) return { kind: "invalid", problems: [problem] };
  const dry = await dryPlan(engine, plan, { org, workflowId, version, input, by, caller, labels, priority, actorId });
  if (dry.kind !== "dry") return dry;
  const asking = keepsApprovals ? new Set<string>() : await askingSteps(engine, org, plan);
  const scope = rerunScope(plan, run, fromStep, asking);
  const kept = keepSteps(plan, run, run, fromStep, scope, () => ({ kind: "inline", value: null })).steps;
  return { ...dry, steps: dry.steps.filter(({ stepId }) => !Object.hasOwn(kept, stepId)) };
}
