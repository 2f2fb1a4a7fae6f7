/**
 * API keys: made, listed, revoked; all of it in the audit log.
 *
 * 1. A key is shown once, in the answer that made it.
 * 2. Nobody locks everybody out: the first key can make others and does not expire, and the last such key stays.
 * 3. A key of one tenant makes, sees and revokes keys of that tenant alone.
 */
import { Type } from "typebox";
import {
  API_KEYS,
  type ApiKey,
  activeKeysOf,
  EVERY_ORG,
  hashOf,
  isRoot,
  KEYS_GROUP,
  KEYS_MAX,
  keyState,
  keysOf,
  keyText,
  LAST_REVOCATION,
  newSecret,
  ROLES,
  ROOT_KEYS,
  ROOT_REVOCATIONS,
  type RootRevocation,
} from "../../core/model/api-key.ts";
import { auditPut } from "../../engine/audit/index.ts";
import { retryOnConflict } from "../../engine/commit.ts";
import { type Put, put, type Versioned } from "../../ports/store.ts";
import { isTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Principal, type Route } from "../route.ts";
import { listPage, PAGE_QUERY, pageOf } from "../views/page.ts";

const KEY_FIELDS = {
  id: Type.String(),
  tenant: Type.String(),
  role: Type.String(),
  name: Type.Union([Type.String(), Type.Null()]),
  state: Type.String({ description: "`good`, `expired` or `revoked`" }),
  created_at: Type.String(),
  created_by: Type.String(),
  expires_at: Type.Union([Type.String(), Type.Null()]),
  revoked_at: Type.Union([Type.String(), Type.Null()]),
};

const NEW_KEY = Type.Object({
  tenant: Type.Optional(
    Type.String({ description: "Whose key it is; `*` for any tenant; the caller's own when left out." }),
  ),
  role: Type.Enum([...ROLES], { description: "What it may." }),
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: "What people call it." })),
  expires_in_ms: Type.Optional(
    Type.Integer({ minimum: 1_000, maximum: 10 * 365 * 86_400_000, description: "Never, when left out." }),
  ),
});

interface NewKey {
  readonly tenant?: string;
  readonly role: ApiKey["role"];
  readonly name?: string;
  readonly expires_in_ms?: number;
}

export const KEY_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/keys",
    summary: "API keys, without their secrets; with a key of tenant `*` those of all tenants",
    access: "admin",
    query: PAGE_QUERY,
    answer: pageOf(Type.Object(KEY_FIELDS)),
    handle: listKeys,
  },
  {
    method: "POST",
    path: "/api/v1/keys",
    summary: "Makes an API key; its text is in this answer and nowhere else",
    access: "admin",
    body: NEW_KEY,
    answer: Type.Object({ ...KEY_FIELDS, key: Type.String() }),
    handle: createKey,
  },
  {
    method: "DELETE",
    path: "/api/v1/keys/:id",
    summary: "Revokes an API key; requests with it are refused within a second",
    access: "admin",
    answer: Type.Object(KEY_FIELDS),
    handle: revokeKey,
  },
];

async function listKeys({ engine }: Gateway, { principal, query }: GatewayRequest): Promise<Answer> {
  const nowMs = engine.world.clock.now();
  return listPage(engine.world.store, API_KEYS, keysOf(principal.org), query, (item) => keyView(item.value, nowMs));
}

