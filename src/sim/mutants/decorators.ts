import type { Table } from "../../core/model/table.ts";
import type { Blobs } from "../../ports/blobs.ts";
import type { Bus, Handler } from "../../ports/bus.ts";
import type { LockLease, Locks } from "../../ports/locks.ts";
import type { Safety } from "../../ports/safety.ts";
import type { Change, Guard, Put, Store } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import type { Packet } from "../../protocol/packet.ts";

/** Replaces or observes operations of a port; mutants, checkers and tests are built from decorators. */
export type Decorator = (world: World) => World;

/** A port with some of its methods replaced; the other methods keep their `this`. */
export function around<T extends object>(inner: T, replaced: { readonly [K in keyof T]?: unknown }): T {
  return new Proxy(inner, {
    get: (target, key) => {
      const value: unknown = Reflect.get(Object.hasOwn(replaced, key) ? replaced : target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

export function withStore(change: (store: Store) => Partial<Store>): Decorator {
  return (world) => ({ ...world, store: around(world.store, change(world.store)) });
}

export function withBlobs(change: (blobs: Blobs) => Blobs): Decorator {
  return (world) => ({ ...world, blobs: change(world.blobs) });
}

export function withLocks(change: (locks: Locks) => Partial<Locks>): Decorator {
  return (world) => ({ ...world, locks: around(world.locks, change(world.locks)) });
}

export function withSafety(change: (safety: Safety) => Partial<Safety>): Decorator {
  return (world) => ({ ...world, safety: around(world.safety, change(world.safety)) });
}

export function withCommit(
  commit: (change: Change, commit: Store["commit"]) => ReturnType<Store["commit"]>,
): Decorator {
  return withStore((store) => ({ commit: (change) => commit(change, (changed) => store.commit(changed)) }));
}

export function withPuts(replace: (put: Put) => Put): Decorator {
  return withCommit((change, commit) => commit({ ...change, puts: change.puts.map(replace) }));
}

/** Replaces the written values of one table; with `reindex`, lists, queues and timers follow the new value. */
export function withValues<T>(table: Table<T>, replace: (value: T) => T, index?: "reindex"): Decorator {
  return withPuts((put) => {
    if (put.table !== table.name || put.value === null) return put;
    const value = replace(put.value as T);
    if (value === put.value) return put;
    return { ...put, value, ...(index && { to: table.placement(value) }) };
  });
}

export function withGuards(isKept: (guard: Guard) => boolean): Decorator {
  return withCommit((change, commit) => commit({ ...change, guards: change.guards.filter(isKept) }));
}

export function withHandler(change: (handle: Handler) => Handler): Decorator {
  return (world) => {
    const { bus } = world;
    const consume: Bus["consume"] = (subject, group, handle) => bus.consume(subject, group, change(handle));
    return { ...world, bus: around(bus, { consume }) };
  };
}

export function withDispatch(
  change: (subject: string, packet: Packet, dispatch: Bus["dispatch"]) => ReturnType<Bus["dispatch"]>,
): Decorator {
  return (world) => {
    const { bus } = world;
    const send: Bus["dispatch"] = (subject, packet) => bus.dispatch(subject, packet);
    const dispatch: Bus["dispatch"] = (subject, packet) => change(subject, packet, send);
    return { ...world, bus: around(bus, { dispatch }) };
  };
}

export function withBroadcast(broadcast: Bus["broadcast"]): Decorator {
  return (world) => ({ ...world, bus: around(world.bus, { broadcast }) });
}

export function withLease(change: (lease: LockLease) => Partial<LockLease>): Decorator {
  return withLocks((locks) => ({
    acquire: async (request) => {
      const acquired = await locks.acquire(request);
      if (acquired.kind === "busy") return acquired;
      return { kind: "held", lease: around(acquired.lease, change(acquired.lease)) };
    },
  }));
}
