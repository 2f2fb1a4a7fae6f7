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
import { type Deferred, RedisBatch, settle } from "./batch.ts";
import { decodeRecord, encodeArgs, encodeChange, encodeSent, idOfMember, inCheckOrder, ridOf } from "./encode.ts";
import { RedisFailure } from "./errors.ts";
import type { RedisPipe } from "./pipe.ts";
import { DUE, TAKE, UNTAKE } from "./scripts/claims.ts";
import { COMMIT } from "./scripts/commit.ts";
import { COUNTS, LIST, RECOUNT, UNSENT } from "./scripts/pages.ts";

/**
 * The store on Redis 7 or Valkey.
 *
 * 1. Every call is one atomic script. The commits of a tick share a script call (see `batch.ts`), its loads an MGET.
 * 2. A lost connection or a timeout is thrown as `STORE_UNAVAILABLE`. Nothing is resent.
 *
 * Keys after the prefix: `r:<table>/<id>` records, `f:<table>/<id>` fences, `l:<table>/<list>` lists,
 * `q:<table>/<queue>` queues and their claims `k:<table>/<queue>`, `due` and `due:claims`, `c:<group>` counters,
 * `outbox`, `outbox:at`, `outbox:seq`; totals by name, for example `scheduler:input_fail_open_total`.
 */
export class RedisStore implements Store {
  readonly #pipe: RedisPipe;
  readonly #prefix: string;
  readonly #recordPrefix: string;
  readonly #changes: RedisBatch;
  #loads: (Deferred<string | null> & { readonly key: string })[] = [];

  constructor(pipe: RedisPipe, prefix: string) {
    this.#pipe = pipe;
    this.#prefix = prefix;
    this.#recordPrefix = `${prefix}r:`;
    this.#changes = new RedisBatch(pipe, COMMIT);
    pipe.addSource(() => this.#gatherLoads());
  }

  async load<T>(table: Table<T>, id: string): Promise<Versioned<T> | null> {
    const text = await new Promise<string | null>((resolve, reject) => {
      this.#loads.push({ key: this.#recordPrefix + ridOf(table.name, id), resolve, reject });
      this.#pipe.scheduleFlush();
    });
    return text === null ? null : versioned<T>(id, text);
  }

  async commit(change: Change): Promise<Committed> {
    const answer = await this.#changes.call(encodeChange(change));
    return answer === 0 ? COMMITTED : committedOf(change, answer);
  }

  async list<T>(table: Table<T>, query: ListQuery): Promise<Page<T>> {
    const { index, limit, cursor = "", order = "newest" } = query;
    if (cursor !== "" && !CURSOR.test(cursor)) {
      throw new RangeError(`invalid cursor \`${cursor}\`: omit it to get the first page`);
    }
    if (limit < 1) return { items: [], cursor: null };
    const reply = await this.#run(LIST, [ridOf(table.name, index), table.name, String(limit + 1), order, cursor]);
    const items: Versioned<T>[] = [];
    for (let at = 0; at < reply.length && items.length < limit; at += 2) {
      items.push(versioned(idOfMember(reply[at]!), reply[at + 1]!));
    }
    const isMore = reply.length > 2 * limit;
    return { items, cursor: isMore ? reply[2 * limit - 2]! : null };
  }

  async take<T>(table: Table<T>, { queue, limit, nowMs, leaseMs }: TakeQuery): Promise<readonly Versioned<T>[]> {
    if (limit < 1) return [];
    const args = [ridOf(table.name, queue), table.name, String(limit), String(nowMs), String(nowMs + leaseMs)];
    const reply = await this.#run(TAKE, args);
    const heads: Versioned<T>[] = [];
    for (let at = 0; at < reply.length; at += 2) heads.push(versioned(reply[at]!, reply[at + 1]!));
    return heads;
  }

  async untake<T>(table: Table<T>, queue: string, ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#pipe.run(UNTAKE, [ridOf(table.name, queue), table.name, ...ids]);
  }

  async due({ nowMs, untilMs, leaseMs, limit }: DueQuery): Promise<readonly Due[]> {
    if (limit < 1) return [];
    const reply = await this.#run(DUE, [String(limit), String(nowMs), String(untilMs), String(nowMs + leaseMs)]);
    const due: Due[] = [];
    for (let at = 0; at < reply.length; at += 2) {
      const rid = reply[at]!;
      const cut = rid.indexOf("/");
      const { version, dueMs, value } = decodeRecord(reply[at + 1]!);
      due.push({ table: rid.slice(0, cut), id: rid.slice(cut + 1), version, dueMs: dueMs ?? untilMs, value });
    }
    return due;
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
    const [text] = (await this.#pipe.command("mget", [encodeArgs([this.#prefix + name])])) as readonly (
      | string
      | null
    )[];
    return Number(text ?? 0);
  }

  async #run(script: typeof LIST, args: readonly string[]): Promise<readonly string[]> {
    return (await this.#pipe.run(script, args)) as readonly string[];
  }

  #gatherLoads(): void {
    const loads = this.#loads;
    this.#loads = [];
    for (let from = 0; from < loads.length; from += LOADS_MAX) this.#sendLoads(loads.slice(from, from + LOADS_MAX));
  }

  #sendLoads(batch: readonly (Deferred<string | null> & { readonly key: string })[]): void {
    const keys = encodeArgs(batch.map(({ key }) => key));
    settle(batch, this.#pipe.command("mget", [keys]) as Promise<readonly (string | null)[]>);
  }
}

const LOADS_MAX = 256;

const CURSOR = /^[0-9a-f]{13}:/;

/** Shared result of commits without watched counters. */
const COMMITTED: Committed = { kind: "committed", seen: [] };

function committedOf(change: Change, answer: unknown): Committed {
  if (Array.isArray(answer)) return { kind: "committed", seen: answer as number[] };
  const [nth = Number.NaN, value = 0] = String(answer).split(" ").map(Number);
  if (nth % 2 === 0) {
    const guard = inCheckOrder(change.guards)[nth / 2 - 1];
    if (guard !== undefined) return { kind: "refused", guard, value };
  }
  const stale = change.puts[(nth - 1) / 2];
  if (stale !== undefined) return { kind: "stale", table: stale.table, id: stale.id };
  throw new RedisFailure("STORE_REFUSED", `unexpected reply to a commit from redis: \`${String(answer)}\``);
}

function versioned<T>(id: string, text: string): Versioned<T> {
  const { version, value } = decodeRecord(text);
  return { id, version, value: value as T };
}
