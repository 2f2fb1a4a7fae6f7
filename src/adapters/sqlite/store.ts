import type { CounterName, Table } from "../../core/model/table.ts";
import type { Message } from "../../ports/bus.ts";
import {
  type Change,
  type Committed,
  type CountQuery,
  type Due,
  type DueQuery,
  deltasOf,
  type Guard,
  invalidCursor,
  type ListQuery,
  movesOf,
  type Page,
  type Put,
  type Store,
  type TakeQuery,
  type Versioned,
} from "../../ports/store.ts";
import type { Packet } from "../../protocol/packet.ts";
import { decodeValue, encodeJson, encodeValue } from "../record-text.ts";
import type { Claims } from "./claims.ts";
import type { Counters } from "./counters.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { Memtable, RecordRow } from "./memtable.ts";
import type { FencePlace, ListPlace, Queries } from "./queries.ts";
import type { FlatEntries } from "./rows.ts";

/**
 * The store of the embedded world. Values are encoded before a call is queued and decoded after its batch: only text and
 * numbers are shared with the memtable.
 */
export class SqliteStore implements Store {
  readonly #writer: GroupCommit;
  readonly #memtable: Memtable;
  readonly #queries: Queries;
  readonly #claims: Claims;
  readonly #counters: Counters;

  constructor(writer: GroupCommit, { memtable, queries, claims, counters }: StoreTables) {
    this.#writer = writer;
    this.#memtable = memtable;
    this.#queries = queries;
    this.#claims = claims;
    this.#counters = counters;
  }

  async load<T>(table: Table<T>, id: string): Promise<Versioned<T> | null> {
    const row = await this.#writer.read("memory", () => this.#memtable.load(table.name, id));
    return row ? versionedOf<T>(row) : null;
  }

  async commit(change: Change): Promise<Committed> {
    const prepared = prepareChange(change);
    return await this.#writer.write("memory", () => this.#memtable.commit(prepared));
  }

  async list<T>(table: Table<T>, query: ListQuery): Promise<Page<T>> {
    const { limit, cursor } = query;
    const after = cursor === undefined ? null : decodeCursor(cursor);
    const rows = await this.#writer.query("snapshot", () => this.#queries.list(table.name, query, after, limit + 1));
    const items = rows.slice(0, limit);
    const last = rows.length > limit ? items.at(-1) : undefined;
    return { items: items.map((row) => versionedOf<T>(row)), cursor: last ? encodeCursor(last) : null };
  }

  count<T>(table: Table<T>, query: CountQuery): Promise<number> {
    return this.#writer.query("snapshot", () => this.#queries.count(table.name, query));
  }

  async take<T>(table: Table<T>, query: TakeQuery): Promise<readonly Versioned<T>[]> {
    const rows = await this.#writer.read("tables", () => this.#queries.take(table.name, query));
    return rows.map((row) => versionedOf<T>(row));
  }

  untake<T>(table: Table<T>, queue: string, ids: readonly string[]): Promise<void> {
    return this.#writer.read("memory", () => this.#claims.untake(table.name, queue, ids));
  }

  async due(query: DueQuery): Promise<readonly Due[]> {
    const rows = await this.#writer.query("tables", () => this.#queries.due(query));
    return rows.map(({ table, id, version, score, value }) => {
      return { table, id, version, dueMs: score, value: decodeValue(value) };
    });
  }

  counts(group: string, limit: number): Promise<ReadonlyMap<string, number>> {
    return this.#writer.read("memory", () => this.#counters.group(group, limit));
  }

  recount(counter: CounterName, table: string, lists: readonly string[]): Promise<number> {
    return this.#writer.write("tables", () => this.#memtable.recount(counter, table, lists));
  }

  total(name: string): Promise<number> {
    return this.#writer.read("memory", () => this.#counters.total(name));
  }

  async unsent(untilMs: number, limit: number): Promise<readonly Message[]> {
    this.#writer.flushPiggybacked();
    const rows = await this.#writer.query("tables", () => this.#queries.unsent(untilMs, limit));
    return rows.map(({ id, subject, packet }) => ({ id, subject, packet: JSON.parse(packet) as Packet }));
  }

