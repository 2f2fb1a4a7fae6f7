import { JOBS, slotWaitsIn } from "../../core/model/job.ts";
import type { Needs, RunContext } from "../engine.ts";
import { startSubRun } from "./sub-run.ts";

/**
 * The line of steps that wait for a slot for their run.
 *
 * 1. Who waits comes before whoever asks anew: a guard of every other start (`create-run.ts`) says that nobody waits.
 * 2. Who gives a slot back wakes the oldest that waits, and goes on until there is no slot or nobody left.
 * 3. If all open runs wait in this line, directly or for runs that do, none of them will ever give its slot back. Then the
 *    newest step in the line fails; if that helped nobody, the next one.
 * 4. All of it is best effort: who waits is woken by its own time as well, and then does the same.
 */
export function grantSlots(engine: RunContext, org: string): void {
  inTurn(engine, `slots of ${org}`, async () => {
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

/** One at a time in a process; who asks meanwhile has one more look made. What fails is left to the time of those who wait. */
function inTurn(engine: Needs<"world" | "tasks">, what: string, work: () => Promise<void>): void {
  if (engine.tasks.isClosed) return;
  engine.tasks.runExclusive(what, () =>
    work().catch((error: unknown) =>
      engine.world.log.write("warn", "slots_left_to_time", { what, error: String(error) }),
    ),
  );
}

/** Steps that one call starts. */
const ROUNDS_MAX = 256;
/** Longer than a start takes: then another process may try the same. */
const LEASE_MS = 5_000;
