/**
 * Runs over HTTP: started, listed, read, explained, removed. A tenant's runs are there for that tenant alone; what is shown of
 * an input has passed the redaction.
 */
import { Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { childrenOf, JOBS, type Job } from "../../core/model/job.ts";
import { redact } from "../../core/model/redact.ts";
import { RUN_STATES, RUNS, type Run, type RunState, runsOf, runsOfWorkflow, timelineOf } from "../../core/model/run.ts";
import { suggestion } from "../../core/model/suggestion.ts";
import type { Engine } from "../../engine/engine.ts";
import { explainRun } from "../../engine/observe/index.ts";
import { children, loadRun, planOf, removeRun, timeline } from "../../engine/runs/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import {
  listPage,
  PAGE_QUERY,
  pageOf,
  pageQuery,
  queryText,
  readCursor,
  readLimit,
  writeCursor,
} from "../views/page.ts";
import { payloadValue } from "../views/payload.ts";
import {
  CHILD,
  LINE,
  RUN,
  RUN_DELETED,
  RUN_DETAIL,
  RUN_EXPLANATION,
  START_BODY,
  STARTED,
} from "../views/run-schemas.ts";
import { outputsOf, resultsOf } from "../views/run-values.ts";
import { childView, runDetail, runView, timelineView, waitsView } from "../views/run-views.ts";
import { start } from "./run-start.ts";
import { loadHead } from "./workflows.ts";

export const RUN_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/workflows/:id/runs",
    summary: "Starts a run; 429 while as many runs of the tenant are open as there may be",
    access: "submit",
    body: START_BODY,
    answer: STARTED,
    invalid: "invalid_run",
    handle: start,
  },
  {
    method: "GET",
    path: "/api/v1/workflows/:id/runs",
    summary: "The runs of a workflow, newest first",
    access: "read",
    query: PAGE_QUERY,
    answer: pageOf(RUN),
    handle: listRunsOf,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs",
    summary: "Runs of all workflows, newest first",
    access: "read",
    query: pageQuery({ state: Type.Optional(Type.String({ description: "Only those in this state." })) }),
    answer: pageOf(RUN),
    handle: listRuns,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs/:id",
    summary: "A run with its input, its output and all its steps",
    access: "read",
    answer: RUN_DETAIL,
    handle: getRun,
  },
  {
    method: "DELETE",
    path: "/api/v1/workflow-runs/:id",
    summary: "Removes a run that has ended; the jobs of its steps go when their own time is over",
    access: "operate",
    answer: RUN_DELETED,
    handle: deleteRun,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs/:id/timeline",
    summary: "What happened in a run, to what, by whom and why, oldest first",
    access: "read",
    query: PAGE_QUERY,
    answer: pageOf(LINE),
    handle: getTimeline,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs/:id/explain",
    summary: "What a run waits for, until when, and what unblocks it",
    access: "read",
    answer: RUN_EXPLANATION,
    handle: explain,
  },
  {
    method: "GET",
    path: "/api/v1/workflow-runs/:id/steps/:step/children",
    summary: "The jobs of a `for_each` step, in the order of its items",
    access: "read",
    query: PAGE_QUERY,
    answer: pageOf(CHILD),
    handle: listChildren,
  },
];

/** Somebody else's run is not there: saying "forbidden" would tell that it exists. */
export function noSuchRun(id: string, org: string): Problem {
  return new Problem(
    "run_not_found",
    `no run \`${id}\` of tenant \`${org}\`; \`GET /api/v1/workflow-runs\` lists them`,
  );
}

export async function runOf({ engine }: Gateway, { org, params }: GatewayRequest, id = params.id ?? ""): Promise<Run> {
  const found = await loadRun(engine, org, id);
  if (found === null) throw noSuchRun(id, org);
  return found.value;
}

async function listRunsOf(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const { org, id } = await loadHead(gateway, request);
  const { store } = gateway.engine.world;
  return listPage(store, RUNS, runsOfWorkflow(org, id), request.query, ({ value }) => runView(value));
}

async function listRuns({ engine }: Gateway, { org, query }: GatewayRequest): Promise<Answer> {
  const state = readState(queryText(query, "state"));
  return listPage(engine.world.store, RUNS, runsOf(org, state), query, ({ value }) => runView(value));
}

