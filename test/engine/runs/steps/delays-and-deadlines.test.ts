import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../../src/config/config.ts";
import type { Settings } from "../../../../src/core/settings.ts";
import { redriveDeadLetter } from "../../../../src/engine/maintenance/redrive.ts";
import { RunHarness } from "../../run-harness.ts";

const never = () => new Promise<never>(() => {});

async function open(settings: Partial<Settings> = {}) {
  const { dispatch } = defaultSettings();
  const harness = new RunHarness({ ...settings, dispatch: { ...dispatch, deadlineMs: 3_600_000 } });
  const { engine } = await harness.control("c1");
  await harness.worker("hang", ["demo.hang"], never, 100, { extendsForMs: 3_600_000 });
  return { harness, engine };
}

const retry = ({ harness, engine }: Awaited<ReturnType<typeof open>>, id: string) =>
  harness.run(redriveDeadLetter(engine, { org: "default", id, by: "bob" }));

test("a run with a steady stream of results still times out", async () => {
  const { harness, engine } = await open();
  const { clock } = engine.world;
  // One result a second, so that the run is written all the time.
  await harness.worker("slow", ["demo.slow"], () => new Promise((resolve) => clock.after(1_000, () => resolve(1))), 1);
  const each = { topic: "demo.slow", for_each: "${input}", input: "${item}", max_parallel: 1 };
  await harness.apply(engine, { id: "fan", timeout_sec: 20, steps: { each } });
  const id = await harness.started(engine, "fan", { input: Array.from({ length: 200 }, (_, at) => at) });
  await harness.pass(30_000);
  expect(harness.runOf(id)).toMatchObject({ state: "TIMEOUT", error: { name: "DeadlineExceeded" } });
});

describe("delay", () => {
  test.each(["5", "March 7", "2030-01-01", "2026-13-01T00:00:00Z", ""])(
    "rejects `delay_until` of `%s`",
    async (when) => {
      const { harness, engine } = await open();
      await harness.apply(engine, { id: "d", steps: { wait: { type: "delay", delay_until: "${input.when}" } } });
      const id = await harness.started(engine, "d", { input: { when } });
      await harness.pass(2_000);
      const error = { name: "ExpressionFailed", message: expect.stringContaining("`delay_until` must be a time") };
      expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error });
    },
  );

  test.each(["", " ", "1e3x", true, [3]])("rejects `delay_sec` of %j", async (seconds) => {
    const { harness, engine } = await open();
    await harness.apply(engine, { id: "d", steps: { wait: { type: "delay", delay_sec: "${input.seconds}" } } });
    const id = await harness.started(engine, "d", { input: { seconds } });
    await harness.pass(2_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "ExpressionFailed" } });
  });

  test.each([
    ["as written", { delay_sec: 86_400 }],
    ["in seconds", { delay_sec: "${input.seconds}" }],
    ["until a time", { delay_until: "${input.until}" }],
  ])("fails at once when it would end after the run deadline: %s", async (_, delay) => {
    const { harness, engine } = await open();
    const steps = { wait: { type: "delay", ...delay, on_error: "continue" }, after: { type: "notify", message: "on" } };
    await harness.apply(engine, { id: "d", timeout_sec: 86_400, steps });
    const until = new Date(engine.world.clock.now() + 86_500_000).toISOString();
    const id = await harness.started(engine, "d", { input: { seconds: 86_400, until } });
    const message = expect.stringMatching(/^the delay ends at .*Z, after the run deadline .*Z; raise `timeout_sec`/);
    expect(harness.runOf(id)).toMatchObject({
      steps: { wait: { state: "FAILED", error: { name: "DelayTooLong", message } } },
    });
    expect(harness.states(id).after).toBe("SUCCEEDED");
  });

  test("of an item fails that item when it would end after the run deadline", async () => {
    const { harness, engine } = await open();
    const wait = { type: "delay", delay_sec: "${item}", for_each: "[1, 100]", failure: { tolerate: 1 } };
    await harness.apply(engine, { id: "d", timeout_sec: 60, steps: { wait } });
    const id = await harness.started(engine, "d");
    await harness.pass(5_000);
    const fan = { succeeded: 1, failed: 1, error: { name: "DelayTooLong" } };
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { wait: { fan } } });
  });

  test("has the same limit in an expression as in a definition", async () => {
    const { harness, engine } = await open({ run: { ...defaultSettings().run, deadlineMs: 40 * 86_400_000 } });
    await harness.apply(engine, { id: "d", steps: { wait: { type: "delay", delay_sec: "${input}" } } });
    const max = await harness.started(engine, "d", { input: 30 * 86_400 });
    expect(harness.states(max)).toEqual({ wait: "RUNNING" });
    const tooLong = await harness.started(engine, "d", { input: 30 * 86_400 + 1 });
    const error = { name: "ExpressionFailed", message: "`delay_sec` must be from 0 to 2592000, got 2592001" };
    expect(harness.runOf(tooLong)).toMatchObject({ state: "FAILED", error });
  });

  test("until a future time ends at that time", async () => {
    const { harness, engine } = await open();
    await harness.apply(engine, { id: "d", steps: { wait: { type: "delay", delay_until: "${input}" } } });
    const untilMs = engine.world.clock.now() + 3_600_500;
    const id = await harness.started(engine, "d", { input: new Date(untilMs).toISOString() });
    await harness.pass(3_600_000);
    expect(harness.states(id)).toEqual({ wait: "RUNNING" });
    await harness.pass(5_000);
    const output = { value: { until: new Date(untilMs).toISOString() } };
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { wait: { output } } });
    expect(harness.runOf(id).steps.wait?.endedMs).toBeGreaterThanOrEqual(untilMs);
  });

  test("until a past time ends at once; `2.5` seconds are accepted", async () => {
    const { harness, engine } = await open();
    const past = { type: "delay", delay_until: "${input.past}" };
    const some = { type: "delay", delay_sec: "${input.seconds}", depends_on: ["past"] };
    await harness.apply(engine, { id: "d", steps: { past, some } });
    const input = { past: "2001-01-01T00:00:00+01:00", seconds: "2.5" };
    const id = await harness.started(engine, "d", { input });
    await harness.pass(2_400);
    expect(harness.states(id)).toEqual({ past: "SUCCEEDED", some: "RUNNING" });
    await harness.pass(1_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
  });

  test("redriven after its timeout keeps its original end", async () => {
    const opened = await open();
    const { harness, engine } = opened;
    const wait = { type: "delay", delay_sec: 100, timeout_sec: 60 };
    await harness.apply(engine, { id: "d", steps: { wait } });
    const fromMs = engine.world.clock.now();
    const id = await harness.started(engine, "d");
    await harness.pass(70_000);
    expect(harness.states(id)).toEqual({ wait: "TIMEOUT" });
    expect(await retry(opened, `${id}:wait@1`)).toMatchObject({ kind: "revived" });
    await harness.pass(29_000);
    expect(harness.states(id)).toEqual({ wait: "RUNNING" });
    await harness.pass(5_000);
    expect(harness.states(id)).toEqual({ wait: "SUCCEEDED" });
    expect(harness.runOf(id).steps.wait?.endedMs).toBeGreaterThanOrEqual(fromMs + 100_000);
  });
});

