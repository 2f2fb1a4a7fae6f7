import { refuseSlot } from "../../core/jobs/attempt.ts";
import { isFinal, JOBS, slotWaitsIn } from "../../core/model/job.ts";
import { RUNS, type Run, runsOf } from "../../core/model/run.ts";
import { subRunsOnly } from "../../core/workflow/run/ready.ts";
import type { Versioned } from "../../ports/store.ts";
import { decisionContext } from "../context.ts";
import { settleJob } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { runCountsOf, runLimitOf } from "./run-limit.ts";
import { planOf } from "./workflows.ts";

/**
 * Resolves a deadlock of runs that all wait for slots: the newest waiting step fails, then the next one, until a run
 * can continue.
 */
export function resolveSlotDeadlock(engine: DispatchContext & Needs<"planCache">, org: string): void {
  runSlotTask(engine, `slot deadlock of ${org}`, async () => {
    for (let round = 0; round < ROUNDS_MAX && !engine.tasks.isClosed; round++) {
      const openRuns = await deadlockedRuns(engine, org);
      if (openRuns === null) return;
      const [newest] = (await engine.world.store.list(JOBS, { index: slotWaitsIn(org), limit: 1 })).items;
      if (!newest) return;
      const next = refuseSlot(newest.value, openRuns, decisionContext(engine, newest.value));
      if (!(await settleJob(engine, newest, next))) return;
      if (!isFinal(next.state)) engine.timers.arm({ id: newest.id, version: newest.version + 1, value: next });
    }
  });
}

/** The number of open runs if all of them wait for each other; null if one can continue. */
async function deadlockedRuns(engine: Needs<"world" | "settings" | "planCache">, org: string): Promise<number | null> {
  const before = await snapshotWaiting(engine, org);
  if (before === null) return null;
  const { open, waiting } = await runCountsOf(engine, org);
  if (open < runLimitOf(engine.settings.current, org) || open !== before.runs) return null;
  // Every job they wait for is a waiting step or one of the open runs: none is about to start or has just ended.
  if (before.waitsFor !== waiting + before.subRuns) return null;
  // The same versions before and after the counters were read, so the counters belong to this state. The state is
  // stable; a change from outside makes the commit stale.
  const after = await snapshotWaiting(engine, org);
  return after?.versions === before.versions ? open : null;
}

interface WaitingSnapshot {
  readonly runs: number;
  /** Open jobs of these runs, all of them sub-runs. */
  readonly waitsFor: number;
  /** How many of the runs are sub-runs. */
  readonly subRuns: number;
  readonly versions: string;
}

/** All open runs of an org; null as soon as one can continue. The newest run is read first, because it usually can. */
async function snapshotWaiting(engine: Needs<"world" | "planCache">, org: string): Promise<WaitingSnapshot | null> {
  const seen: string[] = [];
  let [waitsFor, subRuns] = [0, 0];
  let cursor: string | undefined;
  do {
    const limit = cursor === undefined ? FIRST_PAGE : PAGE;
    const page = await engine.world.store.list(RUNS, { index: runsOf(org, "RUNNING"), limit, cursor });
    for (const run of page.items) {
      const count = await subRunsOf(engine, run);
      if (count === null) return null;
      waitsFor += count;
      if (run.value.parent) subRuns += 1;
      seen.push(`${run.id}@${run.version}`);
    }
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined && seen.length < RUNS_MAX);
  return { runs: seen.length, waitsFor, subRuns, versions: seen.join(" ") };
}

async function subRunsOf(engine: Needs<"world" | "planCache">, { value: run }: Versioned<Run>): Promise<number | null> {
  const plan = await planOf(engine, run.org, run.workflowId, run.version);
  return plan && subRunsOnly(plan, run);
}

/** One task at a time per key; a failure is left to the due times of the waiting steps. */
export function runSlotTask(engine: Needs<"world" | "tasks">, what: string, work: () => Promise<void>): void {
  if (engine.tasks.isClosed) return;
  engine.tasks.runExclusive(what, () =>
    work().catch((error: unknown) =>
      engine.world.log.write("warn", "slot_grant_deferred", { what, error: String(error) }),
    ),
  );
}

const ROUNDS_MAX = 256;
const FIRST_PAGE = 4;
const PAGE = 64;
const RUNS_MAX = 10_000;
