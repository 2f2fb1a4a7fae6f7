import type { Store } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import type { Violations } from "./violations.ts";

/**
 * Looks at what processes are handed from queues and due lists: what was written once goes to one of them at a
 * time, until its lease is over. Versions would make a second taker harmless; but it works for nothing.
 */
export class ClaimChecker {
  readonly #violations: Violations;
  readonly #claims = new Map<string, Claim>();

  constructor(violations: Violations) {
    this.#violations = violations;
  }

  around(world: World): World {
    const { store } = world;
    const watched: Store = {
      load: (table, id) => store.load(table, id),
      commit: (change) => store.commit(change),
      list: (table, query) => store.list(table, query),
      counts: (group, limit) => store.counts(group, limit),
      recount: (counter, table, lists) => store.recount(counter, table, lists),
      unsent: (untilMs, limit) => store.unsent(untilMs, limit),
      sent: (messageIds) => store.sent(messageIds),
      total: (name) => store.total(name),
      take: async (table, query) => {
        const taken = await store.take(table, query);
        for (const { id, value } of taken) this.#note(`take ${table.name}/${id}`, value, query, world.name);
        return taken;
      },
      untake: (table, queue, ids) => {
        for (const id of ids) this.#claims.delete(`take ${table.name}/${id}`);
        return store.untake(table, queue, ids);
      },
      due: async (query) => {
        const due = await store.due(query);
        for (const { table, id, value } of due) this.#note(`due ${table}/${id}`, value, query, world.name);
        return due;
      },
    };
    return { ...world, store: watched };
  }

  #note(key: string, value: unknown, { nowMs, leaseMs }: { nowMs: number; leaseMs: number }, by: string): void {
    const other = this.#claims.get(key);
    // By what the store was told: it knows no other time. An answer that comes late may be the older claim.
    if (other !== undefined && other.value === value && Math.abs(nowMs - other.nowMs) < leaseMs) {
      this.#violations.add("claims", key, `${by} was given what ${other.by} held`);
    }
    this.#claims.set(key, { value, nowMs, by });
  }
}

interface Claim {
  /** The very object that was written: each write has its own, also where versions begin anew. */
  readonly value: unknown;
  readonly nowMs: number;
  readonly by: string;
}
