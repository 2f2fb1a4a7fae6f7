import { DEAD_LETTERS, deadLettersOf } from "../model/dead-letter.ts";
import { listPage } from "./page.ts";
import { payloadValue } from "./payload.ts";
import { Problem } from "./problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "./route.ts";
import { deadLetterDetail, deadLetterView } from "./views.ts";

export const DEAD_LETTER_ROUTES: readonly Route[] = [
  { method: "GET", path: "/api/v1/dlq", handle: listDeadLetters },
  { method: "GET", path: "/api/v1/dlq/:id", handle: getDeadLetter },
];

async function listDeadLetters({ flow }: Gateway, { org, query }: GatewayRequest): Promise<Answer> {
  return listPage(flow.world.store, DEAD_LETTERS, deadLettersOf(org), query, (item) => deadLetterView(item.value));
}

async function getDeadLetter({ flow }: Gateway, { org, params }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const found = await flow.world.store.load(DEAD_LETTERS, id);
  if (found === null || found.value.org !== org) {
    throw new Problem(
      "dead_letter_not_found",
      `no dead letter \`${id}\` of tenant \`${org}\`; \`GET /api/v1/dlq\` lists them`,
    );
  }
  const { source } = found.value;
  const input = source.kind === "job" ? await payloadValue(flow.world.blobs, source.input) : null;
  return ok(deadLetterDetail(found.value, input));
}
