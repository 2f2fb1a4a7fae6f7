import { Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { childrenOf, JOBS, type Job } from "../../core/model/job.ts";
import { redact } from "../../core/model/redact.ts";
import { RUN_STATES, RUNS, type Run, type RunState, runsOf, runsOfWorkflow, timelineOf } from "../../core/model/run.ts";
import { suggestion } from "../../core/model/suggestion.ts";
import type { Engine } from "../../engine/engine.ts";
import { explainRun } from "../../engine/observe/index.ts";
import { children, loadTenantRun, planOf, removeRun, timeline } from "../../engine/runs/index.ts";
import type { Versioned } from "../../ports/store.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { withKeyNames } from "../views/key-names.ts";
import {
  COUNT,
  countedPageOf,
  listPage,
  PAGE_QUERY,
  pageOf,
  pageQuery,
  queryText,
  readCursor,
  readLimit,
  readPosition,
  writeCursor,
} from "../views/page.ts";
import { outputsOf, readValue, resultsOf } from "../views/payloads.ts";
import {
  CHILD,
  CHILDREN_QUERY,
  RUN,
  RUN_DELETED,
  RUN_DETAIL,
  RUN_EXPLANATION,
  START_BODY,
  STARTED,
  TIMELINE_LINE,
} from "../views/run-schemas.ts";
import { childView, runDetail, runView, timelineView, waitsView } from "../views/run-views.ts";
import { start } from "./run-start.ts";
import { loadHead } from "./workflows.ts";

export const RUN_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/workflows/:id/runs",
    summary: "Start a run; 429 while the tenant is at its run limit",
    access: "submit",
    body: START_BODY,
    response: STARTED,
    invalidCode: "invalid_run",
    handle: start,
  },
  {
    method: "GET",
    path: "/api/v1/workflows/:id/runs",
    summary: "List the runs of a workflow, newest first",
    access: "read",
    query: pageQuery(COUNT),
    response: countedPageOf(RUN),
    handle: listRunsOf,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs",
    summary: "List runs of all workflows, newest first",
    access: "read",
    query: pageQuery({ state: Type.Optional(Type.String({ description: "Only runs in this state." })), ...COUNT }),
    response: countedPageOf(RUN),
    handle: listRuns,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs/:id",
    summary: "Get a run with its input, output and steps",
    access: "read",
    response: RUN_DETAIL,
    handle: getRun,
  },
  {
    method: "DELETE",
    path: "/api/v1/workflow-runs/:id",
    summary: "Delete a finished run; the jobs of its steps are kept until their own retention ends",
    access: "operate",
    response: RUN_DELETED,
    handle: deleteRun,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs/:id/timeline",
    summary: "List the timeline of a run, oldest first",
    access: "read",
    query: PAGE_QUERY,
    response: pageOf(TIMELINE_LINE),
    handle: getTimeline,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs/:id/explain",
    summary: "Explain what a run waits for, until when, and what unblocks it",
    access: "read",
    response: RUN_EXPLANATION,
    handle: explain,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs/:id/steps/:step/children",
    summary: "List the jobs of a `for_each` step in item order, or of a step in a loop by iteration",
    access: "read",
    query: pageQuery(CHILDREN_QUERY),
    response: pageOf(CHILD),
    handle: listChildren,
  },
];

/** Also for runs of other tenants: a 403 would disclose that the run exists. */
export function runNotFound(id: string, org: string): Problem {
  return new Problem(
    "run_not_found",
    `no run \`${id}\` of tenant \`${org}\`; \`GET /api/v1/workflow-runs\` lists them`,
  );
}

export async function runOf(gateway: Gateway, request: GatewayRequest, id = request.params.id ?? ""): Promise<Run> {
  return (await versionedRunOf(gateway, request, id)).value;
}

async function versionedRunOf(
  { engine }: Gateway,
  { org, params }: GatewayRequest,
  id = params.id ?? "",
): Promise<Versioned<Run>> {
  const found = await loadTenantRun(engine, org, id);
  if (found === null) throw runNotFound(id, org);
  return found;
}

async function listRunsOf(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { org, id } = await loadHead(gateway, request);
  const { store } = gateway.engine.world;
  return listPage(store, RUNS, runsOfWorkflow(org, id), request.query, runView);
}

async function listRuns({ engine }: Gateway, { org, query }: GatewayRequest): Promise<GatewayResponse> {
  const state = readState(queryText(query, "state"));
  return listPage(engine.world.store, RUNS, runsOf(org, state), query, runView);
}

