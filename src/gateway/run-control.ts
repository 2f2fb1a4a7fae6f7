/** What people do to runs, over HTTP: cancelled, paused, resumed, run again from a step. */
import { cancelRun, pauseRun, resumeRun } from "../flow/control-run.ts";
import type { Flow } from "../flow/flow.ts";
import { rerun } from "../flow/rerun.ts";
import { planOf } from "../flow/workflows.ts";
import { isRunFinal, type Run, type RunState } from "../model/run.ts";
import { keepSteps } from "../workflow/open-run.ts";
import { payloadValue } from "./payload.ts";
import { Problem } from "./problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "./route.ts";
import { CONTROL_BODY, RERUN_ANSWER, RERUN_BODY, RUN_MOVED } from "./run-schemas.ts";
import { idempotencyKeyOf, startedAnswer } from "./run-start.ts";
import { noSuchRun, noSuchStep, refuseUnknownStep, runOf } from "./runs.ts";
import { dryAnswer } from "./workflows.ts";

export const RUN_CONTROL_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/workflow-runs/:id/cancel",
    summary: "Ends a run that is not wanted any more, with everything that it has begun",
    // Who may ask for work may take the wish back.
    access: "submit",
    body: CONTROL_BODY,
    answer: RUN_MOVED,
    handle: (gateway, request) => control(gateway, request, { move: cancelRun, did: "cancelled" }),
  },
  {
    method: "POST",
    path: "/api/v1/workflows/:id/runs/:run_id/cancel",
    summary: "The same, by the workflow and the run",
    access: "submit",
    body: CONTROL_BODY,
    answer: RUN_MOVED,
    handle: async (gateway, request) => {
      const { id = "", run_id = "" } = request.params;
      const { workflowId } = await runOf(gateway, request, run_id);
      if (workflowId !== id) throw noSuchRun(run_id, request.org);
      return control(gateway, request, { move: cancelRun, did: "cancelled", runId: run_id });
    },
  },
  {
    method: "POST",
    path: "/api/v1/workflow-runs/:id/pause",
    summary: "Starts no more steps of a run; what is under way goes on",
    access: "operate",
    body: CONTROL_BODY,
    answer: RUN_MOVED,
    handle: (gateway, request) => control(gateway, request, { move: pauseRun, did: "paused" }),
  },
  {
    method: "POST",
    path: "/api/v1/workflow-runs/:id/resume",
    summary: "Lets a paused run go on",
    access: "operate",
    body: CONTROL_BODY,
    answer: RUN_MOVED,
    handle: (gateway, request) => control(gateway, request, { move: resumeRun, did: "resumed" }),
  },
  {
    method: "POST",
    path: "/api/v1/workflow-runs/:id/rerun",
    summary: "Starts a new run that keeps what was done before a step, and does that step and all after it again",
    access: "submit",
    body: RERUN_BODY,
    answer: RERUN_ANSWER,
    handle: runAgain,
  },
];

interface Move {
  readonly move: typeof cancelRun | typeof pauseRun | typeof resumeRun;
  readonly did: string;
  readonly runId?: string;
}

async function control(
  { flow }: Gateway,
  { org, params, principal, body }: GatewayRequest,
  { move, did, runId = params.id ?? "" }: Move,
): Promise<Answer> {
  const { reason } = (body ?? {}) as { readonly reason?: string };
  const by = principal.id;
  const outcome = await move(flow, { org, runId, by, why: reason ?? `${did} by ${by}` });
  switch (outcome.kind) {
    case "moved":
    // Asking twice is fine: what was wanted is so.
    case "already":
      return ok({ run_id: runId, state: outcome.state });
    case "ended": {
      const { state } = outcome;
      throw new Problem("run_ended", `run \`${runId}\` has ended as ${state} already`, { run_id: runId, state });
    }
    case "not_found":
      throw noSuchRun(runId, org);
    default:
      return outcome satisfies never;
  }
}

async function runAgain(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const { org, params, principal } = request;
  const body = request.body as {
    readonly from_step: string;
    readonly dry_run?: boolean;
    readonly idempotency_key?: string;
  };
  const fromStep = body.from_step;
  const run = await runOf(gateway, request);
  const more = { rerun_of: run.id, from_step: fromStep };
  if (body.dry_run) {
    await refuseUnknownStep(gateway, run, fromStep);
    if (!isRunFinal(run.state)) throw stillOpen(run.id, run.state);
    return tryAgain(gateway.flow, run, fromStep, principal.id);
  }
  const idempotencyKey = idempotencyKeyOf(request, body.idempotency_key);
  const wish = { org, runId: run.id, fromStep, by: principal.id, idempotencyKey };
  const outcome = await rerun(gateway.flow, wish);
  switch (outcome.kind) {
    case "not_found":
      throw noSuchRun(params.id ?? "", org);
    case "unknown_step":
      throw noSuchStep(run.id, fromStep, outcome.known);
    case "still_open":
      throw stillOpen(run.id, outcome.state);
    default:
      return startedAnswer(outcome, { org, workflowId: run.workflowId, version: run.version }, more);
  }
}

/** What would be done again, as the policy stands now. */
async function tryAgain(flow: Flow, run: Run, fromStep: string, by: string): Promise<Answer> {
  const { id, org, workflowId, version } = run;
  const plan = await planOf(flow, org, workflowId, version);
  const kept = plan ? keepSteps(plan, run, run, fromStep, () => ({ kind: "inline", value: null })).steps : {};
  const input = await payloadValue(flow.world.blobs, run.input);
  return dryAnswer(
    flow,
    { org, workflowId, version, input, by },
    {
      without: Object.keys(kept),
      more: { rerun_of: id, from_step: fromStep, dry_run: true },
    },
  );
}

function stillOpen(runId: string, state: RunState): Problem {
  const detail = `run \`${runId}\` is ${state}; wait for its end, or cancel it, and run it again then`;
  return new Problem("run_open", detail, { run_id: runId, state });
}
