import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { retryLetter } from "../../../src/engine/maintenance/redrive.ts";
import { RunPlant } from "../run-harness.ts";

const never = () => new Promise<never>(() => {});

async function open(settings: Partial<Settings> = {}) {
  const { dispatch } = defaultSettings();
  const plant = new RunPlant({ ...settings, dispatch: { ...dispatch, deadlineMs: 3_600_000 } });
  const { flow } = await plant.control("c1");
  await plant.worker("hang", ["demo.hang"], never, 100, { extendsForMs: 3_600_000 });
  return { plant, flow };
}

const retry = ({ plant, flow }: Awaited<ReturnType<typeof open>>, id: string) =>
  plant.run(retryLetter(flow, { org: "default", id, by: "bob" }));

test("a run whose results keep coming ends when its time is up", async () => {
  const { plant, flow } = await open();
  const { clock } = flow.world;
  // One result every second: there is always somebody who writes the run.
  await plant.worker("slow", ["demo.slow"], () => new Promise((resolve) => clock.after(1_000, () => resolve(1))), 1);
  const each = { topic: "demo.slow", for_each: "${input}", input: "${item}", max_parallel: 1 };
  await plant.apply(flow, { id: "fan", timeout_sec: 20, steps: { each } });
  const id = await plant.started(flow, "fan", { input: Array.from({ length: 200 }, (_, at) => at) });
  await plant.pass(30_000);
  expect(plant.runOf(id)).toMatchObject({ state: "TIMEOUT", error: { name: "DeadlineExceeded" } });
});

describe("a delay", () => {
  test.each(["5", "March 7", "2030-01-01", "2026-13-01T00:00:00Z", ""])(
    "until `%s` is none: the step fails, instead of going on at once",
    async (when) => {
      const { plant, flow } = await open();
      await plant.apply(flow, { id: "d", steps: { wait: { type: "delay", delay_until: "${input.when}" } } });
      const id = await plant.started(flow, "d", { input: { when } });
      await plant.pass(2_000);
      const error = { name: "ExpressionFailed", message: expect.stringContaining("`delay_until` must be a time") };
      expect(plant.runOf(id)).toMatchObject({ state: "FAILED", error });
    },
  );

  test.each(["", " ", "1e3x", true, [3]])("of %j seconds is none", async (seconds) => {
    const { plant, flow } = await open();
    await plant.apply(flow, { id: "d", steps: { wait: { type: "delay", delay_sec: "${input.seconds}" } } });
    const id = await plant.started(flow, "d", { input: { seconds } });
    await plant.pass(2_000);
    expect(plant.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "ExpressionFailed" } });
  });

  test.each([
    ["as written", { delay_sec: 86_400 }],
    ["in seconds", { delay_sec: "${input.seconds}" }],
    ["until a time", { delay_until: "${input.until}" }],
  ])("that would end after its run fails at once, and says so: %s", async (_, delay) => {
    const { plant, flow } = await open();
    const steps = { wait: { type: "delay", ...delay, on_error: "continue" }, after: { type: "notify", message: "on" } };
    await plant.apply(flow, { id: "d", timeout_sec: 86_400, steps });
    const until = new Date(flow.world.clock.now() + 86_500_000).toISOString();
    const id = await plant.started(flow, "d", { input: { seconds: 86_400, until } });
    const message = expect.stringMatching(/^the delay would end at .*Z, and the run ends at .*Z: give it more time/);
    expect(plant.runOf(id)).toMatchObject({
      steps: { wait: { state: "FAILED", error: { name: "DelayTooLong", message } } },
    });
    expect(plant.states(id).after).toBe("SUCCEEDED");
  });

  test("of an item that would end after its run fails that item", async () => {
    const { plant, flow } = await open();
    const wait = { type: "delay", delay_sec: "${item}", for_each: "[1, 100]", failure: { tolerate: 1 } };
    await plant.apply(flow, { id: "d", timeout_sec: 60, steps: { wait } });
    const id = await plant.started(flow, "d");
    await plant.pass(5_000);
    const fan = { succeeded: 1, failed: 1, error: { name: "DelayTooLong" } };
    expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { wait: { fan } } });
  });

  test("takes as many seconds from an expression as from a definition, and no more", async () => {
    const { plant, flow } = await open({ run: { ...defaultSettings().run, deadlineMs: 40 * 86_400_000 } });
    await plant.apply(flow, { id: "d", steps: { wait: { type: "delay", delay_sec: "${input}" } } });
    const most = await plant.started(flow, "d", { input: 30 * 86_400 });
    expect(plant.states(most)).toEqual({ wait: "RUNNING" });
    const more = await plant.started(flow, "d", { input: 30 * 86_400 + 1 });
    const error = { name: "ExpressionFailed", message: "`delay_sec` must be from 0 to 2592000, is 2592001" };
    expect(plant.runOf(more)).toMatchObject({ state: "FAILED", error });
  });

  test("until a time to come ends at that time, and not before", async () => {
    const { plant, flow } = await open();
    await plant.apply(flow, { id: "d", steps: { wait: { type: "delay", delay_until: "${input}" } } });
    const untilMs = flow.world.clock.now() + 3_600_500;
    const id = await plant.started(flow, "d", { input: new Date(untilMs).toISOString() });
    await plant.pass(3_600_000);
    expect(plant.states(id)).toEqual({ wait: "RUNNING" });
    await plant.pass(5_000);
    const output = { value: { until: new Date(untilMs).toISOString() } };
    expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { wait: { output } } });
    expect(plant.runOf(id).steps.wait?.endedMs).toBeGreaterThanOrEqual(untilMs);
  });

  test("until a time that has passed goes on at once, and of `2.5` seconds after as many", async () => {
    const { plant, flow } = await open();
    const past = { type: "delay", delay_until: "${input.past}" };
    const some = { type: "delay", delay_sec: "${input.seconds}", depends_on: ["past"] };
    await plant.apply(flow, { id: "d", steps: { past, some } });
    const input = { past: "2001-01-01T00:00:00+01:00", seconds: "2.5" };
    const id = await plant.started(flow, "d", { input });
    await plant.pass(2_400);
    expect(plant.states(id)).toEqual({ past: "SUCCEEDED", some: "RUNNING" });
    await plant.pass(1_000);
    expect(plant.runOf(id).state).toBe("SUCCEEDED");
  });

  test("that is tried again after it took too long ends at its time, and not before", async () => {
    const opened = await open();
    const { plant, flow } = opened;
    const wait = { type: "delay", delay_sec: 100, timeout_sec: 60 };
    await plant.apply(flow, { id: "d", steps: { wait } });
    const fromMs = flow.world.clock.now();
    const id = await plant.started(flow, "d");
    await plant.pass(70_000);
    expect(plant.states(id)).toEqual({ wait: "TIMEOUT" });
    expect(await retry(opened, `${id}:wait@1`)).toMatchObject({ kind: "revived" });
    await plant.pass(29_000);
    expect(plant.states(id)).toEqual({ wait: "RUNNING" });
    await plant.pass(5_000);
    expect(plant.states(id)).toEqual({ wait: "SUCCEEDED" });
    expect(plant.runOf(id).steps.wait?.endedMs).toBeGreaterThanOrEqual(fromMs + 100_000);
  });
});

