import type { Placement } from "../../../core/model/table.ts";
import { decodeValue } from "../../record-text.ts";
import { type Database, isDamage, type SqlValue } from "../database.ts";
import type { Entry } from "../journal-file.ts";
import type { JournalStep } from "../rows.ts";
import { rowSum } from "./checksum.ts";
import { describeRow, isIntact, ROW_TABLES, type RowTable, type StoredRow } from "./verify.ts";

/**
 * Copies every readable row that matches its checksum, and collects the others. A table is read by its key and by its row id, from both
 * ends: an unreadable page of the table or of its index hides as little as possible.
 */
export function salvageRows(source: Database, target: Database): Lost {
  const lost = new Lost();
  for (const table of ROW_TABLES) {
    const copy = (key: readonly string[], order: "asc" | "desc") => copyRows(source, target, table, key, order, lost);
    const byKey = copy(table.key, "asc");
    const byRow = copy(["rowid"], "asc");
    if (byKey === "yes" && byRow !== "no") continue;
    copy(table.key, "desc");
    copy(["rowid"], "desc");
    addNamedInIndex(source, target, table, lost);
  }
  return lost;
}

/** Rows and changes that cannot be saved. */
export class Lost {
  readonly #texts = new Set<string>();
  readonly #rows = new Map<string, { readonly table: RowTable; readonly row: StoredRow }>();

  add(text: string): void {
    this.#texts.add(text);
  }

  addRow(table: RowTable, row: StoredRow): void {
    this.#rows.set(describeRow(table, row), { table, row });
  }

