import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../../src/config/config.ts";
import { deleteWorkflow } from "../../../../src/engine/runs/workflows.ts";
import { approve, reject } from "../../../../src/engine/safety/approve-job.ts";
import { DLQ } from "../../../../src/protocol/subjects.ts";
import { RunHarness } from "../../run-harness.ts";

const worker = (topic: string, facts: object = {}) => ({ topic, ...facts });
const ONCE = { retry: { max_retries: 0 } };

/** Workers that echo, fail, fail for odd inputs, or never answer. */
async function openSteps(safety: "local" | "remote" = "local") {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1", safety);
  const handled: string[] = [];
  const record = async <T>(jobId: string, value: T): Promise<T> => {
    handled.push(jobId.replace(/^[^:]*:/, ""));
    return value;
  };
  await harness.worker("echo", ["demo.echo"], ({ jobId, input }) => record(jobId, input), 100);
  await harness.worker("bad", ["demo.bad"], async ({ jobId, input }) => {
    await record(jobId, null);
    throw new Error(`no: ${JSON.stringify(input)}`);
  });
  await harness.worker("odd", ["demo.odd"], async ({ jobId, input }) => {
    await record(jobId, null);
    if (Number(input) % 2 === 1) throw new Error(`odd: ${input}`);
    return input;
  });
  await harness.worker(
    "hang",
    ["demo.hang"],
    ({ jobId }) => record(jobId, null).then(() => new Promise(() => {})),
    2_000,
  );
  return { harness, engine, handled };
}

describe("retries of a step", () => {
  test("follow its own count and backoff", async () => {
    const { harness, engine } = await openSteps();
    const times: number[] = [];
    await harness.worker("w", ["demo.times"], async () => {
      times.push(engine.world.clock.now());
      throw new Error("broken");
    });
    const retry = { max_retries: 3, initial_backoff_sec: 10, multiplier: 3, max_backoff_sec: 60, jitter: "none" };
    await harness.apply(engine, { id: "r", steps: { a: worker("demo.times", { retry }) } });
    const id = await harness.started(engine, "r");
    await harness.pass(300_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { message: "broken" } });
    const gapsS = times.slice(1).map((atMs, at) => Math.round((atMs - (times[at] ?? 0)) / 1_000));
    expect(gapsS).toEqual([10, 30, 60]);
  });

  test("L45: retries of one child do not affect the others", async () => {
    const { harness, engine, handled } = await openSteps();
    const step = worker("demo.odd", { for_each: "${[0, 1, 2]}", failure: "wait_all", retry: { max_retries: 2 } });
    await harness.apply(engine, { id: "r", steps: { a: step } });
    const id = await harness.started(engine, "r");
    await harness.pass(60_000);
    expect([...handled].sort()).toEqual(["a.0@1", "a.1@1", "a.1@1", "a.1@1", "a.2@1"]);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { message: "odd: 1" } });
  });
});

