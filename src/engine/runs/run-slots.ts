import { refuseSlot } from "../../core/jobs/slot-wait.ts";
import { isFinal, JOBS, slotWaitsIn } from "../../core/model/job.ts";
import { RUNS, type Run, runsOf } from "../../core/model/run.ts";
import { subRunsOnly } from "../../core/workflow/run/slot-deadlock.ts";
import type { Versioned } from "../../ports/store.ts";
import { settle } from "../dispatch/settle-job.ts";
import { type Flow, given } from "../engine.ts";
import { remind } from "../maintenance/due-timers.ts";
import { runCountsOf, runLimitOf } from "./create-run.ts";
import { startSubRun } from "./sub-run.ts";
import { planOf } from "./workflows.ts";

/**
 * The line of steps that wait for a slot for their run.
 *
 * 1. Who waits comes before whoever asks anew: a guard of every other start (`create-run.ts`) says that nobody waits.
 * 2. Who gives a slot back wakes the oldest that waits, and goes on until there is no slot or nobody left.
 * 3. If all open runs wait in this line, directly or for runs that do, none of them will ever give its slot back. Then the
 *    newest step in the line fails; if that helped nobody, the next one.
 * 4. All of it is best effort: who waits is woken by its own time as well, and then does the same.
 */
export function offerSlots(flow: Flow, org: string): void {
  inTurn(flow, `slots of ${org}`, async () => {
    const { store, clock } = flow.world;
    const queue = slotWaitsIn(org);
    for (let round = 0; round < ROUNDS_MAX && !flow.desk.isClosed; round++) {
      const [oldest] = await store.take(JOBS, { queue, limit: 1, nowMs: clock.now(), leaseMs: LEASE_MS });
      if (!oldest) return;
      if ((await startSubRun(flow, oldest)) !== "full") continue;
      await store.untake(JOBS, queue, [oldest.id]);
      return;
    }
  });
}

/** Somebody has begun to wait: if nobody is left who could give a slot back, one of them has to. */
export function endStandstill(flow: Flow, org: string): void {
  inTurn(flow, `standstill of ${org}`, async () => {
    for (let round = 0; round < ROUNDS_MAX && !flow.desk.isClosed; round++) {
      const openRuns = await standing(flow, org);
      if (openRuns === null) return;
      const [newest] = (await flow.world.store.list(JOBS, { index: slotWaitsIn(org), limit: 1 })).items;
      if (!newest) return;
      const next = refuseSlot(newest.value, openRuns, given(flow));
      if (!(await settle(flow, newest, next))) return;
      if (!isFinal(next.state)) remind(flow, { id: newest.id, version: newest.version + 1, value: next });
    }
  });
}

/** How many runs are open, if all of them stand still because of each other; null if one can go on. */
async function standing(flow: Flow, org: string): Promise<number | null> {
  const before = await heldUp(flow, org);
  if (before === null) return null;
  const { open, waiting } = await runCountsOf(flow, org);
  if (open < runLimitOf(flow.settings.current, org) || open !== before.runs) return null;
  // Whatever they wait for waits for a slot, or is one of them: nothing is about to begin, or has just ended.
  if (before.waitsFor !== waiting + before.subRuns) return null;
  // As they were before the counters were read and after it, so they were in that moment: it is one picture. It cannot
  // change by itself; if somebody changes it from outside, the version of the one that is to fail is another one.
  const after = await heldUp(flow, org);
  return after?.picture === before.picture ? open : null;
}

interface HeldUp {
  readonly runs: number;
  /** How many jobs of theirs are out, all of which are runs. */
  readonly waitsFor: number;
  /** How many of them are such runs. */
  readonly subRuns: number;
  readonly picture: string;
}

/** All open runs of an org; null as soon as one is found that can go on. Mostly that is the first: the youngest is below. */
async function heldUp(flow: Flow, org: string): Promise<HeldUp | null> {
  const seen: string[] = [];
  let [waitsFor, subRuns] = [0, 0];
  let cursor: string | undefined;
  do {
    const limit = cursor === undefined ? FIRST_LOOK : PAGE;
    const page = await flow.world.store.list(RUNS, { index: runsOf(org, "RUNNING"), limit, cursor });
    for (const run of page.items) {
      const count = await subRunsOf(flow, run);
      if (count === null) return null;
      waitsFor += count;
      if (run.value.parent) subRuns += 1;
      seen.push(`${run.id}@${run.version}`);
    }
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined && seen.length < RUNS_MAX);
  return { runs: seen.length, waitsFor, subRuns, picture: seen.join(" ") };
}

async function subRunsOf(flow: Flow, { value: run }: Versioned<Run>): Promise<number | null> {
  const plan = await planOf(flow, run.org, run.workflowId, run.version);
  return plan && subRunsOnly(plan, run);
}

/** One at a time in a process; who asks meanwhile has one more look made. What fails is left to the time of those who wait. */
function inTurn(flow: Flow, what: string, work: () => Promise<void>): void {
  if (flow.desk.isClosed) return;
  flow.desk.drainOnce(what, () =>
    work().catch((error: unknown) =>
      flow.world.log.write("warn", "slots_left_to_time", { what, error: String(error) }),
    ),
  );
}

/** Steps that one call starts or refuses. */
const ROUNDS_MAX = 256;
/** Longer than a start takes: then another process may try the same. */
const LEASE_MS = 5_000;
const FIRST_LOOK = 4;
const PAGE = 64;
const RUNS_MAX = 10_000;
