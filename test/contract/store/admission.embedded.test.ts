import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { openRunLists, RUNS, RUNS_GROUP } from "../../../src/core/model/run.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { type StartOutcome, startRun } from "../../../src/engine/intake/start-run.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { applyWorkflow } from "../../../src/engine/runs/workflows.ts";
import type { World } from "../../../src/ports/world.ts";
import { RUN_REQUEST } from "../../engine/run-harness.ts";
import { EmbeddedBench } from "../embedded.ts";

/** The limit is 2, and started runs stay open. */
describe.each(["atomic", "polled"] as const)("embedded admission, %s", (strategy) => {
  let bench: EmbeddedBench;
  let engine: Engine;

  const open = (world: World): Engine => {
    const { limits, admission, ...settings } = defaultSettings();
    const polled = { ...admission.polled, maxWaitMs: 60_000 };
    return openEngine(world, {
      current: { ...settings, limits: { ...limits, concurrentRunsMax: 2 }, admission: { strategy, polled } },
    });
  };
  const race = (keys: readonly (string | null)[]): Promise<StartOutcome[]> =>
    Promise.all(
      keys.map((idempotencyKey) => startRun(engine, { ...RUN_REQUEST, workflowId: "ask", idempotencyKey }, "test")),
    );
  const openRuns = async (): Promise<{ readonly runs: readonly string[]; readonly slots: number }> => {
    const { store } = engine.world;
    const pages = await Promise.all(openRunLists("default").map((index) => store.list(RUNS, { index, limit: 100 })));
    const slots = (await store.counts(RUNS_GROUP, 10)).get("default") ?? 0;
    return { runs: pages.flatMap(({ items }) => items.map(({ id }) => id)), slots };
  };

  beforeEach(async () => {
    bench = new EmbeddedBench();
    engine = open(await bench.open());
    await applyWorkflow(engine, { org: "default", by: "test", document: ASK });
  });
  afterEach(async () => {
    await engine.tasks.close();
    await bench.close();
  });

  test.each([10, 100])("admits exactly 2 of %i concurrent starts, and one more after a run ends", async (count) => {
    const outcomes = await race(Array(count).fill(null));
    const refused = outcomes.filter(({ kind }) => kind !== "started");
    expect(refused).toEqual(Array(count - 2).fill({ kind: "full", current: 2, limit: 2 }));
    const { runs, slots } = await openRuns();
    expect([runs.length, slots]).toEqual([2, 2]);
    await cancelRun(engine, { org: "default", runId: runs[0] ?? "", by: "bob", why: "enough" });
    expect((await race(Array(10).fill(null))).filter(({ kind }) => kind === "started")).toHaveLength(1);
  });

  test("starts one run for 50 requests with one key; key, run and slot survive a restart", async () => {
    const outcomes = await race(Array(50).fill("k"));
    const ids = new Set(outcomes.map((outcome) => ("runId" in outcome ? outcome.runId : outcome.kind)));
    expect(ids.size).toBe(1);
    await race([null]);
    await engine.tasks.close();
    engine = open(await bench.reopen());
    expect(await race(["k"])).toEqual([{ kind: "replayed", runId: [...ids][0], state: "RUNNING" }]);
    expect(await race([null])).toEqual([{ kind: "full", current: 2, limit: 2 }]);
    expect((await openRuns()).slots).toBe(2);
  });
});

const ASK = { id: "ask", steps: { ask: { type: "approval" } } };
