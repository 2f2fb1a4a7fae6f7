/**
 * Who calls, and what they may.
 *
 * 1. A key is proved by its secret. What is wrong with a key (expired, revoked) is told only to who has proved it; an
 *    unknown id and a wrong secret look the same.
 * 2. Without any key on record, callers on the same machine are the administrator, if they call by a loopback name and no
 *    other site and no proxy sends them: a web page must not reach what its reader can. From the first key on everybody
 *    needs one.
 * 3. What the store said about a key is believed for a second at most, and only so many answers are remembered: a revoked
 *    key ends within that second, in every process.
 * 4. A caller speaks for the tenant of the key; only a key of tenant `*` names another.
 */

import { DEFAULT_ORG } from "../../core/jobs/submission.ts";
import {
  API_KEYS,
  type ApiKey,
  EVERY_ORG,
  isSecretOf,
  KEYS_GROUP,
  keyState,
  type Role,
  readKeyText,
} from "../../core/model/api-key.ts";
import { hostOf, isLoopback } from "../../core/model/loopback.ts";
import { recordAudit } from "../../engine/audit/index.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Versioned } from "../../ports/store.ts";
import { Problem } from "../problem.ts";
import type { Access, GatewayRequest, Principal, Route } from "../route.ts";
import { Buckets } from "./limits.ts";

export const MAY: Readonly<Record<Role, readonly Access[]>> = {
  admin: ["open", "read", "submit", "operate", "work", "admin"],
  operator: ["open", "read", "submit", "operate"],
  viewer: ["open", "read"],
  worker: ["open", "work"],
  submitter: ["open", "read", "submit"],
};

export const LOCAL: Principal = { id: "local", org: EVERY_ORG, role: "admin" };
export const ANYBODY: Principal = { id: "anybody", org: DEFAULT_ORG, role: "viewer" };

export function mayCall(
  principal: Principal,
  { access, orAccess = access, everyTenant }: Pick<Route, "access" | "orAccess" | "everyTenant">,
): boolean {
  if (principal.org !== EVERY_ORG && (everyTenant || access === "system")) return false;
  if (access === "system") return principal.role === "admin";
  return MAY[principal.role].includes(access) || MAY[principal.role].includes(orAccess);
}

/** The tenant that a request is about. */
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
  throw new Problem("tenant_forbidden", `this key speaks for \`${own}\` only; leave out \`X-Tenant-ID\``);
}

/** Whose numbers and events to show: those of all tenants (`*`) to a key of `*` that names none. */
export function shownTo({ principal, headers, org }: Pick<GatewayRequest, "principal" | "headers" | "org">): string {
  const isNamed = headers["x-tenant-id"] !== undefined || headers["x-cordum-tenant"] !== undefined;
  return principal.org === EVERY_ORG && !isNamed ? EVERY_ORG : org;
}

export const isTenant = (text: string): boolean => /^[A-Za-z0-9_-]{1,64}$/.test(text);

/** As much of a request as says who sends it. */
export interface Call {
  readonly headers: GatewayRequest["headers"];
  /** The address at the other end of the connection. */
  readonly ip: string;
}

export class KeyRing {
  readonly #engine: Engine;
  readonly #found = new Map<string, { readonly atMs: number; readonly key: Promise<Versioned<ApiKey> | null> }>();
  readonly #guesses = new Buckets();
  readonly #notes: KeyNotes;
  #areThere = false;
  #exist: { readonly atMs: number; readonly answer: Promise<boolean> } | null = null;

  constructor(engine: Engine) {
    this.#engine = engine;
    this.#notes = new KeyNotes(engine);
  }

