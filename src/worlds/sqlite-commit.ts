import type { Change, Committed, Guard, Put } from "../ports/store.ts";
import { deltasOf, movesOf } from "../ports/store.ts";
import type { Database, Statement } from "./sqlite.ts";
import { BulkInsert } from "./sqlite-bulk.ts";
import type { Claims } from "./sqlite-claims.ts";
import type { Counters } from "./sqlite-counters.ts";
import type { Participant } from "./sqlite-writer.ts";

/**
 * Changes: checked one by one, written together.
 *
 * 1. A change is checked against the database and the changes before it in the same batch; what fails its checks has
 *    changed nothing, not even in memory. So each change is all or nothing without a savepoint.
 * 2. What passed is gathered and written in `flush`. A record that several changes of a batch touched is written once,
 *    with its places moved from where it stood before the first to where it stands after the last.
 */
export class Commits implements Participant {
  readonly #counters: Counters;
  readonly #claims: Claims;
  readonly #rows = new Map<string, Row>();
  readonly #fences = new Map<string, Fence>();
  readonly #selectVersion: Statement;
  readonly #selectFence: Statement;
  readonly #deleteRecord: Statement;
  readonly #deleteEntry: Statement;
  readonly #upsertFence: Statement;
  readonly #records: BulkInsert;
  readonly #entries: BulkInsert;
  readonly #outbox: BulkInsert;
  /** Tells messages of one millisecond apart. */
  #outboxSeq: number;

