import { describe, expect, test } from "vitest";
import type { Flow } from "../../../src/engine/engine.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { retryLetter } from "../../../src/engine/maintenance/redrive.ts";
import { dryRerun } from "../../../src/engine/observe/dry-rerun.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { RunPlant } from "../run-harness.ts";

const ONCE = { retry: { max_retries: 0 } };
const step = (facts: object = {}) => ({ topic: "demo.flaky", ...ONCE, ...facts });

async function open() {
  const plant = new RunPlant();
  const { flow } = await plant.control("c1");
  const broken = new Set<unknown>();
  const worked: unknown[] = [];
  await plant.worker("w1", ["demo.flaky"], async ({ input }) => {
    worked.push(input);
    if (broken.has(input)) throw new Error(`broken: ${String(input)}`);
    return input;
  });
  return { plant, flow, broken, worked };
}

async function again(plant: RunPlant, flow: Flow, runId: string, fromStep: string): Promise<string> {
  const wish = { org: "default", runId, fromStep, by: "bob", idempotencyKey: null };
  const outcome = await plant.run(rerun(flow, wish));
  if (outcome.kind !== "started") throw new Error(JSON.stringify(outcome));
  return outcome.runId;
}

describe("a rerun from a step beside a `parallel` that did not come to its end", () => {
  const steps = (join: object) => ({
    both: { type: "parallel", branches: ["good", "bad"], ...join },
    good: step({ input: "good" }),
    bad: step({ input: "bad" }),
    side: step({ input: "side" }),
  });

  test("does its branch that failed again, and not the one that succeeded", async () => {
    const { plant, flow, broken, worked } = await open();
    broken.add("bad");
    await plant.apply(flow, { id: "p", steps: steps({}) });
    const id = await plant.started(flow, "p");
    await plant.pass(5_000);
    expect(plant.states(id)).toMatchObject({ both: "FAILED", good: "SUCCEEDED", bad: "FAILED" });
    broken.clear();
    worked.length = 0;
    const wish = { org: "default", runId: id, fromStep: "side", by: "bob" };
    const dry = await plant.run(dryRerun(flow, wish));
    expect(dry.kind === "dry" && dry.steps.map(({ stepId }) => stepId).sort()).toEqual(["bad", "both", "side"]);
    const second = await again(plant, flow, id, "side");
    await plant.pass(5_000);
    expect(plant.runOf(second)).toMatchObject({ state: "SUCCEEDED" });
    expect([...worked].sort()).toEqual(["bad", "side"]);
  });

  test("also where it was cancelled while another branch was at work", async () => {
    const { plant, flow, broken } = await open();
    broken.add("bad");
    await plant.apply(flow, { id: "p", steps: { ...steps({ join: "any" }), good: { type: "approval" } } });
    const id = await plant.started(flow, "p");
    await plant.pass(5_000);
    await plant.run(cancelRun(flow, { org: "default", runId: id, by: "bob", why: "enough" }));
    expect(plant.states(id)).toMatchObject({ both: "CANCELLED", good: "CANCELLED", bad: "FAILED" });
    broken.clear();
    const second = await again(plant, flow, id, "side");
    await plant.pass(5_000);
    expect(plant.runOf(second)).toMatchObject({ state: "SUCCEEDED", steps: { bad: { state: "SUCCEEDED" } } });
  });
});

test("a rerun keeps a `parallel` that was content with fewer, with the branch that failed", async () => {
  const { plant, flow, broken, worked } = await open();
  broken.add("bad").add("after");
  const steps = {
    any: { type: "parallel", branches: ["bad", "good"], join: "any" },
    bad: step({ input: "bad" }),
    good: step({ input: "good" }),
    after: step({ input: "after", depends_on: ["any"] }),
  };
  await plant.apply(flow, { id: "p", steps });
  const id = await plant.started(flow, "p");
  await plant.pass(5_000);
  broken.clear();
  worked.length = 0;
  const second = await again(plant, flow, id, "after");
  await plant.pass(5_000);
  expect(plant.runOf(second)).toMatchObject({ state: "SUCCEEDED", steps: { any: { state: "SUCCEEDED" } } });
  expect(worked).toEqual(["after"]);
});

test("a rerun from a `for_each` that failed fast does all of its items again", async () => {
  const { plant, flow, broken, worked } = await open();
  broken.add(2);
  const each = step({ for_each: "${[1, 2, 3]}", max_parallel: 1, depends_on: ["first"] });
  await plant.apply(flow, {
    id: "f",
    output: "${steps.each.output}",
    steps: { first: step({ input: "first" }), each },
  });
  const id = await plant.started(flow, "f");
  await plant.pass(5_000);
  expect(plant.runOf(id).steps.each).toMatchObject({ state: "FAILED", fan: { spawned: 2, succeeded: 1, failed: 1 } });
  broken.clear();
  worked.length = 0;
  const second = await again(plant, flow, id, "each");
  await plant.pass(5_000);
  expect(plant.runOf(second)).toMatchObject({ state: "SUCCEEDED", output: { value: [1, 2, 3] } });
  expect(worked).toEqual([1, 2, 3]);
});

test("a rerun whose key is sent again is the same run, also when the earlier run lives again meanwhile", async () => {
  const { plant, flow, broken } = await open();
  broken.add("a");
  await plant.apply(flow, {
    id: "k",
    steps: { ok: step({ input: "ok" }), a: step({ input: "a", depends_on: ["ok"] }) },
  });
  const id = await plant.started(flow, "k");
  await plant.pass(5_000);
  const wish = { org: "default", runId: id, fromStep: "a", by: "bob", idempotencyKey: "k1" };
  const first = await plant.run(rerun(flow, wish));
  expect(await plant.run(retryLetter(flow, { org: "default", id: `${id}:a@1`, by: "bob" }))).toMatchObject({
    kind: "revived",
  });
  expect(plant.runOf(id).state).toBe("RUNNING");
  expect(await plant.run(rerun(flow, wish))).toMatchObject({ ...first, kind: "replayed", state: expect.any(String) });
  expect(await plant.run(rerun(flow, { ...wish, fromStep: "ok" }))).toMatchObject({ kind: "conflict" });
});
