import { describe, expect, test } from "vitest";
import { isFinal, JOBS } from "../../../../src/core/model/job.ts";
import { permanent } from "../../../../src/core/retry/intent.ts";
import { redriveDeadLetter } from "../../../../src/engine/maintenance/redrive.ts";
import { explainRun } from "../../../../src/engine/observe/explain-run.ts";
import { cancelRun, pauseRun } from "../../../../src/engine/runs/control-run.ts";
import type { WorkItem } from "../../../../src/worker/worker.ts";
import { RunHarness } from "../../run-harness.ts";

/** A `for_each` of four items, one at a time by default. Each item takes 8 s; items in `broken` fail. */
async function begin(facts: object) {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const { clock } = engine.world;
  const after8s = () => new Promise((resolve) => clock.after(8_000, () => resolve("ok")));
  const broken = new Set<unknown>();
  const handle = ({ input }: WorkItem) =>
    after8s().then(() => (broken.has(input) ? Promise.reject(permanent(new Error("broken"))) : "ok"));
  await harness.worker("w", ["demo.slow"], handle, 10, { extendsForMs: 3_600_000 });
  const each = { for_each: "[1, 2, 3, 4]", max_parallel: 1, timeout_sec: 20, ...facts };
  await harness.apply(engine, { id: "list", steps: { each } });
  return { harness, engine, broken, id: await harness.started(engine, "list") };
}

/** A `parallel` with two branches that hang and one that ends at once. */
async function beginParallel(facts: object, branches: object = {}) {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const abortReasons: string[] = [];
  const hang = ({ signal }: WorkItem) => {
    signal.addEventListener("abort", () => abortReasons.push(String(signal.reason)));
    return new Promise<never>(() => {});
  };
  await harness.worker("w", ["demo.hang"], hang, 10, { extendsForMs: 3_600_000 });
  const steps = {
    all: { type: "parallel", branches: ["quick", "slow", "list"], timeout_sec: 20, ...facts },
    quick: { type: "transform", input: 1 },
    slow: { topic: "demo.hang" },
    list: { topic: "demo.hang", for_each: "[1, 2]" },
    ...branches,
  };
  await harness.apply(engine, { id: "p", steps });
  return { harness, engine, abortReasons, id: await harness.started(engine, "p") };
}

const openJobs = (harness: RunHarness) =>
  [...harness.sim.net.store.rows(JOBS)].filter(({ value }) => !isFinal(value.state)).map(({ id }) => id);

const SLOW = { topic: "demo.slow" };
const APPROVAL = { type: "approval" };

describe("timeout of a `for_each`", () => {
  test("covers all items: the step ends as TIMEOUT and open items are cancelled", async () => {
    const { harness, id } = await begin(SLOW);
    await harness.pass(19_000);
    expect(harness.states(id)).toEqual({ each: "RUNNING" });
    await harness.pass(2_000);
    const fan = { succeeded: 2, open: 0, spawned: 3 };
    const error = { name: "DeadlineExceeded", message: "2 of 4 items completed before the deadline" };
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error, steps: { each: { state: "TIMEOUT", fan } } });
    const { endedMs = 0, startedMs = 0 } = harness.runOf(id).steps.each ?? {};
    expect(endedMs - startedMs).toBeGreaterThanOrEqual(20_000);
    // The child's own deadline has passed as well; either may come first.
    expect((await harness.job(`${id}:each.2@1`)).state).toMatch(/^(TIMEOUT|CANCELLED)$/);
  });

  test("does not affect a list that is done in time", async () => {
    const { harness, id } = await begin({ ...SLOW, max_parallel: 4 });
    await harness.pass(60_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { each: { fan: { succeeded: 4 } } } });
  });

  test.each([
    ["fail_fast", 1],
    ["wait_all", 1],
    ["wait_all", 4],
    [{ tolerate: 4 }, 4],
  ])("ends the step as TIMEOUT whatever its failure policy: %j, %i at a time", async (failure, max_parallel) => {
    const { harness, id } = await begin({ ...APPROVAL, failure, max_parallel });
    await harness.pass(25_000);
    expect(harness.states(id)).toEqual({ each: "TIMEOUT" });
    const open = [...harness.sim.net.store.rows(JOBS)].filter(({ value }) => value.state === "APPROVAL_REQUIRED");
    expect(open).toEqual([]);
  });

  test("survives a crash and keeps running while the run is paused", async () => {
    const { harness, engine, id } = await begin(APPROVAL);
    await harness.run(pauseRun(engine, { org: "default", runId: id, by: "bob", why: "wait" }));
    harness.crash("c1");
    await harness.control("c2");
    await harness.pass(19_000);
    expect(harness.states(id)).toEqual({ each: "RUNNING" });
    await harness.pass(10_000);
    expect(harness.states(id)).toEqual({ each: "TIMEOUT" });
  });

  test("restarts when a child is redriven", async () => {
    const { harness, engine, broken, id } = await begin({ ...SLOW, max_parallel: 4, failure: "wait_all" });
    broken.add(2);
    await harness.pass(30_000);
    expect(harness.states(id)).toEqual({ each: "FAILED" });
    broken.clear();
    const answer = await harness.run(redriveDeadLetter(engine, { org: "default", id: `${id}:each.1@1`, by: "bob" }));
    expect(answer).toMatchObject({ kind: "revived" });
    await harness.pass(15_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { each: { fan: { succeeded: 4 } } } });
  });
});