  /** Whether there is any key on record. Once there is one, there always is. */
  exist(): Promise<boolean> {
    if (this.#areThere) return Promise.resolve(true);
    const nowMs = this.#engine.world.clock.now();
    if (this.#exist && !isOld(this.#exist.atMs, nowMs)) return this.#exist.answer;
    const answer = this.#engine.world.store.counts(KEYS_GROUP, 1).then((counts) => counts.size > 0);
    this.#exist = { atMs: nowMs, answer };
    answer.then(
      (yes) => {
        this.#areThere ||= yes;
      },
      () => {
        this.#exist = null;
      },
    );
    return answer;
  }

  /** Forgets what was believed: something was just changed here. */
  forget(id: string): void {
    this.#found.delete(id);
    this.#exist = null;
  }

  async identify(call: Call): Promise<Principal> {
    const text = keyIn(call.headers);
    if (text === undefined) return this.#withoutKey(call);
    const parts = readKeyText(text);
    const key = parts === null ? null : await this.#find(parts.id, call);
    if (parts === null || key === null || !isSecretOf(key, parts.secret)) {
      this.#guess(call);
      throw this.refuse(
        new Problem("key_invalid", `${KEY_FORM}; \`cordum key list\` shows the ids of those there are`),
      );
    }
    const principal: Principal = { id: key.id, org: key.org, role: key.role };
    const state = keyState(key, this.#engine.world.clock.now());
    if (state !== "good") {
      throw this.refuse(new Problem(`key_${state}`, "ask an administrator for another one"), principal);
    }
    this.#notes.used(principal);
    return principal;
  }

  /** Writes down that somebody was turned away; answers the problem, to be thrown. */
  refuse(problem: Problem, principal?: Principal): Problem {
    this.#notes.refused(problem.code, principal);
    return problem;
  }

  async #withoutKey(call: Call): Promise<Principal> {
    // What a proxy on this machine hands on comes from loopback, too, and from who knows where.
    const isHandedOn = FORWARDED.some((name) => call.headers[name] !== undefined);
    if ((await this.exist()) || !isLoopback(call.ip) || isHandedOn) {
      throw this.refuse(new Problem("key_missing", "send it as `X-API-Key` or as `Authorization: Bearer`"));
    }
    refuseOtherSites(call.headers);
    return LOCAL;
  }

  async #find(id: string, call: Call): Promise<ApiKey | null> {
    const nowMs = this.#engine.world.clock.now();
    const known = this.#found.get(id);
    if (known && !isOld(known.atMs, nowMs)) return (await known.key)?.value ?? null;
    // Whoever has a right key must not suffer from others behind the same address.
    const wasKnown = known !== undefined && (await known.key.catch(() => null)) !== null;
    if (!wasKnown) this.#refuseGuessing(call, nowMs);
    const key = this.#engine.world.store.load(API_KEYS, id);
    this.#found.delete(id);
    this.#found.set(id, { atMs: nowMs, key });
    key.catch(() => this.#found.delete(id));
    for (const oldest of this.#found.keys()) {
      if (this.#found.size <= REMEMBERED_MAX) break;
      this.#found.delete(oldest);
    }
    return (await key)?.value ?? null;
  }

  /** Every wrong key costs a look-up: whoever has sent many is not even looked up for a while. */
  #refuseGuessing({ ip }: Call, nowMs: number): void {
    if (this.#guesses.left(ip, nowMs, GUESSES) >= 1) return;
    throw new Problem("too_many_requests", "too many wrong API keys came from this address; wait", {
      current: GUESSES.burst,
      limit: GUESSES.burst,
    });
  }

  #guess({ ip }: Call): void {
    this.#guesses.take(ip, this.#engine.world.clock.now(), GUESSES);
  }
}

/** What the audit log hears of keys: each one in use once a minute, and so many refusals a minute; the rest as a number. */
class KeyNotes {
  readonly #engine: Engine;
  #minute = -1;
  readonly #used = new Set<string>();
  #refused = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  used({ id, org, role }: Principal): void {
    this.#turn();
    if (this.#used.has(id) || this.#used.size >= REMEMBERED_MAX) return;
    this.#used.add(id);
    recordAudit(this.#engine, { org, kind: "key", who: id, what: "key used", facts: { role } });
  }

  refused(code: string, principal?: Principal): void {
    this.#turn();
    this.#refused += 1;
    if (this.#refused > REFUSALS_MAX) return;
    const { id, org } = principal ?? { id: "unknown", org: EVERY_ORG };
    recordAudit(this.#engine, { org, kind: "key", who: id, what: "request refused", facts: { code } });
  }

  #turn(): void {
    const minute = Math.floor(this.#engine.world.clock.now() / 60_000);
    if (minute === this.#minute) return;
    this.#minute = minute;
    this.#used.clear();
    const more = this.#refused - REFUSALS_MAX;
    this.#refused = 0;
    if (more <= 0) return;
    recordAudit(this.#engine, {
      org: EVERY_ORG,
      kind: "key",
      who: "unknown",
      what: "requests refused",
      facts: { more },
    });
  }
}

function keyIn(headers: Call["headers"]): string | undefined {
  const own = headers["x-api-key"];
  if (own !== undefined) return String(own);
  const { authorization } = headers;
  return authorization === undefined ? undefined : String(authorization).replace(/^Bearer +/i, "");
}

/**
 * A page that points its own name at this machine, and one that sends its reader's browser here, both come from loopback.
 * The first is known by the name that it calls, the second by what browsers say about who asks.
 */
function refuseOtherSites(headers: Call["headers"]): void {
  const host = String(headers.host ?? "");
  if (!isLoopback(hostOf(host))) {
    throw new Problem(
      "invalid_request",
      "without API keys this control plane answers only to loopback names, such as 127.0.0.1 or localhost",
    );
  }
  const { origin } = headers;
  const isOther = (origin !== undefined && origin !== `http://${host}`) || headers["sec-fetch-site"] === "cross-site";
  if (isOther) throw new Problem("invalid_request", "without API keys this control plane answers no other web site");
}

const isOld = (atMs: number, nowMs: number): boolean => nowMs - atMs >= BELIEVED_MS || nowMs < atMs;

const KEY_FORM = "a key is `cordum_`, its id, `_` and its secret, as it was shown when it was made";
const FORWARDED = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];
const BELIEVED_MS = 1_000;
const REMEMBERED_MAX = 1_000;
const REFUSALS_MAX = 60;
const GUESSES = { perSecond: 5, burst: 50 } as const;
