import { describe, expect, test } from "vitest";
import { JOBS } from "../../../src/core/model/job.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun, pauseRun, resumeRun } from "../../../src/engine/runs/control-run.ts";
import { approve, reject } from "../../../src/engine/safety/approve-job.ts";
import { RunHarness } from "../run-harness.ts";

const echo = async (item: { input: unknown }) => item.input;
const worker = (topic: string, facts: object = {}) => ({ topic, ...facts });
const chain = (id: string) => ({
  id,
  steps: {
    a: worker("demo.echo", { input: { n: "${input.n}" } }),
    b: worker("demo.echo", { depends_on: ["a"], input: { n: "${steps.a.output.n + 1}" } }),
    c: worker("demo.echo", { depends_on: ["b"], input: { n: "${steps.b.output.n + 1}" } }),
  },
});

describe("run lifecycle", () => {
  test.each(["local", "remote"] as const)("three steps in a row pass their outputs on, kernel %s", async (safety) => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1", safety);
    await harness.worker("w1", ["demo.echo"], echo);
    await harness.apply(engine, chain("chain"));
    const id = await harness.started(engine, "chain", { input: { n: 1 } });
    await harness.pass(5_000);
    expect(harness.states(id)).toEqual({ a: "SUCCEEDED", b: "SUCCEEDED", c: "SUCCEEDED" });
    const run = harness.runOf(id);
    expect(run).toMatchObject({ state: "SUCCEEDED", output: { value: { c: { n: 3 } } } });
    expect(await harness.job(`${id}:a@1`)).toMatchObject({
      state: "SUCCEEDED",
      labels: { run_id: id, step_id: "a", workflow_id: "chain" },
    });
    expect(run.lines.map(({ event, stepId, cause }) => [event, stepId, cause])).toEqual([
      ["run_started", undefined, undefined],
      ["step_started", "a", 0],
      ["step_succeeded", "a", 1],
      ["step_started", "b", 2],
      ["step_succeeded", "b", 3],
      ["step_started", "c", 4],
      ["step_succeeded", "c", 5],
      ["run_succeeded", undefined, 6],
    ]);
  });

  test("with a local kernel, one commit ends a step, updates the run and dispatches the next step", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["demo.echo"], echo);
    await harness.apply(engine, chain("chain"));
    let commits = 0;
    harness.sim.net.onCommit = (_, change) => {
      if (change.puts.some(({ table }) => table === JOBS.name)) commits++;
    };
    await harness.started(engine, "chain", { input: { n: 1 } });
    await harness.pass(5_000);
    expect(commits).toBe(4);
  });

  test("a denied step fails the run in the commit that would have started it", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, {
      id: "bad",
      steps: { a: worker("danger.rm"), b: worker("demo.echo", { depends_on: ["a"] }) },
    });
    const id = await harness.started(engine, "bad");
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "Denied" } });
    expect(harness.states(id)).toEqual({ a: "DENIED", b: "CANCELLED" });
  });

  test("a `for_each` of 1,000 children runs each once, in bounded commits", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    const handled: unknown[] = [];
    await harness.worker("w1", ["demo.echo"], async ({ input }) => handled.push(input), 50);
    await harness.apply(engine, {
      id: "fan",
      output: "${steps.each.output}",
      steps: { each: worker("demo.echo", { for_each: "${input.items}", input: "${item * 2}" }) },
    });
    let putsMax = 0;
    harness.sim.net.onCommit = (_, change) => {
      putsMax = Math.max(putsMax, change.puts.length);
    };
    const items = Array.from({ length: 1_000 }, (_, index) => index);
    const id = await harness.started(engine, "fan", { input: { items } });
    await harness.pass(60_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED" });
    expect(harness.runOf(id).steps.each?.fan).toMatchObject({ count: 1_000, open: 0, succeeded: 1_000, failed: 0 });
    expect([...handled].sort((a, b) => Number(a) - Number(b))).toEqual(items.map((item) => item * 2));
    expect(putsMax).toBeLessThan(600);
  });

  test("an approval step waits in the approvals list and records the approver", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["demo.echo"], echo);
    await harness.apply(engine, {
      id: "ask",
      steps: {
        ask: { type: "approval", reason: "pay ${input.amount}" },
        pay: worker("demo.echo", { depends_on: ["ask"], input: { by: "${steps.ask.output.approved_by}" } }),
      },
    });
    const id = await harness.started(engine, "ask", { input: { amount: 5 } });
    const jobId = `${id}:ask@1`;
    expect(await harness.job(jobId)).toMatchObject({ state: "APPROVAL_REQUIRED", safety: { reason: "pay 5" } });
    expect(await harness.run(approve(engine, { org: "default", jobId, by: "alice" }))).toEqual({ kind: "own_job" });
    expect(await harness.run(approve(engine, { org: "default", jobId, by: "bob" }))).toEqual({
      kind: "approved",
      state: "SUCCEEDED",
    });
    await harness.pass(2_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { pay: { by: "bob" } } } });
    const other = await harness.started(engine, "ask", { input: { amount: 6 } });
    await harness.run(reject(engine, { org: "default", jobId: `${other}:ask@1`, by: "bob", why: "too much" }));
    expect(harness.runOf(other)).toMatchObject({ state: "FAILED", error: { message: "too much" } });
  });

  test("L43: a delay ends at its time after a crash of the process that set it", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "wait", steps: { wait: { type: "delay", delay_sec: 30 } } });
    const id = await harness.started(engine, "wait");
    harness.crash("c1");
    await harness.control("c2");
    await harness.pass(29_000);
    expect(harness.states(id)).toEqual({ wait: "RUNNING" });
    await harness.pass(15_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED" });
  });

  test("a sub-workflow is admitted, returns its output, and is cancelled with its parent", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["demo.echo"], echo);
    await harness.apply(engine, chain("chain"));
    await harness.apply(engine, {
      id: "outer",
      steps: { sub: { type: "subworkflow", workflow: "chain", input: { n: 10 } } },
    });
    const id = await harness.started(engine, "outer");
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { sub: { c: { n: 12 } } } } });
    await harness.apply(engine, { id: "hang", steps: { wait: { type: "delay", delay_sec: 3_600 } } });
    await harness.apply(engine, { id: "outer2", steps: { sub: { type: "subworkflow", workflow: "hang" } } });
    const open = await harness.started(engine, "outer2");
    await harness.pass(1_000);
    const sub = (await harness.job(`${open}:sub@1`)).step?.subRunId ?? "";
    expect(harness.runOf(sub).state).toBe("RUNNING");
    await harness.run(cancelRun(engine, { org: "default", runId: open, by: "bob", why: "enough" }));
    await harness.pass(1_000);
    expect(harness.runOf(sub).state).toBe("CANCELLED");
    expect(harness.runOf(open).state).toBe("CANCELLED");
  });

  test("a paused run starts no step until it is resumed", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["demo.echo"], echo);
    await harness.apply(engine, {
      id: "p",
      steps: { wait: { type: "delay", delay_sec: 5 }, a: worker("demo.echo", { depends_on: ["wait"] }) },
    });
    const id = await harness.started(engine, "p");
    const control = { org: "default", runId: id, by: "bob", why: "let me look" };
    expect(await harness.run(pauseRun(engine, control))).toEqual({ kind: "moved", state: "PAUSED" });
    await harness.pass(20_000);
    expect(harness.states(id)).toEqual({ wait: "SUCCEEDED" });
    expect(await harness.run(resumeRun(engine, control))).toEqual({ kind: "moved", state: "RUNNING" });
    await harness.pass(2_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
  });

  test("a redriven step rejoins its run; a rerun keeps earlier steps", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    let isBroken = true;
    await harness.worker("w1", ["demo.echo"], echo);
    await harness.worker("w2", ["demo.flaky"], async ({ input }) => {
      if (isBroken) throw new Error("broken");
      return input;
    });
    await harness.apply(engine, {
      id: "heal",
      steps: {
        a: worker("demo.echo", { input: 1 }),
        b: worker("demo.flaky", { depends_on: ["a"], input: "${steps.a.output}", retry: { max_retries: 1 } }),
        c: worker("demo.echo", { depends_on: ["b"], input: "${steps.b.output}" }),
      },
    });
    const id = await harness.started(engine, "heal");
    await harness.pass(20_000);
    expect(harness.states(id)).toEqual({ a: "SUCCEEDED", b: "FAILED", c: "CANCELLED" });
    expect(await harness.job(`${id}:b@1`)).toMatchObject({ state: "FAILED", attempt: 2 });
    isBroken = false;
    const retried = await harness.run(redriveDeadLetter(engine, { org: "default", id: `${id}:b@1`, by: "bob" }));
    expect(retried).toMatchObject({ kind: "revived" });
    await harness.pass(20_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { c: 1 } } });
    const again = await harness.run(
      rerun(engine, { org: "default", runId: id, fromStep: "c", by: "bob", idempotencyKey: null }),
    );
    if (again.kind !== "started") throw new Error(JSON.stringify(again));
    await harness.pass(5_000);
    expect(harness.states(again.runId)).toEqual({ a: "SUCCEEDED", b: "SUCCEEDED", c: "SUCCEEDED" });
    await expect(harness.job(`${again.runId}:a@1`)).rejects.toThrow("no job");
  });
});
