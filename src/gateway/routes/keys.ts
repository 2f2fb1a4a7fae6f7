/**
 * API keys. Changes are audited.
 *
 * 1. The secret of a key is returned once, on creation.
 * 2. A root key (tenant `*`, role `admin`, no expiry) always exists after the first key: the first key must be one, and
 *    the last one cannot be revoked.
 * 3. A key of one tenant creates, lists and revokes only keys of that tenant.
 * 4. A key expires no later than the key that created it. Revoking a key does not revoke the keys it created.
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
import type { ActorType } from "../../core/policy/decision.ts";
import { auditPut } from "../../engine/audit/index.ts";
import { retryOnConflict } from "../../engine/commit.ts";
import { type Put, put, type Versioned } from "../../ports/store.ts";
import { isTenant, LOCAL } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Principal, type Route } from "../route.ts";
import { KEY, KEY_EXPLANATION, KEY_FIELDS, keyExplanation, keyView, keyViews } from "../views/key-views.ts";
import { listPageWith, PAGE_QUERY, pageOf } from "../views/page.ts";

const NEW_KEY = Type.Object(
  {
    tenant: Type.Optional(
      Type.String({
        description: "The tenant of the key, or `*` for all tenants. Defaults to the tenant of the caller.",
      }),
    ),
    role: Type.Enum([...ROLES], { description: "The permissions of the key." }),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: "A label for people." })),
    person: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        description:
          "The owner of the key, such as a mail address. A person cannot approve a job submitted with any key of theirs.",
      }),
    ),
    actor_id: Type.Optional(
      Type.String({
        pattern: "^[A-Za-z0-9_.:@-]{1,256}$",
        description: "Binds the key to an actor: submissions get this `actor_id`, and another one is refused.",
      }),
    ),
    actor_type: Type.Optional(
      Type.Enum(["human", "service"], { description: "Binds the key to an actor type, like `actor_id`." }),
    ),
    expires_in_ms: Type.Optional(
      Type.Integer({
        minimum: 1_000,
        maximum: 10 * 365 * 86_400_000,
        description: "Time to expiry; without it the key does not expire.",
      }),
    ),
  },
  { title: "CreateKeyRequest" },
);

interface NewKey {
  readonly tenant?: string;
  readonly role: ApiKey["role"];
  readonly name?: string;
  readonly person?: string;
  readonly actor_id?: string;
  readonly actor_type?: ActorType;
  readonly expires_in_ms?: number;
}

export const KEY_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/keys",
    summary: "List API keys without their secrets; of all tenants for a key of tenant `*`",
    access: "admin",
    query: PAGE_QUERY,
    response: pageOf(KEY),
    handle: listKeys,
  },
  {
    method: "GET",
    path: "/api/v1/keys/:id/explain",
    summary: "Explain an API key: what it may do, until when, who created it, and when it was last used",
    access: "admin",
    response: KEY_EXPLANATION,
    handle: explainOne,
  },
  {
    method: "POST",
    path: "/api/v1/keys",
    summary: "Create an API key; only this response contains its secret",
    access: "admin",
    body: NEW_KEY,
    response: Type.Object({ ...KEY_FIELDS, key: Type.String() }, { title: "ApiKeyCreated" }),
    handle: createKey,
  },
  {
    method: "DELETE",
    path: "/api/v1/keys/:id",
    summary: "Revoke an API key; takes effect within a second",
    access: "admin",
    response: KEY,
    handle: revokeKey,
  },
];

async function listKeys({ engine }: Gateway, { principal, query }: GatewayRequest): Promise<GatewayResponse> {
  const views = (items: readonly Versioned<ApiKey>[]) =>
    keyViews(
      engine,
      items.map(({ value }) => value),
    );
  return listPageWith(engine.world.store, API_KEYS, keysOf(principal.org), query, views);
}

async function explainOne({ engine }: Gateway, { principal, params }: GatewayRequest): Promise<GatewayResponse> {
  const id = params.id ?? "";
  const found = await engine.world.store.load(API_KEYS, id);
  if (found === null || !isVisibleTo(principal, found)) throw keyNotFound(id);
  return ok(await keyExplanation(engine, found.value));
}

const keyNotFound = (id: string): Problem =>
  new Problem("key_not_found", `no key \`${id.slice(0, 100)}\`; \`GET /api/v1/keys\` lists them`);

async function createKey(
  { engine, auth: keys }: Gateway,
  { principal, org, body }: GatewayRequest,
): Promise<GatewayResponse> {
  const options = body as NewKey;
  const { clock, random, store } = engine.world;
  const nowMs = clock.now();
  const secret = newSecret(() => random.next());
  const key: ApiKey = {
    id: random
      .id()
      .toLowerCase()
      .replace(/[^0-9a-z]/g, ""),
    org: tenantFor(principal, options.tenant ?? org),
    role: options.role,
    name: options.name?.normalize("NFC") ?? null,
    sha256: hashOf(secret),
    createdMs: nowMs,
    createdBy: principal.id,
    expiresMs: await expiryOf(engine, principal, options.expires_in_ms),
    revokedMs: null,
    ...ownerOf(options),
  };
  if (!isRoot(key) && (await store.counts(KEYS_GROUP, 10)).size === 0) {
    const detail =
      "once a key exists every caller needs one; create one with `tenant` `*`, `role` `admin` and no expiry first";
    throw new Problem("first_key", detail);
  }
  const { id, role } = key;
  const facts = { id, role, tenant: key.org, ...ownerFacts(key) };
  const entry = { kind: "key", who: principal.id, what: "key created", facts } as const;
  const committed = await engine.commit({
    org: key.org,
    puts: [put(API_KEYS, id, null, key), auditPut(engine, { ...entry, org: key.org })],
    guards: [{ kind: "counter", counter: activeKeysOf(key.org), max: KEYS_MAX }],
  });
  if (committed.kind === "refused")
    throw new Problem(
      "too_many_keys",
      `the limit is ${KEYS_MAX}; revoke an unused key with \`DELETE /api/v1/keys/{id}\``,
    );
  if (committed.kind === "stale") throw new Error(`generated key id \`${id}\` already exists`);
  keys.invalidate(id);
  return ok({ ...(await keyView(engine, key)), key: keyText(id, secret) });
}

async function revokeKey(
  { engine, auth: keys }: Gateway,
  { principal, params }: GatewayRequest,
): Promise<GatewayResponse> {
  const id = params.id ?? "";
  const nowMs = engine.world.clock.now();
  const revoked = await retryOnConflict(`key \`${id}\``, async () => {
    const found = await engine.world.store.load(API_KEYS, id);
    if (found === null || !isVisibleTo(principal, found)) throw keyNotFound(id);
    if (found.value.revokedMs !== null) return found.value;
    const guard = isRoot(found.value) ? [await guardLastRootKey(engine, { id, atMs: nowMs })] : [];
    const after: ApiKey = { ...found.value, revokedMs: nowMs };
    const entry = { org: after.org, kind: "key", who: principal.id, what: "key revoked", facts: { id } } as const;
    const committed = await engine.commit({
      org: after.org,
      puts: [put(API_KEYS, id, found, after), ...guard, auditPut(engine, entry)],
    });
    return committed.kind === "committed" ? after : "stale";
  });
  keys.invalidate(id);
  return ok(await keyView(engine, revoked));
}

/**
 * A key does not outlive the key that created it, or an expiring key could renew itself for ever. The creator is loaded again,
 * because a cached one may have been revoked.
 */