  /** Without the rows that another page or the journal had. */
  list(target: Database): string[] {
    const rows = [...this.#rows].filter(([, { table, row }]) => !hasRow(target, table, row)).map(([text]) => text);
    return [...rows, ...this.#texts];
  }
}

function hasRow(db: Database, { name, key }: RowTable, row: StoredRow): boolean {
  const places = key.map(() => "?").join(", ");
  const found = db.prepare(`select 1 from ${name} where (${key.join(", ")}) = (${places})`);
  return found.get(...key.map((column) => row[column]!)) !== undefined;
}

/** Copies rows in the given order up to the first unreadable page. "none": the table has no such order. */
function copyRows(
  source: Database,
  target: Database,
  table: RowTable,
  key: readonly string[],
  order: "asc" | "desc",
  lost: Lost,
): "yes" | "no" | "none" {
  const after = `where (${key.join(", ")}) ${order === "asc" ? ">" : "<"} (${key.map(() => "?").join(", ")})`;
  const sorted = `order by ${key.map((column) => `${column} ${order}`).join(", ")} limit`;
  let last: StoredRow | undefined;
  // Single rows behind an unreadable page: some may be readable before it.
  for (let limit = PAGE_ROWS; ; ) {
    const sql = `select ${key[0] === "rowid" ? "rowid as rowid, *" : "*"} from ${table.name} ${last === undefined ? "" : after} ${sorted} ${limit}`;
    const rows = pageOf(source, sql, last === undefined ? [] : key.map((column) => last![column]!));
    if (rows === "none" || (rows === "no" && limit === 1)) return rows;
    if (rows === "no") {
      limit = 1;
      continue;
    }
    for (const row of rows) keepRow(target, table, row, lost);
    if (rows.length < limit) return "yes";
    last = rows.at(-1);
  }
}

function pageOf(source: Database, sql: string, from: readonly SqlValue[]): StoredRow[] | "no" | "none" {
  try {
    return source.prepare(sql).all(...from) as StoredRow[];
  } catch (error) {
    return isDamage(error) ? "no" : "none";
  }
}

function keepRow(target: Database, table: RowTable, row: StoredRow, lost: Lost): void {
  const columns = Object.keys(row).filter((column) => column !== "rowid");
  const places = columns.map(() => "?").join(", ");
  try {
    if (!isIntact(table, row)) throw new Error("the row does not match its checksum");
    const insert = target.prepare(`insert or ignore into ${table.name} (${columns.join(", ")}) values (${places})`);
    insert.run(...columns.map((column) => row[column]!));
  } catch {
    lost.addRow(table, row);
  }
}

/** Rows that an index names and no page has. */
function addNamedInIndex(source: Database, target: Database, table: RowTable, lost: Lost): void {
  const index = INDEXES[table.name];
  const named = index === undefined ? "none" : `select ${table.key.join(", ")} from ${table.name} indexed by ${index}`;
  const rows = pageOf(source, named, []);
  if (typeof rows === "string") lost.add(`unnamed rows of ${table.name}`);
  else for (const row of rows) if (!hasRow(target, table, row)) lost.addRow(table, row);
}

/** Indexes on the whole key. */
const INDEXES: Readonly<Record<string, string>> = { records: "records_id", blobs: "sqlite_autoindex_blobs_1" };

/**
 * The steps of journal entries that can be applied to the tables although other entries are missing: whole records, and deltas to
 * the version they were made for. Appends what is lost.
 */
export function applicableSteps(target: Database, entries: readonly Entry[], lost: Lost): JournalStep[] {
  const select = target.prepare("select version from records where tbl = ? and id = ?");
  const versions = new Map<string, number>();
  return entries.flatMap(({ text }) =>
    (JSON.parse(text) as JournalStep[]).filter((step) => {
      const [word, table, id, version] = step as readonly [string, string, string, number];
      if (word !== "row" && word !== "more") return true;
      const key = `${table}\n${id}`;
      const stored = versions.get(key) ?? (select.get(table, id) as { version: number } | undefined)?.version ?? 0;
      if (word === "more" && version > stored + 1) lost.add(`${table} \`${id}\`: changes after version ${stored}`);
      const isNext = word === "row" ? version === 0 || version > stored : version === stored + 1;
      if (isNext) versions.set(key, version);
      return isNext;
    }),
  );
}

/** Derives lists, queues, counters and due times from the records. Removes records that cannot be decoded. */
export function derivePlacements(db: Database, placements: Placements, lost: Lost): void {
  const counters = new Map<string, { readonly group: string; readonly name: string; value: number }>();
  const page = db.prepare(
    `select rowid, tbl, id, version, value from records where rowid > ? order by rowid limit ${PAGE_ROWS}`,
  );
  const update = db.prepare("update records set due_ms = ?, queue = ?, score = ?, sum = ? where rowid = ?");
  const remove = db.prepare("delete from records where rowid = ?");
  const list = db.prepare("insert or ignore into lists (tbl, name, score, id, sum) values (?, ?, ?, ?, ?)");
  const known = [...placements.keys()];
  db.prepare(`delete from lists where tbl in (${known.map(() => "?").join(", ")})`).run(...known);
  db.exec("delete from counters where substr(grp, 1, 1) <> char(10)");
  let rows: RecordRow[] = [];
  for (let from = 0; ; from = rows.at(-1)!.rowid) {
    rows = page.all(from) as RecordRow[];
    if (rows.length === 0) break;
    for (const { rowid, tbl, id, version, value } of rows) {
      const placementOf = placements.get(tbl);
      if (placementOf === undefined) continue;
      const placement = decoded(() => placementOf(id, decodeValue(value) as never));
      if (placement === null) {
        lost.add(`${tbl} \`${id}\``);
        remove.run(rowid);
        continue;
      }
      const { dueMs, queue, lists } = placement;
      const [name, score] = [queue?.name ?? null, queue?.score ?? null];
      update.run(dueMs, name, score, rowSum(tbl, id, version, dueMs, name, score), rowid);
      for (const entry of lists) list.run(tbl, entry.name, entry.score, id, rowSum(tbl, entry.name, entry.score, id));
      for (const { group, name: counter, by = 1 } of placement.counters) {
        const key = `${group}\n${counter}`;
        const found = counters.get(key) ?? { group, name: counter, value: 0 };
        found.value += by;
        counters.set(key, found);
      }
    }
  }
  const count = db.prepare("insert or replace into counters (grp, name, value, sum) values (?, ?, ?, ?)");
  for (const { group, name, value } of counters.values()) count.run(group, name, value, rowSum(group, name, value));
}

interface RecordRow {
  readonly rowid: number;
  readonly tbl: string;
  readonly id: string;
  readonly version: number;
  readonly value: string;
}

function decoded(read: () => Placement): Placement | null {
  try {
    return read();
  } catch {
    return null;
  }
}

/** The placement of a record, by the name of its table. Tables without one keep their lists. */
export type Placements = ReadonlyMap<string, (id: string, value: never) => Placement>;

const PAGE_ROWS = 500;
