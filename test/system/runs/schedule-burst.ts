/** Many schedules with a slot in the same second. */
import { configure } from "../../../src/config/config.ts";
import { RUNS, type Run } from "../../../src/core/model/run.ts";
import { SCHEDULES, type Schedule, scheduleKey, startOf, withDue } from "../../../src/core/schedule/schedule.ts";
import { openEngine } from "../../../src/engine/engine.ts";
import { applyWorkflow } from "../../../src/engine/runs/index.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { put } from "../../../src/ports/store.ts";
import type { World } from "../../../src/ports/world.ts";

export interface BurstFigures {
  /** From the start of each slot, with its jitter, to the commit of its run, in ascending order. */
  readonly lateMs: readonly number[];
  /** From the slot to the last run. */
  readonly cpuUs: number;
  /** Runs per slot other than one. */
  readonly faults: readonly string[];
}

/** The runs stay open. */
export async function startBurst(
  world: World,
  cpuUs: () => number,
  { schedules, jitterMs }: { readonly schedules: number; readonly jitterMs: number },
): Promise<BurstFigures> {
  // JSON is YAML.
  const text = JSON.stringify({ limits: { max_concurrent_runs: schedules } });
  const configured = configure({ file: { name: "burst", text } });
  if (configured.kind === "bad") throw new Error(configured.problems.join("; "));
  const engine = openEngine(world, { current: configured.config.settings });
  for (const org of ORGS) {
    await applyWorkflow(engine, {
      org,
      by: "test",
      document: { id: "w", steps: { s: { type: "delay", delay_sec: 600 } } },
    });
  }
  const slotMs = await fillDue(world, schedules, jitterMs);
  const starts = watchStarts(world, schedules);
  const control = await startControl(engine);
  await new Promise<void>((resolve) => world.clock.after(slotMs - world.clock.now(), resolve));
  const before = cpuUs();
  await starts.done;
  const used = cpuUs() - before;
  await control.stop();
  const lateMs = starts.seen.map(({ atMs, startMs }) => atMs - startMs).sort((a, b) => a - b);
  const faults = [...starts.runs].flatMap(([id, runs]) => (runs === 1 ? [] : [`${id} started ${runs} runs`]));
  return { lateMs, cpuUs: used, faults };
}

/** Schedules whose next slot is in a few seconds; returns the slot. */
async function fillDue({ store, clock }: World, schedules: number, jitterMs: number): Promise<number> {
  const leadMs = 5_000 + schedules;
  const slotMs = Math.ceil((clock.now() + leadMs) / 1_000) * 1_000;
  const records = Array.from({ length: schedules }, (_, n) => burstSchedule(n, slotMs, jitterMs));
  const commits: Promise<unknown>[] = [];
  for (let from = 0; from < schedules; from += EACH) {
    const puts = records
      .slice(from, from + EACH)
      .map((schedule) => put(SCHEDULES, scheduleKey(schedule.org, schedule.id), null, schedule));
    commits.push(store.commit({ org: "", atMs: clock.now(), puts, guards: [], sends: [], watch: [] }));
  }
  await Promise.all(commits);
  if (clock.now() >= slotMs) throw new Error(`the schedules were written ${clock.now() - slotMs} ms after their slot`);
  return slotMs;
}

export const burstSchedule = (n: number, nextMs: number, jitterMs: number): Schedule =>
  withDue({
    id: `s${n}`,
    org: ORGS[n % ORGS.length] ?? "",
    uid: `u${n}`,
    workflowId: "w",
    timing: { kind: "every", everyMs: 86_400_000 },
    input: {},
    overlap: "skip",
    jitterMs,
    catchUpMs: 3_600_000,
    isPaused: false,
    createdMs: 0,
    updatedMs: 0,
    submittedBy: "test",
    nextMs,
    handledMs: 0,
    open: [],
    starts: [],
    counts: { started: 0, skipped: 0, missed: 0, failed: 0 },
  });

function watchStarts({ store, clock }: World, schedules: number) {
  const seen: { readonly atMs: number; readonly startMs: number }[] = [];
  const runs = new Map<string, number>();
  let resolve = () => {};
  const done = new Promise<void>((resolved) => (resolve = resolved));
  const commit = store.commit.bind(store);
  store.commit = async (change) => {
    const committed = await commit(change);
    const run = change.puts.find(({ table, expect }) => table === RUNS.name && expect === 0)?.value as Run | undefined;
    const schedule = change.puts.find(({ table }) => table === SCHEDULES.name)?.value as Schedule | undefined;
    const slotMs = run?.schedule?.slotMs;
    if (committed.kind !== "committed" || !schedule || slotMs === undefined) return committed;
    seen.push({ atMs: clock.now(), startMs: startOf(schedule, slotMs) });
    runs.set(schedule.id, (runs.get(schedule.id) ?? 0) + 1);
    if (runs.size === schedules) resolve();
    return committed;
  };
  return { seen, runs, done };
}

const ORGS = Array.from({ length: 10 }, (_, n) => `org-${n}`);
const EACH = 50;