  constructor(db: Database, counters: Counters, claims: Claims) {
    this.#counters = counters;
    this.#claims = claims;
    this.#selectVersion = db.prepare("select version from records where tbl = ? and id = ?");
    this.#selectFence = db.prepare("select fence from fences where tbl = ? and id = ?");
    this.#deleteRecord = db.prepare("delete from records where tbl = ? and id = ?");
    this.#deleteEntry = db.prepare("delete from lists where tbl = ? and name = ? and score = ? and id = ?");
    this.#upsertFence = db.prepare(
      "insert into fences (tbl, id, fence, at_ms) values (?, ?, ?, ?) " +
        "on conflict do update set fence = excluded.fence, at_ms = excluded.at_ms",
    );
    this.#records = new BulkInsert(
      db,
      "insert into records (tbl, id, version, value, due_ms, queue, score)",
      7,
      "on conflict (tbl, id) do update set version = excluded.version, value = excluded.value, " +
        "due_ms = excluded.due_ms, queue = excluded.queue, score = excluded.score",
    );
    this.#entries = new BulkInsert(db, "insert or ignore into lists (tbl, name, score, id)", 4);
    this.#outbox = new BulkInsert(db, "insert or replace into outbox (id, at_ms, seq, subject, packet)", 5);
    const last = db.prepare("select max(seq) as seq from outbox").get() as { seq: number | null };
    this.#outboxSeq = (last.seq ?? 0) + 1;
  }

  commit({ change, puts, sends }: PreparedChange): Committed {
    const versions: number[] = [];
    for (const { key, put } of puts) {
      const version = this.#versionOf(key, put.table, put.id);
      if (put.expect !== null && put.expect !== version) return { kind: "stale", table: put.table, id: put.id };
      versions.push(version);
    }
    const deltas = deltasOf(change.puts);
    const refusal = this.#refusalOf(change.guards, deltas);
    if (refusal !== null) return { kind: "refused", guard: refusal };

    for (const [at, { key, put, json }] of puts.entries()) {
      const before = this.#rows.get(key);
      const version = json === null ? 0 : versions[at]! + 1;
      this.#rows.set(key, { put: before ? { ...put, from: before.put.from } : put, version, json });
      this.#claims.follow(put);
    }
    for (const { counter, delta } of deltas) this.#counters.add(counter, delta);
    for (const guard of change.guards) {
      if (guard.kind === "fence") this.#fences.set(keyOf(guard.table, guard.id), { ...guard, atMs: change.atMs });
    }
    for (const { id, subject, json } of sends) this.#outbox.add(id, change.atMs, this.#outboxSeq++, subject, json);
    return { kind: "committed", seen: change.watch.map((counter) => this.#counters.value(counter)) };
  }

  flush(): void {
    for (const { put, version, json } of this.#rows.values()) {
      const { table, id, to } = put;
      if (json === null) this.#deleteRecord.run(table, id);
      else this.#records.add(table, id, version, json, to.dueMs, to.queue?.name ?? null, to.queue?.score ?? null);
      const moves = movesOf(put);
      for (const { name, score } of moves.listsRemoved) this.#deleteEntry.run(table, name, score, id);
      for (const { name, score } of moves.listsAdded) this.#entries.add(table, name, score, id);
    }
    this.#records.flush();
    this.#entries.flush();
    for (const { table, id, fence, atMs } of this.#fences.values()) this.#upsertFence.run(table, id, fence, atMs);
    this.#outbox.flush();
  }

  committed(): void {
    this.#rows.clear();
    this.#fences.clear();
  }

  rolledBack(): void {
    this.#rows.clear();
    this.#fences.clear();
    this.#records.clear();
    this.#entries.clear();
    this.#outbox.clear();
  }

  /** The first guard that does not hold: fences before all others. */
  #refusalOf(guards: readonly Guard[], deltas: ReturnType<typeof deltasOf>): Guard | null {
    for (const guard of guards) {
      if (guard.kind === "fence" && this.#fenceOf(guard.table, guard.id) > guard.fence) return guard;
    }
    for (const guard of guards) {
      switch (guard.kind) {
        case "fence":
          break;
        case "absent":
          if (this.#versionOf(keyOf(guard.table, guard.id), guard.table, guard.id) > 0) return guard;
          break;
        case "counter": {
          const { group, name } = guard.counter;
          const own = deltas.find(({ counter }) => counter.group === group && counter.name === name)?.delta ?? 0;
          if (this.#counters.value(guard.counter) + own > guard.max) return guard;
          break;
        }
        default:
          guard satisfies never;
      }
    }
    return null;
  }

  /** 0 when there is no such record. */
  #versionOf(key: string, table: string, id: string): number {
    const row = this.#rows.get(key);
    if (row) return row.version;
    return (this.#selectVersion.get(table, id) as { version: number } | undefined)?.version ?? 0;
  }

  #fenceOf(table: string, id: string): number {
    const fence = this.#fences.get(keyOf(table, id));
    if (fence) return fence.fence;
    return (this.#selectFence.get(table, id) as { fence: number } | undefined)?.fence ?? 0;
  }
}

/** A change as text, made outside the transaction: what cannot be written fails its caller and nobody else. */
export interface PreparedChange {
  readonly change: Change;
  readonly puts: readonly { readonly key: string; readonly put: Put; readonly json: string | null }[];
  readonly sends: readonly { readonly id: string; readonly subject: string; readonly json: string }[];
}

export function prepareChange(change: Change): PreparedChange {
  const puts = change.puts.map((put) => {
    for (const entry of put.to.lists) checkScore(put, entry.score);
    if (put.to.queue !== null) checkScore(put, put.to.queue.score);
    const json = put.value === null ? null : jsonOf(put.value, `${put.table} \`${put.id}\``);
    return { key: keyOf(put.table, put.id), put, json };
  });
  if (puts.length > 1 && new Set(puts.map(({ key }) => key)).size < puts.length) {
    throw new Error("a change may put each record once");
  }
  const sends = change.sends.map(({ id, subject, packet }) => {
    return { id, subject, json: jsonOf(packet, `message \`${id}\``) };
  });
  return { change, puts, sends };
}

interface Row {
  /** The last put, with the places from before the first. */
  readonly put: Put;
  readonly version: number;
  readonly json: string | null;
}

interface Fence {
  readonly table: string;
  readonly id: string;
  readonly fence: number;
  readonly atMs: number;
}

const keyOf = (table: string, id: string): string => `${table}\n${id}`;

function jsonOf(value: unknown, what: string): string {
  const json: string | undefined = JSON.stringify(value);
  if (json === undefined) throw new Error(`${what} is not a JSON document`);
  return json;
}

function checkScore(put: Put, score: number): void {
  if (Number.isSafeInteger(score) && score >= 0) return;
  throw new Error(`${put.table} \`${put.id}\` has the score ${score}: a score is an integer from 0 to 2^52 - 1`);
}
