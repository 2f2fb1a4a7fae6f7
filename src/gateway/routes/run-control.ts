import { outOfRange } from "../../core/jobs/submission.ts";
import { rerun } from "../../engine/intake/index.ts";
import { dryRerun } from "../../engine/observe/index.ts";
import { cancelRun, pauseRun, resumeRun, sendEvent } from "../../engine/runs/index.ts";
import { isAllowed } from "../auth/access.ts";
import { evaluationProblem, Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import {
  CANCEL_BODY,
  CONTROL_BODY,
  EVENT_ACCEPTED,
  EVENT_BODY,
  RERUN_BODY,
  RERUN_RESPONSE,
  RUN_STATE_CHANGE,
} from "../views/run-schemas.ts";
import { idempotencyKeyOf, startResponse } from "./run-start.ts";
import { runNotFound, runOf, stepNotFound } from "./runs.ts";
import { dryView } from "./workflows.ts";

export const RUN_CONTROL_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/workflow-runs/:id/cancel",
    summary: "Cancel a run and its open jobs and sub-runs",
    // Submitters can cancel what they submit.
    access: "submit",
    body: CANCEL_BODY,
    response: RUN_STATE_CHANGE,
    handle: (gateway, request) => control(gateway, request, { apply: cancelRun, verb: "cancelled" }),
  },
  {
    method: "POST",
    path: "/api/v1/workflows/:id/runs/:run_id/cancel",
    summary: "Cancel a run, addressed by its workflow and run id",
    access: "submit",
    body: CANCEL_BODY,
    response: RUN_STATE_CHANGE,
    handle: async (gateway, request) => {
      const { id = "", run_id = "" } = request.params;
      const { workflowId } = await runOf(gateway, request, run_id);
      if (workflowId !== id) throw runNotFound(run_id, request.org);
      return control(gateway, request, { apply: cancelRun, verb: "cancelled", runId: run_id });
    },
  },
  {
    method: "POST",
    path: "/api/v1/workflow-runs/:id/pause",
    summary: "Pause a run: no new steps start; running jobs continue",
    access: "operate",
    body: CONTROL_BODY,
    response: RUN_STATE_CHANGE,
    handle: (gateway, request) => control(gateway, request, { apply: pauseRun, verb: "paused" }),
  },
  {
    method: "POST",
    path: "/api/v1/workflow-runs/:id/resume",
    summary: "Resume a paused run",
    access: "operate",
    body: CONTROL_BODY,
    response: RUN_STATE_CHANGE,
    handle: (gateway, request) => control(gateway, request, { apply: resumeRun, verb: "resumed" }),
  },
  {
    method: "POST",
    path: "/api/v1/workflow-runs/:id/events",
    summary: "Send an event to a run: a `wait` step takes it, or it is kept until one does",
    access: "submit",
    body: EVENT_BODY,
    response: EVENT_ACCEPTED,
    handle: receive,
  },
  {
    method: "POST",
    path: "/api/v1/workflow-runs/:id/rerun",
    summary: "Start a new run that reuses the results before a step and repeats that step and all after it",
    access: "submit",
    body: RERUN_BODY,
    response: RERUN_RESPONSE,
    handle: rerunRun,
  },
];

interface Control {
  readonly apply: typeof cancelRun | typeof pauseRun | typeof resumeRun;
  readonly verb: string;
  readonly runId?: string;
}

async function control(
  { engine }: Gateway,
  { org, params, principal, body }: GatewayRequest,
  { apply, verb, runId = params.id ?? "" }: Control,
): Promise<GatewayResponse> {
  const { reason, compensate = true } = (body ?? {}) as { readonly reason?: string; readonly compensate?: boolean };
  if (!compensate && !isAllowed(principal, { access: "operate" })) {
    const detail = "leaving completed steps as they are requires `operate` access; omit `compensate` to undo them";
    throw new Problem("forbidden", detail);
  }
  const by = principal.id;
  const why = reason ?? `${verb} by ${principal.caller.name ?? by}`;
  const outcome = await apply(engine, { org, runId, by, why, skipsCompensation: !compensate });
  switch (outcome.kind) {
    case "moved":
    // Idempotent.
    case "already":
      return ok({ run_id: runId, state: outcome.state });
    case "ended": {
      const { state } = outcome;
      throw new Problem(
        "run_ended",
        `run \`${runId}\` is ${state}; \`POST /api/v1/workflow-runs/${runId}/rerun\` starts a new one`,
        { run_id: runId, state },
      );
    }
    case "not_found":
      throw runNotFound(runId, org);
    default:
      return outcome satisfies never;
  }
}