async function getRun(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const { engine } = gateway;
  const { blobs } = engine.world;
  const run = await runOf(gateway, request);
  const [input, output, outputs, jobs, plan] = await Promise.all([
    payloadValue(blobs, run.input),
    payloadValue(blobs, run.output),
    outputsOf(engine, run),
    jobsOf(engine, run),
    planOf(engine, run.org, run.workflowId, run.version),
  ]);
  const { paths } = engine.settings.current.redaction;
  const steps = [...(plan?.steps.values() ?? [])];
  const written = new Map(steps.map(({ id, act, dependsOn }) => [id, { type: act.type, dependsOn }]));
  return ok(runDetail(run, { input: redact(input, { paths, at: "input" }), output, outputs, jobs, written }));
}

/** The jobs of the steps, by the steps' ids; those of a list's items are asked for with their list. */
async function jobsOf(engine: Engine, { steps }: Run): Promise<ReadonlyMap<string, Job>> {
  const found = await Promise.all(
    Object.entries(steps).map(async ([id, { jobId }]) => {
      const job = jobId === undefined ? null : await engine.world.store.load(JOBS, jobId);
      return job ? [[id, job.value] as const] : [];
    }),
  );
  return new Map(found.flat());
}

async function deleteRun({ engine }: Gateway, { org, params, principal }: GatewayRequest): Promise<Answer> {
  const runId = params.id ?? "";
  const outcome = await removeRun(engine, { org, runId, by: principal.id });
  switch (outcome.kind) {
    case "removed":
      return ok({ run_id: runId, deleted: true });
    case "still_open": {
      const { state } = outcome;
      const detail = `run \`${runId}\` is ${state}; \`POST /api/v1/workflow-runs/${runId}/cancel\` ends it`;
      throw new Problem("run_open", detail, { run_id: runId, state });
    }
    case "not_found":
      throw noSuchRun(runId, org);
    default:
      return outcome satisfies never;
  }
}

async function getTimeline(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const run = await runOf(gateway, request);
  const page = await timeline(gateway.engine, run, pageAsked(request, timelineOf(run.id)));
  return pageAnswer(timelineOf(run.id), page.lines.map(timelineView), page.cursor);
}

async function explain({ engine }: Gateway, { org, params, principal }: GatewayRequest): Promise<Answer> {
  const runId = params.id ?? "";
  const explained = await explainRun(engine, { org, runId, isForAll: principal.org === EVERY_ORG });
  if (explained.kind === "not_found") throw noSuchRun(runId, org);
  return ok(waitsView(explained.run, explained.lines));
}

async function listChildren(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const { engine } = gateway;
  const run = await runOf(gateway, request);
  const stepId = request.params.step ?? "";
  await refuseUnknownStep(gateway, run, stepId);
  const index = childrenOf(run.id, stepId);
  const page = await children(engine, run, stepId, pageAsked(request, index));
  const jobs = page.items.map(({ value }) => value);
  const results = await resultsOf(engine, jobs);
  const views = jobs.map((job, at) => childView(job, results[at] ?? null));
  return pageAnswer(index, views, page.cursor);
}

/** One that nothing has happened to yet is no mistake: the plan knows it. */
async function refuseUnknownStep({ engine }: Gateway, run: Run, stepId: string): Promise<void> {
  if (Object.hasOwn(run.steps, stepId)) return;
  const plan = await planOf(engine, run.org, run.workflowId, run.version);
  if (plan?.steps.has(stepId)) return;
  throw noSuchStep(run.id, stepId, plan?.order ?? Object.keys(run.steps));
}

export function noSuchStep(runId: string, stepId: string, known: readonly string[]): Problem {
  const hint = suggestion(stepId, known) || `; there are ${known.map((id) => `\`${id}\``).join(", ")}`;
  return new Problem("step_not_found", `run \`${runId}\` has no step \`${stepId}\`${hint}`, {
    run_id: runId,
    steps: known,
  });
}

const pageAsked = ({ query }: GatewayRequest, index: string) => {
  const cursor = readCursor(queryText(query, "cursor"), index);
  return { limit: readLimit(queryText(query, "limit")), ...(cursor === undefined ? {} : { cursor }) };
};

const pageAnswer = (index: string, items: readonly object[], cursor: string | null): Answer =>
  ok({ items, next_cursor: cursor === null ? null : writeCursor(index, cursor) });

function readState(text: string | undefined): RunState | undefined {
  if (text === undefined) return undefined;
  const wanted = text.toUpperCase();
  const state = RUN_STATES.find((known) => known === wanted);
  if (state !== undefined) return state;
  const hint = suggestion(wanted, RUN_STATES) || `; there are ${RUN_STATES.map((name) => `\`${name}\``).join(", ")}`;
  throw new Problem("invalid_request", `unknown state \`${text.slice(0, 40)}\`${hint}`);
}
