import { describe, expect, test, vi } from "vitest";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { RETRY_STATES } from "../../../src/core/model/parked-message.ts";
import { RUNS, RUNS_GROUP, type Run } from "../../../src/core/model/run.ts";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";
import { openRun } from "../../../src/core/workflow/run/open-run.ts";
import { rejoin } from "../../../src/core/workflow/run/rejoin.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { defaultRunRequest } from "../../../src/engine/intake/start-run.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun, pauseRun } from "../../../src/engine/runs/control-run.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { put } from "../../../src/ports/store.ts";
import { RunHarness } from "../run-harness.ts";

const ONCE = { retry: { max_retries: 0 } };
const step = (facts: object = {}) => ({ topic: "demo.flaky", ...ONCE, ...facts });

/** A worker that fails for inputs in `broken` and takes a second for inputs in `slow`. */
async function openFlaky() {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const broken = new Set<unknown>();
  const slow = new Set<unknown>();
  const inputs: unknown[] = [];
  await harness.worker("w1", ["demo.flaky"], async ({ input }) => {
    inputs.push(input);
    if (slow.has(input)) await new Promise<void>((resolve) => engine.world.clock.after(1_000, resolve));
    if (broken.has(input)) throw new Error(`broken: ${String(input)}`);
    return input;
  });
  return { harness, engine, broken, slow, inputs };
}

const retry = (harness: RunHarness, engine: Engine, id: string) =>
  harness.run(redriveDeadLetter(engine, { org: "default", id, by: "bob" }));

describe("L42: redriving the dead letter of a step", () => {
  test.each([0, 10_000])(
    "of two children, %i ms apart: only these run again, and the run succeeds",
    async (apartMs) => {
      const { harness, engine, broken, inputs } = await openFlaky();
      broken.add(2).add(4);
      const each = step({ for_each: "${[1, 2, 3, 4, 5]}", failure: "wait_all" });
      const after = step({ depends_on: ["each"], input: "after" });
      await harness.apply(engine, { id: "fan", output: "${steps.each.output}", steps: { each, after } });
      const id = await harness.started(engine, "fan");
      await harness.pass(5_000);
      expect(harness.runOf(id)).toMatchObject({
        state: "FAILED",
        error: { message: expect.stringContaining("broken") },
      });
      broken.clear();
      for (const index of [1, 3]) {
        expect(await retry(harness, engine, `${id}:each.${index}@1`)).toMatchObject({ kind: "revived" });
        await harness.pass(apartMs);
      }
      await harness.pass(10_000);
      expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", error: null, output: { value: [1, 2, 3, 4, 5] } });
      expect(harness.runOf(id).steps.each?.fan).toMatchObject({ open: 0, succeeded: 5, failed: 0 });
      expect(inputs.filter((input) => input === 1)).toHaveLength(1);
      expect([...harness.sim.net.store.rows(DEAD_LETTERS)]).toEqual([]);
      expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(0);
    },
  );

  test("of a sub-workflow starts a new sub-run, and the parent continues", async () => {
    const { harness, engine, broken } = await openFlaky();
    broken.add("inner");
    await harness.apply(engine, { id: "inner", steps: { a: step({ input: "inner" }) } });
    await harness.apply(engine, { id: "outer", steps: { sub: { type: "subworkflow", workflow: "inner" } } });
    const id = await harness.started(engine, "outer");
    await harness.pass(10_000);
    expect(harness.runOf(id).state).toBe("FAILED");
    broken.clear();
    const commits = vi.spyOn(engine, "commit");
    expect(await retry(harness, engine, `${id}:sub@1`)).toMatchObject({ kind: "revived" });
    // A sub-workflow has no topic: its job is not announced to the dispatcher.
    const redrive = commits.mock.calls.find(([{ puts }]) => puts?.some((one) => one.id === `${id}:sub@1`));
    expect(redrive?.[0].sends).toEqual([]);
    await harness.pass(10_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { sub: { a: "inner" } } } });
    expect([...harness.sim.net.store.rows(RUNS)]).toHaveLength(3);
  });

  test("of an open run (on_error: continue) succeeds before a dependent step has started", async () => {
    const { harness, engine, broken } = await openFlaky();
    broken.add("a");
    const steps = {
      a: step({ input: "a", on_error: "continue" }),
      wait: { type: "delay", delay_sec: 60 },
      b: step({ depends_on: ["a", "wait"], input: "${steps.a.state}" }),
    };
    await harness.apply(engine, { id: "open", steps });
    const id = await harness.started(engine, "open");
    await harness.pass(5_000);
    broken.clear();
    expect(await retry(harness, engine, `${id}:a@1`)).toMatchObject({ kind: "revived" });
    await harness.pass(90_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { b: "SUCCEEDED" } } });
  });

  test("is refused with a reason after a dependent step has started", async () => {
    const { harness, engine, broken } = await openFlaky();
    broken.add("a");
    await harness.apply(engine, {
      id: "on",
      steps: { a: step({ input: "a", on_error: "continue" }), b: step({ depends_on: ["a"], input: "b" }) },
    });
    const id = await harness.started(engine, "on");
    await harness.pass(5_000);
    const before = harness.runOf(id);
    expect(await retry(harness, engine, `${id}:a@1`)).toMatchObject({ kind: "run_went_on" });
    expect(harness.runOf(id)).toEqual(before);
    expect((await harness.job(`${id}:a@1`)).state).toBe("FAILED");
    expect([...harness.sim.net.store.rows(DEAD_LETTERS)]).toHaveLength(1);
  });

  test("of a cancelled run is refused", async () => {
    const { harness, engine, broken } = await openFlaky();
    broken.add("a");
    const steps = { a: step({ input: "a", on_error: "continue" }), ask: { type: "approval" } };
    await harness.apply(engine, { id: "c", steps });
    const id = await harness.started(engine, "c");
    await harness.pass(5_000);
    await harness.run(cancelRun(engine, { org: "default", runId: id, by: "bob", why: "enough" }));
    expect(await retry(harness, engine, `${id}:a@1`)).toMatchObject({ kind: "run_went_on" });
    expect(harness.runOf(id).state).toBe("CANCELLED");
  });

  test("resets the retry state of its job", async () => {
    const { harness, engine, broken } = await openFlaky();
    broken.add("a");
    await harness.apply(engine, { id: "p", steps: { a: step({ input: "a" }) } });
    const id = await harness.started(engine, "p");
    await harness.pass(5_000);
    const retryStateId = `job/${id}:a@1`;
    const retryState = { lock_busy: { count: 900, sinceMs: engine.world.clock.now() - 3_600_000, lastDelayMs: 500 } };
    const stored = { patience: retryState, dueMs: engine.world.clock.now() + 3_600_000 };
    await harness.run(engine.commit({ org: "default", puts: [put(RETRY_STATES, retryStateId, null, stored)] }));
    expect(await retry(harness, engine, `${id}:a@1`)).toMatchObject({ kind: "revived" });
    expect(harness.sim.net.store.load(RETRY_STATES, retryStateId)).toBeNull();
  });

  test("concurrently in two processes restarts it once", async () => {
    const { harness, engine, broken, inputs } = await openFlaky();
    const { engine: other } = await harness.control("c2");
    broken.add("a");
    await harness.apply(engine, { id: "ten", steps: { a: step({ input: "a" }) } });
    const id = await harness.started(engine, "ten");
    await harness.pass(5_000);
    broken.clear();
    const deadLetter = { org: "default", id: `${id}:a@1`, by: "bob" };
    const retries = Array.from({ length: 10 }, (_, at) => redriveDeadLetter(at % 2 ? engine : other, deadLetter));
    const outcomes = await harness.run(Promise.all(retries));
    expect(outcomes.filter(({ kind }) => kind === "revived")).toHaveLength(1);
    await harness.pass(10_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
    expect(inputs).toEqual(["a", "a"]);
  });
});

