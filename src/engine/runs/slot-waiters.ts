import { JOBS, slotWaitsIn } from "../../core/model/job.ts";
import type { RunContext } from "../engine.ts";
import { runSlotTask } from "./slot-deadlock.ts";
import { startSubRun } from "./sub-run.ts";

/**
 * Steps that wait for a slot for their sub-run.
 *
 * 1. Waiting steps come before new runs: a guard of every other start (`create-run.ts`) requires that no step waits.
 * 2. A freed slot starts the oldest waiting step, and so on until no slot or no step is left.
 * 3. Best effort: the due time of a waiting step repeats the attempt. Deadlocks are resolved in `slot-deadlock.ts`.
 */
export function grantSlots(engine: RunContext, org: string): void {
  runSlotTask(engine, `slots of ${org}`, async () => {
    const { store, clock } = engine.world;
    const queue = slotWaitsIn(org);
    for (let round = 0; round < ROUNDS_MAX && !engine.tasks.isClosed; round++) {
      const [oldest] = await store.take(JOBS, { queue, limit: 1, nowMs: clock.now(), leaseMs: LEASE_MS });
      if (!oldest) return;
      if ((await startSubRun(engine, oldest)) !== "full") continue;
      await store.untake(JOBS, queue, [oldest.id]);
      return;
    }
  });
}

const ROUNDS_MAX = 256;
/** Longer than a start takes; afterwards another process may try. */
const LEASE_MS = 5_000;
