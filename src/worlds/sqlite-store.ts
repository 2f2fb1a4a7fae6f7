import type { Table } from "../model/table.ts";
import type { Message } from "../ports/bus.ts";
import type { Change, Committed, Due, DueQuery, ListQuery, Page, Store, TakeQuery, Versioned } from "../ports/store.ts";
import type { Packet } from "../wire/packet.ts";
import type { Place } from "./lane.ts";
import type { Database, Statement } from "./sqlite.ts";
import { Claims } from "./sqlite-claims.ts";
import { Commits, prepareChange } from "./sqlite-commit.ts";
import { Counters } from "./sqlite-counters.ts";
import type { Writer } from "./sqlite-writer.ts";

/**
 * The store of an embedded world. Checks and writes are in `Commits`, claims in `Claims`, counters in `Counters`; here
 * is what is asked of them, and the questions that the database answers.
 */
export class SqliteStore implements Store {
  readonly #writer: Writer;
  readonly #counters: Counters;
  readonly #claims: Claims;
  readonly #commits: Commits;
  readonly #sql: Statements;

  constructor(db: Database, writer: Writer) {
    this.#writer = writer;
    this.#counters = new Counters(db);
    this.#claims = new Claims();
    this.#commits = new Commits(db, this.#counters, this.#claims);
    this.#sql = statementsOf(db);
    for (const participant of [this.#commits, this.#counters, this.#claims]) writer.join(participant);
  }

  load<T>(table: Table<T>, id: string): Promise<Versioned<T> | null> {
    return this.#writer.read(() => {
      const row = this.#sql.load.get(table.name, id) as RecordRow | undefined;
      return row ? versionedOf<T>(row) : null;
    });
  }

  commit(change: Change): Promise<Committed> {
    try {
      const prepared = prepareChange(change);
      return this.#writer.change(() => this.#commits.commit(prepared));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  list<T>(table: Table<T>, query: ListQuery): Promise<Page<T>> {
    return this.#writer.read(() => {
      const isOldestFirst = query.order === "oldest";
      const after = query.cursor === undefined ? null : readCursor(query.cursor);
      const place = after ?? (isOldestFirst ? BEFORE_ALL : AFTER_ALL);
      const statement = isOldestFirst ? this.#sql.listOldest : this.#sql.listNewest;
      const rows = statement.all(table.name, query.index, place.score, place.id, query.limit + 1) as PlacedRow[];
      const shown = rows.slice(0, query.limit);
      const last = rows.length > query.limit ? shown.at(-1) : undefined;
      return { items: shown.map((row) => versionedOf<T>(row)), cursor: last ? writeCursor(last) : null };
    });
  }

  take<T>(table: Table<T>, query: TakeQuery): Promise<readonly Versioned<T>[]> {
    return this.#writer.read(() => {
      const page = (from: Place | null, limit: number) => {
        const { score, id } = from ?? FROM_FIRST;
        return this.#sql.queue.all(table.name, query.queue, score, id, limit) as (PlacedRow & Place)[];
      };
      return this.#claims.takeQueued(table.name, query.queue, query, page).map((row) => versionedOf<T>(row));
    });
  }

  untake<T>(table: Table<T>, queue: string, ids: readonly string[]): Promise<void> {
    return this.#writer.read(() => this.#claims.untake(table.name, queue, ids));
  }

  due(query: DueQuery): Promise<readonly Due[]> {
    return this.#writer.read(() => {
      const page = (from: Place | null, limit: number) => {
        const { score, table, id } = from ?? FROM_FIRST;
        return this.#sql.due.all(score, table, id, query.untilMs, limit) as (PlacedRow & Place)[];
      };
      return this.#claims.takeDue(query, page).map((row) => {
        return { table: row.table, id: row.id, version: row.version, dueMs: row.score, value: JSON.parse(row.value) };
      });
    });
  }

  counts(group: string, limit: number): Promise<ReadonlyMap<string, number>> {
    return this.#writer.read(() => this.#counters.group(group, limit));
  }

  unsent(untilMs: number, limit: number): Promise<readonly Message[]> {
    return this.#writer.readLatest(() => {
      const rows = this.#sql.unsent.all(untilMs, limit) as OutboxRow[];
      return rows.map(({ id, subject, packet }) => ({ id, subject, packet: JSON.parse(packet) as Packet }));
    });
  }

  /**
   * Rides along with the next transaction. A crash may forget it; then the message is sent once more, which "at least
   * once" allows, and the store is spared a wait for the disk for every message.
   */
  async sent(messageIds: readonly string[]): Promise<void> {
    if (messageIds.length === 0) return;
    this.#writer.later(() => {
      for (const id of messageIds) this.#sql.sent.run(id);
    });
  }

  /**
   * Forgets fences whose record is gone and that were last used at or before `untilMs`. Looks at some rows beginning
   * after `from`, and says where to go on; null after the last.
   */
  forgetFences(untilMs: number, from: FencePlace | null, limit: number): Promise<FencePlace | null> {
    return this.#writer.change(() => {
      const rows = this.#sql.fences.all(from?.table ?? "", from?.id ?? "", limit) as FenceRow[];
      for (const { tbl, id, at_ms } of rows) {
        if (at_ms <= untilMs && this.#sql.load.get(tbl, id) === undefined) this.#sql.forgetFence.run(tbl, id);
      }
      const last = rows.at(-1);
      return last && rows.length === limit ? { table: last.tbl, id: last.id } : null;
    });
  }
}

