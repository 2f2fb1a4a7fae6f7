/**
 * Dead letters. A tenant sees those of its own jobs and messages; a key of `*` that names no tenant sees all, including
 * messages whose tenant is unknown.
 */
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { DEAD_LETTERS, type DeadLetter, deadLettersOf } from "../../core/model/dead-letter.ts";
import { clientJobId, wireJobId } from "../../core/model/job-id.ts";
import { redact } from "../../core/model/redact.ts";
import {
  type BulkOutcome,
  bulkDeadLetters,
  deadLetterGroups,
  discardDeadLetter,
  recordBulk,
  redriveDeadLetter,
} from "../../engine/maintenance/index.ts";
import type { ScoreRange, Versioned } from "../../ports/store.ts";
import { visibleTenant } from "../auth/access.ts";
import { invalidCursorProblem, Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import {
  BULK_BODY,
  BULK_PAGE,
  type BulkFields,
  DEAD_LETTER_FILTERS,
  DEAD_LETTER_GROUPS,
  type FilterFields,
  groupView,
  readAges,
  readDeadLetterFilter,
} from "../views/dead-letter-query.ts";
import { DEAD_LETTER, DEAD_LETTER_DETAIL, DROPPED, RETRIED } from "../views/job-schemas.ts";
import { deadLetterDetail, deadLetterView } from "../views/job-views.ts";
import { listPage, pageOf, pageQuery, queryText, readCursor, writeCursor } from "../views/page.ts";
import { readValue } from "../views/payloads.ts";
import { tooManyRuns } from "./run-start.ts";

export const DEAD_LETTER_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/dlq",
    summary: "List dead letters, newest first; of all tenants for a key of tenant `*` without `X-Tenant-ID`",
    access: "read",
    query: pageQuery(DEAD_LETTER_FILTERS),
    response: pageOf(DEAD_LETTER),
    handle: listDeadLetters,
  },
  {
    method: "GET",
    path: "/api/v1/dlq/groups",
    summary: "Group dead letters by fingerprint (topic, reason, error and message pattern), largest group first",
    access: "read",
    response: DEAD_LETTER_GROUPS,
    handle: listGroups,
  },
  {
    method: "POST",
    path: "/api/v1/dlq/bulk",
    summary: "Retry or drop the dead letters of a query, oldest first, a page per request",
    access: "operate",
    body: BULK_BODY,
    response: BULK_PAGE,
    handle: changeMany,
  },
  {
    method: "GET",
    path: "/api/v1/dlq/:id",
    summary: "Get a dead letter with its payload and history",
    access: "read",
    response: DEAD_LETTER_DETAIL,
    handle: getDeadLetter,
  },
  {
    method: "POST",
    path: "/api/v1/dlq/:id/retry",
    summary: "Retry a dead letter: the job is redriven, or the message is sent again",
    access: "operate",
    response: RETRIED,
    handle: retryDeadLetter,
  },
  {
    method: "DELETE",
    path: "/api/v1/dlq/:id",
    summary: "Delete a dead letter",
    access: "operate",
    response: DROPPED,
    handle: dropDeadLetter,
  },
];

