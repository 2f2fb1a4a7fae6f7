/** A wish for a run, and what became of it as an answer; of reruns too. */

import { checkSubmission, type Submission } from "../../core/jobs/submission.ts";
import { type StartOutcome, startRun } from "../../engine/intake/index.ts";
import { type RunLimitReached, runCountsOf, runLimitOf } from "../../engine/runs/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok } from "../route.ts";
import { keyOf, whoAsks } from "./submit.ts";
import { noSuchWorkflow } from "./workflows.ts";

export async function start(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const fields = (request.body ?? {}) as StartFields;
  const { org, labels, traceparent, submittedBy, actorId } = whatSubmissionsSay(request, fields);
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
    actorId,
  };
  return answerStart(gateway, await startRun(gateway.engine, options, ENDPOINT), options);
}

type Started = { readonly org: string; readonly workflowId: string; readonly version: number | null };

/** The answer; a gate that was not free also says how many runs are open, which only the store knows. */
export async function answerStart({ engine }: Gateway, outcome: StartOutcome, options: Started, more: object = {}) {
  if (outcome.kind !== "gate_unavailable") return startedAnswer(outcome, options, more);
  const { open: current } = await runCountsOf(engine, options.org);
  const limit = runLimitOf(engine.settings.current, options.org);
  throw gateUnavailable(outcome.waitedMs, { current, limit });
}

/** What became of a wish for a run, of a rerun too. `version`: as far as the request named one. */
export function startedAnswer(outcome: StartOutcome, { org, workflowId, version }: Started, more: object = {}): Answer {
  switch (outcome.kind) {
    case "started":
    case "replayed": {
      const { runId, state, kind } = outcome;
      const named = version === null ? {} : { version };
      return ok({ run_id: runId, workflow_id: workflowId, ...named, state, replayed: kind === "replayed", ...more });
    }
    case "conflict": {
      const detail = "the same key came with another body before; use a new one for a new run";
      throw new Problem("idempotency_conflict", detail, { run_id: outcome.runId });
    }
    case "no_workflow":
      throw noSuchWorkflow(workflowId, org, version);
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
  standing: { readonly current?: number; readonly limit?: number } = {},
): Problem {
  const facts = { waited_ms: Math.round(waitedMs), ...standing };
  return new Problem("gate_unavailable", "workflow concurrency gate unavailable", facts);
}

/** Also for a run that wants to live again. */
export function tooManyRuns(
  org: string,
  { current, limit, waiting }: Pick<RunLimitReached, "current" | "limit" | "waiting">,
): Problem {
  const open = `${current} runs of tenant \`${org}\` are open, and \`limits.max_concurrent_runs\` is ${limit}`;
  if (waiting === undefined) {
    return new Problem("too_many_runs", `${open}; send it again when one has ended`, { current, limit });
  }
  const first = `${waiting} ${waiting === 1 ? "sub-workflow" : "sub-workflows"} of open runs`;
  const detail = `${open}, but ${first} waited for a slot before; send it again in a while`;
  return new Problem("too_many_runs", detail, { current, limit, waiting });
}

/** The key of the header or of the body; a header has passed no schema. */
export function idempotencyKeyOf(request: GatewayRequest, field: string | undefined): string | null {
  const key = keyOf(request, field) ?? null;
  if (key === null || (typeof key === "string" && key.length > 0 && key.length <= KEY_LENGTH_MAX)) return key;
  throw new Problem("invalid_request", `the idempotency key must be 1 to ${KEY_LENGTH_MAX} characters`);
}

interface StartFields {
  readonly input?: unknown;
  readonly version?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly priority?: "interactive" | "batch" | "critical";
  readonly idempotency_key?: string;
  readonly actor_id?: string;
}

/** What goes on to the jobs of the steps is checked as if they were submitted one by one. */
function whatSubmissionsSay(request: GatewayRequest, { labels, actor_id }: StartFields): Submission {
  const outcome = checkSubmission({ ...whoAsks(request), topic: "workflow.step", labels, actorId: actor_id });
  if (outcome.kind === "ok") return outcome.submission;
  const problems = outcome.problems.map((problem) => problem.replace("`actorId`", "`actor_id`"));
  throw new Problem("invalid_run", problems.join("; "), { problems });
}

const KEY_LENGTH_MAX = 256;
const ENDPOINT = "/api/v1/workflows/:id/runs";
