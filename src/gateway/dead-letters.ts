import { dropLetter, retryLetter } from "../flow/revive.ts";
import { DEAD_LETTERS, deadLettersOf } from "../model/dead-letter.ts";
import { redact } from "../model/redact.ts";
import { listPage, PAGE_QUERY, pageOf } from "./page.ts";
import { payloadValue } from "./payload.ts";
import { Problem } from "./problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "./route.ts";
import { DROPPED, LETTER, LETTER_DETAIL, RETRIED } from "./schemas.ts";
import { deadLetterDetail, deadLetterView } from "./views.ts";

export const DEAD_LETTER_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/dlq",
    summary: "What could not be done, newest first",
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

async function listDeadLetters({ flow }: Gateway, { org, query }: GatewayRequest): Promise<Answer> {
  return listPage(flow.world.store, DEAD_LETTERS, deadLettersOf(org), query, (item) => deadLetterView(item.value));
}

async function getDeadLetter({ flow }: Gateway, { org, params }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const found = await flow.world.store.load(DEAD_LETTERS, id);
  if (found === null || found.value.org !== org) throw noSuchLetter(id, org);
  const { source } = found.value;
  const input = source.kind === "job" ? await payloadValue(flow.world.blobs, source.input) : null;
  const { paths } = flow.settings.current.redaction;
  return ok(deadLetterDetail(found.value, redact(input, { paths, at: "input" }), paths));
}

async function retryDeadLetter({ flow }: Gateway, { org, params, principal }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const outcome = await retryLetter(flow, { org, id, by: principal.id });
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
    case "not_found":
      throw noSuchLetter(id, org);
    default:
      return outcome satisfies never;
  }
}

async function dropDeadLetter({ flow }: Gateway, { org, params, principal }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const outcome = await dropLetter(flow, { org, id, by: principal.id });
  if (outcome.kind === "not_found") throw noSuchLetter(id, org);
  return ok({ id, dropped: true });
}

function noSuchLetter(id: string, org: string): Problem {
  return new Problem(
    "dead_letter_not_found",
    `no dead letter \`${id}\` of tenant \`${org}\`; \`GET /api/v1/dlq\` lists them`,
  );
}
