import { RUNS } from "../../core/model/run.ts";
import { runLockKey } from "../../engine/runs/index.ts";
import type { LockLease } from "../../ports/locks.ts";
import type { World } from "../../ports/world.ts";
import type { MemoryStore } from "../adapters/memory-store.ts";
import { withLocks, withStore } from "../mutants/decorators.ts";
import type { Process } from "../process.ts";
import type { Violations } from "./violations.ts";

/**
 * Checks that a lock has one holder, from the holders' point of view: a lease counts until its signal aborts. Crashed and
 * paused holders do not count, because they cannot be notified; fences protect against them. A lock-free commit of a run
 * counts as a holder for the instant of the commit.
 */
export class LockChecker {
  readonly #violations: Violations;
  readonly #held = new Map<string, Set<HeldLock>>();

  constructor(violations: Violations, store: MemoryStore) {
    this.#violations = violations;
    store.observeTable(RUNS, ({ change, id, after }) => {
      // The key is derived from the run; the guard of a mutant may name another lock.
      const isLockFree = change.guards.some(({ kind }) => kind === "free");
      if (isLockFree && after?.lock) this.#checkAlone(runLockKey(id), after.lock.holder);
    });
  }

  around(world: World, process: Process): World {
    return withLocks((locks) => ({
      acquire: async (request) => {
        const acquired = await locks.acquire(request);
        return acquired.kind === "busy" ? acquired : { kind: "held", lease: this.#record(acquired.lease, process) };
      },
    }))(world);
  }

  #record(lease: LockLease, process: Process): LockLease {
    const held = this.#held.get(lease.key) ?? new Set();
    this.#held.set(lease.key, held);
    if (!lease.signal.aborted) this.#checkAlone(lease.key, process.name);
    const own: HeldLock = { lease, process };
    held.add(own);
    const { key, token, fence, waitedMs, attempts, wasQueued, signal } = lease;
    return {
      ...{ key, token, fence, waitedMs, attempts, wasQueued, signal },
      get isLost() {
        return lease.isLost;
      },
      release: () => {
        held.delete(own);
        return lease.release();
      },
    };
  }

  #checkAlone(key: string, name: string): void {
    const held = this.#held.get(key) ?? new Set();
    for (const other of held) {
      if (!other.process.isAlive || other.lease.signal.aborted) held.delete(other);
      else if (!other.process.isPaused) {
        this.#violations.add("two_holders", key, `held by ${name} and ${other.process.name} at the same time`);
      }
    }
  }
}

interface HeldLock {
  readonly lease: LockLease;
  readonly process: Process;
}

/**
 * Checks that an entry of a queue or a due list is claimed by one process at a time. Record versions would make a second
 * claim harmless, but its work would be wasted.
 */
export class ClaimChecker {
  readonly #violations: Violations;
  readonly #claims = new Map<string, Claim>();

  constructor(violations: Violations) {
    this.#violations = violations;
  }

  around(world: World): World {
    return withStore((store) => ({
      take: async (table, query) => {
        const taken = await store.take(table, query);
        for (const { id, value } of taken) this.#record(`take ${table.name}/${id}`, value, query, world.name);
        return taken;
      },
      untake: (table, queue, ids) => {
        for (const id of ids) this.#claims.delete(`take ${table.name}/${id}`);
        return store.untake(table, queue, ids);
      },
      due: async (query) => {
        const due = await store.due(query);
        for (const { table, id, value } of due) this.#record(`due ${table}/${id}`, value, query, world.name);
        return due;
      },
    }))(world);
  }

  #record(key: string, value: unknown, { nowMs, leaseMs }: { nowMs: number; leaseMs: number }, by: string): void {
    const other = this.#claims.get(key);
    // Compares the times given to the store; a late reply may belong to the older claim.
    if (other !== undefined && other.value === value && Math.abs(nowMs - other.nowMs) < leaseMs) {
      this.#violations.add("claims", key, `claimed by ${by} while ${other.by} had the claim`);
    }
    this.#claims.set(key, { value, nowMs, by });
  }
}

interface Claim {
  /** Compared by identity: each write stores a new object, while versions restart for recreated records. */
  readonly value: unknown;
  readonly nowMs: number;
  readonly by: string;
}
