/**
 * The audit log: one hash chain per tenant, and a system chain (`system=true`) for events that affect all tenants (keys of
 * tenant `*`, the policy, the breaker). The system chain requires a key of tenant `*`.
 */
import { Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import {
  AUDIT_KINDS,
  type AuditEntry,
  CHECKPOINT_FORMAT,
  type CheckpointStatement,
  checkpointText,
  type SavedHead,
} from "../../core/model/audit.ts";
import { type AuditFilter, auditPagesOf } from "../../core/model/lists/audit-lists.ts";
import { chainAudit, checkAudit, indexEarlierAudit, readAudit, readFilteredAudit } from "../../engine/audit/index.ts";
import { loadTenantJob } from "../../engine/dispatch/index.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { readSince, SINCE } from "../views/job-query.ts";
import { KEY_NAME, type KeyNames, keyIdOf, loadKeyNames } from "../views/key-names.ts";
import { PAGE_QUERY, pageOf, pageQuery, queryText, readLimit, readPosition, writeCursor } from "../views/page.ts";

const CHAIN = {
  system: Type.Optional(Type.Boolean({ description: "Read the system chain instead of the chain of the tenant." })),
};

const text = (maxLength: number, description: string) => Type.Optional(Type.String({ maxLength, description }));

const ENTRY = Type.Object(
  {
    index: Type.Integer(),
    at: Type.String(),
    kind: Type.String(),
    who: Type.String({ description: "The id of a key or worker, or `cordum` for the control plane." }),
    who_name: KEY_NAME,
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
    query: pageQuery({
      ...CHAIN,
      job: text(300, "Only entries about this job, without plain `allow` decisions (`GET /jobs/{id}/decisions`)."),
      actor: text(300, "Only entries of this key (name or id) or worker."),
      action: text(300, "Only this action, such as `approved`, or this kind, such as `approval`."),
      since: SINCE,
      index: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER - 1,
          description: "Only the entry with this index; without the other filters.",
        }),
      ),
    }),
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

async function listPolicyAudit(gateway: Gateway, { query }: GatewayRequest): Promise<GatewayResponse> {
  return filtered(gateway, EVERY_ORG, { kind: "policy" }, query);
}

async function listAudit(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { engine } = gateway;
  const { query } = request;
  const org = chainOf(request);
  const index = queryText(query, "index");
  if (index !== undefined) {
    const { entries } = await readAudit(engine, org, { limit: 1, before: Number(index) + 1 });
    const found = entries.filter((entry) => entry.index === Number(index));
    return pageResponse(gateway, auditPagesOf(org), { entries: found, before: null });
  }
  const filter = await readFilter(gateway, org, query);
  if (Object.values(filter).some((value) => value !== undefined)) return filtered(gateway, org, filter, query);
  const before = readPosition(queryText(query, "cursor"), auditPagesOf(org)) ?? null;
  const page = await readAudit(engine, org, { limit: readLimit(queryText(query, "limit")), before });
  return pageResponse(gateway, auditPagesOf(org), page);
}

type Filter = AuditFilter & { readonly sinceMs?: number | undefined };

async function readFilter({ engine }: Gateway, org: string, query: GatewayRequest["query"]): Promise<Filter> {
  const { store, clock } = engine.world;
  const [job, actor, action] = [queryText(query, "job"), queryText(query, "actor"), queryText(query, "action")];
  const kind = AUDIT_KINDS.find((one) => one === action);
  return {
    job: job === undefined ? undefined : ((await loadTenantJob(engine, { org, jobId: job }))?.id ?? job),
    actor: actor === undefined ? undefined : await keyIdOf(store, org, actor),
    kind,
    what: kind === undefined ? action : undefined,
    sinceMs: readSince(query, clock.now()),
  };
}

async function filtered(
  gateway: Gateway,
  org: string,
  filter: Filter,
  query: GatewayRequest["query"],
): Promise<GatewayResponse> {
  const { engine } = gateway;
  const { sinceMs: _, ...listed } = filter;
  const name = `${auditPagesOf(org)}?${JSON.stringify(listed)}`;
  const before = readPosition(queryText(query, "cursor"), name) ?? null;
  const limit = readLimit(queryText(query, "limit"));
  if (before === null) await chainAudit(engine, org);
  const { left } = await indexEarlierAudit(engine, org);
  if (left > 0) {
    const detail = `${left} pages of the audit log of an earlier version are being indexed; list without filters until then`;
    throw new Problem("index_building", detail, { left });
  }
  return pageResponse(gateway, name, await readFilteredAudit(engine, org, filter, { limit, before }));
}

async function pageResponse(
  { engine }: Gateway,
  name: string,
  { entries, before }: { readonly entries: readonly AuditEntry[]; readonly before: number | null },
): Promise<GatewayResponse> {
  const names = await loadKeyNames(
    engine.world.store,
    entries.map(({ who }) => who),
  );
  return ok({
    items: entries.map((entry) => entryView(entry, names)),
    next_cursor: before === null ? null : writeCursor(name, String(before)),
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

function entryView({ at, ...entry }: AuditEntry, names: KeyNames): object {
  return { ...entry, at: new Date(at).toISOString(), who_name: names.get(entry.who) ?? null };
}
