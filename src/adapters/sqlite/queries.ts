import { type CountQuery, type DueQuery, indexesOf, type ListQuery, type TakeQuery } from "../../ports/store.ts";
import type { Claims, Place } from "./claims.ts";
import type { Database, Statement } from "./database.ts";
import { bytesSum, checkSum, rowSum } from "./integrity/checksum.ts";
import type { Memtable, RecordRow } from "./memtable.ts";
import {
  checkedEntry,
  checkedRecord,
  LISTED_COLUMNS,
  type ListedRecord,
  RECORD_COLUMNS,
  type StoredRecord,
} from "./record-rows.ts";

/** SQL queries on records, fences and the outbox. They need complete tables. */
export class Queries {
  readonly #claims: Claims;
  readonly #memtable: Memtable;
  readonly #sql: Statements;

  constructor(db: Database, claims: Claims, memtable: Memtable) {
    this.#claims = claims;
    this.#memtable = memtable;
    this.#sql = prepare(db);
  }

  /** The rows of a list after a place, or from its start. */
  list(
    table: string,
    { index, order, scoreMin, scoreMax }: ListQuery,
    after: ListPlace | null,
    limit: number,
  ): PlacedRow[] {
    const isOldestFirst = order === "oldest";
    // The ids of one score are between "" and the next score.
    const start = isOldestFirst
      ? { score: scoreMin ?? -1, id: "" }
      : { score: (scoreMax ?? SCORE_MAX - 1) + 1, id: "" };
    const { score, id } =
      after === null || isBefore(isOldestFirst ? after : start, isOldestFirst ? start : after) ? start : after;
    const end = isOldestFirst ? (scoreMax ?? SCORE_MAX) : (scoreMin ?? -1);
    const read = (statement: Statement, name: string) => statement.all(table, name, score, id, end, limit);
    const [only, ...others] = indexesOf(index);
    if (only === undefined) return [];
    if (others.length === 0) {
      return (read(isOldestFirst ? this.#sql.listOldest : this.#sql.listNewest, only) as ListedRecord[]).map(listed);
    }
    // Only the records of the page are read, not those of all lists.
    const places = isOldestFirst ? this.#sql.placesOldest : this.#sql.placesNewest;
    return [only, ...others]
      .flatMap((name) => (read(places, name) as ListPlace[]).map((place) => ({ ...place, name })))
      .sort((a, b) => (isBefore(a, b) === isOldestFirst ? -1 : 1))
      .slice(0, limit)
      .map((place) => listed(this.#sql.entry.get(table, place.name, place.score, place.id) as ListedRecord));
  }

  count(table: string, { index, scoreMin, scoreMax, max }: CountQuery): number {
    let size = 0;
    for (const name of indexesOf(index)) {
      const left = max === undefined ? NO_LIMIT : max + 1 - size;
      if (left === 0) break;
      const range = [scoreMin ?? -1, scoreMax ?? SCORE_MAX];
      size += (this.#sql.count.get(table, name, ...range, left) as { size: number }).size;
    }
    return size;
  }

  take(table: string, query: TakeQuery): readonly RecordRow[] {
    return this.#claims.takeQueued(table, query.queue, query, (from, limit) => {
      const { score, id } = from ?? FIRST;
      const rows = this.#sql.queue.all(table, query.queue, score, id, limit) as StoredRecord[];
      return rows.map((row) => placed(checkedRecord(row), row.score));
    });
  }

  due(query: DueQuery): readonly (PlacedRow & Place)[] {
    return this.#claims.takeDue(query, (from, limit) => {
      const { score, table, id } = from ?? FIRST;
      const rows = this.#sql.due.all(score, table, id, query.untilMs, limit) as StoredRecord[];
      return rows.map((row) => placed(checkedRecord(row), row.due_ms));
    });
  }

  unsent(untilMs: number, limit: number): UnsentRow[] {
    const rows = this.#sql.unsent.all(untilMs, limit) as UnsentRow[];
    for (const { id, at_ms, seq, subject, packet, sum } of rows) {
      checkSum(sum, () => rowSum(id, at_ms, seq, subject, bytesSum(packet)), "message", id);
    }
    return rows;
  }

  /**
   * Deletes fences of missing records that were last used at or before `untilMs`. Scans `limit` rows after `from`; returns
   * where to continue, null at the end.
   */
  pruneFences(untilMs: number, from: FencePlace | null, limit: number): FencePlace | null {
    const rows = this.#sql.fences.all(from?.table ?? "", from?.id ?? "", limit) as FenceRow[];
    for (const { tbl, id, at_ms } of rows) {
      if (at_ms > untilMs || this.#memtable.hasFence(tbl, id)) continue;
      if (this.#memtable.load(tbl, id) === null) this.#sql.deleteFence.run(tbl, id);
    }
    const last = rows.at(-1);
    return last && rows.length === limit ? { table: last.tbl, id: last.id } : null;
  }
}

export interface PlacedRow extends RecordRow {
  readonly score: number;
}

export interface UnsentRow {
  readonly id: string;
  readonly at_ms: number;
  readonly seq: number;
  readonly subject: string;
  readonly packet: string;
  readonly sum: number | null;
}

function listed(row: ListedRecord): PlacedRow {
  const { version, value, list_score } = checkedEntry(row);
  return { score: list_score, id: row.id, version, value };
}

function placed({ tbl, id, version, value }: StoredRecord, score: number | null): PlacedRow & Place {
  return { score: score!, table: tbl, id, version, value };
}

export interface ListPlace {
  readonly score: number;
  readonly id: string;
}

export interface FencePlace {
  readonly table: string;
  readonly id: string;
}

interface FenceRow {
  readonly tbl: string;
  readonly id: string;
  readonly at_ms: number;
}

type Statements = ReturnType<typeof prepare>;

function prepare(db: Database) {
  const withRecords = `select ${LISTED_COLUMNS} from lists l left join records r on r.tbl = l.tbl and r.id = l.id `;
  const list = (select: string, after: "<" | ">", order: "asc" | "desc"): Statement =>
    db.prepare(
      `${select}where l.tbl = ? and l.name = ? and (l.score, l.id) ${after} (?, ?) ` +
        `and l.score ${after === "<" ? ">=" : "<="} ? order by l.score ${order}, l.id ${order} limit ?`,
    );
  const places = "select l.score, l.id from lists l ";
  return {
    listNewest: list(withRecords, "<", "desc"),
    listOldest: list(withRecords, ">", "asc"),
    placesNewest: list(places, "<", "desc"),
    placesOldest: list(places, ">", "asc"),
    entry: db.prepare(`${withRecords}where l.tbl = ? and l.name = ? and l.score = ? and l.id = ?`),
    count: db.prepare(
      "select count(*) as size from " +
        "(select 1 from lists where tbl = ? and name = ? and score between ? and ? limit ?)",
    ),
    queue: db.prepare(
      `select ${RECORD_COLUMNS} from records r ` +
        "where tbl = ? and queue = ? and (score, id) >= (?, ?) order by score, id limit ?",
    ),
    due: db.prepare(
      `select ${RECORD_COLUMNS} from records r ` +
        "where (due_ms, tbl, id) >= (?, ?, ?) and due_ms <= ? order by due_ms, tbl, id limit ?",
    ),
    unsent: db.prepare(
      "select id, at_ms, seq, subject, packet, sum from outbox where at_ms <= ? order by at_ms, seq limit ?",
    ),
    fences: db.prepare("select tbl, id, at_ms from fences where (tbl, id) > (?, ?) order by tbl, id limit ?"),
    deleteFence: db.prepare("delete from fences where tbl = ? and id = ?"),
  };
}

const SCORE_MAX = 2 ** 53 - 1;
const NO_LIMIT = -1;
const isBefore = (a: ListPlace, b: ListPlace): boolean => a.score < b.score || (a.score === b.score && a.id < b.id);
const FIRST: Place = { score: -SCORE_MAX, table: "", id: "" };
