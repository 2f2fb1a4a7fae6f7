/**
 * Sessions of browsers, in the store: every gateway of a cluster accepts them.
 *
 * 1. A session is found by the hash of its token. Look-ups are cached like those of keys: a session that was ended stops
 *    working within a second in every process.
 * 2. A session ends after a time without requests and after an absolute time. Requests extend it at most once a minute.
 * 3. The number of sessions of a key, the rate of new ones, and the cache are bounded.
 */
import {
  hashOf,
  newSecret,
  SESSIONS,
  SESSIONS_PER_KEY_MAX,
  type Session,
  STARTUP_ID,
  sessionEnd,
  sessionsOf,
} from "../../core/model/api-key.ts";
import { auditPut } from "../../engine/audit/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { Problem } from "../problem.ts";
import type { GatewayRequest, Principal } from "../route.ts";
import { TokenBuckets } from "./limits.ts";

export interface SessionLimits {
  readonly idleMs: number;
  readonly maxMs: number;
}

interface Cached {
  readonly atMs: number;
  readonly session: Promise<Versioned<Session> | null>;
}

export class Sessions {
  readonly #engine: Engine;
  readonly #limits: SessionLimits;
  readonly #cache = new Map<string, Cached>();
  readonly #rates = new TokenBuckets();

  constructor(engine: Engine, limits: SessionLimits) {
    this.#engine = engine;
    this.#limits = limits;
  }

  /** `keyId`: the key, or the id of the start-up token with its text. */
  async open(principal: Principal, startupToken: string | null): Promise<{ token: string; session: Session }> {
    const { world } = this.#engine;
    const nowMs = world.clock.now();
    const keyId = startupToken === null ? principal.id : STARTUP_ID;
    if (!this.#rates.take(keyId, nowMs, OPEN_RATE)) {
      const { burst } = OPEN_RATE;
      throw new Problem("too_many_requests", "too many new sessions of this key", { current: burst, limit: burst });
    }
    const token = newSecret(() => world.random.next());
    const session: Session = {
      id: hashOf(token),
      org: principal.org,
      keyId,
      startupHash: startupToken === null ? null : hashOf(startupToken),
      createdMs: nowMs,
      endsMs: nowMs + this.#limits.maxMs,
      idleEndsMs: nowMs + this.#limits.idleMs,
    };
    const ended = await this.#surplus(keyId);
    const entry = { org: session.org, kind: "key", who: principal.id, what: "session opened", facts: {} } as const;
    await this.#engine.commit({
      org: session.org,
      puts: [put(SESSIONS, session.id, null, session), auditPut(this.#engine, entry)],
    });
    for (const one of ended) await this.#remove(one);
    return { token, session };
  }

  /** Null if there is no such session, or if it has ended. */
  async find(token: string): Promise<Session | null> {
    const id = hashOf(token);
    const nowMs = this.#engine.world.clock.now();
    const cached = this.#cache.get(id);
    const isFresh = cached !== undefined && nowMs >= cached.atMs && nowMs - cached.atMs < CACHE_MS;
    const found = await (isFresh ? cached.session : this.#load(id, nowMs));
    if (found === null || sessionEnd(found.value) <= nowMs) return null;
    return found.value;
  }

  /** Extends the idle time. A concurrent extension or end of the session wins. */
  async extend({ id }: Session): Promise<void> {
    const { world } = this.#engine;
    const idleEndsMs = world.clock.now() + this.#limits.idleMs;
    const found = await this.#cache.get(id)?.session;
    if (found == null || idleEndsMs - found.value.idleEndsMs < EXTEND_MS) return;
    const after = { ...found.value, idleEndsMs };
    this.#cache.delete(id);
    await this.#engine.commit({ org: after.org, puts: [put(SESSIONS, id, found, after)] });
  }

  async end(token: string, who: string): Promise<void> {
    const found = await this.#engine.world.store.load(SESSIONS, hashOf(token));
    this.#cache.delete(hashOf(token));
    if (found === null) return;
    const entry = { org: found.value.org, kind: "key", who, what: "session ended", facts: {} } as const;
    await this.#engine.commit({
      org: found.value.org,
      puts: [put(SESSIONS, found.id, found, null), auditPut(this.#engine, entry)],
    });
  }

  async #load(id: string, atMs: number): Promise<Versioned<Session> | null> {
    const session = this.#engine.world.store.load(SESSIONS, id);
    this.#cache.delete(id);
    this.#cache.set(id, { atMs, session });
    // Unknown ids must not evict those of sessions.
    session.then(
      (found) => void (found === null && this.#cache.delete(id)),
      () => void this.#cache.delete(id),
    );
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size <= CACHED_MAX) break;
      this.#cache.delete(oldest);
    }
    return session;
  }

  /** The oldest sessions of a key that has as many as it may have. */
  async #surplus(keyId: string): Promise<readonly Versioned<Session>[]> {
    const { store } = this.#engine.world;
    const index = sessionsOf(keyId);
    const limit = 2 * SESSIONS_PER_KEY_MAX;
    const { items } = await store.list(SESSIONS, { index, limit, order: "oldest" });
    return items.slice(0, Math.max(0, items.length + 1 - SESSIONS_PER_KEY_MAX));
  }

  async #remove(found: Versioned<Session>): Promise<void> {
    this.#cache.delete(found.id);
    await this.#engine.commit({ org: found.value.org, puts: [put(SESSIONS, found.id, found, null)] });
  }
}

/** The token in the cookie of a request. */
export function sessionTokenIn(headers: GatewayRequest["headers"]): string | undefined {
  const { cookie } = headers;
  if (cookie === undefined) return undefined;
  return /(?:^|; *)cordum_session=([0-9A-Za-z]{43})(?:;|$)/.exec(String(cookie).slice(0, COOKIE_LENGTH_MAX))?.[1];
}

/** An empty token removes the cookie. `Secure` needs TLS, which ends at a proxy in front of the gateway. */
export function sessionCookie(token: string, maxAgeMs: number, headers: GatewayRequest["headers"]): string {
  const isTls = headers["x-forwarded-proto"] === "https" || String(headers.origin ?? "").startsWith("https:");
  const age = `Max-Age=${Math.floor(maxAgeMs / 1_000)}`;
  return `${COOKIE}=${token}; Path=/; HttpOnly; SameSite=Strict; ${age}${isTls ? "; Secure" : ""}`;
}

const COOKIE = "cordum_session";
const COOKIE_LENGTH_MAX = 8_192;
const CACHE_MS = 1_000;
const CACHED_MAX = 1_000;
const EXTEND_MS = 60_000;
const OPEN_RATE = { perSecond: 1, burst: 30 } as const;
