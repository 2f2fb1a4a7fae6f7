import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { JOBS, type Job } from "../../../src/core/model/job.ts";
import { isRunFinal, RUNS } from "../../../src/core/model/run.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { cancelRun, pauseRun, resumeRun } from "../../../src/engine/runs/control-run.ts";
import { RunHarness } from "../run-harness.ts";

const worker = (topic: string, facts: object = {}) => ({ topic, ...facts });
const sub = (workflow: string, facts: object = {}) => ({ type: "subworkflow", workflow, ...facts });

describe("sub-workflows", () => {
  test("a failed sub-workflow is retried as a new run, as often as the step allows", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    let handled = 0;
    await harness.worker("w1", ["demo.flaky"], async () => {
      handled += 1;
      if (handled < 3) throw new Error(`broken ${handled}`);
      return handled;
    });
    await harness.apply(engine, { id: "inner", steps: { a: worker("demo.flaky", { retry: { max_retries: 0 } }) } });
    await harness.apply(engine, { id: "outer", steps: { sub: sub("inner", { retry: { max_retries: 2 } }) } });
    const id = await harness.started(engine, "outer");
    await harness.pass(60_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { sub: { a: 3 } } } });
    const runs = [...harness.sim.net.store.rows(RUNS)].filter(({ value }) => value.parent?.runId === id);
    expect(runs.map(({ value }) => value.state).sort()).toEqual(["FAILED", "FAILED", "SUCCEEDED"]);
    expect(runs.every(({ value }) => value.isParentTold)).toBe(true);
  });

  test("a failed sub-workflow without retries passes its error to the parent", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["demo.bad"], async () => {
      throw new Error("no such account");
    });
    const inner = { a: worker("demo.bad", { retry: { max_retries: 0 } }) };
    await harness.apply(engine, { id: "inner", steps: inner });
    await harness.apply(engine, { id: "outer", steps: { sub: sub("inner") } });
    const id = await harness.started(engine, "outer");
    await harness.pass(30_000);
    const { error } = harness.runOf(id);
    expect(error?.message).toMatch(/^run .*: .*no such account/);
    expect([...harness.sim.net.store.rows(RUNS)]).toHaveLength(2);
  });

  test("a sub-run inherits labels, priority and actor of its step", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "inner", steps: { a: { topic: "demo.unserved" } } });
    const facts = { labels: { env: "prod" }, priority: "critical", actor_id: "billing" };
    await harness.apply(engine, { id: "outer", steps: { sub: { type: "subworkflow", workflow: "inner", ...facts } } });
    const id = await harness.started(engine, "outer", { labels: { team: "red" } });
    await harness.pass(1_000);
    const inner = harness.runOf((await harness.job(`${id}:sub@1`)).step?.subRunId ?? "");
    expect(inner).toMatchObject({ priority: "critical", actorId: "billing", traceId: harness.runOf(id).traceId });
    expect(inner.labels).toEqual({ team: "red", env: "prod" });
    const job = await harness.job(`${inner.id}:a@1`);
    expect(job).toMatchObject({
      priority: "critical",
      labels: { env: "prod", workflow_id: "inner", run_id: inner.id },
    });
  });

  test("a sub-workflow waiting for a slot does not start while its parent is paused", async () => {
    const harness = new RunHarness({ limits: { ...defaultSettings().limits, concurrentRunsMax: 2 } });
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["demo.echo"], async () => "ok");
    await harness.apply(engine, { id: "ask", steps: { ask: { type: "approval" } } });
    await harness.apply(engine, { id: "inner", steps: { a: worker("demo.echo") } });
    await harness.apply(engine, { id: "outer", steps: { sub: sub("inner") } });
    const other = await harness.started(engine, "ask");
    const id = await harness.started(engine, "outer");
    await harness.pass(10_000);
    const control = (runId: string) => ({ org: "default", runId, by: "bob", why: "wait" });
    await harness.run(pauseRun(engine, control(id)));
    await harness.run(cancelRun(engine, control(other)));
    await harness.pass(120_000);
    expect([...harness.sim.net.store.rows(RUNS)]).toHaveLength(2);
    const { wait } = await harness.job(`${id}:sub@1`);
    expect(wait?.reason).toBe(`run ${id} is paused`);
    await harness.run(resumeRun(engine, control(id)));
    await harness.pass(60_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { sub: { a: "ok" } } } });
  });

  // Each pass crashes the process at a later commit.
  test.each(["SUCCEEDED", "FAILED"] as const)(
    "the parent is notified once, wherever the process crashes: %s",
    async (end) => {
      let crashes = 0;
      for (let crashCommit = 1; ; crashCommit++) {
        const harness = new RunHarness();
        const { engine } = await harness.control("c1");
        await harness.worker("w1", ["demo.echo"], async () => {
          if (end === "FAILED") throw new Error("broken");
          return "ok";
        });
        // A job that was never dispatched counts as an attempt.
        const retry = end === "FAILED" ? { retry: { max_retries: 0 } } : {};
        await harness.apply(engine, { id: "inner", steps: { a: worker("demo.echo", retry) } });
        await harness.apply(engine, { id: "outer", steps: { sub: sub("inner", { retry: { max_retries: 1 } }) } });
        const id = await harness.started(engine, "outer");
        let commits = 0;
        harness.sim.net.onCommit = (by, change) => {
          if (by.name !== "c1" || !change.puts.some(({ table }) => table === JOBS.name || table === RUNS.name)) return;
          commits += 1;
          if (commits === crashCommit) harness.crash("c1");
        };
        await harness.pass(2_000);
        await harness.control("c2");
        await harness.pass(200_000);
        expect(harness.runOf(id).state).toBe(end);
        const inner = [...harness.sim.net.store.rows(RUNS)].filter(({ value }) => value.parent?.runId === id);
        expect(inner.map(({ value }) => value.state)).toEqual(Array(end === "FAILED" ? 2 : 1).fill(end));
        expect(inner.map(({ value }) => value.isParentTold)).toEqual(inner.map(() => true));
        if (commits < crashCommit) break;
        crashes += 1;
      }
      expect(crashes).toBeGreaterThanOrEqual(3);
    },
  );

  test("cancel ends a tree of sub-runs, three deep and ten wide, without lock contention", async () => {
    const harness = new RunHarness({ limits: { ...defaultSettings().limits, concurrentRunsMax: 1_000 } });
    const { engine } = await harness.control("c1");
    await harness.control("c2");
    const each = { for_each: "${[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}" };
    await harness.apply(engine, { id: "leaf", steps: { ask: { type: "approval" } } });
    await harness.apply(engine, { id: "branch", steps: { sub: sub("leaf", each) } });
    await harness.apply(engine, { id: "root", steps: { sub: sub("branch", each) } });
    const id = await harness.started(engine, "root");
    await harness.pass(10_000);
    const open = () => [...harness.sim.net.store.rows(RUNS)].filter(({ value }) => !isRunFinal(value.state)).length;
    expect(open()).toBe(111);
    await harness.run(cancelRun(engine, { org: "default", runId: id, by: "bob", why: "enough" }));
    // Before the sweeper runs.
    await harness.pass(2_000);
    expect(open()).toBe(0);
    expect(harness.sim.net.counting.counters.get("cordum_lock_busy_retries_total")).toBeUndefined();
    const jobs = [...harness.sim.net.store.rows(JOBS)].map(({ value }): Job["state"] => value.state);
    expect(new Set(jobs)).toEqual(new Set(["CANCELLED"]));
  });

  test("a recursive workflow fails at the depth limit, not at the run limit", async () => {
    const harness = new RunHarness({ limits: { ...defaultSettings().limits, concurrentRunsMax: 100 } });
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "self", steps: { again: sub("self") } });
    const id = await harness.started(engine, "self");
    await harness.pass(60_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { message: expect.stringContaining("8 deep") } });
    expect([...harness.sim.net.store.rows(RUNS)]).toHaveLength(9);
  });

  test("a step timeout cancels its sub-run", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "slow", steps: { ask: { type: "approval" } } });
    await harness.apply(engine, {
      id: "outer",
      steps: { sub: sub("slow", { timeout_sec: 30, on_error: "continue" }) },
    });
    const id = await harness.started(engine, "outer");
    await harness.pass(60_000);
    expect(harness.states(id)).toEqual({ sub: "TIMEOUT" });
    const inner = harness.runOf((await harness.job(`${id}:sub@1`)).step?.subRunId ?? "");
    expect(inner).toMatchObject({ state: "CANCELLED" });
  });
});

test("a rerun copies the outputs it keeps and nothing else", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["demo.large"], async () => "x".repeat(300_000));
  await harness.apply(engine, {
    id: "two",
    steps: { a: worker("demo.large"), b: worker("demo.large", { depends_on: ["a"] }) },
  });
  const first = await harness.started(engine, "two");
  await harness.pass(5_000);
  harness.crash("w1");
  const request = { org: "default", runId: first, fromStep: "b", by: "bob", idempotencyKey: null };
  const again = await harness.run(rerun(engine, request));
  if (again.kind !== "started") throw new Error(again.kind);
  const blobs = [...harness.sim.net.blobs.keys()].filter((key) => key.includes(again.runId));
  const { output } = harness.runOf(again.runId).steps.a ?? {};
  expect(blobs).toEqual([output?.kind === "pointer" ? output.ptr : ""]);
});