describe("a failed step", () => {
  test("is reported to the subscribers of dead letters, like any job", async () => {
    const { harness, engine } = await openSteps();
    const reported: string[] = [];
    await harness.run(
      engine.world.bus.consume(DLQ, "watch", async ({ content }) => {
        const body = content.kind === "packet" ? content.packet.body : null;
        if (body?.kind === "job_result") reported.push(`${body.jobId} ${body.status}: ${body.errorMessage}`);
        return { kind: "ack" };
      }),
    );
    const goesOn = { ...ONCE, on_error: "continue" };
    const steps = { bad: worker("demo.bad", goesOn), no: worker("danger.x", goesOn), fine: worker("demo.echo") };
    await harness.apply(engine, { id: "r", steps });
    const id = await harness.started(engine, "r", { input: 1 });
    await harness.pass(5_000);
    expect(reported.sort()).toEqual([`${id}:bad@1 failed: no: 1`, `${id}:no@1 denied: deny by rule`]);
  });

  const failing = (onError?: string) => ({
    a: worker("demo.bad", { ...ONCE, input: 7, ...(onError === undefined ? {} : { on_error: onError }) }),
    b: worker("demo.echo", { depends_on: ["a"], input: { state: "${steps.a.state}", output: "${steps.a.output}" } }),
  });

  test("fails the run by default; with `continue` its state is visible to the next step", async () => {
    const { harness, engine } = await openSteps();
    await harness.apply(engine, { id: "fail", steps: failing() });
    await harness.apply(engine, { id: "go", steps: failing("continue") });
    const [fail, go] = [await harness.started(engine, "fail"), await harness.started(engine, "go")];
    await harness.pass(10_000);
    expect(harness.runOf(fail)).toMatchObject({ state: "FAILED", error: { message: "no: 7" } });
    expect(harness.states(fail)).toEqual({ a: "FAILED", b: "CANCELLED" });
    expect(harness.runOf(go)).toMatchObject({
      state: "SUCCEEDED",
      output: { value: { b: { state: "FAILED", output: null } } },
    });
  });

  test("an unused error handler does not change the run's output", async () => {
    const { harness, engine } = await openSteps();
    const steps = { a: worker("demo.echo", { input: 1, on_error: "mend" }), mend: worker("demo.echo") };
    await harness.apply(engine, { id: "fine", steps });
    const id = await harness.started(engine, "fine");
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { a: 1 } } });
  });

  test("runs its error handler with the error; its dependents are skipped", async () => {
    const { harness, engine } = await openSteps();
    const mend = worker("demo.echo", { input: { why: "${steps.a.error.message}" } });
    await harness.apply(engine, { id: "handled", steps: { ...failing("mend"), mend } });
    const id = await harness.started(engine, "handled");
    await harness.pass(10_000);
    expect(harness.states(id)).toEqual({ a: "FAILED", mend: "SUCCEEDED", b: "SKIPPED" });
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { mend: { why: "no: 7" } } } });
  });

  test.each(["local", "remote"] as const)(
    "denied by the policy: the run fails as denied, kernel %s",
    async (safety) => {
      const { harness, engine, handled } = await openSteps(safety);
      const steps = { a: worker("demo.echo", { input: 1 }), b: worker("danger.rm", { depends_on: ["a"] }) };
      await harness.apply(engine, { id: "danger", steps: { ...steps, c: worker("demo.echo", { depends_on: ["b"] }) } });
      const id = await harness.started(engine, "danger");
      await harness.pass(10_000);
      expect(harness.states(id)).toEqual({ a: "SUCCEEDED", b: "DENIED", c: "CANCELLED" });
      expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { message: "deny by rule" } });
      expect(handled).toEqual(["a@1"]);
    },
  );

  test("that times out runs its error handler", async () => {
    const { harness, engine } = await openSteps();
    const steps = { a: worker("demo.hang", { timeout_sec: 20, on_error: "b" }), b: worker("demo.echo", { input: 1 }) };
    await harness.apply(engine, { id: "slow", steps });
    const id = await harness.started(engine, "slow");
    await harness.pass(19_000);
    expect(harness.states(id)).toEqual({ a: "RUNNING" });
    await harness.pass(11_000);
    expect(harness.states(id)).toEqual({ a: "TIMEOUT", b: "SUCCEEDED" });
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
  });

  test("with an output that does not match its schema names the path", async () => {
    const { harness, engine } = await openSteps();
    const schema = {
      type: "object",
      required: ["order"],
      properties: { order: { type: "object", properties: { lines: { type: "array", items: { type: "integer" } } } } },
    };
    const input = { order: { lines: [1, "two"] } };
    await harness.apply(engine, { id: "s", steps: { a: worker("demo.echo", { input, output_schema: schema }) } });
    const id = await harness.started(engine, "s");
    await harness.pass(5_000);
    const { state, error } = harness.runOf(id);
    expect({ state, name: error?.name }).toEqual({ state: "FAILED", name: "OutputInvalid" });
    expect(error?.message).toMatch(/order.*lines.*1/);
  });
});

describe("branching", () => {
  test.each([
    ["gold", ["big"]],
    ["silver", ["small"]],
    ["wood", ["none"]],
  ])("a switch on %s", async (kind, chosen) => {
    const { harness, engine, handled } = await openSteps();
    const steps = {
      which: {
        type: "switch",
        switch: "${input.kind}",
        cases: { gold: ["big"], silver: ["small"] },
        default: ["none"],
      },
      ...Object.fromEntries(["big", "small", "none"].map((id) => [id, worker("demo.echo", { input: id })])),
    };
    await harness.apply(engine, { id: "sw", steps });
    const id = await harness.started(engine, "sw", { input: { kind } });
    await harness.pass(5_000);
    expect(handled).toEqual(chosen.map((step) => `${step}@1`));
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
  });

  test("`any` takes the first branch and aborts the others", async () => {
    const { harness, engine } = await openSteps();
    const stopped: string[] = [];
    await harness.worker("slow", ["demo.slow"], ({ jobId, signal }) => {
      signal.addEventListener("abort", () => stopped.push(jobId));
      return new Promise(() => {});
    });
    const branches = { fast: worker("demo.echo", { input: 1 }), s1: worker("demo.slow"), s2: worker("demo.slow") };
    const race = { type: "parallel", branches: Object.keys(branches), join: "any" };
    await harness.apply(engine, { id: "race", steps: { race, ...branches } });
    const id = await harness.started(engine, "race");
    await harness.pass(5_000);
    expect(harness.states(id)).toEqual({ race: "SUCCEEDED", fast: "SUCCEEDED", s1: "CANCELLED", s2: "CANCELLED" });
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { race: { fast: 1 } } } });
    expect([...stopped].sort()).toEqual([`${id}:s1@1`, `${id}:s2@1`]);
  });

  test.each([
    [2, "SUCCEEDED"],
    [3, "FAILED"],
  ])("%i of 4 branches with 2 failures: %s", async (n, state) => {
    const { harness, engine } = await openSteps();
    const branches = Object.fromEntries(
      [0, 1, 2, 3].map((at) => [`b${at}`, worker("demo.odd", { ...ONCE, input: at })]),
    );
    const some = { type: "parallel", branches: Object.keys(branches), join: "n_of_m", n };
    await harness.apply(engine, { id: "some", steps: { some, ...branches } });
    const id = await harness.started(engine, "some");
    await harness.pass(5_000);
    expect(harness.runOf(id).state).toBe(state);
    expect(harness.states(id)).toMatchObject({ some: state });
  });
});