async function expiryOf({ world }: Gateway["engine"], { id }: Principal, inMs?: number): Promise<number | null> {
  const nowMs = world.clock.now();
  const wanted = inMs === undefined ? null : nowMs + inMs;
  if (id === LOCAL.id) return wanted;
  const creator = (await world.store.load(API_KEYS, id))?.value;
  const state = creator === undefined ? "revoked" : keyState(creator, nowMs);
  if (state !== "good") throw new Problem(`key_${state}`, "ask an administrator for a new key");
  const limitMs = creator?.expiresMs ?? null;
  if (limitMs === null || wanted === null) return limitMs ?? wanted;
  if (wanted <= limitMs) return wanted;
  const detail = `\`expires_in_ms\` must end with the calling key, at ${iso(limitMs)}; create the key with a key that expires later`;
  throw new Problem("invalid_request", detail);
}

/** Loaded before the root keys are counted: a concurrent revocation makes this commit stale. */
async function guardLastRootKey({ world: { store } }: Gateway["engine"], revocation: RootRevocation): Promise<Put> {
  const before = await store.load(ROOT_REVOCATIONS, LAST_REVOCATION);
  const roots = (await store.counts(KEYS_GROUP, 10)).get(ROOT_KEYS) ?? 0;
  if (roots >= 2) return put(ROOT_REVOCATIONS, LAST_REVOCATION, before, revocation);
  throw new Problem("last_key", "create another key with `tenant` `*`, `role` `admin` and no expiry first");
}

const isVisibleTo = (principal: Principal, { value }: Versioned<ApiKey>): boolean =>
  principal.org === EVERY_ORG || value.org === principal.org;

function tenantFor(principal: Principal, tenant: string): string {
  if (tenant !== EVERY_ORG && !isTenant(tenant)) {
    throw new Problem("invalid_request", "`tenant` must be `*`, or 1 to 64 letters, digits, `_` or `-`");
  }
  if (principal.org === EVERY_ORG || tenant === principal.org) return tenant;
  throw new Problem(
    "tenant_forbidden",
    `this key can only create keys of tenant \`${principal.org}\`; omit \`tenant\``,
  );
}

/** Names of persons are compared in one spelling. */
function ownerOf({ person, actor_id, actor_type }: NewKey): Pick<ApiKey, "person" | "actorId" | "actorType"> {
  const name = person?.normalize("NFC");
  if (name !== undefined && (name !== name.trim() || /\p{C}/u.test(name))) {
    throw new Problem("invalid_request", "`person` must not contain control characters or spaces at its ends");
  }
  return {
    ...(name === undefined ? {} : { person: name }),
    ...(actor_id === undefined ? {} : { actorId: actor_id }),
    ...(actor_type === undefined ? {} : { actorType: actor_type }),
  };
}

function ownerFacts({ person, actorId, actorType }: ApiKey): Record<string, string> {
  const facts = { person, actor_id: actorId, actor_type: actorType };
  return Object.fromEntries(Object.entries(facts).filter((fact): fact is [string, string] => fact[1] !== undefined));
}

const iso = (ms: number): string => new Date(ms).toISOString();
