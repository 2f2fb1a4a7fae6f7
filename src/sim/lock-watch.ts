import type { Lease, Locks } from "../ports/locks.ts";
import type { World } from "../world.ts";
import type { Process } from "./process.ts";
import type { Violations } from "./violations.ts";

/**
 * Looks at locks as their holders see them: whoever holds a lease that it has not been told to have lost is alone.
 * A holder that is dead or paused cannot be told, so it does not count; that is what fences are for.
 */
export class LockWatch {
  readonly #violations: Violations;
  readonly #held = new Map<string, Set<Held>>();

  constructor(violations: Violations) {
    this.#violations = violations;
  }

  around(world: World, process: Process): World {
    const locks: Locks = {
      isShared: world.locks.isShared,
      moment: (key, org, above) => world.locks.moment(key, org, above),
      list: (limit) => world.locks.list(limit),
      acquire: async (request) => {
        const acquired = await world.locks.acquire(request);
        return acquired.kind === "busy" ? acquired : { kind: "held", lease: this.#note(acquired.lease, process) };
      },
    };
    return { ...world, locks };
  }

  #note(lease: Lease, process: Process): Lease {
    const held = this.#held.get(lease.key) ?? new Set();
    this.#held.set(lease.key, held);
    for (const other of lease.signal.aborted ? [] : held) {
      if (!other.process.isAlive || other.lease.signal.aborted) held.delete(other);
      else if (!other.process.isPaused) {
        this.#violations.add("two_holders", lease.key, `${process.name} and ${other.process.name} at the same time`);
      }
    }
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
}

interface Held {
  readonly lease: Lease;
  readonly process: Process;
}
