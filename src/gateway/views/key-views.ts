/** API keys without their secrets, and what explains one. */
import { Type } from "typebox";
import {
  type ApiKey,
  EVERY_ORG,
  isRoot,
  KEY_USES,
  KEYS_GROUP,
  keyState,
  ROOT_KEYS,
  SESSIONS,
  sessionsOf,
} from "../../core/model/api-key.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Store } from "../../ports/store.ts";
import { permissionsOf } from "../auth/access.ts";
import { KEY_NAME, loadKeyNames } from "./key-names.ts";
import { REASON, type Reason, reasonView } from "./reasons.ts";
import { TEXT_OR_NULL } from "./schemas.ts";

export const KEY_FIELDS = {
  id: Type.String(),
  tenant: Type.String(),
  role: Type.String(),
  name: TEXT_OR_NULL,
  state: Type.String({ description: "`good`, `expired` or `revoked`." }),
  created_at: Type.String(),
  created_by: Type.String(),
  created_by_name: KEY_NAME,
  last_used_at: Type.Union([Type.String(), Type.Null()], {
    description: "The last recorded use; recorded at most once a minute. Null: none since uses are recorded.",
  }),
  expires_at: TEXT_OR_NULL,
  revoked_at: TEXT_OR_NULL,
  person: TEXT_OR_NULL,
  actor_id: TEXT_OR_NULL,
  actor_type: TEXT_OR_NULL,
};

export const KEY = Type.Object(KEY_FIELDS, { title: "ApiKey" });

export const KEY_EXPLANATION = Type.Object(
  {
    key: KEY,
    permissions: Type.Array(Type.String(), { description: "As in `GET /session`." }),
    reasons: Type.Array(REASON),
  },
  { title: "KeyExplanation" },
);

export async function keyViews({ world }: Engine, keys: readonly ApiKey[]): Promise<readonly object[]> {
  const { store, clock } = world;
  const [names, uses] = await Promise.all([
    loadKeyNames(
      store,
      keys.map(({ createdBy }) => createdBy),
    ),
    Promise.all(keys.map(({ id }) => lastUseOf(store, id))),
  ]);
  const nowMs = clock.now();
  return keys.map((key, at) => ({
    id: key.id,
    tenant: key.org,
    role: key.role,
    name: key.name,
    state: keyState(key, nowMs),
    created_at: iso(key.createdMs),
    created_by: key.createdBy,
    created_by_name: names.get(key.createdBy) ?? null,
    last_used_at: iso(uses[at] ?? null),
    expires_at: iso(key.expiresMs),
    revoked_at: iso(key.revokedMs),
    person: key.person ?? null,
    actor_id: key.actorId ?? null,
    actor_type: key.actorType ?? null,
  }));
}

export async function keyView(engine: Engine, key: ApiKey): Promise<object> {
  const [view] = await keyViews(engine, [key]);
  return view ?? {};
}

const lastUseOf = async (store: Store, id: string): Promise<number | null> =>
  (await store.load(KEY_USES, id))?.value.atMs ?? null;

export async function keyExplanation(engine: Engine, key: ApiKey): Promise<object> {
  const { store, clock } = engine.world;
  const [view, counts, sessions] = await Promise.all([
    keyView(engine, key),
    store.counts(KEYS_GROUP, 10),
    store.count(SESSIONS, { index: sessionsOf(key.id) }),
  ]);
  const isLastRoot = isRoot(key) && (counts.get(ROOT_KEYS) ?? 0) < 2;
  const reasons = reasonsOf(key, { nowMs: clock.now(), isLastRoot, sessions });
  return { key: view, permissions: permissionsOf(key), reasons: reasons.map(reasonView) };
}

interface KeyContext {
  readonly nowMs: number;
  readonly isLastRoot: boolean;
  /** Open browser sessions. */
  readonly sessions: number;
}

function reasonsOf(key: ApiKey, { nowMs, isLastRoot, sessions }: KeyContext): readonly Reason[] {
  const { id, org, role, expiresMs, revokedMs, person, actorId, actorType } = key;
  const again = `cordum key create --tenant ${org === EVERY_ORG ? "'*'" : org} --role ${role}`;
  if (revokedMs !== null) {
    return [{ reason: `revoked at ${iso(revokedMs)}: its requests are refused, for ever`, unblocks: again }];
  }
  if (expiresMs !== null && expiresMs <= nowMs) {
    return [{ reason: `expired at ${iso(expiresMs)}: its requests are refused`, unblocks: again }];
  }
  const tenant = org === EVERY_ORG ? "all tenants" : `tenant \`${org}\``;
  const reasons: Reason[] = [{ reason: `valid for ${tenant} with role \`${role}\``, untilMs: expiresMs }];
  if (expiresMs !== null && expiresMs - nowMs < SOON_MS) {
    reasons.push({ reason: "it expires soon, and a key cannot be extended", untilMs: expiresMs, unblocks: again });
  }
  if (sessions > 0) {
    const open = sessions === 1 ? "1 browser session" : `${sessions} browser sessions`;
    reasons.push({ reason: `${open} of it may be open; a session ends with its key` });
  }
  if (actorId !== undefined || actorType !== undefined) {
    const actor = [actorType, actorId && `\`${actorId}\``].filter((part) => part !== undefined).join(" ");
    reasons.push({ reason: `its submissions have the actor ${actor}; others are refused` });
  }
  if (person !== undefined) {
    reasons.push({ reason: `its owner \`${person}\` cannot approve jobs submitted with any key of theirs` });
  }
  if (isLastRoot) {
    const reason = "the only key that does not expire and can create keys for all tenants: it cannot be revoked";
    reasons.push({ reason, unblocks: "cordum key create --tenant '*' --role admin" });
  } else {
    reasons.push({ reason: "a revocation takes effect within a second", unblocks: `cordum key revoke ${id}` });
  }
  return reasons;
}

function iso(ms: number): string;
function iso(ms: number | null): string | null;
function iso(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

const SOON_MS = 7 * 86_400_000;
