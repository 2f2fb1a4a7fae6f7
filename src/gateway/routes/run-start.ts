/** Starting a run: the request as start options, and the outcome as a response. Shared with reruns. */
import { checkSubmission, type Submission } from "../../core/jobs/submission.ts";
import { type StartOutcome, startRun } from "../../engine/intake/index.ts";
import { type RunLimitReached, runCountsOf, runLimitOf } from "../../engine/runs/index.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok } from "../route.ts";
import { actorFields, idempotencyKey, submitterFields } from "./submit.ts";
import { workflowNotFound } from "./workflows.ts";

export async function start(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const fields = (request.body ?? {}) as StartFields;
  const { org, labels, traceparent, submittedBy, caller, actorId } = checkJobFields(request, fields);
  const options = {
    org,
    workflowId: request.params.id ?? "",
    version: fields.version ?? null,
    input: fields.input === undefined ? {} : fields.input,
    labels,
    priority: fields.priority ?? null,
    idempotencyKey: idempotencyKeyOf(request, fields.idempotency_key),
    traceId: null,
    traceparent,
    submittedBy,
    caller,
    actorId,
  };
  return startResponse(gateway, await startRun(gateway.engine, options, ENDPOINT), options);
}

type StartTarget = { readonly org: string; readonly workflowId: string; readonly version: number | null };

export async function startResponse(
  { engine }: Gateway,
  outcome: StartOutcome,
  options: StartTarget,
  extra: object = {},
) {
  if (outcome.kind !== "gate_unavailable") return startOutcomeResponse(outcome, options, extra);
  const { open: current } = await runCountsOf(engine, options.org);
  const limit = runLimitOf(engine.settings.current, options.org);
  throw gateUnavailable(outcome.waitedMs, { current, limit });
}

/** `version` is the one named in the request. */
export function startOutcomeResponse(
  outcome: StartOutcome,
  { org, workflowId, version }: StartTarget,
  extra: object = {},
): GatewayResponse {
  switch (outcome.kind) {
    case "started":
    case "replayed": {
      const { runId, state, kind } = outcome;
      const named = version === null ? {} : { version };
      return ok({ run_id: runId, workflow_id: workflowId, ...named, state, replayed: kind === "replayed", ...extra });
    }
    case "conflict": {
      const detail = "the key was used with another body; use a new key for a new run";
      throw new Problem("idempotency_conflict", detail, { run_id: outcome.runId });
    }
    case "no_workflow":
      throw workflowNotFound(workflowId, org, version);
    case "invalid":
      throw new Problem("invalid_run", outcome.problems.join("; "), { problems: outcome.problems });
    case "full":
      throw tooManyRuns(org, outcome);
    case "gate_unavailable":
      throw gateUnavailable(outcome.waitedMs);
    default:
      return outcome satisfies never;
  }
}

function gateUnavailable(
  waitedMs: number,
  counts: { readonly current?: number; readonly limit?: number } = {},
): Problem {
  const facts = { waited_ms: Math.round(waitedMs), ...counts };
  return new Problem("gate_unavailable", "workflow concurrency gate unavailable", facts);
}

/** Also for a redrive that reopens a run. */
export function tooManyRuns(
  org: string,
  { current, limit, waiting }: Pick<RunLimitReached, "current" | "limit" | "waiting">,
): Problem {
  const open = `tenant \`${org}\` has ${current} open runs; \`limits.max_concurrent_runs\` is ${limit}`;
  if (waiting === undefined) {
    return new Problem("too_many_runs", `${open}; retry after a run finishes`, { current, limit });
  }
  const queued = `${waiting} ${waiting === 1 ? "sub-workflow is" : "sub-workflows are"} queued for the free slots`;
  const detail = `${open}; ${queued}; retry later`;
  return new Problem("too_many_runs", detail, { current, limit, waiting });
}

/** From the header or the body. The schema does not cover the header. */
export function idempotencyKeyOf(request: GatewayRequest, field: string | undefined): string | null {
  const key = idempotencyKey(request, field) ?? null;
  if (key === null || (typeof key === "string" && key.length > 0 && key.length <= KEY_LENGTH_MAX)) return key;
  throw new Problem("invalid_request", `\`Idempotency-Key\` must be 1 to ${KEY_LENGTH_MAX} characters`);
}

interface StartFields {
  readonly input?: unknown;
  readonly version?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly priority?: "interactive" | "batch" | "critical";
  readonly idempotency_key?: string;
  readonly actor_id?: string;
}

/** Fields inherited by the jobs of the steps are validated like a job submission. */
function checkJobFields(request: GatewayRequest, { labels, actor_id }: StartFields): Submission {
  const outcome = checkSubmission({
    ...submitterFields(request),
    ...actorFields(request.principal, { actor_id }),
    topic: "workflow.step",
    labels,
  });
  if (outcome.kind === "ok") return outcome.submission;
  const problems = outcome.problems.map((problem) => problem.replace("`actorId`", "`actor_id`"));
  throw new Problem("invalid_run", problems.join("; "), { problems });
}

const KEY_LENGTH_MAX = 256;
const ENDPOINT = "/api/v1/workflows/:id/runs";
