/** Pagination: `limit` and an opaque `cursor` in, `{items, next_cursor}` out. */
import { createHash } from "node:crypto";
import { type TSchema, Type } from "typebox";
import type { Table } from "../../core/model/table.ts";
import type { Index, ScoreRange, Store, Versioned } from "../../ports/store.ts";
import { invalidCursorProblem, Problem } from "../problem.ts";
import { type GatewayRequest, type GatewayResponse, ok } from "../route.ts";

export const PAGE_LIMITS = { min: 1, max: 200, default: 50 } as const;

const PAGE_FIELDS = {
  limit: Type.Optional(
    Type.Integer({
      minimum: PAGE_LIMITS.min,
      maximum: PAGE_LIMITS.max,
      default: PAGE_LIMITS.default,
      description: "Page size.",
    }),
  ),
  cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page, with the same filter." })),
};

/** A larger number is not counted: the cost is bounded. */
const TOTAL_MAX = 10_000;

export const pageQuery = (filters: Readonly<Record<string, TSchema>>): TSchema =>
  Type.Object({ ...filters, ...PAGE_FIELDS });
export const PAGE_QUERY = pageQuery({});
/** The page of a schema named `Job` is named `JobPage`. */
export const pageOf = (item: TSchema): TSchema => {
  const { title } = item as { readonly title?: string };
  const fields = { items: Type.Array(item), next_cursor: Type.Union([Type.String(), Type.Null()]) };
  return Type.Object(fields, title === undefined ? {} : { title: `${title}Page` });
};

export const COUNT = {
  count: Type.Optional(Type.Boolean({ description: "Adds `total`, on request of the first page for example." })),
};
const TOTAL = Type.Object(
  {
    count: Type.Integer({ description: `Records that match, at most ${TOTAL_MAX}.` }),
    exact: Type.Boolean({ description: "False: there are more." }),
  },
  { title: "ListTotal", description: "With `count=true`; absent if no index answers the filter." },
);
/** Of a list with the parameter `COUNT`. */
export const countedPageOf = (item: TSchema): TSchema => {
  const { title } = item as { readonly title?: string };
  const fields = { items: Type.Array(item), next_cursor: Type.Union([Type.String(), Type.Null()]) };
  return Type.Object({ ...fields, total: Type.Optional(TOTAL) }, { title: `${title}Page` });
};

export function listPage<T>(
  store: Store,
  table: Table<T>,
  index: Index,
  query: GatewayRequest["query"],
  view: (item: Versioned<T>) => object,
  range: ScoreRange = {},
): Promise<GatewayResponse> {
  return listPageWith(store, table, index, query, async (items) => items.map(view), range);
}

/** `listPage` with views that need other records. */
export async function listPageWith<T>(
  store: Store,
  table: Table<T>,
  index: Index,
  query: GatewayRequest["query"],
  views: (items: readonly Versioned<T>[]) => Promise<readonly object[]>,
  range: ScoreRange = {},
): Promise<GatewayResponse> {
  const name = nameOf(index);
  const cursor = readCursor(queryText(query, "cursor"), name);
  const [page, found] = await Promise.all([
    store.list(table, { ...range, index, limit: readLimit(queryText(query, "limit")), cursor }),
    queryText(query, "count") === "true" ? store.count(table, { ...range, index, max: TOTAL_MAX }) : null,
  ]);
  return ok({
    items: await views(page.items),
    next_cursor: page.cursor === null ? null : writeCursor(name, page.cursor),
    ...(found === null ? {} : { total: { count: Math.min(found, TOTAL_MAX), exact: found <= TOTAL_MAX } }),
  });
}

/** Short for a union of lists: cursors are parts of URLs. */
export function nameOf(index: Index): string {
  return typeof index === "string" ? index : createHash("sha256").update(JSON.stringify(index)).digest("base64url");
}

/** Keeps the items of an index that match. `key` describes the filter: a cursor is valid with the same filter only. */
export interface Filter<T> {
  readonly key: string;
  matches(value: T): boolean;
}

/**
 * A page of the matching items. The index is read in chunks, at most `SCANNED_MAX` items per request, so that a rare match
 * costs a bounded amount of work: a page may have fewer items than `limit`, or none, and still have a `next_cursor`.
 */
export async function listFiltered<T>(
  store: Store,
  table: Table<T>,
  index: Index,
  query: GatewayRequest["query"],
  filter: Filter<T>,
  view: (item: Versioned<T>) => object,
  range: ScoreRange = {},
): Promise<GatewayResponse> {
  const name = `${nameOf(index)}?${filter.key}`;
  const limit = readLimit(queryText(query, "limit"));
  const items: object[] = [];
  let cursor = readCursor(queryText(query, "cursor"), name);
  for (let scanned = 0; scanned < SCANNED_MAX; scanned += CHUNK) {
    const chunk = await store.list(table, { ...range, index, limit: CHUNK, cursor });
    let read = 0;
    for (const item of chunk.items) {
      read++;
      if (filter.matches(item.value)) items.push(view(item));
      if (items.length === limit) break;
    }
    if (items.length === limit && read < chunk.items.length) {
      // The cursor of a chunk is that of its last item: the next page starts after the last item of this one.
      cursor = (await store.list(table, { ...range, index, limit: read, cursor })).cursor ?? undefined;
      break;
    }
    cursor = chunk.cursor ?? undefined;
    if (cursor === undefined || items.length === limit) break;
  }
  return ok({ items, next_cursor: cursor === undefined ? null : writeCursor(name, cursor) });
}

/** A query parameter that must not be repeated. */
export function queryText(query: GatewayRequest["query"], name: string): string | undefined {
  const value = query[name];
  if (value === undefined || typeof value === "string") return value;
  throw new Problem("invalid_request", `query parameter \`${name}\` is repeated; send it once`);
}

export function readLimit(text: string | undefined): number {
  if (text === undefined) return PAGE_LIMITS.default;
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit >= PAGE_LIMITS.min && limit <= PAGE_LIMITS.max) return limit;
  const range = `${PAGE_LIMITS.min} to ${PAGE_LIMITS.max}`;
  throw new Problem("invalid_request", `\`limit\` must be an integer from ${range}, not \`${text.slice(0, 40)}\``);
}

/** A cursor contains its index, so that it cannot be used on another list. */
export function writeCursor(index: string, cursor: string): string {
  return Buffer.from(`${index}\n${cursor}`, "utf8").toString("base64url");
}

export function readCursor(text: string | undefined, index: string): string | undefined {
  if (text === undefined) return undefined;
  const decoded = Buffer.from(text, "base64url").toString("utf8");
  const prefix = `${index}\n`;
  if (decoded.startsWith(prefix) && writeCursor(index, decoded.slice(prefix.length)) === text) {
    return decoded.slice(prefix.length);
  }
  throw invalidCursorProblem();
}

/** A cursor that is a position in a numbered list. */
export function readPosition(text: string | undefined, index: string): number | undefined {
  const cursor = readCursor(text, index);
  if (cursor === undefined) return undefined;
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw invalidCursorProblem();
}

const CHUNK = 200;
const SCANNED_MAX = 1_000;