describe("redriving the dead letter of a branch", () => {
  const open = async (join: object, overrides: object = {}) => {
    const opened = await openFlaky();
    const { harness, engine } = opened;
    const steps = {
      p: { type: "parallel", branches: ["a", "b"], ...join },
      a: step({ input: "a" }),
      b: step({ input: "b" }),
      after: step({ depends_on: ["p"], input: "${steps.p.output}" }),
      ...overrides,
    };
    await harness.apply(engine, { id: "p", steps });
    return opened;
  };

  test("restarts its failed `parallel` and run; the other branch is not repeated", async () => {
    const { harness, engine, broken, slow, inputs } = await open({});
    broken.add("b");
    slow.add("b");
    const id = await harness.started(engine, "p");
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", steps: { p: { state: "FAILED" } } });
    broken.clear();
    expect(await retry(harness, engine, `${id}:b@1`)).toMatchObject({ kind: "revived" });
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { after: { a: "a", b: "b" } } } });
    expect(inputs.filter((input) => input === "a")).toHaveLength(1);
    expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(0);
  });

  test("counts while its `parallel` waits for another branch", async () => {
    const { harness, engine, broken } = await open({ join: "any" }, { b: { type: "approval" } });
    broken.add("a");
    const id = await harness.started(engine, "p");
    await harness.pass(5_000);
    expect(harness.states(id)).toMatchObject({ p: "RUNNING", a: "FAILED", b: "RUNNING" });
    broken.clear();
    expect(await retry(harness, engine, `${id}:a@1`)).toMatchObject({ kind: "revived" });
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { b: { state: "CANCELLED" } } });
  });

  test("repeats only the failed child of a `for_each` branch", async () => {
    const each = step({ for_each: "${[1, 2]}", failure: "wait_all" });
    const { harness, engine, broken, inputs } = await open({}, { b: each });
    broken.add(2);
    const id = await harness.started(engine, "p");
    await harness.pass(5_000);
    expect(harness.runOf(id).state).toBe("FAILED");
    broken.clear();
    expect(await retry(harness, engine, `${id}:b.1@1`)).toMatchObject({ kind: "revived" });
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({
      state: "SUCCEEDED",
      output: { value: { after: { a: "a", b: [1, 2] } } },
    });
    expect(inputs.filter((input) => input === 1)).toHaveLength(1);
  });

  const APPROVAL_AFTER = { after: { type: "approval", depends_on: ["p"] } };
  test.each([
    ["has succeeded without it", { join: "any" }, APPROVAL_AFTER, "step `p` is SUCCEEDED"],
    ["has stopped another branch", {}, { b: { type: "approval" } }, "step `b` was cancelled"],
  ])("is refused when its `parallel` %s", async (_case, join, overrides, why) => {
    const { harness, engine, broken, slow } = await open(join, overrides);
    broken.add("a");
    slow.add("b");
    const id = await harness.started(engine, "p");
    await harness.pass(5_000);
    const before = harness.runOf(id);
    const outcome = await retry(harness, engine, `${id}:a@1`);
    expect(outcome).toMatchObject({ kind: "run_went_on", why: expect.stringContaining(why) });
    expect(harness.runOf(id)).toEqual(before);
    expect((await harness.job(`${id}:a@1`)).state).toBe("FAILED");
  });

  test("is refused when another failed branch keeps its `parallel` from succeeding", () => {
    const compiled = compileWorkflow({
      id: "p",
      steps: { p: { type: "parallel", branches: ["a", "b"] }, a: { topic: "t" }, b: { topic: "t" } },
    });
    if (compiled.kind === "bad") throw new Error(compiled.problems.join());
    const failed = { state: "FAILED", jobId: "j" } as const;
    const order = { ...defaultRunRequest("o", "p", null), runId: "r", version: 1, traceId: "r", parent: null };
    const fresh = openRun(compiled.plan, order, { kind: "inline", value: null }, { nowMs: 0, deadlineMs: 1_000 });
    const run: Run = { ...fresh, state: "FAILED", steps: { p: { state: "FAILED" }, a: failed, b: failed } };
    const rejoined = rejoin(compiled.plan, run, { stepId: "a" }, "bob", { nowMs: 5, deadlineMs: 1_000 });
    expect(rejoined).toMatchObject({ kind: "refused", why: expect.stringContaining("needs 2 of its branches") });
  });
});

