import { expect, test } from "vitest";
import { defaultSettings } from "../../../../src/config/config.ts";
import { JOBS } from "../../../../src/core/model/job.ts";
import { RUNS, type Run } from "../../../../src/core/model/run.ts";
import { cancelRun } from "../../../../src/engine/runs/control-run.ts";
import { RunHarness } from "../../run-harness.ts";

const never = () => new Promise<never>(() => {});

test("children of a losing branch are cancelled with that reason", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const abortReasons: unknown[] = [];
  const hang = ({ signal }: { signal: AbortSignal }) => {
    signal.addEventListener("abort", () => abortReasons.push(String(signal.reason)));
    return never();
  };
  await harness.worker("hang", ["demo.hang"], hang);
  const clock = engine.world.clock;
  const afterOneSecond = () => new Promise((resolve) => clock.after(1_000, () => resolve(1)));
  await harness.worker("soon", ["demo.soon"], afterOneSecond);
  const steps = {
    p: { type: "parallel", branches: ["each", "one"], join: "any" },
    each: { topic: "demo.hang", for_each: "[1, 2]" },
    one: { topic: "demo.soon" },
    after: { type: "approval", depends_on: ["p"] },
  };
  await harness.apply(engine, { id: "p", steps });
  const id = await harness.started(engine, "p");
  await harness.pass(5_000);
  const { state, steps: ended } = harness.runOf(id);
  expect(state).toBe("RUNNING");
  expect(ended).toMatchObject({ p: { state: "SUCCEEDED" }, each: { state: "CANCELLED", fan: { cancelled: 2 } } });
  expect(ended.each?.why).toBe("step `p` has ended");
  expect((await harness.job(`${id}:each.0@1`)).error?.message).toBe("step `p` has ended");
  expect(abortReasons).toHaveLength(2);
});

test("a cancelled `for_each` reports the cancellation, not a child's failure", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const handle = ({ input }: { input: unknown }) => (input === 1 ? Promise.reject(new Error("broken")) : never());
  await harness.worker("w", ["demo.w"], handle);
  const each = { topic: "demo.w", for_each: "[1, 2]", failure: "wait_all", retry: { max_retries: 0 } };
  await harness.apply(engine, { id: "f", steps: { each } });
  const id = await harness.started(engine, "f");
  await harness.pass(2_000);
  await harness.run(cancelRun(engine, { org: "default", runId: id, by: "bob", why: "enough" }));
  expect(harness.runOf(id).steps.each).toMatchObject({ state: "CANCELLED", why: "the run ends as CANCELLED" });
  expect((await harness.job(`${id}:each.1@1`)).error?.message).toBe("the run ends as CANCELLED");
});

test.each([1, 2, 3])("no sub-workflow starts while its parent is ending (seed %i)", async (seed) => {
  const { limits } = defaultSettings();
  const harness = new RunHarness({ limits: { ...limits, concurrentRunsMax: 40 } }, seed);
  const { engine } = await harness.control("c1");
  await harness.control("c2");
  await harness.apply(engine, { id: "inner", steps: { ask: { type: "approval" } } });
  const each = { type: "subworkflow", workflow: "inner", for_each: "${input}", max_parallel: 2_000 };
  await harness.apply(engine, { id: "outer", steps: { each } });
  const id = await harness.started(engine, "outer", { input: Array.from({ length: 600 }, (_, at) => at) });
  await harness.pass(30_000);
  let isEnding = false;
  const late: string[] = [];
  harness.sim.net.onCommit = (_, change, committed) => {
    if (committed.kind !== "committed") return;
    for (const { table, id: key, value, expect: version } of change.puts) {
      if (table !== RUNS.name || !value) continue;
      if (key === id && (value as Run).state === "ENDING") isEnding = true;
      else if (isEnding && version === 0 && key !== id) late.push(key);
    }
  };
  await harness.run(cancelRun(engine, { org: "default", runId: id, by: "bob", why: "enough" }));
  await harness.pass(60_000);
  const open = [...harness.sim.net.store.rows(RUNS)].filter(({ value }) => value.state === "RUNNING");
  expect(open).toEqual([]);
  expect([...harness.sim.net.store.rows(JOBS)].every(({ value }) => value.state === "CANCELLED")).toBe(true);
  expect(late).toEqual([]);
});
