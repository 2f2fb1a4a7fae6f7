/**
 * Dead letters over HTTP: listed, read, tried again, dropped. A tenant has those of its own jobs and messages; a key of `*`
 * that names no tenant has all, also the messages that nobody can say whose they are.
 */

import { EVERY_ORG } from "../../core/model/api-key.ts";
import { DEAD_LETTERS, type DeadLetter, deadLettersOf } from "../../core/model/dead-letter.ts";
import { redact } from "../../core/model/redact.ts";
import { discardDeadLetter, redriveDeadLetter } from "../../engine/maintenance/index.ts";
import type { Versioned } from "../../ports/store.ts";
import { shownTo } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { DROPPED, LETTER, LETTER_DETAIL, RETRIED } from "../views/job-schemas.ts";
import { deadLetterDetail, deadLetterView } from "../views/job-views.ts";
import { listPage, PAGE_QUERY, pageOf } from "../views/page.ts";
import { payloadValue } from "../views/payload.ts";
import { tooManyRuns } from "./run-start.ts";

export const DEAD_LETTER_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/dlq",
    summary: "What could not be done, newest first; with a key of tenant `*` that names none, of all tenants",
    access: "read",
    query: PAGE_QUERY,
    answer: pageOf(LETTER),
    handle: listDeadLetters,
  },
  {
    method: "GET",
    path: "/api/v1/dlq/:id",
    summary: "A dead letter with its payload and what was tried",
    access: "read",
    answer: LETTER_DETAIL,
    handle: getDeadLetter,
  },
  {
    method: "POST",
    path: "/api/v1/dlq/:id/retry",
    summary: "Tries again: the same job lives on, or the message is sent again",
    access: "operate",
    answer: RETRIED,
    handle: retryDeadLetter,
  },
  {
    method: "DELETE",
    path: "/api/v1/dlq/:id",
    summary: "Gives it up for good",
    access: "operate",
    answer: DROPPED,
    handle: dropDeadLetter,
  },
];

async function listDeadLetters({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const index = deadLettersOf(shownTo(request));
  return listPage(engine.world.store, DEAD_LETTERS, index, request.query, (item) => deadLetterView(item.value));
}

async function getDeadLetter({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const { value: deadLetter } = await loadDeadLetter(engine, request);
  const { source } = deadLetter;
  const input = source.kind === "job" ? await payloadValue(engine.world.blobs, source.input) : null;
  const { paths } = engine.settings.current.redaction;
  return ok(deadLetterDetail(deadLetter, redact(input, { paths, at: "input" }), paths));
}

async function retryDeadLetter({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const { id, value } = await loadDeadLetter(engine, request);
  const outcome = await redriveDeadLetter(engine, { org: value.org, id, by: request.principal.id });
  switch (outcome.kind) {
    case "revived":
      return ok({ job_id: outcome.jobId, state: outcome.state });
    case "sent_again":
      return ok({ message_id: outcome.messageId, subject: outcome.subject, state: "SENT" });
    case "unreadable":
      throw new Problem("unreadable", `it can only be dropped: ${outcome.error}`);
    case "job_gone":
      throw new Problem("job_gone", `job \`${outcome.jobId}\` was removed after its retention; submit it again`);
    case "input_gone":
      throw new Problem("input_gone", `the input of job \`${outcome.jobId}\` has expired; submit it again`);
    case "not_revivable":
      throw new Problem("job_gone", `job \`${outcome.jobId}\` is ${outcome.state}; nothing is left to be tried`);
    case "run_went_on":
      throw new Problem("run_went_on", `job \`${outcome.jobId}\` is a step of a run: ${outcome.why}`, {
        job_id: outcome.jobId,
      });
    case "full":
      throw tooManyRuns(value.org, outcome);
    case "not_found":
      throw noSuchLetter(request);
    default:
      return outcome satisfies never;
  }
}

async function dropDeadLetter({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const { id, value } = await loadDeadLetter(engine, request);
  const outcome = await discardDeadLetter(engine, { org: value.org, id, by: request.principal.id });
  if (outcome.kind === "not_found") throw noSuchLetter(request);
  return ok({ id, dropped: true });
}

/** One that the caller may see. */
async function loadDeadLetter({ world }: Gateway["engine"], request: GatewayRequest): Promise<Versioned<DeadLetter>> {
  const found = await world.store.load(DEAD_LETTERS, request.params.id ?? "");
  const tenant = shownTo(request);
  if (found !== null && (tenant === EVERY_ORG || found.value.org === tenant)) return found;
  throw noSuchLetter(request);
}

function noSuchLetter(request: GatewayRequest): Problem {
  const tenant = shownTo(request);
  const whose = tenant === EVERY_ORG ? "" : ` of tenant \`${tenant}\``;
  const id = request.params.id ?? "";
  return new Problem("dead_letter_not_found", `no dead letter \`${id}\`${whose}; \`GET /api/v1/dlq\` lists them`);
}
