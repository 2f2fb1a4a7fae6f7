import type { CounterName, Table } from "../../core/model/table.ts";
import type { Message } from "../../ports/bus.ts";
import type { Log } from "../../ports/log.ts";
import type {
  Change,
  Committed,
  CountQuery,
  Due,
  DueQuery,
  ListQuery,
  Page,
  ScoreRange,
  Store,
  TakeQuery,
  Versioned,
} from "../../ports/store.ts";
import { indexesOf, invalidCursor } from "../../ports/store.ts";
import { type Deferred, RedisBatch } from "./batch.ts";
import type { RedisConnection } from "./connection.ts";
import {
  decodeRecord,
  encodeArgs,
  encodeChange,
  encodeSent,
  idOfMember,
  inCheckOrder,
  memberOf,
  ridOf,
} from "./encode.ts";
import { RedisFailure, unreadable } from "./errors.ts";
import type { RedisPipe } from "./pipe.ts";
import { DUE, TAKE, UNTAKE } from "./scripts/claims.ts";
import { COMMIT } from "./scripts/commit.ts";
import { COUNT, COUNTS, LIST, RECOUNT, UNSENT } from "./scripts/pages.ts";

/**
 * The store on Redis 7 or Valkey.
 *
 * 1. Every call is one atomic script. The commits of a tick share a script call (see `batch.ts`), its loads an MGET.
 * 2. A lost connection or a timeout is thrown as `STORE_UNAVAILABLE`. Nothing is resent.
 * 3. A record that exists but cannot be read is an error of `load`, `list` and `commit`. `take` and `due` log it, keep it
 *    claimed and return the others: one damaged record must not stop a queue.
 *
 * Keys after the prefix: `r:<table>/<id>` records, `f:<table>/<id>` fences, `l:<table>/<list>` lists,
 * `q:<table>/<queue>` queues and their claims `k:<table>/<queue>`, `due` and `due:claims`, `c:<group>` counters,
 * `outbox`, `outbox:at`, `outbox:seq`; totals by name, for example `scheduler:input_fail_open_total`; `schema` and
 * `process:<id>` (see `schema-guard.ts`).
 */
export class RedisStore implements Store {
  readonly #pipe: RedisPipe;
  readonly #prefix: string;
  readonly #recordPrefix: string;
  readonly #log: Log;
  readonly #changes: RedisBatch;
  #loads: Load[] = [];

