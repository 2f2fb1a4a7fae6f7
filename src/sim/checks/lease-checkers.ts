import { RUNS, type Run } from "../../core/model/run.ts";
import { runLockKey } from "../../engine/runs/index.ts";
import type { LockLease, Locks } from "../../ports/locks.ts";
import type { Change } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import type { MemoryStore } from "../adapters/memory-store.ts";
import type { Process } from "../process.ts";
import type { Violations } from "./violations.ts";

/**
 * Looks at locks as their holders see them: whoever holds a lease that it has not been told to have lost is alone.
 * A holder that is dead or paused cannot be told, so it does not count; that is what fences are for.
 * Nor is the lock another's while a run is written by somebody who has it for the moment of the commit.
 */
export class LockChecker {
  readonly #violations: Violations;
  readonly #held = new Map<string, Set<Held>>();

  constructor(violations: Violations, store: MemoryStore) {
    this.#violations = violations;
    store.observe((change) => this.#lookAt(change));
  }

  around(world: World, process: Process): World {
    const locks: Locks = {
      isShared: world.locks.isShared,
      reserveFence: (key, org, above) => world.locks.reserveFence(key, org, above),
      list: (limit) => world.locks.list(limit),
      acquire: async (request) => {
        const acquired = await world.locks.acquire(request);
        return acquired.kind === "busy" ? acquired : { kind: "held", lease: this.#note(acquired.lease, process) };
      },
    };
    return { ...world, locks };
  }

  #note(lease: LockLease, process: Process): LockLease {
    const held = this.#held.get(lease.key) ?? new Set();
    this.#held.set(lease.key, held);
    if (!lease.signal.aborted) this.#shareNothing(lease.key, process.name);
    const own: Held = { lease, process };
    held.add(own);
    const { key, token, fence, waitedMs, attempts, signal } = lease;
    return {
      ...{ key, token, fence, waitedMs, attempts, signal },
      get isLost() {
        return lease.isLost;
      },
      release: () => {
        held.delete(own);
        return lease.release();
      },
    };
  }

  /** Whoever wrote it stands on the run; the lock that the guard names may be another one. */
  #lookAt({ guards, puts }: Change): void {
    if (!guards.some(({ kind }) => kind === "free")) return;
    for (const { table, id, value } of puts) {
      const run = table === RUNS.name ? (value as Run | null) : null;
      if (run?.lock) this.#shareNothing(runLockKey(id), run.lock.holder);
    }
  }

  #shareNothing(key: string, name: string): void {
    const held = this.#held.get(key) ?? new Set();
    for (const other of held) {
      if (!other.process.isAlive || other.lease.signal.aborted) held.delete(other);
      else if (!other.process.isPaused) {
        this.#violations.add("two_holders", key, `${name} and ${other.process.name} at the same time`);
      }
    }
  }
}

interface Held {
  readonly lease: LockLease;
  readonly process: Process;
}
