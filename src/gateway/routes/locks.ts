/** The locks that are held or waited for, of all tenants: for finding out what everybody waits for. */
import { Type } from "typebox";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { PAGE_LIMITS, queryText, readLimit } from "../views/page.ts";

const LOCK = Type.Object({
  key: Type.String(),
  holder: Type.Union([Type.String(), Type.Null()], { description: "Which process, for what." }),
  fence: Type.Integer(),
  expires_at: Type.String({ description: "When it comes free if its holder has died." }),
  waiters: Type.Integer(),
  busy_last_minute: Type.Integer({
    description: "How often it was busy when the process that answers asked for it, in the last minute.",
  }),
});

export const LOCK_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/locks",
    summary: "Locks that are held or waited for, the hottest first: most waiters, then most often busy",
    access: "system",
    query: Type.Object({
      limit: Type.Optional(Type.Integer({ minimum: PAGE_LIMITS.min, maximum: PAGE_LIMITS.max })),
    }),
    answer: Type.Object({ items: Type.Array(LOCK), next_cursor: Type.Null() }),
    handle: listLocks,
  },
];

async function listLocks({ engine }: Gateway, { query }: GatewayRequest): Promise<Answer> {
  const limit = readLimit(queryText(query, "limit"));
  // Where nobody queues, all have the same number of waiters: the hot ones may be anywhere, so more are looked at.
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
  // Stable: those that are as hot as each other stay in the order of the list.
  items.sort((a, b) => b.waiters - a.waiters || b.busy_last_minute - a.busy_last_minute);
  return ok({ items: items.slice(0, limit), next_cursor: null });
}
