/**
 * The audit log over HTTP: read it, and find out whether it is still what was written.
 *
 * A chain belongs to one tenant. What concerns all of them (keys of tenant `*`, the policy, the breaker) has a chain of its
 * own, `system=true`, which takes a key of tenant `*`.
 */
import { Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { type AuditEntry, auditPagesOf } from "../../core/model/audit.ts";
import { checkAudit, readAudit, readAuditOf } from "../../engine/audit/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { PAGE_QUERY, pageOf, pageQuery, queryText, readCursor, readLimit, writeCursor } from "../views/page.ts";

const CHAIN = {
  system: Type.Optional(
    Type.Boolean({ description: "The chain of what concerns all tenants, in place of the tenant's." }),
  ),
};

const ENTRY = Type.Object({
  index: Type.Integer(),
  at: Type.String(),
  kind: Type.String(),
  who: Type.String(),
  what: Type.String(),
  facts: Type.Record(Type.String(), Type.Unknown()),
  prev: Type.String({ description: "The hash of the entry before." }),
  hash: Type.String({
    description: "SHA-256 of the entry without it, as JSON with sorted names; `at` in milliseconds.",
  }),
});

export const AUDIT_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/audit",
    summary: "The audit log of the tenant, newest first",
    access: "operate",
    query: pageQuery(CHAIN),
    answer: pageOf(ENTRY),
    handle: listAudit,
  },
  {
    method: "GET",
    path: "/api/v1/policy/audit",
    summary: "What was done to the policy, newest first: published, rolled back, by whom",
    access: "operate",
    everyTenant: true,
    query: PAGE_QUERY,
    answer: pageOf(ENTRY),
    handle: listPolicyAudit,
  },
  {
    method: "GET",
    path: "/api/v1/audit/verify",
    summary: "Whether the audit log is still what was written; else at which entry it is not",
    access: "operate",
    query: Type.Object(CHAIN),
    answer: Type.Object({
      ok: Type.Boolean(),
      entries: Type.Integer({ description: "Entries that are as they were written." }),
      head: Type.String({
        description: "The hash at the end. Kept elsewhere, it proves that nobody made a new chain.",
      }),
      problem: Type.Union([Type.Object({ index: Type.Integer(), why: Type.String() }), Type.Null()]),
    }),
    handle: verifyChain,
  },
];

async function listPolicyAudit({ engine }: Gateway, { query }: GatewayRequest): Promise<Answer> {
  const index = `${auditPagesOf(EVERY_ORG)}/policy`;
  const cursor = readCursor(queryText(query, "cursor"), index);
  const asked = { limit: readLimit(queryText(query, "limit")), before: cursor === undefined ? null : Number(cursor) };
  const { entries, before } = await readAuditOf(engine, EVERY_ORG, "policy", asked);
  return ok({
    items: entries.map(entryView),
    next_cursor: before === null ? null : writeCursor(index, String(before)),
  });
}

async function listAudit({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const org = chainOf(request);
  const cursor = readCursor(queryText(request.query, "cursor"), auditPagesOf(org));
  const limit = readLimit(queryText(request.query, "limit"));
  const { entries, before } = await readAudit(engine, org, {
    limit,
    before: cursor === undefined ? null : Number(cursor),
  });
  return ok({
    items: entries.map(entryView),
    next_cursor: before === null ? null : writeCursor(auditPagesOf(org), String(before)),
  });
}

async function verifyChain({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const { entries, head, problem } = await checkAudit(engine, chainOf(request));
  return ok({ ok: problem === null, entries, head, problem });
}

function chainOf({ org, principal, query }: GatewayRequest): string {
  if (queryText(query, "system") !== "true") return org;
  if (principal.org === EVERY_ORG) return EVERY_ORG;
  throw new Problem("forbidden", "the chain of what concerns all tenants takes a key of tenant `*`");
}

function entryView({ at, ...entry }: AuditEntry): object {
  return { ...entry, at: new Date(at).toISOString() };
}
