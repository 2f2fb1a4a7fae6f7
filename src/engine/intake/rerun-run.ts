import { StepBudget } from "../../core/expression/budget.ts";
import type { Caller } from "../../core/model/caller.ts";
import type { Payload } from "../../core/model/job.ts";
import { isRunFinal, type Run, type RunState } from "../../core/model/run.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import {
  halfUndone,
  inlineBytesOf,
  keepSteps,
  openRun,
  type RerunScope,
  rerunScope,
} from "../../core/workflow/run/open-run.ts";
import type { Put } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { childOutputs, storeForRun, type TooLarge, valueIn } from "../payloads.ts";
import { askingSteps, loadTenantRun, planOf } from "../runs/index.ts";
import {
  admitRun,
  fingerprintOfBody,
  measureAdmission,
  replayOf,
  reservationKey,
  type StartOutcome,
} from "./start-run.ts";

/**
 * Reruns from a step: a new run of the same version and input that keeps the results before the step. It is admitted
 * like any other start (L25). Approvals before the step are asked for again (L62), unless an operator keeps them; the
 * commit then contains the audit entry.
 */
export interface RerunRequest {
  readonly org: string;
  readonly runId: string;
  readonly fromStep: string;
  readonly by: string;
  readonly caller?: Caller | undefined;
  readonly idempotencyKey: string | null;
  /** Keeps the approvals of the earlier run. The caller has checked that `by` is an operator. */
  readonly keepsApprovals?: boolean;
}

export type RerunOutcome =
  | StartOutcome
  | { readonly kind: "not_found" }
  | { readonly kind: "unknown_step"; readonly known: readonly string[] }
  | { readonly kind: "still_open"; readonly state: RunState };

export async function rerun(
  engine: RunContext & Needs<"admissionLimiter">,
  request: RerunRequest,
  endpoint = RERUN,
): Promise<RerunOutcome> {
  const { org, runId, fromStep, idempotencyKey, keepsApprovals = false } = request;
  const fingerprint = fingerprintOfBody({ rerun: runId, fromStep, ...(keepsApprovals ? { keepsApprovals } : {}) });
  const key = idempotencyKey === null ? null : { id: reservationKey(org, idempotencyKey), fingerprint };
  // The idempotency key comes first: a replay succeeds whatever happened to the earlier run.
  const known = key && (await replayOf(engine, key));
  if (known) return measureAdmission(engine, org, endpoint, async () => known);
  const found = await loadTenantRun(engine, org, runId);
  if (!found) return { kind: "not_found" };
  const before = found.value;
  const plan = await planOf(engine, org, before.workflowId, before.version);
  if (!plan) return { kind: "no_workflow" };
  if (!plan.steps.has(fromStep)) return { kind: "unknown_step", known: plan.order };
  if (!isRunFinal(before.state)) return { kind: "still_open", state: before.state };
  const problem = halfUndone(plan, before, fromStep);
  if (problem !== null) return { kind: "invalid", problems: [problem] };
  const scope = rerunScope(plan, before, fromStep, await askingSteps(engine, org, plan));
  const isKeeping = keepsApprovals && scope.asks.length > 0;
  const used = isKeeping ? { again: scope.again, asks: [] } : scope;
  const note = isKeeping ? [keptApprovals(engine, request, scope.asks)] : [];
  return measureAdmission(engine, org, endpoint, () =>
    admitRun(engine, org, key, () => freshRerun(engine, plan, before, request, used), note),
  );
}

function keptApprovals(
  engine: Needs<"audit">,
  { org, runId, fromStep, by }: RerunRequest,
  steps: readonly string[],
): Put {
  const facts = { run: runId, from_step: fromStep, steps: steps.join(", ") };
  return auditPut(engine, { org, kind: "run", who: by, what: "approvals kept", facts });
}

/** Copies of the outputs that the rerun keeps, or why one cannot be copied. */
async function keptOutputs(
  engine: Needs<"world" | "runCache">,
  plan: Plan,
  before: Run,
  { again, asks }: RerunScope,
  keep: (value: unknown) => Promise<Payload | TooLarge>,
): Promise<ReadonlyMap<string, Payload> | string> {
  const outputs = new Map<string, Payload>();
  const budget = new StepBudget("the rerun", RERUN_STEPS_MAX);
  for (const [id, { output }] of Object.entries(before.steps)) {
    if (!output || again.has(id) || asks.includes(id)) continue;
    const source = { runId: before.id, plan, fresh: new Map(), budget };
    const { value, problem: lost } =
      output.kind === "children"
        ? await childOutputs(engine, source, { ...output, stepId: id })
        : await valueIn(engine, before.id, output);
    if (lost !== undefined) return `step \`${id}\`: ${lost}`;
    const kept = output.kind === "children" && value === null ? null : await keep(value);
    if (kept === null || kept.kind === "too_large") {
      return `the outputs of the children of step \`${id}\` are too large to copy; rerun from that step`;
    }
    outputs.set(id, kept);
  }
  return outputs;
}

async function freshRerun(
  engine: Needs<"world" | "settings" | "runCache">,
  plan: Plan,
  before: Run,
  { fromStep, by, caller }: RerunRequest,
  scope: RerunScope,
) {
  const { clock, random } = engine.world;
  const { run: limits, retention } = engine.settings.current;
  const runId = random.id();
  const nowMs = clock.now();
  const untilMs = nowMs + (plan.timeoutMs ?? limits.deadlineMs) + 2 * retention.runsMs;
  // The payloads of the earlier run are removed with it, so this run gets copies.
  let roomBytes = engine.settings.current.limits.inlineBytesMax;
  const owner = { org: before.org, kind: "run", id: runId } as const;
  const keep = async (value: unknown): Promise<Payload | TooLarge> => {
    const kept = await storeForRun(engine, value, { owner, untilMs }, roomBytes);
    if (kept.kind === "inline") roomBytes -= inlineBytesOf(kept);
    return kept;
  };
  const given = await valueIn(engine, before.id, before.input);
  if (given.problem !== undefined) return { kind: "invalid", problems: [given.problem] } as const;
  const input = await keep(given.value);
  const outputs = await keptOutputs(engine, plan, before, scope, keep);
  if (typeof outputs === "string") return { kind: "invalid", problems: [outputs] } as const;
  const order = {
    runId,
    org: before.org,
    version: before.version,
    traceId: runId,
    labels: before.labels,
    priority: before.priority ?? null,
    submittedBy: by,
    caller,
    actorId: before.actorId ?? null,
    traceparent: null,
    parent: null,
  };
  const fresh = openRun(plan, order, input.kind === "too_large" ? { kind: "inline", value: null } : input, {
    nowMs,
    deadlineMs: limits.deadlineMs,
  });
  const run = keepSteps(
    plan,
    fresh,
    before,
    fromStep,
    scope,
    (id) => outputs.get(id) ?? { kind: "inline", value: null },
  );
  return { kind: "fresh", plan, run } as const;
}

const RERUN = "/api/v1/workflow-runs/:id/rerun";
/** Schemas of the outputs that the rerun copies. */
const RERUN_STEPS_MAX = 5_000_000;
