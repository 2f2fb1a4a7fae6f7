import { StepBudget } from "../../core/expression/budget.ts";
import type { Caller } from "../../core/model/caller.ts";
import type { Job } from "../../core/model/job.ts";
import type { Run } from "../../core/model/run.ts";
import type { Decision } from "../../core/policy/decision.ts";
import type { ActType, Compensate, Plan, PlanStep } from "../../core/workflow/definition/plan.ts";
import type { DryInput } from "../../core/workflow/run/dry-inputs.ts";
import { openRun } from "../../core/workflow/run/open-run.ts";
import { stepJob } from "../../core/workflow/run/step-job.ts";
import type { Busy } from "../../ports/evaluator.ts";
import { decisionContext, NO_UNIT } from "../context.ts";
import type { Needs } from "../engine.ts";
import { previewLimits } from "../limits/index.ts";
import { loadWorkflow, planOf, versionToRun } from "../runs/index.ts";
import { askKernel, policyRequestOf } from "../safety/index.ts";

/**
 * Dry run of a workflow: the policy decision for each step that would be dispatched. An input that depends on other
 * steps is unknown; the policy is then asked without it. Templates and schemas are evaluated off the event loop.
 */
export interface DryRunRequest {
  readonly org: string;
  readonly workflowId: string;
  readonly version: number | null;
  readonly input: unknown;
  readonly by: string;
  readonly caller?: Caller | undefined;
  /** Labels of the start; policies match them. */
  readonly labels?: Run["labels"] | undefined;
  readonly priority?: Run["priority"] | undefined;
  readonly actorId?: string | undefined;
}

export interface DryStep {
  readonly stepId: string;
  readonly type: ActType;
  readonly topic: string | null;
  readonly dependsOn: readonly string[];
  /** Null for a step without a policy check. */
  readonly decision: Decision | null;
  /** Why the kernel gave no decision. */
  readonly unavailable?: string;
  readonly input: unknown;
  readonly isInputKnown: boolean;
  /** Why the step would fail in any case: its input cannot be built from the run's input, or violates its schema. */
  readonly problem?: string;
  /** The job that undoes it, without its input: that depends on the output of the step. */
  readonly compensation: (Pick<DryStep, "decision" | "unavailable"> & { readonly topic: string }) | null;
}

export type DryRun =
  | { readonly kind: "dry"; readonly version: number; readonly steps: readonly DryStep[] }
  | { readonly kind: "no_workflow" }
  | { readonly kind: "invalid"; readonly problems: readonly string[] }
  /** The steps together are too expensive. */
  | { readonly kind: "over"; readonly why: string }
  | Busy;

export async function dryRun(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety" | "kernel" | "planCache">,
  request: DryRunRequest,
): Promise<DryRun> {
  const version = await versionToRun(engine, request.org, request.workflowId, request.version);
  const plan = version === null ? null : await planOf(engine, request.org, request.workflowId, version);
  return version === null || !plan ? { kind: "no_workflow" } : dryPlan(engine, plan, { ...request, version });
}

export async function dryPlan(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety" | "kernel" | "planCache">,
  plan: Plan,
  request: DryRunRequest & { readonly version: number },
): Promise<DryRun> {
  const { org, workflowId, version, input = null } = request;
  const stored = await loadWorkflow(engine, org, workflowId, version);
  if (stored === null) return { kind: "no_workflow" };
  const run = runOf(engine, plan, request, version);
  const rendered = await engine.world.evaluator.run(org, "dryInputs", {
    document: stored.document,
    input,
    run: { id: run.id, workflow_id: workflowId, tenant: org },
    stepsMax: DRY_STEPS_MAX,
  });
  if (rendered.kind !== "answered") return rendered;
  const { answer } = rendered;
  if (answer.kind === "bad") return { kind: "invalid", problems: answer.problems };
  const budget = new StepBudget("the dry run", DRY_STEPS_MAX);
  budget.spend(answer.steps);
  const steps: DryStep[] = [];
  for (const id of plan.order) {
    const step = plan.steps.get(id);
    if (!step) continue;
    steps.push(await dryStep(engine, run, step, answer.inputs[id] ?? UNKNOWN));
    budget.spend(engine.kernel.stepsOfLast);
    if (budget.left === 0) return { kind: "over", why: budget.fault };
    // Other requests are served between two steps.
    await new Promise<void>((resolve) => engine.world.clock.after(0, resolve));
  }
  return { kind: "dry", version, steps };
}

async function dryStep(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety">,
  run: Run,
  step: PlanStep,
  rendered: DryInput,
): Promise<DryStep> {
  const { act } = step;
  const shown = {
    stepId: step.id,
    type: act.type,
    topic: act.type === "worker" ? act.topic : null,
    dependsOn: step.dependsOn,
    input: rendered.isKnown ? rendered.value : null,
    isInputKnown: rendered.isKnown,
    ...(rendered.problem === undefined ? {} : { problem: rendered.problem }),
  };
  const { compensate } = step;
  const compensation = compensate && {
    topic: compensate.topic,
    ...(await verdictOn(engine, jobOf(engine, run, step.id, compensate, null))),
  };
  if (act.type !== "worker") return { ...shown, compensation, decision: null };
  const job = jobOf(engine, run, step.id, { ...step, topic: act.topic }, rendered.value);
  return { ...shown, compensation, ...(await verdictOn(engine, job)) };
}

async function verdictOn(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety">,
  job: Job,
): Promise<Pick<DryStep, "decision" | "unavailable">> {
  const checked = await askKernel(engine, policyRequestOf(job, engine.world.clock.now()));
  return checked.kind === "decided"
    ? { decision: (await previewLimits(engine, job.org, checked.decision)).decision }
    : { decision: null, unavailable: checked.reason };
}

const UNKNOWN: DryInput = { value: null, isKnown: false };
/** Templates, schemas and policy checks of all steps. */
const DRY_STEPS_MAX = 2_000_000;

function jobOf(
  engine: Needs<"world" | "settings">,
  run: Run,
  stepId: string,
  { topic, meta, retry, timeoutMs }: Pick<Compensate, "topic" | "meta" | "retry" | "timeoutMs">,
  input: unknown,
): Job {
  const start = { stepId, index: null, kind: "worker", topic, input, meta, retry, timeoutMs } as const;
  return stepJob(run, start, { kind: "inline", value: input }, decisionContext(engine, NO_UNIT));
}

function runOf(engine: Needs<"world" | "settings">, plan: Plan, request: DryRunRequest, version: number): Run {
  const { org, input, by, caller, labels = {}, priority = null, actorId = null } = request;
  const { nowMs, settings } = decisionContext(engine, NO_UNIT);
  const order = {
    runId: "dry-run",
    org,
    version,
    traceId: "dry-run",
    labels,
    priority,
    submittedBy: by,
    caller,
    actorId,
    traceparent: null,
    parent: null,
  };
  return openRun(plan, order, { kind: "inline", value: input ?? null }, { nowMs, deadlineMs: settings.run.deadlineMs });
}
