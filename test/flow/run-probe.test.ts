import { expect, test } from "vitest";
import { defaultSettings } from "../../src/config.ts";
import { cancelRun } from "../../src/flow/control-run.ts";
import { rerun } from "../../src/flow/rerun.ts";
import { removeRun } from "../../src/flow/remove-run.ts";
import { runLockKey } from "../../src/flow/with-run.ts";
import { RunPlant } from "./run-plant.ts";

test("rerun beside a handled failure", async () => {
  const plant = new RunPlant();
  const { flow } = await plant.control("c1");
  let isBroken = true;
  await plant.worker("w", ["t"], async ({ input }) => {
    if (isBroken && input === "x") throw new Error("no");
    return input;
  });
  await plant.apply(flow, {
    id: "r",
    steps: {
      x: { topic: "t", input: "x", on_error: "h", retry: { max_retries: 0 } },
      h: { topic: "t", input: "h" },
      y: { topic: "t", input: "y", depends_on: ["x"] },
      z: { topic: "t", input: "z" },
    },
  });
  const id = await plant.started(flow, "r");
  await plant.pass(5_000);
  console.log(plant.states(id));
  isBroken = false;
  const again = await plant.run(rerun(flow, { org: "default", runId: id, fromStep: "z", by: "b", idempotencyKey: null }));
  await plant.pass(5_000);
  if ("runId" in again) console.log(plant.states(again.runId));
});

test("cancel while 1000 children report progress", async () => {
  const { dispatch } = defaultSettings();
  const plant = new RunPlant({ dispatch: { ...dispatch, windowMax: 10_000, deadlineMs: 3_600_000 } });
  const { flow } = await plant.control("c1");
  await plant.control("c2");
  const handle = async ({ progress, signal }: { progress: (p: number) => Promise<void>; signal: AbortSignal }) => {
    let percent = 0;
    const clock = flow.world.clock;
    while (!signal.aborted) {
      percent = (percent + 1) % 100;
      await progress(percent);
      await new Promise<void>((resolve) => clock.after(1_000, resolve));
    }
  };
  await plant.worker("w1", ["demo.fan"], handle as never, 10_000, { extendsForMs: 3_600_000 });
  await plant.apply(flow, { id: "fan", steps: { each: { topic: "demo.fan", for_each: "${input.items}", max_parallel: 10_000 } } });
  const id = await plant.started(flow, "fan", { input: { items: Array.from({ length: 1_000 }, (_, i) => i) } });
  await plant.pass(20_000);
  console.log(plant.runOf(id).steps.each?.fan);
  const t = flow.world.clock.now();
  const answer = await plant.run(cancelRun(flow, { org: "default", runId: id, by: "b", why: "w" }).catch((e: unknown) => String(e)));
  console.log(answer, flow.world.clock.now() - t);
  await plant.pass(10_000);
  console.log(plant.runOf(id).state, plant.runOf(id).steps.each?.fan, [...plant.bench.net.counting.events]);
});

test("remove sub-run before parent told", async () => {
  const plant = new RunPlant();
  const { flow } = await plant.control("c1");
  await plant.worker("w", ["t"], async ({ input }) => input);
  await plant.apply(flow, { id: "inner", steps: { d: { type: "delay", delay_sec: 2 } } });
  await plant.apply(flow, { id: "outer", steps: { s: { type: "subworkflow", workflow: "inner" } } });
  const id = await plant.started(flow, "outer");
  await plant.pass(1_000);
  const sub = (await plant.job(`${id}:s@1`)).step?.subRunId ?? "";
  const other = plant.flow("dead");
  await plant.run(other.world.locks.acquire({ key: runLockKey(id), org: "default", ttlMs: 30_000, waitMs: 0, owner: "dead" }));
  plant.crash("dead");
  await plant.pass(5_000);
  console.log(plant.runOf(sub).state, await plant.run(removeRun(flow, { org: "default", runId: sub, by: "b" })));
  await plant.pass(120_000);
  console.log(plant.runOf(id).state);
  expect(1).toBe(1);
});
