import { expect, test } from "vitest";
import type { Arms } from "../../../src/core/model/arms.ts";
import { JOBS, type Job } from "../../../src/core/model/job.ts";
import { RUNS, type Run } from "../../../src/core/model/run.ts";
import type { Judgement, MeasuredUnit } from "../../../src/core/rollout/judgement.ts";
import { NO_MEASURE, observe } from "../../../src/core/rollout/measure.ts";
import type { Rollout } from "../../../src/core/rollout/rollout.ts";
import type { UnitCursors } from "../../../src/core/rollout/stored-judgement.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { readUnits } from "../../../src/engine/rollouts/read-units.ts";
import { type Put, put } from "../../../src/ports/store.ts";
import { HORIZON_MS, RolloutHarness, WORKFLOW } from "./rollout-harness.ts";

/** More than one call reads. */
const COUNT = 2_600;

test("reads every unit once when runs and jobs of one millisecond lie on both sides of a page end", async () => {
  const { harness, engine, run, job } = await opened();
  const rollout = await harness.rollout(engine, { subject: "unclassified", treatment: "fixed:1s" });
  const startMs = engine.world.clock.now() - 5 * HORIZON_MS;
  for (let at = 0; at < COUNT; at++) {
    // 30 starts in each millisecond, and ids of jobs sort between those of runs.
    const createdMs = startMs + Math.floor(at / 30);
    const id = String(at).padStart(5, "0");
    write(harness, engine, put(RUNS, id, null, { ...run, id, createdMs, arms: armsOf(rollout, createdMs) }));
    if (at % 10 > 0) continue;
    write(
      harness,
      engine,
      put(JOBS, `${id}-job`, null, { ...job, id: `${id}-job`, createdMs, arms: armsOf(rollout, createdMs) }),
    );
  }
  const read = await readAll(harness, engine, rollout);
  expect(new Set(read.map(({ id }) => id)).size).toBe(COUNT + COUNT / 10);
  expect(read.length).toBe(COUNT + COUNT / 10);
});

test("reads all starts of a tenant and period together", async () => {
  const { harness, engine, run } = await opened();
  const rollout = await harness.rollout(engine, { subject: "admission.polled.policy", treatment: "fixed:1s" });
  const periodMs = (Math.floor(engine.world.clock.now() / HORIZON_MS) - 8) * HORIZON_MS;
  const periods = [0, 0, 1];
  for (const [part, period] of periods.entries()) {
    for (let at = 0; at < COUNT; at++) {
      const createdMs = periodMs + period * HORIZON_MS + at;
      const id = `${part}-${String(at).padStart(5, "0")}`;
      const measures = { [rollout.id]: observe(NO_MEASURE, { kind: "admitted", waitedMs: 1 }) };
      write(
        harness,
        engine,
        put(RUNS, id, null, { ...run, id, createdMs, measures, arms: armsOf(rollout, periodMs + period * HORIZON_MS) }),
      );
    }
  }
  const read = await readAll(harness, engine, rollout);
  expect(read.map(({ measure }) => measure.admissionWaitsMs.count)).toEqual([2 * COUNT, COUNT]);
});

test("reads a unit when its horizon and the time to store it have passed, also without a measure", async () => {
  const { harness, engine, run } = await opened();
  const rollout = await harness.rollout(engine, { subject: "unclassified", treatment: "fixed:1s" });
  const nowMs = engine.world.clock.now();
  for (const [id, ageMs] of Object.entries({ old: 2_000, young: 1_999, younger: 0 })) {
    const createdMs = nowMs - HORIZON_MS - ageMs;
    const { measures: _, ...plain } = run;
    write(harness, engine, put(RUNS, id, null, { ...plain, id, createdMs, arms: armsOf(rollout, createdMs) }));
  }
  expect(await readAll(harness, engine, rollout)).toMatchObject([{ id: "old", measure: NO_MEASURE }]);
});

async function opened(): Promise<{ harness: RolloutHarness; engine: Engine; run: Run; job: Job }> {
  const harness = new RolloutHarness();
  const engine = harness.engine("a");
  await harness.apply(engine, WORKFLOW);
  const run = harness.runOf(await harness.started(engine, WORKFLOW.id));
  const { jobId } = await harness.admit(engine, { topic: "demo.work" });
  return { harness, engine, run, job: await harness.job(jobId) };
}

const armsOf = ({ id }: Rollout, createdMs: number): Arms => ({
  [id]: { arm: "control", stage: 0, untilMs: createdMs + HORIZON_MS },
});

function write(harness: RolloutHarness, engine: Engine, row: Put): void {
  const atMs = engine.world.clock.now();
  harness.sim.net.store.commit({ org: "default", atMs, puts: [row], guards: [], sends: [], watch: [] });
}

/** Calls until no unit is left, each with the cursors of the one before. */
async function readAll(harness: RolloutHarness, engine: Engine, rollout: Rollout): Promise<readonly MeasuredUnit[]> {
  const read: MeasuredUnit[] = [];
  let cursors: UnitCursors = { runs: null, jobs: null };
  for (let calls = 0; calls < 20; calls++) {
    const judged: Judgement["cursor"] = read.at(-1) ?? null;
    const page = await harness.run(readUnits(engine, rollout, { cursors, judged }, new Map()));
    read.push(...page.units.filter((unit) => judged === null || isAfter(unit, judged)));
    if (!page.hasMore) return read;
    cursors = page.cursors;
  }
  throw new Error(`${read.length} units in 20 calls, and more`);
}

const isAfter = (unit: MeasuredUnit, { startMs, id }: NonNullable<Judgement["cursor"]>): boolean =>
  unit.startMs > startMs || (unit.startMs === startMs && unit.id > id);
