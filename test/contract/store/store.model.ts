import type { CounterName, Placement, Table } from "../../../src/core/model/table.ts";
import type { Message } from "../../../src/ports/bus.ts";
import type { Change, Committed, Due, DueQuery, Guard, TakeQuery, Versioned } from "../../../src/ports/store.ts";
import { NOWHERE } from "../../../src/ports/store.ts";
import { DOCS, type Doc } from "./store.subject.ts";

/** Reference model of the Store contract: everything is derived from the records on every call. */
export class StoreModel {
  readonly #records = new Map<string, Kept>();
  readonly #fences = new Map<string, number>();
  readonly #queueClaims = new Map<string, number>();
  readonly #dueClaims = new Map<string, number>();
  #outbox: { readonly atMs: number; readonly message: Message }[] = [];

  load(table: Table<Doc>, id: string): Versioned<Doc> | null {
    const kept = this.#records.get(keyOf(table.name, id));
    return kept ? { id, version: kept.version, value: kept.value } : null;
  }

  commit(change: Change): Committed {
    for (const put of change.puts) {
      const version = this.#records.get(keyOf(put.table, put.id))?.version ?? 0;
      if (put.expect !== null && put.expect !== version) return { kind: "stale", table: put.table, id: put.id };
    }
    const after = new Map(this.#records);
    for (const put of change.puts) {
      const key = keyOf(put.table, put.id);
      const version = (after.get(key)?.version ?? 0) + 1;
      if (put.value === null) after.delete(key);
      else after.set(key, { table: put.table, id: put.id, version, value: put.value as Doc });
    }
    for (const kind of ["fence", "absent", "counter"] as const) {
      const guard = change.guards.find((one) => one.kind === kind && !this.#holds(one, after));
      const value = guard?.kind === "counter" ? countOf(this.#records, guard.counter) : 0;
      if (guard) return { kind: "refused", guard, value };
    }
    for (const put of change.puts) this.#endClaims(keyOf(put.table, put.id), after);
    this.#records.clear();
    for (const [key, kept] of after) this.#records.set(key, kept);
    for (const guard of change.guards) {
      if (guard.kind === "fence") this.#fences.set(keyOf(guard.table, guard.id), guard.fence);
    }
    for (const message of change.sends) this.#outbox.push({ atMs: change.atMs, message });
    return { kind: "committed", seen: change.watch.map((counter) => countOf(this.#records, counter)) };
  }

  list(table: Table<Doc>, index: string, order: "newest" | "oldest"): string[] {
    const entries = this.#of(table.name).flatMap(({ id, value }) =>
      placementOf(value)
        .lists.filter(({ name }) => name === index)
        .map(({ score }) => ({ score, id })),
    );
    const ids = entries.sort(byScoreAndId).map(({ id }) => id);
    return order === "oldest" ? ids : ids.reverse();
  }

  take(table: Table<Doc>, query: TakeQuery): Versioned<Doc>[] {
    const waiting = this.#of(table.name).flatMap(({ id, value }) => {
      const { queue } = placementOf(value);
      return queue?.name === query.queue ? [{ score: queue.score, id }] : [];
    });
    const free = waiting
      .sort(byScoreAndId)
      .filter(({ id }) => (this.#queueClaims.get(keyOf(table.name, id)) ?? query.nowMs) <= query.nowMs)
      .slice(0, query.limit);
    for (const { id } of free) this.#queueClaims.set(keyOf(table.name, id), query.nowMs + query.leaseMs);
    return free.map(({ id }) => this.load(table, id)!);
  }

  untake(table: Table<Doc>, queue: string, ids: readonly string[]): void {
    for (const id of ids) {
      const doc = this.load(table, id);
      if (doc && placementOf(doc.value).queue?.name === queue) this.#queueClaims.delete(keyOf(table.name, id));
    }
  }

  due(query: DueQuery): Due[] {
    const waiting = [...this.#records.values()].flatMap((kept) => {
      const { dueMs } = placementOf(kept.value);
      return dueMs !== null && dueMs <= query.untilMs && dueMs >= (query.fromMs ?? 0) ? [{ ...kept, dueMs }] : [];
    });
    const free = waiting
      .sort((a, b) => a.dueMs - b.dueMs)
      .filter(({ table, id }) => (this.#dueClaims.get(keyOf(table, id)) ?? query.nowMs) <= query.nowMs)
      .slice(0, query.limit);
    for (const { table, id } of free) this.#dueClaims.set(keyOf(table, id), query.nowMs + query.leaseMs);
    return free;
  }

  counts(group: string): Record<string, number> {
    const names = [...this.#records.values()].flatMap(({ value }) => placementOf(value).counters);
    const own = names.filter((counter) => counter.group === group);
    return Object.fromEntries(own.map((counter) => [counter.name, countOf(this.#records, counter)]));
  }

  unsent(untilMs: number): string[] {
    const ready = this.#outbox.filter(({ atMs }) => atMs <= untilMs);
    return ready.sort((a, b) => a.atMs - b.atMs).map(({ message }) => message.id);
  }

  sent(ids: readonly string[]): void {
    this.#outbox = this.#outbox.filter(({ message }) => !ids.includes(message.id));
  }

  #of(table: string): Kept[] {
    return [...this.#records.values()].filter((kept) => kept.table === table);
  }

  #holds(guard: Guard, after: ReadonlyMap<string, Kept>): boolean {
    switch (guard.kind) {
      case "fence":
        return (this.#fences.get(keyOf(guard.table, guard.id)) ?? 0) <= guard.fence;
      case "absent":
        return !this.#records.has(keyOf(guard.table, guard.id));
      case "counter":
        return countOf(after, guard.counter) <= guard.max;
      case "free":
        throw new Error("the model has no locks");
      default:
        return guard satisfies never;
    }
  }

  #endClaims(key: string, after: ReadonlyMap<string, Kept>): void {
    const [old, now] = [this.#records.get(key), after.get(key)].map((kept) =>
      kept ? placementOf(kept.value) : NOWHERE,
    );
    if (JSON.stringify(old!.queue) !== JSON.stringify(now!.queue)) this.#queueClaims.delete(key);
    if (old!.dueMs !== now!.dueMs) this.#dueClaims.delete(key);
  }
}

interface Kept {
  readonly table: string;
  readonly id: string;
  readonly version: number;
  readonly value: Doc;
}

const keyOf = (table: string, id: string): string => `${table}/${id}`;
const placementOf = (doc: Doc): Placement => DOCS.placement(doc);

function countOf(records: ReadonlyMap<string, Kept>, counter: CounterName): number {
  const all = [...records.values()].flatMap(({ value }) => placementOf(value).counters);
  const own = all.filter(({ group, name }) => group === counter.group && name === counter.name);
  return own.reduce((sum, { by = 1 }) => sum + by, 0);
}

function byScoreAndId(a: { score: number; id: string }, b: { score: number; id: string }): number {
  if (a.score !== b.score) return a.score - b.score;
  return a.id < b.id ? -1 : 1;
}
