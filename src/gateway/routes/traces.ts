/**
 * What belongs together: the jobs that were submitted with one `trace_id`, or the run whose id it is with the jobs of its
 * steps. A tenant's traces are there for that tenant alone.
 */
import { Type } from "typebox";
import { JOBS, type Job, jobsOfTrace } from "../../core/model/job.ts";
import type { Run } from "../../core/model/run.ts";
import { loadRun } from "../../engine/runs/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { JOB } from "../views/job-schemas.ts";
import { jobView } from "../views/job-views.ts";
import { PAGE_QUERY, queryText, readCursor, readLimit, writeCursor } from "../views/page.ts";
import { RUN } from "../views/run-schemas.ts";
import { runView } from "../views/run-views.ts";

export const TRACE_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/traces/:id",
    summary: "Everything with one `trace_id`, newest first; of a run also the jobs of its steps, with the first page",
    access: "read",
    query: PAGE_QUERY,
    answer: Type.Object({
      trace_id: Type.String(),
      run: Type.Union([RUN, Type.Null()], {
        description: "The run that the trace is of; the children of its steps are its own.",
      }),
      items: Type.Array(JOB),
      next_cursor: Type.Union([Type.String(), Type.Null()]),
    }),
    handle: getTrace,
  },
];

async function getTrace({ engine }: Gateway, { org, params, query }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const { store } = engine.world;
  const index = jobsOfTrace(org, id);
  const cursor = readCursor(queryText(query, "cursor"), index);
  const [page, found] = await Promise.all([
    store.list(JOBS, { index, limit: readLimit(queryText(query, "limit")), cursor }),
    loadRun(engine, org, id),
  ]);
  const run = found?.value.traceId === id ? found.value : null;
  const first = cursor === undefined ? await firstOf({ engine, org, id, run }) : [];
  const items = [...first, ...page.items.map(({ value }) => value)];
  if (run === null && items.length === 0 && cursor === undefined) {
    throw new Problem("trace_not_found", `nothing of tenant \`${org}\` has the trace \`${id.slice(0, 100)}\``);
  }
  return ok({
    trace_id: id,
    run: run === null ? null : runView(run),
    items: items.map(jobView),
    next_cursor: page.cursor === null ? null : writeCursor(index, page.cursor),
  });
}

interface Asked {
  readonly engine: Gateway["engine"];
  readonly org: string;
  readonly id: string;
  readonly run: Run | null;
}

/** What needs no list: a job without a trace of its own begins one by its id, and a run names the jobs of its steps. */
async function firstOf({ engine, org, id, run }: Asked): Promise<readonly Job[]> {
  const ids = [id, ...Object.values(run?.steps ?? {}).flatMap(({ jobId }) => jobId ?? [])];
  const found = await Promise.all(ids.map((jobId) => engine.world.store.load(JOBS, jobId)));
  return found.flatMap((job) => (job?.value.org === org && job.value.traceId === id ? [job.value] : []));
}