test("a step that has not failed does not rejoin its run", () => {
  const compiled = compileWorkflow({ id: "p", steps: { a: { topic: "t" }, b: { topic: "t" } } });
  if (compiled.kind === "bad") throw new Error(compiled.problems.join());
  const order = { ...defaultRunRequest("o", "p", null), runId: "r", version: 1, traceId: "r", parent: null };
  const fresh = openRun(compiled.plan, order, { kind: "inline", value: null }, { nowMs: 0, deadlineMs: 1_000 });
  const rejoined = (state: "SUCCEEDED" | "RUNNING" | "FAILED") => {
    const run: Run = { ...fresh, steps: { a: { state, jobId: "j" }, b: { state: "RUNNING", jobId: "k" } } };
    return rejoin(compiled.plan, run, { stepId: "a" }, "bob", { nowMs: 5, deadlineMs: 1_000 });
  };
  expect(rejoined("SUCCEEDED")).toEqual({ kind: "refused", why: "step `a` is SUCCEEDED" });
  expect(rejoined("RUNNING")).toEqual({ kind: "refused", why: "step `a` is RUNNING" });
  expect(rejoined("FAILED")).toMatchObject({ kind: "rejoined", isReopened: false });
});

test("a redrive is refused when the run would fail again at once because of another step", async () => {
  const { harness, engine, broken, slow } = await openFlaky();
  broken.add("a");
  slow.add("a");
  const bad = { type: "transform", input: "${input.nowhere.at_all}", depends_on: ["ask"] };
  await harness.apply(engine, { id: "two", steps: { ask: { type: "approval" }, bad, a: step({ input: "a" }) } });
  const id = await harness.started(engine, "two", { input: {} });
  await harness.pass(300);
  await harness.run(pauseRun(engine, { org: "default", runId: id, by: "bob", why: "a look" }));
  await harness.run(approve(engine, { org: "default", jobId: `${id}:ask@1`, by: "bob" }));
  await harness.pass(5_000);
  expect(harness.runOf(id).state).toBe("FAILED");
  expect(harness.states(id)).toEqual({ ask: "SUCCEEDED", bad: "CANCELLED", a: "FAILED" });
  const outcome = await retry(harness, engine, `${id}:a@1`);
  expect(outcome).toMatchObject({ kind: "run_went_on", why: expect.stringContaining("would end immediately") });
  expect(harness.runOf(id).state).toBe("FAILED");
  expect((await harness.job(`${id}:a@1`)).state).toBe("FAILED");
});
