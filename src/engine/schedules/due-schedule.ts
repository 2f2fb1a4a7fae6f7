import { isRunFinal, RUNS } from "../../core/model/run.ts";
import { decideSchedule } from "../../core/schedule/decide.ts";
import type { Schedule } from "../../core/schedule/schedule.ts";
import type { Versioned } from "../../ports/store.ts";
import { ConflictError } from "../commit.ts";
import type { Needs } from "../engine.ts";
import { cancelRun } from "../runs/index.ts";
import { type Saved, type ScheduleEngine, saveSchedule, startSlot } from "./start-slot.ts";

/**
 * Timer handler of schedules: decides and commits until nothing is due. A stale commit ends the handler: the record changed, and
 * its due time with it. What is left after `ACTIONS_MAX` is still due.
 */
export async function onScheduleDue(engine: ScheduleEngine, due: Versioned<Schedule>): Promise<void> {
  let found: Saved = due;
  for (let actions = 0; actions < ACTIONS_MAX && found !== "stale"; actions++) {
    const open: readonly string[] = await openRunsOf(engine, found.value);
    const action = decideSchedule(found.value, { nowMs: engine.world.clock.now(), open });
    if (action.kind === "rest") return;
    found =
      action.kind === "start"
        ? await startNow(engine, found, action)
        : await saveSchedule(engine, found, action.next, action.events);
    if (action.kind === "save" && action.cancels && found !== "stale") await cancelOpen(engine, action.next);
  }
}

const startNow = (...args: Parameters<typeof startSlot>): Promise<Saved> => startUnlessStale(() => startSlot(...args));

/** The commit of the start requires the version of the schedule. */
export async function startUnlessStale<T>(start: () => Promise<T>): Promise<T | "stale"> {
  try {
    return await start();
  } catch (error) {
    if (error instanceof ConflictError) return "stale";
    throw error;
  }
}

/** Those of its runs that are open. Not read where runs may overlap. */
export async function openRunsOf(
  { world: { store } }: Needs<"world">,
  { overlap, open }: Pick<Schedule, "overlap" | "open">,
): Promise<readonly string[]> {
  if (overlap === "allow" || open.length === 0) return open;
  const runs = await Promise.all(open.map((runId) => store.load(RUNS, runId)));
  return open.filter((_, index) => {
    const run = runs[index]?.value;
    return run !== undefined && !isRunFinal(run.state);
  });
}

async function cancelOpen(engine: ScheduleEngine, { org, id, open }: Schedule): Promise<void> {
  const why = `the next slot of schedule \`${id}\` is due`;
  await Promise.all(open.map((runId) => cancelRun(engine, { org, runId, by: "cordum", why })));
}

const ACTIONS_MAX = 16;
