import type { Store } from "../ports/store.ts";
import type { World } from "../world.ts";
import type { Violations } from "./violations.ts";

/**
 * Looks at what processes are handed from queues and due lists: the same version of a record goes to one of them at a
 * time, until its lease is over. Versions would make a second taker harmless; but it works for nothing.
 */
export class ClaimWatch {
  readonly #violations: Violations;
  readonly #claims = new Map<string, Claim>();

  constructor(violations: Violations) {
    this.#violations = violations;
  }

  around(world: World): World {
    const { store } = world;
    const watched: Partial<Store> = {
      take: async (table, query) => {
        const taken = await store.take(table, query);
        for (const { id, version } of taken) this.#note(`take ${table.name}/${id}`, version, query, world.name);
        return taken;
      },
      untake: (table, queue, ids) => {
        for (const id of ids) this.#claims.delete(`take ${table.name}/${id}`);
        return store.untake(table, queue, ids);
      },
      due: async (query) => {
        const due = await store.due(query);
        for (const { table, id, version } of due) this.#note(`due ${table}/${id}`, version, query, world.name);
        return due;
      },
    };
    return { ...world, store: new Proxy(store, { get: (target, key) => method(watched, key) ?? method(target, key) }) };
  }

  #note(key: string, version: number, { nowMs, leaseMs }: { nowMs: number; leaseMs: number }, by: string): void {
    const other = this.#claims.get(key);
    // By what the store was told: it knows no other time. An answer that comes late may be the older claim.
    if (other?.version === version && Math.abs(nowMs - other.nowMs) < leaseMs) {
      this.#violations.add("claims", key, `${by} was given what ${other.by} held`);
    }
    this.#claims.set(key, { version, nowMs, by });
  }
}

interface Claim {
  readonly version: number;
  readonly nowMs: number;
  readonly by: string;
}

function method(owner: object, key: PropertyKey): unknown {
  const value: unknown = Reflect.get(owner, key);
  return typeof value === "function" ? value.bind(owner) : value;
}
