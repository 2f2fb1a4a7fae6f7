/**
 * Dead letters. A tenant sees those of its own jobs and messages; a key of `*` that names no tenant sees all, including
 * messages whose tenant is unknown.
 */
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { DEAD_LETTERS, type DeadLetter, deadLettersOf } from "../../core/model/dead-letter.ts";
import { clientJobId, wireJobId } from "../../core/model/job-id.ts";
import { redact } from "../../core/model/redact.ts";
import { deadLetterGroups, discardDeadLetter, redriveDeadLetter } from "../../engine/maintenance/index.ts";
import type { Versioned } from "../../ports/store.ts";
import { visibleTenant } from "../auth/access.ts";
import { DEAD_LETTER_BULK_ROUTES, retryProblem } from "../bulk/dead-letter-bulk.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import {
  DEAD_LETTER_FILTERS,
  DEAD_LETTER_GROUPS,
  type FilterFields,
  groupView,
  readAges,
  readDeadLetterFilter,
} from "../views/dead-letter-query.ts";
import { DEAD_LETTER, DEAD_LETTER_DETAIL, DROPPED, RETRIED } from "../views/job-schemas.ts";
import { deadLetterDetail, deadLetterView } from "../views/job-views.ts";
import { withActorNames } from "../views/key-names.ts";
import { COUNT, countedPageOf, listPage, pageQuery, queryText } from "../views/page.ts";
import { readValue } from "../views/payloads.ts";

export const DEAD_LETTER_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/dlq",
    summary: "List dead letters, newest first; of all tenants for a key of tenant `*` without `X-Tenant-ID`",
    access: "read",
    query: pageQuery({ ...DEAD_LETTER_FILTERS, ...COUNT }),
    response: countedPageOf(DEAD_LETTER),
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
  ...DEAD_LETTER_BULK_ROUTES,
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

async function getDeadLetter({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { value: deadLetter } = await loadDeadLetter(engine, request);
  const { source } = deadLetter;
  const { paths } = engine.settings.current.redaction;
  const answer = async (view: Readonly<Record<string, unknown>>) =>
    ok(await withActorNames(engine.world.store, view, "history"));
  if (source.kind !== "job") return answer(deadLetterDetail(deadLetter, null, paths));
  const input = await readValue(engine, `the input of job \`${source.jobId}\``, source.input);
  return answer(deadLetterDetail(deadLetter, redact(input.value, { paths, at: "input" }), paths, [input]));
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
      throw outcome.kind === "not_found" ? deadLetterNotFound(request) : retryProblem({ id, org: value.org }, outcome);
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