describe.each(["local", "remote"] as const)("step jobs follow the rules of all jobs, kernel %s", (safety) => {
  test("a step that requires approval waits for it; a rejection fails the run", async () => {
    const { harness, engine, handled } = await openSteps(safety);
    const { decide } = harness.kernel;
    const asks = { effect: "require_approval", ruleId: "risky", reason: "a human decides", snapshot: "s1" } as const;
    Object.assign(harness.kernel, {
      decide: (request: Parameters<typeof decide>[0]) => (request.labels.step_id === "pay" ? asks : decide(request)),
    });
    const pay = worker("demo.echo", { input: 5 });
    await harness.apply(engine, {
      id: "pay",
      steps: { pay, ship: worker("demo.echo", { depends_on: ["pay"], input: 6 }) },
    });
    const [first, second] = [await harness.started(engine, "pay"), await harness.started(engine, "pay")];
    await harness.pass(5_000);
    expect(await harness.job(`${first}:pay@1`)).toMatchObject({ state: "APPROVAL_REQUIRED" });
    expect(handled).toEqual([]);
    const request = (id: string) => ({ org: "default", jobId: `${id}:pay@1`, by: "bob" });
    expect(await harness.run(approve(engine, request(first)))).toMatchObject({ kind: "approved" });
    await harness.run(reject(engine, { ...request(second), why: "too much" }));
    await harness.pass(5_000);
    expect(harness.runOf(first).state).toBe("SUCCEEDED");
    expect(harness.runOf(second)).toMatchObject({ state: "FAILED", error: { message: "too much" } });
    expect(harness.states(second)).toEqual({ pay: "DENIED", ship: "CANCELLED" });
    expect(handled).toEqual(["pay@1", "ship@1"]);
  });

  test("running children respect the tenant's job limit", async () => {
    const { limits } = defaultSettings();
    const harness = new RunHarness({ limits: { ...limits, concurrentJobsMax: 5 } });
    const { engine } = await harness.control("c1", safety);
    let [running, runningMax] = [0, 0];
    await harness.worker(
      "w1",
      ["demo.slow"],
      async () => {
        running += 1;
        runningMax = Math.max(runningMax, running);
        await new Promise<void>((resolve) => engine.world.clock.after(200, resolve));
        running -= 1;
      },
      100,
    );
    await harness.apply(engine, { id: "many", steps: { each: worker("demo.slow", { for_each: "${input}" }) } });
    const id = await harness.started(engine, "many", { input: Array.from({ length: 60 }, (_, at) => at) });
    await harness.pass(120_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
    expect(runningMax).toBe(5);
  });
});

test("L44: a run keeps its workflow version after updates and deletion", async () => {
  const { harness, engine, handled } = await openSteps();
  const waiting = (then: object) => ({ id: "v", steps: { wait: { type: "delay", delay_sec: 30 }, ...then } });
  await harness.apply(engine, waiting({ old: worker("demo.echo", { depends_on: ["wait"], input: 1 }) }));
  const first = await harness.started(engine, "v");
  await harness.apply(engine, waiting({ fresh: worker("demo.echo", { depends_on: ["wait"], input: 2 }) }));
  const second = await harness.started(engine, "v");
  await harness.run(deleteWorkflow(engine, { org: "default", id: "v", by: "bob" }));
  expect(await harness.start(engine, "v")).toEqual({ kind: "no_workflow" });
  // Not from the cache of this process.
  harness.crash("c1");
  await harness.control("c2");
  await harness.pass(60_000);
  expect([harness.runOf(first), harness.runOf(second)].map(({ state, version }) => [state, version])).toEqual([
    ["SUCCEEDED", 1],
    ["SUCCEEDED", 2],
  ]);
  expect([...handled].sort()).toEqual(["fresh@1", "old@1"]);
});
