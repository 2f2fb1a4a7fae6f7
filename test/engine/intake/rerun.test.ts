import { describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { dryRerun } from "../../../src/engine/observe/dry-rerun.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { RunHarness } from "../run-harness.ts";

const ONCE = { retry: { max_retries: 0 } };
const step = (facts: object = {}) => ({ topic: "demo.flaky", ...ONCE, ...facts });

async function open() {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const broken = new Set<unknown>();
  const handled: unknown[] = [];
  await harness.worker("w1", ["demo.flaky"], async ({ input }) => {
    handled.push(input);
    // The other branches end first.
    if (broken.has(input)) await new Promise((resolve) => engine.world.clock.after(1_000, () => resolve(null)));
    if (broken.has(input)) throw new Error(`broken: ${String(input)}`);
    return input;
  });
  return { harness, engine, broken, handled };
}

async function startRerun(harness: RunHarness, engine: Engine, runId: string, fromStep: string): Promise<string> {
  const request = { org: "default", runId, fromStep, by: "bob", idempotencyKey: null };
  const outcome = await harness.run(rerun(engine, request));
  if (outcome.kind !== "started") throw new Error(JSON.stringify(outcome));
  return outcome.runId;
}

describe("a rerun beside a `parallel` that did not complete", () => {
  const steps = (join: object) => ({
    both: { type: "parallel", branches: ["good", "bad"], ...join },
    good: step({ input: "good" }),
    bad: step({ input: "bad" }),
    side: step({ input: "side" }),
  });

  test("repeats its failed branch and keeps the succeeded one", async () => {
    const { harness, engine, broken, handled } = await open();
    broken.add("bad");
    await harness.apply(engine, { id: "p", steps: steps({}) });
    const id = await harness.started(engine, "p");
    await harness.pass(5_000);
    expect(harness.states(id)).toMatchObject({ both: "FAILED", good: "SUCCEEDED", bad: "FAILED" });
    broken.clear();
    handled.length = 0;
    const request = { org: "default", runId: id, fromStep: "side", by: "bob" };
    const dry = await harness.run(dryRerun(engine, request));
    expect(dry.kind === "dry" && dry.steps.map(({ stepId }) => stepId).sort()).toEqual(["bad", "both", "side"]);
    const second = await startRerun(harness, engine, id, "side");
    await harness.pass(5_000);
    expect(harness.runOf(second)).toMatchObject({ state: "SUCCEEDED" });
    expect([...handled].sort()).toEqual(["bad", "side"]);
  });

  test("repeats the failed branch of a cancelled `parallel`", async () => {
    const { harness, engine, broken } = await open();
    broken.add("bad");
    await harness.apply(engine, { id: "p", steps: { ...steps({ join: "any" }), good: { type: "approval" } } });
    const id = await harness.started(engine, "p");
    await harness.pass(5_000);
    await harness.run(cancelRun(engine, { org: "default", runId: id, by: "bob", why: "enough" }));
    expect(harness.states(id)).toMatchObject({ both: "CANCELLED", good: "CANCELLED", bad: "FAILED" });
    broken.clear();
    const second = await startRerun(harness, engine, id, "side");
    await harness.pass(5_000);
    expect(harness.runOf(second)).toMatchObject({ state: "SUCCEEDED", steps: { bad: { state: "SUCCEEDED" } } });
  });
});

test("a rerun keeps a succeeded `parallel` with a failed branch", async () => {
  const { harness, engine, broken, handled } = await open();
  broken.add("bad").add("after");
  const steps = {
    any: { type: "parallel", branches: ["bad", "good"], join: "any" },
    bad: step({ input: "bad" }),
    good: step({ input: "good" }),
    after: step({ input: "after", depends_on: ["any"] }),
  };
  await harness.apply(engine, { id: "p", steps });
  const id = await harness.started(engine, "p");
  await harness.pass(5_000);
  broken.clear();
  handled.length = 0;
  const second = await startRerun(harness, engine, id, "after");
  await harness.pass(5_000);
  expect(harness.runOf(second)).toMatchObject({ state: "SUCCEEDED", steps: { any: { state: "SUCCEEDED" } } });
  expect(handled).toEqual(["after"]);
});

test("a rerun from a failed `for_each` repeats all of its items", async () => {
  const { harness, engine, broken, handled } = await open();
  broken.add(2);
  const each = step({ for_each: "${[1, 2, 3]}", max_parallel: 1, depends_on: ["first"] });
  await harness.apply(engine, {
    id: "f",
    output: "${steps.each.output}",
    steps: { first: step({ input: "first" }), each },
  });
  const id = await harness.started(engine, "f");
  await harness.pass(5_000);
  expect(harness.runOf(id).steps.each).toMatchObject({ state: "FAILED", fan: { spawned: 2, succeeded: 1, failed: 1 } });
  broken.clear();
  handled.length = 0;
  const second = await startRerun(harness, engine, id, "each");
  await harness.pass(5_000);
  expect(harness.runOf(second)).toMatchObject({ state: "SUCCEEDED", output: { value: [1, 2, 3] } });
  expect(handled).toEqual([1, 2, 3]);
});

test("a replayed rerun returns the same run, even after the earlier run was redriven", async () => {
  const { harness, engine, broken } = await open();
  broken.add("a");
  await harness.apply(engine, {
    id: "k",
    steps: { ok: step({ input: "ok" }), a: step({ input: "a", depends_on: ["ok"] }) },
  });
  const id = await harness.started(engine, "k");
  await harness.pass(5_000);
  const request = { org: "default", runId: id, fromStep: "a", by: "bob", idempotencyKey: "k1" };
  const first = await harness.run(rerun(engine, request));
  expect(await harness.run(redriveDeadLetter(engine, { org: "default", id: `${id}:a@1`, by: "bob" }))).toMatchObject({
    kind: "revived",
  });
  expect(harness.runOf(id).state).toBe("RUNNING");
  expect(await harness.run(rerun(engine, request))).toMatchObject({
    ...first,
    kind: "replayed",
    state: expect.any(String),
  });
  expect(await harness.run(rerun(engine, { ...request, fromStep: "ok" }))).toMatchObject({ kind: "conflict" });
});
