/**
 * The audit log: one hash chain per tenant, and a system chain (`system=true`) for events that affect all tenants (keys of
 * tenant `*`, the policy, the breaker). The system chain requires a key of tenant `*`.
 */
import { Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import {
  type AuditEntry,
  auditPagesOf,
  CHECKPOINT_FORMAT,
  type CheckpointStatement,
  checkpointText,
  type SavedHead,
} from "../../core/model/audit.ts";
import { checkAudit, readAudit, readAuditOf } from "../../engine/audit/index.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { PAGE_QUERY, pageOf, pageQuery, queryText, readLimit, readPosition, writeCursor } from "../views/page.ts";

const CHAIN = {
  system: Type.Optional(Type.Boolean({ description: "Read the system chain instead of the chain of the tenant." })),
};

const ENTRY = Type.Object(
  {
    index: Type.Integer(),
    at: Type.String(),
    kind: Type.String(),
    who: Type.String(),
    what: Type.String(),
    facts: Type.Record(Type.String(), Type.Unknown({ description: "Any JSON value." })),
    prev: Type.String({ description: "Hash of the previous entry." }),
    hash: Type.String({
      description: "SHA-256 of the entry without this field, as JSON with sorted keys and `at` in milliseconds.",
    }),
  },
  { title: "AuditEntry" },
);

export const AUDIT_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/audit",
    summary: "List the audit log of the tenant, newest first",
    access: "operate",
    query: pageQuery(CHAIN),
    response: pageOf(ENTRY),
    handle: listAudit,
  },
  {
    method: "GET",
    path: "/api/v1/policy/audit",
    summary: "List the audit log of the policy (published, rolled back), newest first",
    access: "operate",
    allTenants: true,
    query: PAGE_QUERY,
    response: pageOf(ENTRY),
    handle: listPolicyAudit,
  },
  {
    method: "GET",
    path: "/api/v1/audit/verify",
    summary: "Verify the hash chain of the audit log; reports the first entry that does not match",
    access: "operate",
    query: Type.Object({
      ...CHAIN,
      head: Type.Optional(
        Type.String({
          pattern: "^[0-9a-f]{64}$",
          description:
            "A saved `head`: the chain must still contain it. Detects truncated, rewritten and deleted chains.",
        }),
      ),
      entries: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description: "The number of entries saved with `head`.",
        }),
      ),
    }),
    response: Type.Object({
      ok: Type.Boolean(),
      tenant: Type.String({ description: "The tenant of the chain; `*` for the system chain." }),
      entries: Type.Integer({ description: "Number of verified entries." }),
      head: Type.String({
        description: "Hash of the last entry. A copy stored elsewhere detects a rewritten chain.",
      }),
      problem: Type.Union([Type.Object({ index: Type.Integer(), why: Type.String() }), Type.Null()]),
    }),
    handle: verifyChain,
  },
  {
    method: "GET",
    path: "/api/v1/audit/checkpoint",
    summary: "Verify the audit log and sign a statement of its length and head, to be kept elsewhere",
    access: "operate",
    query: Type.Object(CHAIN),
    response: Type.Object({
      format: Type.String(),
      tenant: Type.String({ description: "The tenant of the chain; `*` for the system chain." }),
      entries: Type.Integer(),
      head: Type.String({ description: "Hash of the last entry." }),
      at: Type.String(),
      signature: Type.String({
        description:
          "Ed25519 signature, base64, over the JSON of `at`, `entries`, `format`, `head` and `tenant` in this order, without spaces.",
      }),
      public_key: Type.String({ description: "Public key of the signer, PEM. Compare it with a copy." }),
    }),
    handle: makeCheckpoint,
  },
];

async function listPolicyAudit({ engine }: Gateway, { query }: GatewayRequest): Promise<GatewayResponse> {
  const index = `${auditPagesOf(EVERY_ORG)}/policy`;
  const from = readPosition(queryText(query, "cursor"), index) ?? null;
  const page = { limit: readLimit(queryText(query, "limit")), before: from };
  const { entries, before } = await readAuditOf(engine, EVERY_ORG, "policy", page);
  return ok({
    items: entries.map(entryView),
    next_cursor: before === null ? null : writeCursor(index, String(before)),
  });
}

async function listAudit({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const org = chainOf(request);
  const from = readPosition(queryText(request.query, "cursor"), auditPagesOf(org)) ?? null;
  const limit = readLimit(queryText(request.query, "limit"));
  const { entries, before } = await readAudit(engine, org, { limit, before: from });
  return ok({
    items: entries.map(entryView),
    next_cursor: before === null ? null : writeCursor(auditPagesOf(org), String(before)),
  });
}

async function verifyChain({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const org = chainOf(request);
  const { entries, head, problem } = await checkAudit(engine, org, savedHeadOf(request));
  return ok({ ok: problem === null, tenant: org, entries, head, problem });
}

function savedHeadOf({ query }: GatewayRequest): SavedHead | null {
  const head = queryText(query, "head");
  const entries = queryText(query, "entries");
  if (head !== undefined) return { head, entries: entries === undefined ? null : Number(entries) };
  if (entries === undefined) return null;
  throw new Problem("invalid_request", "`entries` without `head` verifies nothing: send both, as saved");
}

async function makeCheckpoint({ engine, signer }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  if (signer === null) {
    const detail =
      "set `audit.key` to an Ed25519 key, the same in every gateway: `openssl genpkey -algorithm ed25519 -out audit-key.pem`";
    throw new Problem("audit_key_missing", detail);
  }
  const org = chainOf(request);
  const { entries, head, problem } = await checkAudit(engine, org);
  if (problem !== null) {
    throw new Problem("audit_broken", `entry ${problem.index}: ${problem.why}; a broken log is not signed`, {
      problem,
    });
  }
  const at = new Date(engine.world.clock.now()).toISOString();
  const statement: CheckpointStatement = { format: CHECKPOINT_FORMAT, tenant: org, entries, head, at };
  return ok({ ...statement, signature: signer.sign(checkpointText(statement)), public_key: signer.publicKey() });
}

function chainOf({ org, principal, query }: GatewayRequest): string {
  if (queryText(query, "system") !== "true") return org;
  if (principal.org === EVERY_ORG) return EVERY_ORG;
  throw new Problem(
    "forbidden",
    "the system chain requires a key of tenant `*`; omit `system` to read the chain of the tenant",
  );
}

function entryView({ at, ...entry }: AuditEntry): object {
  return { ...entry, at: new Date(at).toISOString() };
}