  constructor({ pipe, prefix, guard, log }: Pick<RedisConnection, "pipe" | "prefix" | "guard" | "log">) {
    this.#pipe = pipe;
    this.#prefix = prefix;
    this.#recordPrefix = `${prefix}r:`;
    this.#log = log;
    this.#changes = new RedisBatch(pipe, COMMIT, [guard.processId], () => guard.onCommit());
    pipe.addSource(() => this.#gatherLoads());
  }

  async load<T>(table: Table<T>, id: string): Promise<Versioned<T> | null> {
    const key = this.#recordPrefix + ridOf(table.name, id);
    const text = await new Promise<string | null>((resolve, reject) => {
      this.#loads.push({ key, resolve, reject });
      this.#pipe.scheduleFlush();
    });
    return text === null ? null : this.#versioned<T>(table, id, text);
  }

  async commit(change: Change): Promise<Committed> {
    const answer = await this.#changes.call(encodeChange(change));
    return answer === 0 ? COMMITTED : this.#committedOf(change, answer);
  }

  async list<T>(table: Table<T>, query: ListQuery): Promise<Page<T>> {
    const { index, limit, cursor, order = "newest" } = query;
    if (cursor !== undefined && !CURSOR.test(cursor)) throw invalidCursor(cursor);
    if (limit < 1) return { items: [], cursor: null };
    const { first, last } = boundsOf(query);
    const after = cursor === undefined ? null : `(${cursor}`;
    const [start, end] = order === "oldest" ? [laterOf(first, after), last] : [earlierOf(last, after), first];
    const lists = indexesOf(index).map((name) => ridOf(table.name, name));
    const reply = await this.#run(LIST, [table.name, String(limit + 1), order, start, end, ...lists]);
    const items: Versioned<T>[] = [];
    for (let at = 0; at < reply.length && items.length < limit; at += 2) {
      const id = idOfMember(reply[at]!);
      items.push(this.#versioned(table, id, reply[at + 1]!));
    }
    const isMore = reply.length > 2 * limit;
    return { items, cursor: isMore ? reply[2 * limit - 2]! : null };
  }

  async count<T>(table: Table<T>, query: CountQuery): Promise<number> {
    const { first, last } = boundsOf(query);
    const lists = indexesOf(query.index).map((name) => ridOf(table.name, name));
    return Number(await this.#pipe.run(COUNT, [first, last, ...lists]));
  }

  async take<T>(table: Table<T>, { queue, limit, nowMs, leaseMs }: TakeQuery): Promise<readonly Versioned<T>[]> {
    if (limit < 1) return [];
    const args = [ridOf(table.name, queue), table.name, String(limit), String(nowMs), String(nowMs + leaseMs)];
    const reply = await this.#run(TAKE, args);
    return this.#readable(reply, (id, text) => this.#versioned<T>(table, id, text));
  }

  async untake<T>(table: Table<T>, queue: string, ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#pipe.run(UNTAKE, [ridOf(table.name, queue), table.name, ...ids]);
  }

  async due({ nowMs, fromMs, untilMs, leaseMs, limit }: DueQuery): Promise<readonly Due[]> {
    if (limit < 1) return [];
    const args = [limit, nowMs, untilMs, nowMs + leaseMs, fromMs ?? "-inf"];
    const reply = await this.#run(DUE, args.map(String));
    return this.#readable(reply, (rid, text): Due => {
      const cut = rid.indexOf("/");
      const { version, dueMs, value } = decodeRecord(text, this.#recordPrefix + rid, rid);
      return { table: rid.slice(0, cut), id: rid.slice(cut + 1), version, dueMs: dueMs ?? untilMs, value };
    });
  }

  async counts(group: string, limit: number): Promise<ReadonlyMap<string, number>> {
    if (limit < 1) return new Map();
    const reply = await this.#run(COUNTS, [group, String(limit)]);
    const counts: [string, number][] = [];
    for (let at = 0; at < reply.length; at += 2) counts.push([reply[at]!, Number(reply[at + 1])]);
    return new Map(counts.sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  async recount({ group, name }: CounterName, table: string, lists: readonly string[]): Promise<number> {
    return Number(await this.#pipe.run(RECOUNT, [group, name, ...lists.map((list) => ridOf(table, list))]));
  }

  async unsent(untilMs: number, limit: number): Promise<readonly Message[]> {
    if (limit < 1) return [];
    // The score of a message is its time plus a fraction of a millisecond.
    const reply = await this.#run(UNSENT, [String(untilMs + 1), String(limit)]);
    return reply.map((message) => JSON.parse(message) as Message);
  }

  async sent(messageIds: readonly string[]): Promise<void> {
    if (messageIds.length > 0) await this.#changes.call(encodeSent(messageIds));
  }

  async total(name: string): Promise<number> {
    // Not MGET, which returns null for a key of another type.
    return Number((await this.#pipe.command("get", [encodeArgs([this.#prefix + name])])) ?? 0);
  }

  #versioned<T>({ name }: Table<T>, id: string, text: string): Versioned<T> {
    const rid = ridOf(name, id);
    const { version, value } = decodeRecord(text, this.#recordPrefix + rid, rid);
    return { id, version, value: value as T };
  }

  async #run(script: typeof LIST, args: readonly string[]): Promise<readonly string[]> {
    return (await this.#pipe.run(script, args)) as readonly string[];
  }

  #gatherLoads(): void {
    const loads = this.#loads;
    this.#loads = [];
    for (let from = 0; from < loads.length; from += LOADS_MAX) {
      void this.#sendLoads(loads.slice(from, from + LOADS_MAX));
    }
  }

  async #sendLoads(batch: readonly Load[]): Promise<void> {
    try {
      const keys = encodeArgs(batch.map(({ key }) => key));
      const texts = (await this.#pipe.command("mget", [keys])) as readonly (string | null)[];
      const missing = batch.filter((_, at) => texts[at] === null);
      for (let at = 0; at < batch.length; at += 1) if (texts[at] !== null) batch[at]!.resolve(texts[at]!);
      if (missing.length > 0) await this.#resolveMissing(missing);
    } catch (error) {
      for (const load of batch) load.reject(error);
    }
  }

  /** MGET returns null for an absent key and for one of another type. */
  async #resolveMissing(missing: readonly Load[]): Promise<void> {
    const existing = await this.#pipe.command("exists", [encodeArgs(missing.map(({ key }) => key))]);
    for (const load of missing) {
      const type = existing === 0 ? "none" : await this.#pipe.command("type", [encodeArgs([load.key])]);
      // A string was written after the MGET.
      if (type === "none" || type === "string") load.resolve(null);
      else load.reject(unreadable(load.key, `its type is ${type}`));
    }
  }

  /** Decodes claimed records. Those that cannot be read stay claimed. */
  #readable<T>(reply: readonly string[], decode: (id: string, text: string) => T): readonly T[] {
    const decoded: T[] = [];
    for (let at = 0; at < reply.length; at += 2) {
      try {
        decoded.push(decode(reply[at]!, reply[at + 1]!));
      } catch (error) {
        this.#log.write("error", "record_unreadable", { error: String(error) });
      }
    }
    return decoded;
  }

  #committedOf(change: Change, answer: unknown): Committed {
    if (Array.isArray(answer)) return { kind: "committed", seen: answer as number[] };
    const text = String(answer);
    if (text.startsWith("!"))
      throw unreadable(this.#recordPrefix + text.slice(1), "its last line or its type is wrong");
    const [nth = Number.NaN, value = 0] = text.split(" ").map(Number);
    if (nth % 2 === 0) {
      const guard = inCheckOrder(change.guards)[nth / 2 - 1];
      if (guard !== undefined) return { kind: "refused", guard, value };
    }
    const stale = change.puts[(nth - 1) / 2];
    if (stale !== undefined) return { kind: "stale", table: stale.table, id: stale.id };
    throw new RedisFailure("STORE_REFUSED", `unexpected reply to a commit from redis: \`${text}\``);
  }
}

type Load = Deferred<string | null> & { readonly key: string };

/** Members start with their padded score, so the bounds of a range of scores are members without an id. */
function boundsOf({ scoreMin, scoreMax }: ScoreRange): { readonly first: string; readonly last: string } {
  return {
    first: scoreMin === undefined ? "-" : `[${memberOf(Math.max(0, scoreMin), "")}`,
    last: scoreMax === undefined || scoreMax >= SCORE_MAX ? "+" : `(${memberOf(Math.max(-1, scoreMax) + 1, "")}`,
  };
}

const laterOf = (first: string, after: string | null): string =>
  after === null || (first !== "-" && first.slice(1) > after.slice(1)) ? first : after;
const earlierOf = (last: string, after: string | null): string =>
  after === null || (last !== "+" && last.slice(1) < after.slice(1)) ? last : after;

const SCORE_MAX = 2 ** 52 - 1;

const LOADS_MAX = 256;

const CURSOR = /^[0-9a-f]{13}:/;

/** Shared result of commits without watched counters. */
const COMMITTED: Committed = { kind: "committed", seen: [] };
