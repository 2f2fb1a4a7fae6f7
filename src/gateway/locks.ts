/** The locks that are held or waited for, of all tenants: for finding out what everybody waits for. */
import { Type } from "typebox";
import { PAGE_LIMITS, queryText, readLimit } from "./page.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "./route.ts";

const LOCK = Type.Object({
  key: Type.String(),
  holder: Type.Union([Type.String(), Type.Null()], { description: "Which process, for what." }),
  fence: Type.Integer(),
  expires_at: Type.String({ description: "When it comes free if its holder has died." }),
  waiters: Type.Integer(),
});

export const LOCK_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/locks",
    summary: "Locks that are held or waited for, most waiters first",
    access: "system",
    query: Type.Object({
      limit: Type.Optional(Type.Integer({ minimum: PAGE_LIMITS.min, maximum: PAGE_LIMITS.max })),
    }),
    answer: Type.Object({ items: Type.Array(LOCK), next_cursor: Type.Null() }),
    handle: listLocks,
  },
];

async function listLocks({ flow }: Gateway, { query }: GatewayRequest): Promise<Answer> {
  const locks = await flow.world.locks.list(readLimit(queryText(query, "limit")));
  const items = locks.map(({ key, holder, fence, expiresAtMs, waiters }) => ({
    key,
    holder,
    fence,
    expires_at: new Date(expiresAtMs).toISOString(),
    waiters,
  }));
  return ok({ items, next_cursor: null });
}
