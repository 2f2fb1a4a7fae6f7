/**
 * Authentication by API key, and authorization by role and tenant.
 *
 * 1. A key is verified by its secret. Only callers with the right secret learn that a key is expired or revoked; an
 *    unknown id and a wrong secret give the same error.
 * 2. While no key exists, loopback callers with the start-up token are administrators. Requests with a non-loopback `Host`,
 *    cross-origin requests and forwarded requests are rejected, so that neither a web page nor a client of a local proxy
 *    can use it. Once a key exists the token is void, and every caller needs a key.
 * 3. Key look-ups are cached for at most one second and in bounded number: a revoked key stops working within a second
 *    in every process.
 * 4. A browser session has the principal of its key. A request with a key does not use the session of its cookie.
 * 5. A caller acts for the tenant of its key; only keys of tenant `*` can name another.
 */

import type { Session } from "../../core/model/api-key.ts";
import {
  API_KEYS,
  type ApiKey,
  EVERY_ORG,
  hashOf,
  isEqual,
  isSecretOf,
  KEYS_GROUP,
  keyState,
  type Role,
  readKeyText,
  STARTUP_ID,
} from "../../core/model/api-key.ts";
import { callerOf } from "../../core/model/caller.ts";
import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import { hostOf, isLoopback } from "../../core/model/loopback.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Versioned } from "../../ports/store.ts";
import { Problem } from "../problem.ts";
import type { Access, GatewayRequest, Principal, Route } from "../route.ts";
import { KeyAuditor } from "./key-auditor.ts";
import { TokenBuckets } from "./limits.ts";
import { guardOrigin } from "./same-origin.ts";
import { type Sessions, sessionTokenIn } from "./sessions.ts";

export const ROLE_ACCESS: Readonly<Record<Role, readonly Access[]>> = {
  admin: ["open", "read", "submit", "operate", "work", "admin"],
  operator: ["open", "read", "submit", "operate"],
  viewer: ["open", "read"],
  worker: ["open", "work"],
  submitter: ["open", "read", "submit"],
};

export const LOCAL: Principal = {
  id: "local",
  org: EVERY_ORG,
  role: "admin",
  caller: { role: "admin", tenant: EVERY_ORG },
};
export const ANONYMOUS: Principal = {
  id: "anonymous",
  org: DEFAULT_ORG,
  role: "viewer",
  caller: { role: "viewer" },
};

export function isAllowed(
  principal: Principal,
  { access, orAccess = access, allTenants }: Pick<Route, "access" | "orAccess" | "allTenants">,
): boolean {
  if (principal.org !== EVERY_ORG && (allTenants || access === "system")) return false;
  if (access === "system") return principal.role === "admin";
  return ROLE_ACCESS[principal.role].includes(access) || ROLE_ACCESS[principal.role].includes(orAccess);
}

/** The accesses of a key, without those that need no key. */
export function permissionsOf({ role, org }: Pick<Principal, "role" | "org">): readonly Access[] {
  const own = ROLE_ACCESS[role].filter((access) => access !== "open");
  return role === "admin" && org === EVERY_ORG ? [...own, "system"] : own;
}

/** The tenant of a request. */
export function tenantOf(principal: Principal, headers: GatewayRequest["headers"]): string {
  const [name, alias] = [headers["x-tenant-id"], headers["x-cordum-tenant"]];
  if (name !== undefined && alias !== undefined && name !== alias) {
    throw new Problem("invalid_request", "`X-Tenant-ID` and `X-Cordum-Tenant` differ; send one of them");
  }
  const own = principal.org === EVERY_ORG ? DEFAULT_ORG : principal.org;
  const tenant = name ?? alias ?? own;
  if (typeof tenant !== "string" || !isTenant(tenant)) {
    throw new Problem("invalid_request", "`X-Tenant-ID` must be 1 to 64 letters, digits, `_` or `-`");
  }
  if (principal.org === EVERY_ORG || tenant === own) return tenant;
  throw new Problem("tenant_forbidden", `this key is limited to tenant \`${own}\`; omit \`X-Tenant-ID\``);
}

/** The tenant of a request that may also name it in fields or parameters. All names must agree. */
export function namedTenant(
  { principal, headers, org }: Pick<GatewayRequest, "principal" | "headers" | "org">,
  names: Readonly<Record<string, unknown>>,
): string {
  const given = Object.entries(names).filter(([, value]) => value !== undefined);
  const [first] = given;
  if (first === undefined) return org;
  const header = headers["x-tenant-id"] ?? headers["x-cordum-tenant"] ?? first[1];
  if (given.some(([, value]) => value !== header)) {
    const all = [...given.map(([name]) => `\`${name}\``), "`X-Tenant-ID`"].join(" and ");
    throw new Problem("invalid_request", `${all} differ; send one of them`);
  }
  return tenantOf(principal, { "x-tenant-id": String(first[1]) });
}