async function getRun(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { engine } = gateway;
  const found = await versionedRunOf(gateway, request);
  const run = found.value;
  const [input, output, outputs, jobs, plan] = await Promise.all([
    readValue(engine, `the input of run \`${run.id}\``, run.input),
    readValue(engine, `the output of run \`${run.id}\``, run.output),
    outputsOf(engine, run),
    jobsOf(engine, run),
    planOf(engine, run.org, run.workflowId, run.version),
  ]);
  const { paths } = engine.settings.current.redaction;
  const steps = [...(plan?.steps.values() ?? [])];
  const definitions = new Map(
    steps.map(({ id, act, dependsOn, loopOf }) => [id, { type: act.type, dependsOn, loopOf }]),
  );
  return ok(
    runDetail(found, {
      input: redact(input.value, { paths, at: "input" }),
      output: output.value,
      outputs,
      jobs,
      problems: [input, output],
      definitions,
    }),
  );
}

/** Jobs by step id, without the children of `for_each` steps. */
async function jobsOf(engine: Engine, { steps }: Run): Promise<ReadonlyMap<string, Job>> {
  const found = await Promise.all(
    Object.entries(steps).map(async ([id, { jobId }]) => {
      const job = jobId === undefined ? null : await engine.world.store.load(JOBS, jobId);
      return job ? [[id, job.value] as const] : [];
    }),
  );
  return new Map(found.flat());
}

async function deleteRun({ engine }: Gateway, { org, params, principal }: GatewayRequest): Promise<GatewayResponse> {
  const runId = params.id ?? "";
  const outcome = await removeRun(engine, { org, runId, by: principal.id });
  switch (outcome.kind) {
    case "removed":
      return ok({ run_id: runId, deleted: true });
    case "still_open": {
      const { state } = outcome;
      const detail = `run \`${runId}\` is ${state}; cancel it first with \`POST /api/v1/workflow-runs/${runId}/cancel\``;
      throw new Problem("run_open", detail, { run_id: runId, state });
    }
    case "not_found":
      throw runNotFound(runId, org);
    default:
      return outcome satisfies never;
  }
}

async function getTimeline(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const run = await runOf(gateway, request);
  readPosition(queryText(request.query, "cursor"), timelineOf(run.id));
  const page = await timeline(gateway.engine, run, pageOptions(request, timelineOf(run.id)));
  const lines = await withKeyNames(gateway.engine.world.store, page.lines.map(timelineView), "who");
  return pageResponse(timelineOf(run.id), lines, page.cursor);
}

async function explain({ engine }: Gateway, { org, params, principal }: GatewayRequest): Promise<GatewayResponse> {
  const runId = params.id ?? "";
  const explained = await explainRun(engine, { org, runId, isForAll: principal.org === EVERY_ORG });
  if (explained.kind === "not_found") throw runNotFound(runId, org);
  return ok(waitsView(explained.run, explained.lines));
}

async function listChildren(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { engine } = gateway;
  const run = await runOf(gateway, request);
  const stepId = request.params.step ?? "";
  await requireStep(gateway, run, stepId);
  const asked = queryText(request.query, "iteration");
  const iteration = asked === undefined ? run.steps[stepId]?.fan?.iteration : Number(asked);
  const index = childrenOf(run.id, stepId, iteration);
  const page = await children(engine, index, pageOptions(request, index));
  const jobs = page.items.map(({ value }) => value);
  const results = await resultsOf(engine, jobs);
  const views = jobs.map((job, at) => childView(job, results[at] ?? { value: null }));
  return pageResponse(index, views, page.cursor);
}

/** A step that has not started is only in the plan. */
async function requireStep({ engine }: Gateway, run: Run, stepId: string): Promise<void> {
  if (Object.hasOwn(run.steps, stepId)) return;
  const plan = await planOf(engine, run.org, run.workflowId, run.version);
  if (plan?.steps.has(stepId)) return;
  throw stepNotFound(run.id, stepId, plan?.order ?? Object.keys(run.steps));
}

export function stepNotFound(runId: string, stepId: string, known: readonly string[]): Problem {
  const hint = suggestion(stepId, known) || `; known are ${known.map((id) => `\`${id}\``).join(", ")}`;
  return new Problem("step_not_found", `run \`${runId}\` has no step \`${stepId}\`${hint}`, {
    run_id: runId,
    steps: known,
  });
}

const pageOptions = ({ query }: GatewayRequest, index: string) => {
  const cursor = readCursor(queryText(query, "cursor"), index);
  return { limit: readLimit(queryText(query, "limit")), ...(cursor === undefined ? {} : { cursor }) };
};

const pageResponse = (index: string, items: readonly object[], cursor: string | null): GatewayResponse =>
  ok({ items, next_cursor: cursor === null ? null : writeCursor(index, cursor) });

function readState(text: string | undefined): RunState | undefined {
  if (text === undefined) return undefined;
  const name = text.toUpperCase();
  const state = RUN_STATES.find((known) => known === name);
  if (state !== undefined) return state;
  const hint = suggestion(name, RUN_STATES) || `; known are ${RUN_STATES.map((one) => `\`${one}\``).join(", ")}`;
  throw new Problem("invalid_request", `unknown state \`${text.slice(0, 40)}\`${hint}`);
}