export interface FencePlace {
  readonly table: string;
  readonly id: string;
}

interface RecordRow {
  readonly id: string;
  readonly version: number;
  readonly value: string;
}

interface PlacedRow extends RecordRow {
  readonly score: number;
}

interface OutboxRow {
  readonly id: string;
  readonly subject: string;
  readonly packet: string;
}

interface FenceRow {
  readonly tbl: string;
  readonly id: string;
  readonly at_ms: number;
}

type Statements = ReturnType<typeof statementsOf>;

/** `cross join` keeps the order that is written: the index leads, the record is looked up. */
function statementsOf(db: Database) {
  const list = (after: "<" | ">", order: "asc" | "desc"): Statement =>
    db.prepare(
      "select l.score, r.id, r.version, r.value from lists l cross join records r on r.tbl = l.tbl and r.id = l.id " +
        `where l.tbl = ? and l.name = ? and (l.score, l.id) ${after} (?, ?) ` +
        `order by l.score ${order}, l.id ${order} limit ?`,
    );
  return {
    load: db.prepare("select id, version, value from records where tbl = ? and id = ?"),
    listNewest: list("<", "desc"),
    listOldest: list(">", "asc"),
    queue: db.prepare(
      'select score, tbl as "table", id, version, value from records ' +
        "where tbl = ? and queue = ? and (score, id) >= (?, ?) order by score, id limit ?",
    ),
    due: db.prepare(
      'select due_ms as score, tbl as "table", id, version, value from records ' +
        "where (due_ms, tbl, id) >= (?, ?, ?) and due_ms <= ? order by due_ms, tbl, id limit ?",
    ),
    unsent: db.prepare("select id, subject, packet from outbox where at_ms <= ? order by at_ms, seq limit ?"),
    sent: db.prepare("delete from outbox where id = ?"),
    fences: db.prepare("select tbl, id, at_ms from fences where (tbl, id) > (?, ?) order by tbl, id limit ?"),
    forgetFence: db.prepare("delete from fences where tbl = ? and id = ?"),
  };
}

function versionedOf<T>(row: RecordRow): Versioned<T> {
  return { id: row.id, version: row.version, value: JSON.parse(row.value) as T };
}

const SCORE_MAX = 2 ** 53 - 1;
const BEFORE_ALL = { score: -1, id: "" };
const AFTER_ALL = { score: SCORE_MAX, id: "" };
const FROM_FIRST: Place = { score: -SCORE_MAX, table: "", id: "" };

function writeCursor({ score, id }: PlacedRow): string {
  return Buffer.from(`${score}:${id}`).toString("base64url");
}

function readCursor(cursor: string): { readonly score: number; readonly id: string } {
  const match = /^(\d+):(.*)$/s.exec(Buffer.from(cursor, "base64url").toString());
  const score = Number(match?.[1]);
  if (!match || !Number.isSafeInteger(score)) {
    throw new Error(`cursor \`${cursor}\` is not one that a page ended with: leave it out to begin again`);
  }
  return { score, id: match[2]! };
}
