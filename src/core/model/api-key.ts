/**
 * API keys: the record, its text form, and its state.
 *
 * 1. The record holds the hash of the secret, never the secret.
 * 2. Revoked and expired keys stay on record: a gateway with keys never returns to the open mode it has without any.
 */
import { createHash } from "node:crypto";
import type { ActorType } from "../policy/decision.ts";
import type { Placement, Table } from "./table.ts";

export interface ApiKey {
  readonly id: string;
  /** The tenant; `*` for all. */
  readonly org: string;
  readonly role: Role;
  readonly name: string | null;
  /** Hex. */
  readonly sha256: string;
  readonly createdMs: number;
  readonly createdBy: string;
  readonly expiresMs: number | null;
  readonly revokedMs: number | null;
  /** The owner: a person cannot approve what was submitted with another key of theirs. */
  readonly person?: string;
  /** Submissions with this key have this actor. */
  readonly actorId?: string;
  readonly actorType?: ActorType;
}

export type Role = (typeof ROLES)[number];
export const ROLES = ["admin", "operator", "viewer", "worker", "submitter"] as const;
export const EVERY_ORG = "*";

export const API_KEYS: Table<ApiKey> = {
  name: "api_key",
  placement(key): Placement {
    const lists = [{ name: keysOf(key.org), score: key.createdMs }];
    if (key.org !== EVERY_ORG) lists.push({ name: keysOf(EVERY_ORG), score: key.createdMs });
    const counters = [{ group: KEYS_GROUP, name: "all" }];
    if (key.revokedMs === null) counters.push(activeKeysOf(key.org));
    if (isRoot(key)) counters.push({ group: KEYS_GROUP, name: ROOT_KEYS });
    return { lists, queue: null, counters, dueMs: null };
  },
};

/**
 * The last use of a key, written at most once a minute by each process (`KeyAuditor`). A record of its own: a use does not
 * conflict with a revocation.
 */
export const KEY_USES: Table<KeyUse> = {
  name: "key_use",
  placement: () => ({ lists: [], queue: null, counters: [], dueMs: null }),
};

export interface KeyUse {
  readonly atMs: number;
}

/**
 * Written with every revocation of a root key, so that two concurrent revocations conflict. Otherwise each would count
 * the other's key as the remaining one.
 */
export const ROOT_REVOCATIONS: Table<RootRevocation> = {
  name: "root_revocation",
  placement: () => ({ lists: [], queue: null, counters: [], dueMs: null }),
};
export const LAST_REVOCATION = "last";

export interface RootRevocation {
  readonly id: string;
  readonly atMs: number;
}

/** The keys of a tenant; under `*` those of all tenants. */
export const keysOf = (org: string): string => `keys/${org}`;
/** `all`: every key ever created; `root`: unexpiring keys that can create others. */
export const KEYS_GROUP = "keys";
export const ROOT_KEYS = "root";
/** Not revoked. An expired key counts until it is revoked. */
export const activeKeysOf = (org: string) => ({ group: "keys/good", name: org });
export const KEYS_MAX = 1_000;

/** Keys that can create keys; the last one cannot be revoked. */
export const isRoot = (key: ApiKey): boolean =>
  key.org === EVERY_ORG && key.role === "admin" && key.revokedMs === null && key.expiresMs === null;

export type KeyState = "good" | "revoked" | "expired";

export function keyState(key: ApiKey, nowMs: number): KeyState {
  if (key.revokedMs !== null) return "revoked";
  return key.expiresMs !== null && key.expiresMs <= nowMs ? "expired" : "good";
}

/** The id in the start-up token, which has the form of a key. Generated ids are longer. */
export const STARTUP_ID = "local";

/** The text sent with a request: `cordum_<id>_<secret>`. */
export const keyText = (id: string, secret: string): string => `cordum_${id}_${secret}`;

export function readKeyText(text: string): { readonly id: string; readonly secret: string } | null {
  const match = /^cordum_([0-9a-z]{1,36})_([0-9A-Za-z]{16,128})$/.exec(text);
  return match ? { id: match[1] ?? "", secret: match[2] ?? "" } : null;
}

/** Long enough that a single round of hashing is safe. */
export function newSecret(random: () => number): string {
  return Array.from({ length: SECRET_LENGTH }, () => LETTERS[Math.floor(random() * LETTERS.length)]).join("");
}

export const hashOf = (secret: string): string => createHash("sha256").update(secret).digest("hex");

export const isSecretOf = (key: ApiKey, secret: string): boolean => isEqual(hashOf(secret), key.sha256);

/** Compares in constant time. */
export function isEqual(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let at = 0; at < a.length; at++) difference |= a.charCodeAt(at) ^ b.charCodeAt(at);
  return difference === 0;
}

const SECRET_LENGTH = 43;
const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/**
 * A browser session: an API key, exchanged for a random token.
 *
 * 1. The id is the hash of the token; the token is not stored.
 * 2. The session has the permissions of its key at the time of each request, and ends with it.
 */
export interface Session {
  readonly id: string;
  /** The tenant of the key. */
  readonly org: string;
  readonly keyId: string;
  /** Hash of the start-up token, for a session without a key: a later token does not inherit it. */
  readonly startupHash: string | null;
  readonly createdMs: number;
  /** The session ends then, also if it is in use. */
  readonly endsMs: number;
  /** The session ends then, unless a request extends it. */
  readonly idleEndsMs: number;
}

export const SESSIONS: Table<Session> = {
  name: "session",
  placement: (session): Placement => ({
    lists: [{ name: sessionsOf(session.keyId), score: session.createdMs }],
    queue: null,
    counters: [],
    dueMs: sessionEnd(session),
  }),
};

export const sessionsOf = (keyId: string): string => `sessions/${keyId}`;

export const sessionEnd = ({ endsMs, idleEndsMs }: Session): number => Math.min(endsMs, idleEndsMs);

/** The oldest session of a key ends when another one is opened. */
export const SESSIONS_PER_KEY_MAX = 20;
