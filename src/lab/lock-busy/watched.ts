/** A world in which a turn of a run's lock takes its time, and somebody looks on. */

import { RUNS } from "../../core/model/run.ts";
import { runLockKey } from "../../engine/runs/index.ts";
import type { Locks } from "../../ports/locks.ts";
import type { Change, Store } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { withLocks, withStore } from "../../sim/mutants/decorators.ts";
import type { Probe } from "./probe.ts";

export type Watcher = Pick<Probe, "asked" | "answered" | "committed">;

/** Of the simulator, or of the machine. */
export interface FairnessThrottle {
  nowMs(): number;
  pause(delayMs: number): Promise<void>;
}

/**
 * The lock is held for `holdMs` from when its holder knows of it until the commit is done, and as long again for each
 * further commit of the same turn: whatever is loaded and written meanwhile is in it. A commit that was refused takes its
 * network alone: there was nothing to do.
 */
export function watched(world: World, watcher: Watcher, holdMs: number, { nowMs, pause }: FairnessThrottle): World {
  /** Fence → when the work for the next commit began. Fences of one org are never given twice. */
  const begunMs = new Map<number, number>();
  const heldLong = (store: Store): Partial<Store> => ({
    commit: async (change) => {
      const askedMs = nowMs();
      const committed = await store.commit(change);
      if (committed.kind !== "committed") return committed;
      if (change.puts.some(({ table }) => table === RUNS.name)) {
        const fence = runFenceOf(change);
        const restMs = (begunMs.get(fence) ?? askedMs) + holdMs - nowMs();
        if (restMs > 0) await pause(restMs);
        if (fence > 0) begunMs.set(fence, nowMs());
      }
      watcher.committed(change);
      return committed;
    },
  });
  const counted = (locks: Locks): Partial<Locks> => ({
    acquire: async (request) => {
      if (!request.key.startsWith(RUN_LOCK)) return locks.acquire(request);
      watcher.asked();
      const acquired = await locks.acquire(request);
      const fence = acquired.kind === "held" ? acquired.lease.fence : null;
      if (fence !== null) begunMs.set(fence, nowMs());
      watcher.answered(fence);
      return acquired;
    },
  });
  return withLocks(counted)(withStore(heldLong)(world));
}

/** 0 for a change that nobody made under a run's lock. */
function runFenceOf({ guards }: Change): number {
  for (const guard of guards) if (guard.kind === "fence" && guard.table === RUNS.name) return guard.fence;
  return 0;
}

const RUN_LOCK = runLockKey("");