async function createKey({ engine, keys }: Gateway, { principal, org, body }: GatewayRequest): Promise<Answer> {
  const wanted = body as NewKey;
  const { clock, random, store } = engine.world;
  const nowMs = clock.now();
  const secret = newSecret(() => random.next());
  const key: ApiKey = {
    id: random
      .id()
      .toLowerCase()
      .replace(/[^0-9a-z]/g, ""),
    org: tenantFor(principal, wanted.tenant ?? org),
    role: wanted.role,
    name: wanted.name ?? null,
    sha256: hashOf(secret),
    createdMs: nowMs,
    createdBy: principal.id,
    expiresMs: wanted.expires_in_ms === undefined ? null : nowMs + wanted.expires_in_ms,
    revokedMs: null,
  };
  if (!isRoot(key) && (await store.counts(KEYS_GROUP, 10)).size === 0) {
    const detail =
      "from the first key on everybody needs one: make one with `tenant` `*`, `role` `admin` and no expiry";
    throw new Problem("first_key", detail);
  }
  const { id, role } = key;
  const line = { kind: "key", who: principal.id, what: "key created", facts: { id, role, tenant: key.org } } as const;
  const committed = await engine.commit({
    org: key.org,
    puts: [put(API_KEYS, id, null, key), auditPut(engine, { ...line, org: key.org })],
    guards: [{ kind: "counter", counter: activeKeysOf(key.org), max: KEYS_MAX }],
  });
  if (committed.kind === "refused")
    throw new Problem("too_many_keys", `at most ${KEYS_MAX}; revoke one that is not used`);
  if (committed.kind === "stale") throw new Error(`a new key got the id \`${id}\`, which was taken`);
  keys.forget(id);
  return ok({ ...keyView(key, nowMs), key: keyText(id, secret) });
}

async function revokeKey({ engine, keys }: Gateway, { principal, params }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const nowMs = engine.world.clock.now();
  const revoked = await retryOnConflict(`key \`${id}\``, async () => {
    const found = await engine.world.store.load(API_KEYS, id);
    if (found === null || !isSeenBy(principal, found)) {
      throw new Problem("key_not_found", `no key \`${id}\`; \`GET /api/v1/keys\` lists them`);
    }
    if (found.value.revokedMs !== null) return found.value;
    const witness = isRoot(found.value) ? [await notTheLast(engine, { id, atMs: nowMs })] : [];
    const after: ApiKey = { ...found.value, revokedMs: nowMs };
    const line = { org: after.org, kind: "key", who: principal.id, what: "key revoked", facts: { id } } as const;
    const committed = await engine.commit({
      org: after.org,
      puts: [put(API_KEYS, id, found, after), ...witness, auditPut(engine, line)],
    });
    return committed.kind === "committed" ? after : "stale";
  });
  keys.forget(id);
  return ok(keyView(revoked, nowMs));
}

/** Read before the keys are counted: whoever revokes another one meanwhile makes this one stale. */
async function notTheLast({ world: { store } }: Gateway["engine"], revocation: RootRevocation): Promise<Put> {
  const before = await store.load(ROOT_REVOCATIONS, LAST_REVOCATION);
  const roots = (await store.counts(KEYS_GROUP, 10)).get(ROOT_KEYS) ?? 0;
  if (roots >= 2) return put(ROOT_REVOCATIONS, LAST_REVOCATION, before, revocation);
  throw new Problem("last_key", "make another one with `tenant` `*`, `role` `admin` and no expiry first");
}

const isSeenBy = (principal: Principal, { value }: Versioned<ApiKey>): boolean =>
  principal.org === EVERY_ORG || value.org === principal.org;

function tenantFor(principal: Principal, tenant: string): string {
  if (tenant !== EVERY_ORG && !isTenant(tenant)) {
    throw new Problem("invalid_request", "`tenant` must be `*`, or 1 to 64 letters, digits, `_` or `-`");
  }
  if (principal.org === EVERY_ORG || tenant === principal.org) return tenant;
  throw new Problem("tenant_forbidden", `this key makes keys of \`${principal.org}\` only; leave out \`tenant\``);
}

function keyView(key: ApiKey, nowMs: number): object {
  return {
    id: key.id,
    tenant: key.org,
    role: key.role,
    name: key.name,
    state: keyState(key, nowMs),
    created_at: iso(key.createdMs),
    created_by: key.createdBy,
    expires_at: iso(key.expiresMs),
    revoked_at: iso(key.revokedMs),
  };
}

function iso(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
