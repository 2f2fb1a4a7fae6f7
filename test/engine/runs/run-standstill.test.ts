import { describe, expect, test } from "vitest";
import { RUNS, type Run } from "../../../src/core/model/run.ts";
import { startRun } from "../../../src/engine/intake/start-run.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { explainRun } from "../../../src/engine/observe/explain-run.ts";
import { cancelRun, pauseRun } from "../../../src/engine/runs/control-run.ts";
import { type RunPlant, WISH } from "../run-harness.ts";
import { ASK, by, delay, INNER, LATER, OUTER, openSlots, sub, waits } from "../slots-scene.ts";

describe("runs that wait for each other's slots", () => {
  const REFUSED =
    /^all 3 open runs of `default` wait for a slot for a sub-workflow: raise `limits.max_concurrent_runs`/;

  test("three parents at a limit of 3: the newest is refused, the two others succeed, within seconds", async () => {
    const { plant, flow } = await openSlots(3, [INNER, LATER]);
    const ids: string[] = [];
    for (let at = 0; at < 3; at++) {
      ids.push(await plant.started(flow, "later"));
      await plant.pass(10);
    }
    await plant.pass(8_000);
    expect(ids.map((id) => plant.runOf(id).state)).toEqual(["SUCCEEDED", "SUCCEEDED", "FAILED"]);
    expect(plant.runOf(ids[2] ?? "").error).toMatchObject({
      name: "SubworkflowRefused",
      message: expect.stringMatching(REFUSED),
    });
    expect(await plant.start(flow, "inner")).toMatchObject({ kind: "started" });
  });

  test("in three processes that all see it at once, one is refused and no more", async () => {
    const { plant, flow } = await openSlots(3, [INNER, LATER]);
    const flows = [flow, (await plant.control("c2")).flow, (await plant.control("c3")).flow];
    const wish = { ...WISH, workflowId: "later" };
    await plant.run(Promise.all(flows.map((each) => startRun(each, wish, "test"))));
    await plant.pass(20_000);
    const states = parents(plant).map(({ state }) => state);
    expect(states.sort()).toEqual(["FAILED", "SUCCEEDED", "SUCCEEDED"]);
  });

  test("two deep: all wait below the runs that were started", async () => {
    const { plant, flow } = await openSlots(4, [INNER]);
    await plant.apply(flow, { id: "middle", steps: { w: delay(2), sub: sub("inner", { depends_on: ["w"] }) } });
    await plant.apply(flow, { id: "outer", steps: { sub: sub("middle") } });
    const ids = [await plant.started(flow, "outer"), await plant.started(flow, "outer")];
    await plant.pass(20_000);
    expect(ids.map((id) => plant.runOf(id).state).sort()).toEqual(["FAILED", "SUCCEEDED"]);
    const failed = ids.map((id) => plant.runOf(id)).find(({ state }) => state === "FAILED");
    expect(failed?.error?.message).toMatch(/^run .*: all 4 open runs of `default` wait/);
  });

  test("a run that is the only one, and has no slot for its own", async () => {
    const { plant, flow } = await openSlots(1, [INNER, OUTER]);
    const id = await plant.started(flow, "outer");
    await plant.pass(2_000);
    expect(plant.runOf(id)).toMatchObject({ state: "FAILED" });
    expect(plant.runOf(id).error?.message).toMatch(/^the only open run of `default` waits for a slot/);
  });

  test("of a list no more are refused than it takes: with one slot all of them, with two none", async () => {
    for (const [limit, end] of [
      [1, { state: "FAILED", each: { failed: 4, succeeded: 0 } }],
      [2, { state: "SUCCEEDED", each: { failed: 0, succeeded: 4 } }],
    ] as const) {
      const { plant, flow } = await openSlots(limit, [INNER]);
      const each = sub("inner", { for_each: "[1, 2, 3, 4]", failure: "wait_all" });
      await plant.apply(flow, { id: "list", steps: { each } });
      const id = await plant.started(flow, "list");
      await plant.pass(20_000);
      expect(plant.runOf(id)).toMatchObject({ state: end.state, steps: { each: { fan: end.each } } });
    }
  });

  test("a step that is tried again is refused as often, and goes on when there are more slots", async () => {
    const { plant, flow } = await openSlots(1, [INNER]);
    const retry = { max_retries: 5, initial_backoff_sec: 10, jitter: "none" };
    await plant.apply(flow, { id: "outer", steps: { sub: sub("inner", { retry }) } });
    const id = await plant.started(flow, "outer");
    await plant.pass(5_000);
    const job = await plant.job(`${id}:sub@1`);
    expect(job).toMatchObject({
      state: "PENDING",
      error: { name: "SubworkflowRefused" },
      wait: { setBy: "the step's `retry`" },
    });
    const explained = await plant.run(explain(flow, { org: "default", jobId: job.id, isForAll: false }));
    expect(explained).toMatchObject({ explanation: { wait: { reason: "retry" } } });
    Object.assign(plant.settings.limits, { concurrentRunsMax: 2 });
    await plant.pass(60_000);
    expect(plant.runOf(id).state).toBe("SUCCEEDED");
  });

  test("while the one that was refused waits for its next try, no other is", async () => {
    const { plant, flow } = await openSlots(2, [INNER, LATER]);
    const retry = { max_retries: 1, initial_backoff_sec: 60, jitter: "none" };
    const steps = { w: delay(1), sub: sub("inner", { depends_on: ["w"], retry }) };
    await plant.apply(flow, { id: "patient", steps });
    const older = await plant.started(flow, "later");
    await plant.pass(20);
    const newer = await plant.started(flow, "patient");
    await plant.pass(58_000);
    expect([older, newer].map((id) => plant.states(id).sub)).toEqual(["RUNNING", "RUNNING"]);
    await plant.pass(10_000);
    expect([older, newer].map((id) => plant.states(id).sub)).toEqual(["SUCCEEDED", "FAILED"]);
  });

  test("nobody is refused while a human can still end one of them", async () => {
    const { plant, flow } = await openSlots(2, [INNER, LATER, ASK]);
    const both = { w: delay(1), ask: { type: "approval" }, sub: sub("inner", { depends_on: ["w"] }) };
    await plant.apply(flow, { id: "both", steps: both });
    const ids = [await plant.started(flow, "both"), await plant.started(flow, "later")];
    await plant.pass(600_000);
    expect(ids.map((id) => plant.states(id).sub)).toEqual(["RUNNING", "RUNNING"]);
    expect(waits(plant)).toBe(2);
    await plant.run(cancelRun(flow, by(ids[0] ?? "")));
    await plant.pass(5_000);
    expect(plant.runOf(ids[1] ?? "").state).toBe("SUCCEEDED");
  });

  test("nor while one of them is paused: that is for a human as well", async () => {
    const { plant, flow } = await openSlots(2, [INNER, LATER]);
    const ids = [await plant.started(flow, "later"), await plant.started(flow, "later")];
    await plant.run(pauseRun(flow, by(ids[0] ?? "")));
    await plant.pass(600_000);
    expect(ids.map((id) => plant.runOf(id).state)).toEqual(["PAUSED", "RUNNING"]);
  });
});