describe("timeout of a `parallel` step", () => {
  test("covers all branches: open branches are cancelled and their workers aborted", async () => {
    const { harness, id, abortReasons } = await beginParallel({ on_error: "mend" }, { mend: { type: "approval" } });
    await harness.pass(19_000);
    expect(harness.states(id)).toEqual({ all: "RUNNING", quick: "SUCCEEDED", slow: "RUNNING", list: "RUNNING" });
    expect(abortReasons).toEqual([]);
    await harness.pass(3_000);
    const error = { name: "DeadlineExceeded", message: "1 of 3 branches completed before the deadline, 3 required" };
    const why = "step `all` timed out";
    expect(harness.runOf(id)).toMatchObject({
      state: "RUNNING",
      steps: {
        all: { state: "TIMEOUT", error },
        quick: { state: "SUCCEEDED" },
        slow: { state: "CANCELLED", why },
        list: { state: "CANCELLED", why, fan: { open: 0, cancelled: 2 } },
        mend: { state: "RUNNING" },
      },
    });
    const { endedMs = 0, startedMs = 0 } = harness.runOf(id).steps.all ?? {};
    expect(endedMs - startedMs).toBeGreaterThanOrEqual(20_000);
    expect(abortReasons).toHaveLength(3);
    expect(openJobs(harness)).toEqual([`${id}:mend@1`]);
    await harness.pass(60_000);
    expect(harness.runOf(id).lines.filter(({ event }) => event === "step_timed_out")).toHaveLength(1);
  });

  test("fails the run without an error handler", async () => {
    const { harness, id } = await beginParallel({ join: "n_of_m", n: 2 });
    await harness.pass(25_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "DeadlineExceeded" } });
    expect(harness.states(id)).toEqual({ all: "TIMEOUT", quick: "SUCCEEDED", slow: "CANCELLED", list: "CANCELLED" });
    expect(openJobs(harness)).toEqual([]);
  });

  test("does not affect a step with enough completed branches", async () => {
    const { harness, id } = await beginParallel({ join: "any" });
    await harness.pass(60_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { all: { state: "SUCCEEDED" } } });
  });

  test("survives a crash and keeps running while the run is paused", async () => {
    const { harness, engine, id } = await beginParallel({ on_error: "continue" });
    await harness.run(pauseRun(engine, { org: "default", runId: id, by: "bob", why: "wait" }));
    harness.crash("c1");
    await harness.control("c2");
    await harness.pass(18_000);
    expect(harness.states(id)).toMatchObject({ all: "RUNNING" });
    await harness.pass(10_000);
    expect(harness.runOf(id).state).toBe("PAUSED");
    expect(harness.states(id)).toEqual({ all: "TIMEOUT", quick: "SUCCEEDED", slow: "CANCELLED", list: "CANCELLED" });
  });

  test("has no effect after the run was cancelled", async () => {
    const { harness, engine, id } = await beginParallel({});
    await harness.run(cancelRun(engine, { org: "default", runId: id, by: "bob", why: "enough" }));
    await harness.pass(30_000);
    expect(harness.runOf(id)).toMatchObject({ state: "CANCELLED", steps: { all: { state: "CANCELLED" } } });
  });

  test("is shown by `run explain`", async () => {
    const { harness, engine, id } = await beginParallel({});
    const explained = await harness.run(explainRun(engine, { org: "default", runId: id }));
    const untilMs = (harness.runOf(id).steps.all?.startedMs ?? 0) + 20_000;
    const lines = explained.kind === "explained" ? explained.lines : [];
    expect(lines[0]).toMatchObject({ stepId: "all", reason: "waiting for its branches", untilMs });
  });

  test("restarts when a branch is redriven", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    let isBroken = true;
    const after8s = () => new Promise<void>((resolve) => engine.world.clock.after(8_000, resolve));
    const handle = () => after8s().then(() => (isBroken ? Promise.reject(permanent(new Error("broken"))) : "ok"));
    await harness.worker("w", ["demo.slow"], handle, 10, { extendsForMs: 3_600_000 });
    const all = { type: "parallel", branches: ["a", "b"], timeout_sec: 20 };
    await harness.apply(engine, { id: "p", steps: { all, a: SLOW, b: { type: "transform", input: 1 } } });
    const id = await harness.started(engine, "p");
    await harness.pass(30_000);
    expect(harness.states(id)).toMatchObject({ all: "FAILED", a: "FAILED" });
    isBroken = false;
    const answer = await harness.run(redriveDeadLetter(engine, { org: "default", id: `${id}:a@1`, by: "bob" }));
    expect(answer).toMatchObject({ kind: "revived" });
    await harness.pass(15_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { all: { state: "SUCCEEDED" } } });
  });
});

test("an immediate step never times out", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const shortTimeout = { timeout_sec: 0.001 };
  const steps = {
    ask: { type: "condition", condition: "true", ...shortTimeout },
    which: { type: "switch", switch: "input", cases: { x: [] }, ...shortTimeout },
    say: { type: "notify", message: "hello", ...shortTimeout },
    make: { type: "transform", input: 1, ...shortTimeout },
    each: { type: "transform", for_each: "[1, 2]", input: "${item}", ...shortTimeout },
  };
  await harness.apply(engine, { id: "w", steps });
  const id = await harness.started(engine, "w");
  await harness.pass(5_000);
  expect(harness.runOf(id).state).toBe("SUCCEEDED");
});