  /** Piggybacked: after a crash the message may be sent again, which at-least-once delivery allows. */
  async sent(messageIds: readonly string[]): Promise<void> {
    if (messageIds.length === 0) return;
    const ids = [...messageIds]; // The call resolves before its batch: the caller may reuse the array.
    this.#writer.piggyback("memory", () => this.#memtable.sent(ids));
  }

  /** See `Queries.pruneFences`. */
  pruneFences(untilMs: number, from: FencePlace | null, limit: number): Promise<FencePlace | null> {
    return this.#writer.write("tables", () => this.#queries.pruneFences(untilMs, from, limit));
  }
}

export interface StoreTables {
  readonly memtable: Memtable;
  readonly queries: Queries;
  readonly claims: Claims;
  readonly counters: Counters;
}

/** A change with encoded values. Errors in the change are thrown before it is queued, so they fail only its caller. */
export interface PreparedChange {
  readonly atMs: number;
  readonly puts: readonly PreparedPut[];
  readonly guards: readonly Guard[];
  readonly deltas: ReturnType<typeof deltasOf>;
  readonly totals: NonNullable<Change["totals"]>;
  readonly sends: readonly PreparedSend[];
  readonly watch: Change["watch"];
}

export interface PreparedPut {
  readonly table: string;
  readonly id: string;
  readonly expect: number | null;
  /** See `record-text.ts`. Null removes the record. */
  readonly text: string | null;
  readonly dueMs: number | null;
  readonly isDueMoved: boolean;
  readonly queue: string | null;
  readonly score: number | null;
  readonly isQueueMoved: boolean;
  readonly queueLeft: string | null;
  readonly listsLeft: FlatEntries;
  readonly listsEntered: FlatEntries;
}

interface PreparedSend {
  readonly id: string;
  readonly subject: string;
  readonly json: string;
}

function prepareChange(change: Change): PreparedChange {
  const { atMs, guards, watch, totals = NO_TOTALS } = change;
  const puts = change.puts.map(preparePut);
  if (puts.length > 1 && new Set(puts.map(({ table, id }) => `${table}\n${id}`)).size < puts.length) {
    throw new Error("a change may put each record once");
  }
  const sends = change.sends.map(({ id, subject, packet }) => {
    return { id, subject, json: encodeJson(packet, `message \`${id}\``) };
  });
  return { atMs, puts, guards, deltas: deltasOf(change.puts), totals, sends, watch };
}

function preparePut(put: Put): PreparedPut {
  const { table, id, expect, from, to } = put;
  for (const { score } of to.lists) checkScore(put, score);
  if (to.queue !== null) checkScore(put, to.queue.score);
  const moves = movesOf(put);
  return {
    table,
    id,
    expect,
    text: put.value === null ? null : encodeValue(put),
    dueMs: to.dueMs,
    isDueMoved: from.dueMs !== to.dueMs,
    queue: to.queue?.name ?? null,
    score: to.queue?.score ?? null,
    isQueueMoved: moves.queueAdded !== null || moves.queueRemoved !== null,
    queueLeft: moves.queueRemoved?.name ?? null,
    listsLeft: flatten(moves.listsRemoved),
    listsEntered: flatten(moves.listsAdded),
  };
}

function flatten(entries: Put["to"]["lists"]): FlatEntries {
  if (entries.length === 0) return NO_ENTRIES;
  const values: (string | number)[] = [];
  for (const { name, score } of entries) values.push(name, score);
  return values;
}

const NO_ENTRIES: FlatEntries = [];

function checkScore({ table, id }: Put, score: number): void {
  if (Number.isSafeInteger(score) && score >= 0) return;
  throw new Error(`${table} \`${id}\` has the score ${score}: a score is an integer from 0 to 2^52 - 1`);
}

const NO_TOTALS: NonNullable<Change["totals"]> = [];

function versionedOf<T>(row: RecordRow): Versioned<T> {
  return { id: row.id, version: row.version, value: decodeValue(row.value) as T };
}

function encodeCursor({ score, id }: ListPlace): string {
  return Buffer.from(`${score}:${id}`).toString("base64url");
}

function decodeCursor(cursor: string): ListPlace {
  const match = /^(\d+):(.*)$/s.exec(Buffer.from(cursor, "base64url").toString());
  const score = Number(match?.[1]);
  if (!match || !Number.isSafeInteger(score)) {
    throw invalidCursor(cursor);
  }
  return { score, id: match[2]! };
}
