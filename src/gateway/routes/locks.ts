/** Locks that are held or waited for, of all tenants. */
import { Type } from "typebox";
import type { Engine } from "../../engine/engine.ts";
import type { LockFacts } from "../findings/findings.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { PAGE_LIMITS, queryText, readLimit } from "../views/page.ts";

export const LOCK = Type.Object(
  {
    key: Type.String(),
    holder: Type.Union([Type.String(), Type.Null()], { description: "The process and purpose of the holder." }),
    fence: Type.Integer(),
    expires_at: Type.String({ description: "When the lease ends unless it is renewed." }),
    waiters: Type.Integer(),
    busy_last_minute: Type.Integer({
      description: "Failed attempts of this process to acquire the lock in the last minute.",
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

export async function locksByContention(engine: Engine, limit: number): Promise<readonly LockFacts[]> {
  // The store lists by waiters. Without queues all counts are equal, so contended locks can be anywhere in the list.
  const locks = await engine.world.locks.list(PAGE_LIMITS.max);
  const nowMs = engine.world.clock.now();
  const items = locks.map(({ key, holder, fence, expiresAtMs, waiters }) => ({
    key,
    holder,
    fence,
    expires_at: new Date(expiresAtMs).toISOString(),
    waiters,
    busy_last_minute: engine.lockStats.busyLastMinute(key, nowMs),
  }));
  items.sort((a, b) => b.waiters - a.waiters || b.busy_last_minute - a.busy_last_minute);
  return items.slice(0, limit);
}