async function receive(
  { engine }: Gateway,
  { org, params, principal, body }: GatewayRequest,
): Promise<GatewayResponse> {
  const { id: runId = "" } = params;
  const { name, data = null, correlation_key: key, event_id: id } = body as EventFields;
  const event = { name, data, by: principal.id, ...(id !== undefined && { id }) };
  const outcome = await sendEvent(engine, {
    org,
    runId,
    event: key === undefined ? event : { ...event, key: String(key) },
  });
  switch (outcome.kind) {
    case "delivered":
      return ok({ run_id: runId, outcome: "delivered", step_id: outcome.stepId });
    case "kept":
    case "duplicate":
      return ok({ run_id: runId, outcome: outcome.kind, step_id: null });
    case "ended": {
      const { state } = outcome;
      throw new Problem("run_ended", `run \`${runId}\` is ${state} and takes no events`, { run_id: runId, state });
    }
    case "full":
      throw new Problem("event_limit", `${outcome.why}; retry after a \`wait\` step has taken one`, { run_id: runId });
    case "too_large": {
      const { bytes, bytesMax } = outcome;
      const detail = `\`data\` has ${bytes} bytes; at most ${bytesMax} are allowed: send a reference to the data`;
      throw new Problem("body_too_large", detail, { run_id: runId });
    }
    case "bad_number":
      throw new Problem("invalid_request", outOfRange(outcome.path));
    case "not_found":
      throw runNotFound(runId, org);
    default:
      return outcome satisfies never;
  }
}

interface EventFields {
  readonly name: string;
  readonly data?: unknown;
  readonly correlation_key?: string | number;
  readonly event_id?: string;
}

async function rerunRun(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { org, principal } = request;
  const body = request.body as RerunFields;
  const { id: runId, workflowId, version } = await runOf(gateway, request);
  const { keep_approvals: keepsApprovals = false } = body;
  if (keepsApprovals && !isAllowed(principal, { access: "operate" })) {
    const detail =
      "keeping the approvals of the earlier run requires `operate` access; omit `keep_approvals` to ask again";
    throw new Problem("forbidden", detail);
  }
  const { id: by, caller } = principal;
  const options = { org, runId, fromStep: body.from_step, by, caller, keepsApprovals };
  const extra = { rerun_of: runId, from_step: body.from_step };
  const outcome = body.dry_run
    ? await dryRerun(gateway.engine, options)
    : await rerun(gateway.engine, { ...options, idempotencyKey: idempotencyKeyOf(request, body.idempotency_key) });
  switch (outcome.kind) {
    case "dry":
      return ok({ ...dryView(gateway, workflowId, outcome), ...extra, dry_run: true });
    case "not_found":
      throw runNotFound(runId, org);
    case "unknown_step":
      throw stepNotFound(runId, body.from_step, outcome.known);
    case "still_open": {
      const { state } = outcome;
      const detail = `run \`${runId}\` is ${state}; wait until it finishes or cancel it, then rerun it`;
      throw new Problem("run_open", detail, { run_id: runId, state });
    }
    case "over":
    case "busy":
      throw evaluationProblem(outcome);
    default:
      return startResponse(gateway, outcome, { org, workflowId, version }, extra);
  }
}

interface RerunFields {
  readonly from_step: string;
  readonly dry_run?: boolean;
  readonly idempotency_key?: string;
  readonly keep_approvals?: boolean;
}
