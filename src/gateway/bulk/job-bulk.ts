/** Cancels or retries the jobs of a query. */
import { Type } from "typebox";
import { JOBS, type Job, type JobState } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import {
  BULK_STATES,
  bulkJobLists,
  bulkJobs,
  type Handled,
  type JobBulkAction,
  type JobBulkOutcome,
  recordJobBulk,
} from "../../engine/maintenance/index.ts";
import { Problem } from "../problem.ts";
import type { Gateway, GatewayRequest, GatewayResponse, Route } from "../route.ts";
import { requireLists } from "../routes/jobs.ts";
import { JOB_FILTERS, readJobQuery } from "../views/job-query.ts";
import { JOB } from "../views/job-schemas.ts";
import { jobView } from "../views/job-views.ts";
import { BULK_FIELDS, type BulkFields, bulkPageOf, operationRange, runBulk } from "./bulk.ts";
import { retryProblem } from "./dead-letter-bulk.ts";

const BODY = Type.Object(
  {
    action: Type.Union([Type.Literal("cancel"), Type.Literal("retry")], {
      description: "`cancel`: open jobs. `retry`: jobs that are FAILED or TIMEOUT, from their dead letters.",
    }),
    ...JOB_FILTERS,
    reason: Type.Optional(Type.String({ maxLength: 1_000, description: "Of the cancel, for the audit log." })),
    ...BULK_FIELDS,
  },
  { title: "JobBulkRequest" },
);

interface Fields extends BulkFields {
  readonly action: JobBulkAction;
  readonly state?: string;
  readonly topic?: string;
  readonly label?: string;
  readonly since?: string;
  readonly retrying?: boolean;
  readonly class?: string;
  readonly reason?: string;
}

export const JOB_BULK_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/jobs/bulk",
    summary: "Cancel or retry the jobs of a query, oldest first, a page per request",
    access: "operate",
    body: BODY,
    response: bulkPageOf(JOB, "JobBulkPage"),
    handle: changeJobs,
  },
];

async function changeJobs({ engine }: Gateway, { org, principal, body }: GatewayRequest): Promise<GatewayResponse> {
  const fields = body as Fields;
  const { action, state, topic, label, since, retrying, class: retryClass, reason } = fields;
  const nowMs = engine.world.clock.now();
  const query = { state, topic, label, since, class: retryClass, retrying: String(retrying === true) };
  const { filter, range } = readJobQuery(query, nowMs);
  requireState(action, filter.state);
  await requireLists(engine, org, filter);
  const by = principal.id;
  const operation = { action, org, filter, by, why: reason ?? `${action} of many by ${principal.caller.name ?? by}` };
  return runBulk<Job, JobBulkOutcome>(engine, fields, {
    table: JOBS,
    index: bulkJobLists(operation),
    range: operationRange(range, nowMs),
    view: jobView,
    idOf: ({ id }) => clientJobId(org, id),
    record: (frozen) => recordJobBulk(engine, { ...operation, ...frozen }),
    change: (page) => bulkJobs(engine, { ...operation, ...page }),
    problemOf: (handled) => problemOf(handled, org),
  });
}

function requireState(action: JobBulkAction, state: JobState | undefined): void {
  const known = BULK_STATES[action];
  if (state === undefined || known.includes(state)) return;
  const names = known.map((one) => `\`${one}\``).join(", ");
  throw new Problem(
    "invalid_request",
    `\`${action}\` has no effect on jobs that are ${state}; \`state\` is one of ${names}`,
  );
}

function problemOf({ record, outcome }: Handled<Job, JobBulkOutcome>, org: string): Problem {
  switch (outcome.kind) {
    case "no_dead_letter":
      return new Problem("dead_letter_not_found", "its dead letter was dropped; submit the job again");
    case "cancelled":
    case "ended":
      throw new Error(`${outcome.kind} is no problem`);
    default:
      return retryProblem({ id: clientJobId(org, record.id), org }, outcome);
  }
}