test("a step says what it waits for, who else does, and what would help", async () => {
  const { plant, flow } = await openSlots(3, [ASK, LATER, INNER]);
  const ids = [
    await plant.started(flow, "ask"),
    await plant.started(flow, "later"),
    await plant.started(flow, "later"),
  ];
  await plant.pass(3_000);
  const [id = ""] = ids.slice(2);
  const explained = await plant.run(explain(flow, { org: "default", jobId: `${id}:sub@1`, isForAll: false }));
  if (explained.kind !== "explained") throw new Error(explained.kind);
  const { wait, sentence, unblocks } = explained.explanation;
  expect(wait?.reason).toBe("run_slot");
  const why =
    "it is a run of `inner` that waits to begin: 3 of 3 runs of `default` are open, its own among them; " +
    "2 steps wait for a slot, and are given one in the order of their age, before any new run; woken when a run ends";
  expect(sentence.startsWith(why)).toBe(true);
  expect(unblocks.map(({ what }) => what)).toContain("raise `orgs.default.limits.max_concurrent_runs`");
  const ofRun = await plant.run(explainRun(flow, { org: "default", runId: id }));
  const line = ofRun.kind === "explained" ? ofRun.lines[0] : undefined;
  expect(line).toMatchObject({ stepId: "sub", reason: sentence, unblocks: "cordum run list --state RUNNING" });
  await plant.run(pauseRun(flow, by(id)));
  await plant.pass(40_000);
  const paused = await plant.run(explain(flow, { org: "default", jobId: `${id}:sub@1`, isForAll: false }));
  expect(paused).toMatchObject({
    explanation: {
      sentence: expect.stringContaining(`run ${id} is paused`),
      unblocks: [{ command: `cordum run explain ${id}` }, {}],
    },
  });
});

const parents = (plant: RunPlant): readonly Run[] =>
  [...plant.bench.net.store.rows(RUNS)].map(({ value }) => value).filter(({ parent }) => !parent);
