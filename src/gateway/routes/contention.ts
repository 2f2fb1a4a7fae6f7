/** Recorded lock contention of all processes, for `cordum lab replay` and `cordum trace export`. */
import { Type } from "typebox";
import { CONTENTION, CONTENTION_LIST } from "../../core/contention/acquisition.ts";
import { recordDocument } from "../../core/contention/codec.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { pageOf, pageQuery, queryText, readCursor, readLimit, writeCursor } from "../views/page.ts";

const DURATION = Type.Union([Type.Number(), Type.Null()]);

const RECORD = Type.Object(
  {
    version: Type.Integer({ description: "Version of the encoding." }),
    process: Type.Integer({ description: "Hash of the process name." }),
    from_ms: Type.Integer(),
    to_ms: Type.Integer(),
    level: Type.Integer({
      description: "Locks are kept with probability 2^-level, each with all of its acquisitions.",
    }),
    dropped: Type.Integer({ description: "Acquisitions beyond the size of the record." }),
    uncontended: Type.Integer({ description: "Acquisitions that met no other one." }),
    lock_ms: DURATION,
    return_ms: DURATION,
    nak_timer_ms: Type.Number(),
    settings: Type.Object({
      lock_busy_policy: Type.String(),
      engine_wait_ms: Type.Integer(),
      coalesce: Type.Boolean(),
    }),
    acquisitions: Type.String({
      description: "Acquisitions by hash of the lock, base64. Contains no tenant, run or job.",
    }),
  },
  { title: "ContentionRecord" },
);

export const CONTENTION_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/contention",
    summary: "List the recorded lock contention of all processes, newest first; kept for 24 hours",
    access: "operate",
    allTenants: true,
    query: pageQuery({
      since: Type.Optional(
        Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: "Milliseconds since the epoch." }),
      ),
    }),
    response: pageOf(RECORD),
    handle: listContention,
  },
];

async function listContention({ engine }: Gateway, { query }: GatewayRequest): Promise<GatewayResponse> {
  const sinceMs = Number(queryText(query, "since") ?? 0);
  const page = await engine.world.store.list(CONTENTION, {
    index: CONTENTION_LIST,
    limit: readLimit(queryText(query, "limit")),
    cursor: readCursor(queryText(query, "cursor"), CONTENTION_LIST),
  });
  const items = page.items.map(({ value }) => value).filter(({ toMs }) => toMs >= sinceMs);
  // Newest first: after the first older record all are older.
  const isLast = page.cursor === null || items.length < page.items.length;
  return ok({
    items: items.map(recordDocument),
    next_cursor: isLast ? null : writeCursor(CONTENTION_LIST, page.cursor ?? ""),
  });
}
