/** Retries or drops the dead letters of a query. */
import { Type } from "typebox";
import { DEAD_LETTERS, type DeadLetter, deadLettersOf } from "../../core/model/dead-letter.ts";
import { type BulkOutcome, bulkDeadLetters, recordBulk } from "../../engine/maintenance/index.ts";
import { visibleTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import type { Gateway, GatewayRequest, GatewayResponse, Route } from "../route.ts";
import { tooManyRuns } from "../routes/run-start.ts";
import { DEAD_LETTER_FILTERS, type FilterFields, readAges, readDeadLetterFilter } from "../views/dead-letter-query.ts";
import { DEAD_LETTER } from "../views/job-schemas.ts";
import { deadLetterView } from "../views/job-views.ts";
import { BULK_FIELDS, type BulkFields, bulkPageOf, operationRange, runBulk } from "./bulk.ts";

const BODY = Type.Object(
  {
    action: Type.Union([Type.Literal("retry"), Type.Literal("drop")]),
    ...DEAD_LETTER_FILTERS,
    ...BULK_FIELDS,
  },
  { title: "DeadLetterBulkRequest" },
);

interface Fields extends BulkFields, FilterFields {
  readonly action: "retry" | "drop";
}

export const DEAD_LETTER_BULK_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/dlq/bulk",
    summary: "Retry or drop the dead letters of a query, oldest first, a page per request",
    access: "operate",
    body: BODY,
    response: bulkPageOf(DEAD_LETTER, "DeadLetterBulkPage"),
    handle: changeDeadLetters,
  },
];

async function changeDeadLetters({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const fields = request.body as Fields;
  const nowMs = engine.world.clock.now();
  const org = visibleTenant(request);
  const filter = readDeadLetterFilter(fields);
  const operation = { action: fields.action, org, filter, by: request.principal.id };
  return runBulk<DeadLetter, BulkOutcome>(engine, fields, {
    table: DEAD_LETTERS,
    index: deadLettersOf(org, filter),
    range: operationRange(readAges(fields, nowMs), nowMs),
    view: ({ value }) => deadLetterView(value),
    idOf: ({ id }) => id,
    record: (frozen) => recordBulk(engine, { ...operation, ...frozen }),
    change: (page) => bulkDeadLetters(engine, { ...operation, ...page }),
    problemOf: ({ record: { id, value }, outcome }) => retryProblem({ id, org: value.org }, outcome),
  });
}

/** Why a dead letter was not retried. */
export function retryProblem(
  { id, org }: { readonly id: string; readonly org: string },
  outcome: BulkOutcome,
): Problem {
  switch (outcome.kind) {
    case "unreadable":
      return new Problem("unreadable", `it can only be deleted with \`DELETE /api/v1/dlq/${id}\`: ${outcome.error}`);
    case "job_gone":
      return new Problem(
        "job_gone",
        `job \`${outcome.jobId}\` was removed after its retention period; submit it again`,
      );
    case "input_gone":
      return new Problem("input_gone", `the input of job \`${outcome.jobId}\` has expired; submit it again`);
    case "not_revivable":
      return new Problem(
        "job_gone",
        `job \`${outcome.jobId}\` is ${outcome.state}; delete the dead letter with \`DELETE /api/v1/dlq/${id}\``,
      );
    case "run_went_on":
      return new Problem("run_went_on", `job \`${outcome.jobId}\` is a step of a run: ${outcome.why}`, {
        job_id: outcome.jobId,
      });
    case "full":
      return tooManyRuns(org, outcome);
    case "not_found":
      return new Problem("dead_letter_not_found", `no dead letter \`${id}\`; \`GET /api/v1/dlq\` lists them`);
    case "revived":
    case "sent_again":
    case "dropped":
      throw new Error(`${outcome.kind} is no problem`);
    default:
      return outcome satisfies never;
  }
}