/** The tenant whose records the caller sees: all (`*`) for a key of `*` that names no tenant. */
export function visibleTenant({
  principal,
  headers,
  org,
}: Pick<GatewayRequest, "principal" | "headers" | "org">): string {
  const isNamed = headers["x-tenant-id"] !== undefined || headers["x-cordum-tenant"] !== undefined;
  return principal.org === EVERY_ORG && !isNamed ? EVERY_ORG : org;
}

export const isTenant = (text: string): boolean => /^[A-Za-z0-9_-]{1,64}$/.test(text);

/** The parts of a request that identify its caller. */
export interface CallerInfo {
  readonly headers: GatewayRequest["headers"];
  /** The remote address of the connection. */
  readonly ip: string;
  readonly method: string;
}

export class KeyAuthenticator {
  readonly #engine: Engine;
  readonly #cache = new Map<string, { readonly atMs: number; readonly key: Promise<Versioned<ApiKey> | null> }>();
  readonly #failures = new TokenBuckets();
  readonly #auditor: KeyAuditor;
  #hasKeys = false;
  #hasKeysCheck: { readonly atMs: number; readonly result: Promise<boolean> } | null = null;

  readonly #startupToken: string | null;
  readonly #sessions: Sessions;

  constructor(engine: Engine, startupToken: string | null, sessions: Sessions) {
    this.#engine = engine;
    this.#sessions = sessions;
    this.#startupToken = startupToken;
    this.#auditor = new KeyAuditor(engine);
  }

  /** The last root key cannot be revoked, so a positive result is final. */
  anyKeyExists(): Promise<boolean> {
    if (this.#hasKeys) return Promise.resolve(true);
    const nowMs = this.#engine.world.clock.now();
    if (this.#hasKeysCheck && !isStale(this.#hasKeysCheck.atMs, nowMs)) return this.#hasKeysCheck.result;
    const result = this.#engine.world.store.counts(KEYS_GROUP, 1).then((counts) => counts.size > 0);
    this.#hasKeysCheck = { atMs: nowMs, result };
    result.then(
      (hasKeys) => {
        this.#hasKeys ||= hasKeys;
      },
      () => {
        this.#hasKeysCheck = null;
      },
    );
    return result;
  }

  /** Drops cached results for a key that this process has just written. */
  invalidate(id: string): void {
    this.#cache.delete(id);
    this.#hasKeysCheck = null;
  }

  /** The principal of a request. Extends the session that it uses. */
  async authenticate(caller: CallerInfo): Promise<Principal> {
    return (await this.#authenticate(caller, true)).principal;
  }

  /** As `authenticate`, with the end of the session that the request uses. Extends no session. */
  async check(caller: CallerInfo): Promise<{ readonly principal: Principal; readonly session: Session | null }> {
    return this.#authenticate(caller, false);
  }

  async #authenticate(caller: CallerInfo, isUse: boolean) {
    const text = keyIn(caller.headers);
    const token = text === undefined ? sessionTokenIn(caller.headers) : undefined;
    if (token === undefined) return { principal: await this.#authenticateKey(text, caller), session: null };
    guardOrigin(caller);
    const session = await this.#sessions.find(token);
    if (session === null) throw this.#invalidCredentials(caller, new Problem("session_ended", SIGN_IN));
    const principal = await this.#principalOf(session, caller);
    if (isUse) await this.#sessions.extend(session);
    return { principal, session };
  }

  async #principalOf({ keyId, startupHash }: Session, caller: CallerInfo): Promise<Principal> {
    if (startupHash !== null) {
      const token = (await this.anyKeyExists()) ? null : this.#startupToken;
      if (token === null || !isEqual(hashOf(token), startupHash)) throw new Problem("session_ended", SIGN_IN);
      return this.#localPrincipal(caller);
    }
    const key = await this.#find(keyId);
    if (key === null) throw new Problem("session_ended", SIGN_IN);
    return this.#usablePrincipal(key);
  }

  async #authenticateKey(text: string | undefined, caller: CallerInfo): Promise<Principal> {
    const parts = text === undefined ? null : readKeyText(text);
    if (text === undefined || parts?.id === STARTUP_ID) return this.#authenticateLocal(text, caller);
    const key = parts === null ? null : await this.#find(parts.id);
    if (parts === null || key === null || !isSecretOf(key, parts.secret)) throw this.#invalidKey(caller);
    return this.#usablePrincipal(key);
  }

  #usablePrincipal(key: ApiKey): Principal {
    const principal: Principal = { id: key.id, org: key.org, role: key.role, caller: callerOf(key) };
    const state = keyState(key, this.#engine.world.clock.now());
    if (state !== "good") {
      throw this.auditRefusal(new Problem(`key_${state}`, "ask an administrator for a new key"), principal);
    }
    this.#auditor.used(principal);
    return principal;
  }

  /** Only failures are charged, after the look-up: callers with a valid key at the same address are not affected. */
  #invalidKey(caller: CallerInfo): Problem {
    return this.#invalidCredentials(caller, new Problem("key_invalid", INVALID_KEY));
  }