describe("a redriven step has its full timeout again", () => {
  const steps = {
    worker: { topic: "demo.hang", timeout_sec: 60 },
    approval: { type: "approval", timeout_sec: 60 },
    subworkflow: { type: "subworkflow", workflow: "inner", timeout_sec: 60 },
  };
  test.each(Object.entries(steps))("of type %s", async (_type, step) => {
    const opened = await open();
    const { harness, engine } = opened;
    await harness.apply(engine, { id: "inner", steps: { a: { type: "approval" } } });
    await harness.apply(engine, { id: "t", steps: { a: step } });
    const id = await harness.started(engine, "t");
    await harness.pass(70_000);
    expect(harness.states(id)).toEqual({ a: "TIMEOUT" });
    expect(await retry(opened, `${id}:a@1`)).toMatchObject({ kind: "revived" });
    await harness.pass(50_000);
    expect(harness.states(id)).toEqual({ a: "RUNNING" });
    await harness.pass(20_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", steps: { a: { state: "TIMEOUT" } } });
  });

  test("L43: an approval requested by a crashed process expires at its time", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "t", steps: { ask: { type: "approval", timeout_sec: 60 } } });
    const id = await harness.started(engine, "t");
    harness.crash("c1");
    await harness.control("c2");
    await harness.pass(59_000);
    expect(harness.states(id)).toEqual({ ask: "RUNNING" });
    await harness.pass(5_000);
    expect(harness.states(id)).toEqual({ ask: "TIMEOUT" });
    const { startedMs = 0, endedMs = 0 } = harness.runOf(id).steps.ask ?? {};
    expect(endedMs - startedMs).toBeGreaterThanOrEqual(60_000);
  });

  test("an approval step without a timeout has the full approval period", async () => {
    const opened = await open({ approval: { ...defaultSettings().approval, expiresMs: 25 * 3_600_000 } });
    const { harness, engine } = opened;
    const { approval } = harness.settings;
    await harness.apply(engine, { id: "t", steps: { a: { type: "approval" } } });
    const id = await harness.started(engine, "t");
    await harness.pass(approval.expiresMs + 2_000);
    expect(harness.states(id)).toEqual({ a: "TIMEOUT" });
    const nowMs = engine.world.clock.now();
    expect(await retry(opened, `${id}:a@1`)).toMatchObject({ kind: "revived" });
    expect((await harness.job(`${id}:a@1`)).approval?.expiresMs).toBeGreaterThanOrEqual(nowMs + approval.expiresMs);
  });
});
