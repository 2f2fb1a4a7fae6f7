import { Type } from "typebox";
import { JOBS, type Job, jobsOfTrace } from "../../core/model/job.ts";
import type { Run } from "../../core/model/run.ts";
import { loadTenantJob } from "../../engine/dispatch/index.ts";
import { loadTenantRun } from "../../engine/runs/index.ts";
import type { Versioned } from "../../ports/store.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { JOB } from "../views/job-schemas.ts";
import { jobView } from "../views/job-views.ts";
import { PAGE_QUERY, queryText, readCursor, readLimit, writeCursor } from "../views/page.ts";
import { RUN } from "../views/run-schemas.ts";
import { runView } from "../views/run-views.ts";

export const TRACE_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/traces/:id",
    summary:
      "Get the jobs with a `trace_id`, newest first; the first page also has the run of the trace and the jobs of its steps",
    access: "read",
    query: PAGE_QUERY,
    response: Type.Object({
      trace_id: Type.String(),
      run: Type.Union([RUN, Type.Null()], {
        description: "The run of the trace. Children of its `for_each` steps are listed separately.",
      }),
      items: Type.Array(JOB),
      next_cursor: Type.Union([Type.String(), Type.Null()]),
    }),
    handle: getTrace,
  },
];

async function getTrace({ engine }: Gateway, { org, params, query }: GatewayRequest): Promise<GatewayResponse> {
  const id = params.id ?? "";
  const { store } = engine.world;
  const index = jobsOfTrace(org, id);
  const cursor = readCursor(queryText(query, "cursor"), index);
  const [page, found] = await Promise.all([
    store.list(JOBS, { index, limit: readLimit(queryText(query, "limit")), cursor }),
    loadTenantRun(engine, org, id),
  ]);
  const run = found?.value.traceId === id ? found : null;
  const first = cursor === undefined ? await unindexedJobs({ engine, org, id, run: run?.value ?? null }) : [];
  const items = [...first, ...page.items];
  if (run === null && items.length === 0 && cursor === undefined) {
    throw new Problem(
      "trace_not_found",
      `no job or run of tenant \`${org}\` has trace id \`${id.slice(0, 100)}\`; check the \`trace_id\` of the job or run`,
    );
  }
  return ok({
    trace_id: id,
    run: run === null ? null : runView(run),
    items: items.map(jobView),
    next_cursor: page.cursor === null ? null : writeCursor(index, page.cursor),
  });
}

interface TraceQuery {
  readonly engine: Gateway["engine"];
  readonly org: string;
  readonly id: string;
  readonly run: Run | null;
}

/** Jobs that are not in the trace index: the job whose id is the trace id, and the jobs of the run's steps. */
async function unindexedJobs({ engine, org, id, run }: TraceQuery): Promise<readonly Versioned<Job>[]> {
  const ids = [id, ...Object.values(run?.steps ?? {}).flatMap(({ jobId }) => jobId ?? [])];
  const found = await Promise.all(ids.map((jobId) => loadTenantJob(engine, { org, jobId })));
  return found.flatMap((job) => (job?.value.traceId === id ? [job] : []));
}
