import type { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import type { Database, SqlValue } from "../database.ts";
import { bytesSum, rowSum, textSum } from "./checksum.ts";

/**
 * Checks everything in the tables: the pages and indexes of SQLite, and the sum of every row. Returns what is wrong, at most
 * `PROBLEMS_MAX` problems of each kind.
 */
export function verifyTables(db: Database): string[] {
  const problems: string[] = [];
  try {
    const found = db.prepare(`pragma integrity_check(${PROBLEMS_MAX})`).all() as { integrity_check: string }[];
    for (const { integrity_check: text } of found) if (text !== "ok") problems.push(`cordum.db: ${text}`);
  } catch (error) {
    problems.push(`cordum.db: ${(error as Error).message}`);
  }
  // The rows of a damaged tree cannot be read in order.
  return problems.length > 0 ? problems : damagedRows(db);
}

function damagedRows(db: Database): string[] {
  const problems: string[] = [];
  for (const table of ROW_TABLES) {
    for (const row of rowsOf(db, table)) {
      if (problems.length === PROBLEMS_MAX) return problems;
      if (!isIntact(table, row)) problems.push(`cordum.db: ${describeRow(table, row)} does not match its checksum`);
    }
  }
  return problems;
}

/** A table of the schema with checksums. */
export interface RowTable {
  readonly name: string;
  /** Orders the rows, and names one in messages. */
  readonly key: readonly string[];
  sums(row: StoredRow): readonly (readonly [stored: SqlValue, computed: () => number])[];
}

export type StoredRow = Readonly<Record<string, SqlValue>>;

export const isIntact = (table: RowTable, row: StoredRow): boolean =>
  table.sums(row).every(([stored, computed]) => (stored ?? null) === null || stored === computed());

export const describeRow = ({ name, key }: RowTable, row: StoredRow): string =>
  name === "records" ? `${row.tbl} \`${row.id}\`` : `${name} \`${key.map((column) => row[column]).join(" ")}\``;

/** In pages, so that no read transaction stays open. */
function* rowsOf(db: Database, { name, key }: RowTable): Generator<StoredRow> {
  const columns = key.join(", ");
  const order = `order by ${columns} limit ${PAGE_ROWS}`;
  const first = db.prepare(`select * from ${name} ${order}`);
  const next = db.prepare(`select * from ${name} where (${columns}) > (${key.map(() => "?").join(", ")}) ${order}`);
  let page = first.all() as StoredRow[];
  while (page.length > 0) {
    yield* page;
    page = next.all(...key.map((column) => page.at(-1)![column]!)) as StoredRow[];
  }
}

const covering = (...columns: readonly string[]): RowTable["sums"] => {
  return (row) => [[row.sum!, () => rowSum(...columns.map((column) => row[column]!))]];
};

const text = (value: SqlValue | undefined): string => String(value);
const content = (value: SqlValue | undefined): string | Uint8Array =>
  value instanceof Uint8Array ? value : String(value);

export const ROW_TABLES: readonly RowTable[] = [
  {
    name: "records",
    key: ["tbl", "id"],
    sums: (row) => [
      ...covering("tbl", "id", "version", "due_ms", "queue", "score")(row),
      [row.value_sum!, () => textSum(text(row.value))],
    ],
  },
  { name: "lists", key: ["tbl", "name", "score", "id"], sums: covering("tbl", "name", "score", "id") },
  { name: "counters", key: ["grp", "name"], sums: covering("grp", "name", "value") },
  { name: "fences", key: ["tbl", "id"], sums: covering("tbl", "id", "fence", "at_ms") },
  {
    name: "outbox",
    key: ["id"],
    sums: (row) => [
      [row.sum!, () => rowSum(row.id!, row.at_ms!, row.seq!, row.subject!, bytesSum(content(row.packet)))],
    ],
  },
  { name: "bus_groups", key: ["subject", "name"], sums: covering("subject", "name") },
  {
    name: "messages",
    key: ["seq"],
    sums: (row) => [
      [
        row.sum!,
        () => rowSum(row.subject!, row.id!, row.visible_ms!, bytesSum(content(row.packet))) + rowSum(row.grp!),
      ],
    ],
  },
  {
    name: "blobs",
    key: ["key"],
    sums: (row) => [[row.sum!, () => rowSum(row.key!, bytesSum(content(row.bytes))) + Number(row.expires_ms)]],
  },
  { name: "sequences", key: ["name"], sums: covering("name", "next") },
];

/** Checks pages and indexes without blocking this thread. Returns what is wrong, or nothing when the thread is ended early. */
export function checkPagesInThread(file: string): Promise<readonly string[]> {
  const workerData: ThreadOptions = { file, resolveFrom: import.meta.url, problemsMax: PROBLEMS_MAX };
  const thread = new Worker(`(${checkProgram})(require)`, { eval: true, execArgv: [], workerData });
  thread.unref();
  return new Promise((resolve) => {
    thread.once("message", (problems: readonly string[]) => resolve(problems));
    thread.once("error", (error) => resolve([`cordum.db: ${error.message}`]));
    thread.once("exit", () => resolve([]));
  });
}

interface ThreadOptions {
  readonly file: string;
  /** Base URL for the resolution of packages. */
  readonly resolveFrom: string;
  readonly problemsMax: number;
}

/** Runs in the thread, from its source text: it must not refer to anything outside itself. */
function checkProgram(require: ReturnType<typeof createRequire>): void {
  const { parentPort, workerData } = require("node:worker_threads") as typeof import("node:worker_threads");
  const modules = require("node:module") as typeof import("node:module");
  const { file, resolveFrom, problemsMax } = workerData as ThreadOptions;
  const sqlite =
    process.getBuiltinModule("node:sqlite") ?? modules.createRequire(resolveFrom)("@photostructure/sqlite");
  const db: Database = new (sqlite as unknown as { DatabaseSync: new (file: string) => Database }).DatabaseSync(file);
  const found = db.prepare(`pragma integrity_check(${problemsMax})`).all() as { integrity_check: string }[];
  db.close();
  const problems = found.map(({ integrity_check: text }) => text).filter((text) => text !== "ok");
  parentPort?.postMessage(problems.map((text) => `cordum.db: ${text}`));
}

export const PROBLEMS_MAX = 20;
const PAGE_ROWS = 500;
