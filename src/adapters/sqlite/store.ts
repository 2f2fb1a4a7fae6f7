import type { CounterName, Table } from "../../core/model/table.ts";
import type { Message } from "../../ports/bus.ts";
import type {
  Change,
  Committed,
  Due,
  DueQuery,
  ListQuery,
  Page,
  Store,
  TakeQuery,
  Versioned,
} from "../../ports/store.ts";
import type { Packet } from "../../protocol/packet.ts";
import { valueIn } from "../record-text.ts";
import { committedOf, prepareChange } from "./change.ts";
import type { FencePlace, ListPlace, RecordRow } from "./records.ts";
import type { Writer } from "./writer.ts";

/** The store of an embedded world: what is asked is put into plain data here, and answers are read from it. */
export class SqliteStore implements Store {
  readonly #writer: Writer;

  constructor(writer: Writer) {
    this.#writer = writer;
  }

  async load<T>(table: Table<T>, id: string): Promise<Versioned<T> | null> {
    const row = await this.#writer.read("load", table.name, id);
    return row ? versionedOf<T>(row) : null;
  }

  async commit(change: Change): Promise<Committed> {
    const answer = await this.#writer.change("commit", prepareChange(change));
    return committedOf(change, answer);
  }

  async list<T>(table: Table<T>, query: ListQuery): Promise<Page<T>> {
    const { index, limit, cursor, order } = query;
    const after = cursor === undefined ? null : readCursor(cursor);
    const rows = await this.#writer.read("list", table.name, index, order === "oldest", after, limit + 1);
    const shown = rows.slice(0, limit);
    const last = rows.length > limit ? shown.at(-1) : undefined;
    return { items: shown.map((row) => versionedOf<T>(row)), cursor: last ? writeCursor(last) : null };
  }

  async take<T>(table: Table<T>, query: TakeQuery): Promise<readonly Versioned<T>[]> {
    const rows = await this.#writer.read("take", table.name, query);
    return rows.map((row) => versionedOf<T>(row));
  }

  untake<T>(table: Table<T>, queue: string, ids: readonly string[]): Promise<void> {
    return this.#writer.read("untake", table.name, queue, ids);
  }

  async due(query: DueQuery): Promise<readonly Due[]> {
    const rows = await this.#writer.read("due", query);
    return rows.map(({ table, id, version, score, value }) => {
      return { table, id, version, dueMs: score, value: valueIn(value) };
    });
  }

  counts(group: string, limit: number): Promise<ReadonlyMap<string, number>> {
    return this.#writer.read("counts", group, limit);
  }

  recount(counter: CounterName, table: string, lists: readonly string[]): Promise<number> {
    return this.#writer.change("recount", counter, table, lists);
  }

  total(name: string): Promise<number> {
    return this.#writer.read("total", name);
  }

  async unsent(untilMs: number, limit: number): Promise<readonly Message[]> {
    const rows = await this.#writer.readLatest("unsent", untilMs, limit);
    return rows.map(({ id, subject, packet }) => ({ id, subject, packet: JSON.parse(packet) as Packet }));
  }

  /**
   * Rides along with the next transaction. A crash may forget it; then the message is sent once more, which "at least
   * once" allows, and the store is spared a wait for the disk for every message.
   */
  async sent(messageIds: readonly string[]): Promise<void> {
    if (messageIds.length > 0) this.#writer.later("sent", messageIds);
  }

  /** See `Records`. */
  forgetFences(untilMs: number, from: FencePlace | null, limit: number): Promise<FencePlace | null> {
    return this.#writer.change("forgetFences", untilMs, from, limit);
  }
}

function versionedOf<T>(row: RecordRow): Versioned<T> {
  return { id: row.id, version: row.version, value: valueIn(row.value) as T };
}

function writeCursor({ score, id }: ListPlace): string {
  return Buffer.from(`${score}:${id}`).toString("base64url");
}

function readCursor(cursor: string): ListPlace {
  const match = /^(\d+):(.*)$/s.exec(Buffer.from(cursor, "base64url").toString());
  const score = Number(match?.[1]);
  if (!match || !Number.isSafeInteger(score)) {
    throw new Error(`cursor \`${cursor}\` is not one that a page ended with: leave it out to begin again`);
  }
  return { score, id: match[2]! };
}