async function listDeadLetters({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { query } = request;
  const names = Object.keys(DEAD_LETTER_FILTERS);
  const fields: FilterFields = Object.fromEntries(names.map((name) => [name, queryText(query, name)]));
  const index = deadLettersOf(visibleTenant(request), readDeadLetterFilter(fields));
  const range = readAges(fields, engine.world.clock.now());
  return listPage(engine.world.store, DEAD_LETTERS, index, query, (item) => deadLetterView(item.value), range);
}

async function listGroups({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { groups, more } = await deadLetterGroups(engine, visibleTenant(request));
  return ok({ items: groups.map(groupView), more, next_cursor: null });
}

async function changeMany({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const fields = request.body as BulkFields;
  const { action, dry_run: isDryRun = false, limit = 100 } = fields;
  const { store, clock } = engine.world;
  const org = visibleTenant(request);
  const filter = readDeadLetterFilter(fields);
  const index = deadLettersOf(org, filter);
  const cursorName = `${index}?${action}`;
  const known = readBulkCursor(readCursor(fields.cursor, cursorName));
  const range = known?.range ?? operationRange(fields, clock.now());
  const matched = known?.matched ?? (await store.count(DEAD_LETTERS, { ...range, index }));
  const cursor = known?.cursor;
  const summary = { action, dry_run: isDryRun, matched, done: 0, rejected: [], stopped: null };
  if (isDryRun) {
    const { items } = await store.list(DEAD_LETTERS, { ...range, index, order: "oldest", limit: SAMPLE_MAX, cursor });
    const start = matched === 0 ? null : writeCursor(cursorName, writeBulkCursor({ range, matched, cursor }));
    return ok({ ...summary, sample: items.map(({ value }) => deadLetterView(value)), next_cursor: start });
  }
  const operation = { action, org, filter, range, matched, by: request.principal.id };
  if (cursor === undefined && matched > 0) await recordBulk(engine, operation);
  const page = await bulkDeadLetters(engine, { ...operation, limit, cursor });
  const view = ({ deadLetter, outcome }: { deadLetter: Versioned<DeadLetter>; outcome: BulkOutcome }) => {
    const { code, message } = problemOf(deadLetter, outcome) ?? deadLetterNotFound(request);
    return { id: deadLetter.id, code, error: message };
  };
  return ok({
    ...summary,
    done: page.done,
    rejected: page.rejected.map(view),
    stopped: page.stopped && view(page.stopped),
    sample: [],
    next_cursor: page.isEnd ? null : writeCursor(cursorName, writeBulkCursor({ range, matched, cursor: page.cursor })),
  });
}

const SAMPLE_MAX = 5;

/** Ends at the present: what fails again is not part of the operation. */
function operationRange(fields: FilterFields, nowMs: number): ScoreRange {
  const { scoreMin, scoreMax } = readAges(fields, nowMs);
  return { scoreMin: scoreMin ?? 0, scoreMax: scoreMax ?? nowMs };
}

/** Range and count are part of the cursor, so that every page of the operation has the same. */
interface BulkPosition {
  readonly range: ScoreRange;
  readonly matched: number;
  readonly cursor: string | undefined;
}

const writeBulkCursor = ({ range: { scoreMin, scoreMax }, matched, cursor = "" }: BulkPosition): string =>
  `${scoreMin},${scoreMax},${matched},${cursor}`;

function readBulkCursor(text: string | undefined): BulkPosition | null {
  if (text === undefined) return null;
  const [, min, max, matched, cursor] = /^(\d{1,15}),(\d{1,15}),(\d{1,15}),(.*)$/s.exec(text) ?? [];
  if (cursor === undefined) throw invalidCursorProblem();
  const range = { scoreMin: Number(min), scoreMax: Number(max) };
  return { range, matched: Number(matched), cursor: cursor === "" ? undefined : cursor };
}

async function getDeadLetter({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { value: deadLetter } = await loadDeadLetter(engine, request);
  const { source } = deadLetter;
  const { paths } = engine.settings.current.redaction;
  if (source.kind !== "job") return ok(deadLetterDetail(deadLetter, null, paths));
  const input = await readValue(engine, `the input of job \`${source.jobId}\``, source.input);
  return ok(deadLetterDetail(deadLetter, redact(input.value, { paths, at: "input" }), paths, [input]));
}

async function retryDeadLetter({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { id, value } = await loadDeadLetter(engine, request);
  const outcome = await redriveDeadLetter(engine, { org: value.org, id, by: request.principal.id });
  switch (outcome.kind) {
    case "revived":
      return ok({ job_id: clientJobId(value.org, outcome.jobId), state: outcome.state });
    case "sent_again":
      return ok({ message_id: outcome.messageId, subject: outcome.subject, state: "SENT" });
    default:
      throw problemOf({ id, value }, outcome) ?? deadLetterNotFound(request);
  }
}

/** Why it was not retried; null if it is gone or there is no problem. */
function problemOf({ id, value }: Pick<Versioned<DeadLetter>, "id" | "value">, outcome: BulkOutcome): Problem | null {
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
      return tooManyRuns(value.org, outcome);
    case "revived":
    case "sent_again":
    case "dropped":
    case "not_found":
      return null;
    default:
      return outcome satisfies never;
  }
}

async function dropDeadLetter({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { id, value } = await loadDeadLetter(engine, request);
  const outcome = await discardDeadLetter(engine, { org: value.org, id, by: request.principal.id });
  if (outcome.kind === "not_found") throw deadLetterNotFound(request);
  return ok({ id, dropped: true });
}

async function loadDeadLetter({ world }: Gateway["engine"], request: GatewayRequest): Promise<Versioned<DeadLetter>> {
  const id = request.params.id ?? "";
  const tenant = visibleTenant(request);
  // The id of a message contains a `/`; others are job ids. Earlier versions stored them unscoped in every tenant.
  const scoped = tenant === EVERY_ORG || id.includes("/") ? id : wireJobId(tenant, id);
  for (const name of new Set([scoped, id])) {
    const found = await world.store.load(DEAD_LETTERS, name);
    if (found !== null && (tenant === EVERY_ORG || found.value.org === tenant)) return found;
  }
  throw deadLetterNotFound(request);
}

function deadLetterNotFound(request: GatewayRequest): Problem {
  const tenant = visibleTenant(request);
  const owner = tenant === EVERY_ORG ? "" : ` of tenant \`${tenant}\``;
  const id = request.params.id ?? "";
  return new Problem("dead_letter_not_found", `no dead letter \`${id}\`${owner}; \`GET /api/v1/dlq\` lists them`);
}
