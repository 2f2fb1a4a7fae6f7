import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../src/config.ts";
import { retryLetter } from "../../src/flow/revive.ts";
import type { Settings } from "../../src/settings.ts";
import { RunPlant } from "./run-plant.ts";

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
