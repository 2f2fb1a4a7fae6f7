/** Lists: `limit` and an opaque `cursor` in, `{items, next_cursor}` out. */
import { type TSchema, Type } from "typebox";
import type { Table } from "../../core/model/table.ts";
import type { Store, Versioned } from "../../ports/store.ts";
import { Problem } from "../problem.ts";
import { type Answer, type GatewayRequest, ok } from "../route.ts";

export const PAGE_LIMITS = { min: 1, max: 200, default: 50 } as const;

const PAGE_FIELDS = {
  limit: Type.Optional(
    Type.Integer({
      minimum: PAGE_LIMITS.min,
      maximum: PAGE_LIMITS.max,
      default: PAGE_LIMITS.default,
      description: "Items in one page.",
    }),
  ),
  cursor: Type.Optional(Type.String({ description: "`next_cursor` of the page before, with the same filter." })),
};

/** The query of a list, with filters of its own. */
export const pageQuery = (filters: Readonly<Record<string, TSchema>>): TSchema =>
  Type.Object({ ...filters, ...PAGE_FIELDS });
export const PAGE_QUERY = pageQuery({});
/** What a list answers. */
export const pageOf = (item: TSchema): TSchema =>
  Type.Object({ items: Type.Array(item), next_cursor: Type.Union([Type.String(), Type.Null()]) });

export async function listPage<T>(
  store: Store,
  table: Table<T>,
  index: string,
  query: GatewayRequest["query"],
  view: (item: Versioned<T>) => object,
): Promise<Answer> {
  const cursor = readCursor(queryText(query, "cursor"), index);
  const page = await store.list(table, { index, limit: readLimit(queryText(query, "limit")), cursor });
  return ok({
    items: page.items.map(view),
    next_cursor: page.cursor === null ? null : writeCursor(index, page.cursor),
  });
}

/** A query parameter that may be given once. */
export function queryText(query: GatewayRequest["query"], name: string): string | undefined {
  const value = query[name];
  if (value === undefined || typeof value === "string") return value;
  throw new Problem("invalid_request", `\`${name}\` is given more than once`);
}

export function readLimit(text: string | undefined): number {
  if (text === undefined) return PAGE_LIMITS.default;
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit >= PAGE_LIMITS.min && limit <= PAGE_LIMITS.max) return limit;
  const range = `${PAGE_LIMITS.min} to ${PAGE_LIMITS.max}`;
  throw new Problem("invalid_request", `\`limit\` must be a whole number from ${range}, not \`${text.slice(0, 40)}\``);
}

/** A cursor names the list it belongs to, so that it cannot be used to read another one. */
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
  throw new Problem(
    "invalid_cursor",
    "use `next_cursor` as it was given, with the same filter; or start without a cursor",
  );
}
