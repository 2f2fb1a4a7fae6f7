/** Locks that are held, waited for, or were busy in the last minute, of all tenants. */
import { Type } from "typebox";
import type { Engine } from "../../engine/engine.ts";
import type { LockFacts } from "../findings/findings.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { PAGE_LIMITS, queryText, readLimit } from "../views/page.ts";
import { orNull } from "../views/schemas.ts";

export const LOCK = Type.Object(
  {
    key: Type.String(),
    holder: Type.Union([Type.String(), Type.Null()], { description: "The process and purpose of the holder." }),
    fence: orNull(Type.Integer({ description: "Null while the lock is free." })),
    expires_at: orNull(Type.String({ description: "When the lease ends unless it is renewed." })),
    waiters: Type.Integer(),
    busy_last_minute: Type.Integer({
      description: "Events and requests of this process that the held lock refused in the last minute.",
    }),
  },
  { title: "Lock" },
);

export const LOCK_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/locks",
    summary: "List locks by contention: most waiters first, then most often busy",
    access: "system",
    query: Type.Object({
      limit: Type.Optional(Type.Integer({ minimum: PAGE_LIMITS.min, maximum: PAGE_LIMITS.max })),
    }),
    response: Type.Object({ items: Type.Array(LOCK), next_cursor: Type.Null() }),
    handle: listLocks,
  },
];

async function listLocks({ engine }: Gateway, { query }: GatewayRequest): Promise<GatewayResponse> {
  const limit = readLimit(queryText(query, "limit"));
  return ok({ items: await locksByContention(engine, limit), next_cursor: null });
}

interface LockRow extends LockFacts {
  readonly fence: number | null;
}

export async function locksByContention(engine: Engine, limit: number): Promise<readonly LockRow[]> {
  // The store lists by waiters. Without queues all counts are equal, so contended locks can be anywhere in the list.
  const locks = await engine.world.locks.list(PAGE_LIMITS.max);
  const nowMs = engine.world.clock.now();
  const busy = engine.lockStats.busyLastMinute(nowMs);
  const rows = new Map<string, LockRow>();
  for (const [key, busy_last_minute] of busy) rows.set(key, { ...FREE, key, busy_last_minute });
  for (const { key, holder, fence, expiresAtMs, waiters } of locks) {
    const expires_at = new Date(expiresAtMs).toISOString();
    rows.set(key, { key, holder, fence, expires_at, waiters, busy_last_minute: busy.get(key) ?? 0 });
  }
  return [...rows.values()]
    .sort((a, b) => b.waiters - a.waiters || b.busy_last_minute - a.busy_last_minute)
    .slice(0, limit);
}

/** A contended lock without a queue is often free when it is looked at. */
const FREE = { holder: null, fence: null, expires_at: null, waiters: 0 } as const;