describe("a step that is tried again after its death has as much time as the first time", () => {
  const steps = {
    worker: { topic: "demo.hang", timeout_sec: 60 },
    approval: { type: "approval", timeout_sec: 60 },
    subworkflow: { type: "subworkflow", workflow: "inner", timeout_sec: 60 },
  };
  test.each(Object.entries(steps))("%s", async (_type, step) => {
    const opened = await open();
    const { plant, flow } = opened;
    await plant.apply(flow, { id: "inner", steps: { a: { type: "approval" } } });
    await plant.apply(flow, { id: "t", steps: { a: step } });
    const id = await plant.started(flow, "t");
    await plant.pass(70_000);
    expect(plant.states(id)).toEqual({ a: "TIMEOUT" });
    expect(await retry(opened, `${id}:a@1`)).toMatchObject({ kind: "revived" });
    await plant.pass(50_000);
    expect(plant.states(id)).toEqual({ a: "RUNNING" });
    await plant.pass(20_000);
    expect(plant.runOf(id)).toMatchObject({ state: "FAILED", steps: { a: { state: "TIMEOUT" } } });
  });

  test("L43: an approval that a process which died has asked for ends at its time, and not before", async () => {
    const plant = new RunPlant();
    const { flow } = await plant.control("c1");
    await plant.apply(flow, { id: "t", steps: { ask: { type: "approval", timeout_sec: 60 } } });
    const id = await plant.started(flow, "t");
    plant.crash("c1");
    await plant.control("c2");
    await plant.pass(59_000);
    expect(plant.states(id)).toEqual({ ask: "RUNNING" });
    await plant.pass(5_000);
    expect(plant.states(id)).toEqual({ ask: "TIMEOUT" });
    const { startedMs = 0, endedMs = 0 } = plant.runOf(id).steps.ask ?? {};
    expect(endedMs - startedMs).toBeGreaterThanOrEqual(60_000);
  });

  test("an approval step without a time of its own: all the time that people have", async () => {
    const opened = await open({ approval: { ...defaultSettings().approval, expiresMs: 25 * 3_600_000 } });
    const { plant, flow } = opened;
    const { approval } = plant.settings;
    await plant.apply(flow, { id: "t", steps: { a: { type: "approval" } } });
    const id = await plant.started(flow, "t");
    await plant.pass(approval.expiresMs + 2_000);
    expect(plant.states(id)).toEqual({ a: "TIMEOUT" });
    const nowMs = flow.world.clock.now();
    expect(await retry(opened, `${id}:a@1`)).toMatchObject({ kind: "revived" });
    expect((await plant.job(`${id}:a@1`)).approval?.expiresMs).toBeGreaterThanOrEqual(nowMs + approval.expiresMs);
  });
});