  #invalidCredentials({ ip }: CallerInfo, problem: Problem): Problem {
    if (this.#failures.take(ip, this.#engine.world.clock.now(), FAILURE_RATE)) return this.auditRefusal(problem);
    const detail = "too many invalid API keys from this address; wait, then send a valid key";
    return new Problem("too_many_requests", detail, { current: FAILURE_RATE.burst, limit: FAILURE_RATE.burst });
  }

  /** Records the refusal in the audit log and returns the problem for the caller to throw. */
  auditRefusal(problem: Problem, principal?: Principal): Problem {
    this.#auditor.refused(problem.code, principal);
    return problem;
  }

  /** A caller without a key, or with the start-up token. */
  async #authenticateLocal(text: string | undefined, caller: CallerInfo): Promise<Principal> {
    const token = (await this.anyKeyExists()) ? null : this.#startupToken;
    if (token === null || text === undefined) {
      throw this.auditRefusal(new Problem("key_missing", token === null ? MISSING_KEY : MISSING_TOKEN));
    }
    if (!isEqual(hashOf(text), hashOf(token))) throw this.#invalidKey(caller);
    return this.#localPrincipal(caller);
  }

  #localPrincipal(caller: CallerInfo): Principal {
    // A request forwarded by a local proxy has a loopback address but an unknown origin.
    const isForwarded = FORWARDED.some((name) => caller.headers[name] !== undefined);
    if (!isLoopback(caller.ip) || isForwarded) {
      const detail = `the start-up token is accepted from this machine only, not through a proxy; ${CREATE_KEY}`;
      throw this.auditRefusal(new Problem("key_invalid", detail));
    }
    rejectCrossOrigin(caller.headers);
    return LOCAL;
  }

  async #find(id: string): Promise<ApiKey | null> {
    const nowMs = this.#engine.world.clock.now();
    const cached = this.#cache.get(id);
    if (cached && !isStale(cached.atMs, nowMs)) return (await cached.key)?.value ?? null;
    const key = this.#engine.world.store.load(API_KEYS, id);
    this.#cache.delete(id);
    this.#cache.set(id, { atMs: nowMs, key });
    key.then(
      // Unknown ids must not evict those of valid keys.
      (found) => void (found === null && this.#cache.delete(id)),
      () => void this.#cache.delete(id),
    );
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size <= CACHED_MAX) break;
      this.#cache.delete(oldest);
    }
    return (await key)?.value ?? null;
  }
}

function keyIn(headers: CallerInfo["headers"]): string | undefined {
  const own = headers["x-api-key"];
  if (own !== undefined) return String(own);
  const { authorization } = headers;
  return authorization === undefined ? undefined : String(authorization).replace(/^Bearer +/i, "");
}

/** Rejects DNS rebinding (by the `Host` header) and cross-site requests from a browser (by `Origin` and `Sec-Fetch-Site`). */
function rejectCrossOrigin(headers: CallerInfo["headers"]): void {
  const host = String(headers.host ?? "");
  if (!isLoopback(hostOf(host))) {
    throw new Problem(
      "invalid_request",
      `without API keys only loopback host names (127.0.0.1, localhost) are accepted; ${CREATE_KEY}`,
    );
  }
  const { origin } = headers;
  const isOther = (origin !== undefined && origin !== `http://${host}`) || headers["sec-fetch-site"] === "cross-site";
  if (isOther) {
    throw new Problem("invalid_request", `without API keys cross-origin requests are rejected; ${CREATE_KEY}`);
  }
}

const isStale = (atMs: number, nowMs: number): boolean => nowMs - atMs >= CACHE_MS || nowMs < atMs;

const MISSING_KEY =
  "send a key as `X-API-Key` or `Authorization: Bearer`; the command line reads `CORDUM_API_KEY`; the start-up token is void";
const CREATE_KEY = "create a key with `cordum key create --tenant '*' --role admin`";
const MISSING_TOKEN =
  "no API key exists yet; send the start-up token, the content of the file `token` in the data directory, as `X-API-Key`; " +
  "the command line reads it from `.cordum` or `CORDUM_DATA_DIR`";
const INVALID_KEY =
  "expected `cordum_<id>_<secret>` as shown when the key was created; `cordum key list` lists the key ids";
const SIGN_IN = "sign in again with an API key";
const FORWARDED = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];
const CACHE_MS = 1_000;
const CACHED_MAX = 1_000;
const FAILURE_RATE = { perSecond: 5, burst: 50 } as const;
