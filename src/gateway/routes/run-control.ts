import { rerun } from "../../engine/intake/index.ts";
import { dryRerun } from "../../engine/observe/index.ts";
import { cancelRun, pauseRun, resumeRun } from "../../engine/runs/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { CONTROL_BODY, RERUN_ANSWER, RERUN_BODY, RUN_MOVED } from "../views/run-schemas.ts";
import { answerStart, idempotencyKeyOf } from "./run-start.ts";
import { noSuchRun, noSuchStep, runOf } from "./runs.ts";
import { dryView } from "./workflows.ts";

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
  { engine }: Gateway,
  { org, params, principal, body }: GatewayRequest,
  { move, did, runId = params.id ?? "" }: Move,
): Promise<Answer> {
  const { reason } = (body ?? {}) as { readonly reason?: string };
  const by = principal.id;
  const outcome = await move(engine, { org, runId, by, why: reason ?? `${did} by ${by}` });
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
  const { org, principal } = request;
  const body = request.body as RerunFields;
  const { id: runId, workflowId, version } = await runOf(gateway, request);
  const options = { org, runId, fromStep: body.from_step, by: principal.id };
  const more = { rerun_of: runId, from_step: body.from_step };
  const outcome = body.dry_run
    ? await dryRerun(gateway.engine, options)
    : await rerun(gateway.engine, { ...options, idempotencyKey: idempotencyKeyOf(request, body.idempotency_key) });
  switch (outcome.kind) {
    case "dry":
      return ok({ ...dryView(gateway, workflowId, outcome), ...more, dry_run: true });
    case "not_found":
      throw noSuchRun(runId, org);
    case "unknown_step":
      throw noSuchStep(runId, body.from_step, outcome.known);
    case "still_open": {
      const { state } = outcome;
      const detail = `run \`${runId}\` is ${state}; wait for its end, or cancel it, and run it again then`;
      throw new Problem("run_open", detail, { run_id: runId, state });
    }
    default:
      return answerStart(gateway, outcome, { org, workflowId, version }, more);
  }
}

interface RerunFields {
  readonly from_step: string;
  readonly dry_run?: boolean;
  readonly idempotency_key?: string;
}
