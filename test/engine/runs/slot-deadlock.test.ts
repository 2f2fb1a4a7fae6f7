import { describe, expect, test } from "vitest";
import { RUNS, type Run } from "../../../src/core/model/run.ts";
import { startRun } from "../../../src/engine/intake/start-run.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { explainRun } from "../../../src/engine/observe/explain-run.ts";
import { cancelRun, pauseRun } from "../../../src/engine/runs/control-run.ts";
import { RUN_REQUEST, type RunHarness } from "../run-harness.ts";
import {
  APPROVAL,
  cancelRequest,
  delay,
  INNER,
  LATER,
  OUTER,
  openWithRunLimit,
  slotWaits,
  sub,
} from "../slots-scenario.ts";

describe("slot deadlock", () => {
  const REFUSED =
    /^slot deadlock: all 3 open runs of tenant `default` wait for a sub-workflow slot; raise `limits.max_concurrent_runs`/;

  test("three parents at a limit of 3: the newest is refused and the others succeed within seconds", async () => {
    const { harness, engine } = await openWithRunLimit(3, [INNER, LATER]);
    const ids: string[] = [];
    for (let at = 0; at < 3; at++) {
      ids.push(await harness.started(engine, "later"));
      await harness.pass(10);
    }
    await harness.pass(8_000);
    expect(ids.map((id) => harness.runOf(id).state)).toEqual(["SUCCEEDED", "SUCCEEDED", "FAILED"]);
    expect(harness.runOf(ids[2] ?? "").error).toMatchObject({
      name: "SubworkflowRefused",
      message: expect.stringMatching(REFUSED),
    });
    expect(await harness.start(engine, "inner")).toMatchObject({ kind: "started" });
  });

  test("detected by three processes at once, refuses exactly one", async () => {
    const { harness, engine } = await openWithRunLimit(3, [INNER, LATER]);
    const engines = [engine, (await harness.control("c2")).engine, (await harness.control("c3")).engine];
    const request = { ...RUN_REQUEST, workflowId: "later" };
    await harness.run(Promise.all(engines.map((each) => startRun(each, request, "test"))));
    await harness.pass(20_000);
    const states = parents(harness).map(({ state }) => state);
    expect(states.sort()).toEqual(["FAILED", "SUCCEEDED", "SUCCEEDED"]);
  });

  test("is detected two levels deep", async () => {
    const { harness, engine } = await openWithRunLimit(4, [INNER]);
    await harness.apply(engine, { id: "middle", steps: { w: delay(2), sub: sub("inner", { depends_on: ["w"] }) } });
    await harness.apply(engine, { id: "outer", steps: { sub: sub("middle") } });
    const ids = [await harness.started(engine, "outer"), await harness.started(engine, "outer")];
    await harness.pass(20_000);
    expect(ids.map((id) => harness.runOf(id).state).sort()).toEqual(["FAILED", "SUCCEEDED"]);
    const failed = ids.map((id) => harness.runOf(id)).find(({ state }) => state === "FAILED");
    expect(failed?.error?.message).toMatch(/^run .*: slot deadlock: all 4 open runs of tenant `default` wait/);
  });

  test("is detected for a single run without a slot for its sub-run", async () => {
    const { harness, engine } = await openWithRunLimit(1, [INNER, OUTER]);
    const id = await harness.started(engine, "outer");
    await harness.pass(2_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED" });
    expect(harness.runOf(id).error?.message).toMatch(
      /^slot deadlock: the only open run of tenant `default` waits for a sub-workflow slot/,
    );
  });

  test("refuses no more children than needed: all with one slot, none with two", async () => {
    for (const [limit, end] of [
      [1, { state: "FAILED", each: { failed: 4, succeeded: 0 } }],
      [2, { state: "SUCCEEDED", each: { failed: 0, succeeded: 4 } }],
    ] as const) {
      const { harness, engine } = await openWithRunLimit(limit, [INNER]);
      const each = sub("inner", { for_each: "[1, 2, 3, 4]", failure: "wait_all" });
      await harness.apply(engine, { id: "list", steps: { each } });
      const id = await harness.started(engine, "list");
      await harness.pass(20_000);
      expect(harness.runOf(id)).toMatchObject({ state: end.state, steps: { each: { fan: end.each } } });
    }
  });

  test("a refused step is retried by its policy and continues when the limit is raised", async () => {
    const { harness, engine } = await openWithRunLimit(1, [INNER]);
    const retry = { max_retries: 5, initial_backoff_sec: 10, jitter: "none" };
    await harness.apply(engine, { id: "outer", steps: { sub: sub("inner", { retry }) } });
    const id = await harness.started(engine, "outer");
    await harness.pass(5_000);
    const job = await harness.job(`${id}:sub@1`);
    expect(job).toMatchObject({
      state: "PENDING",
      error: { name: "SubworkflowRefused" },
      wait: { setBy: "the step's `retry`" },
    });
    const explained = await harness.run(explain(engine, { org: "default", jobId: job.id, isForAll: false }));
    expect(explained).toMatchObject({ explanation: { wait: { reason: "retry" } } });
    Object.assign(harness.settings.limits, { concurrentRunsMax: 2 });
    await harness.pass(60_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
  });

  test("refuses no other step while the refused one waits for its retry", async () => {
    const { harness, engine } = await openWithRunLimit(2, [INNER, LATER]);
    const retry = { max_retries: 1, initial_backoff_sec: 60, jitter: "none" };
    const steps = { w: delay(1), sub: sub("inner", { depends_on: ["w"], retry }) };
    await harness.apply(engine, { id: "retrying", steps });
    const older = await harness.started(engine, "later");
    await harness.pass(20);
    const newer = await harness.started(engine, "retrying");
    await harness.pass(58_000);
    expect([older, newer].map((id) => harness.states(id).sub)).toEqual(["RUNNING", "RUNNING"]);
    await harness.pass(10_000);
    expect([older, newer].map((id) => harness.states(id).sub)).toEqual(["SUCCEEDED", "FAILED"]);
  });

  test("is not declared while an approval can end one of the runs", async () => {
    const { harness, engine } = await openWithRunLimit(2, [INNER, LATER, APPROVAL]);
    const both = { w: delay(1), ask: { type: "approval" }, sub: sub("inner", { depends_on: ["w"] }) };
    await harness.apply(engine, { id: "both", steps: both });
    const ids = [await harness.started(engine, "both"), await harness.started(engine, "later")];
    await harness.pass(600_000);
    expect(ids.map((id) => harness.states(id).sub)).toEqual(["RUNNING", "RUNNING"]);
    expect(slotWaits(harness)).toBe(2);
    await harness.run(cancelRun(engine, cancelRequest(ids[0] ?? "")));
    await harness.pass(5_000);
    expect(harness.runOf(ids[1] ?? "").state).toBe("SUCCEEDED");
  });

  test("is not declared while one of the runs is paused", async () => {
    const { harness, engine } = await openWithRunLimit(2, [INNER, LATER]);
    const ids = [await harness.started(engine, "later"), await harness.started(engine, "later")];
    await harness.run(pauseRun(engine, cancelRequest(ids[0] ?? "")));
    await harness.pass(600_000);
    expect(ids.map((id) => harness.runOf(id).state)).toEqual(["PAUSED", "RUNNING"]);
  });
});

test("a waiting step is explained with its slot, its queue and what unblocks it", async () => {
  const { harness, engine } = await openWithRunLimit(3, [APPROVAL, LATER, INNER]);
  const ids = [
    await harness.started(engine, "ask"),
    await harness.started(engine, "later"),
    await harness.started(engine, "later"),
  ];
  await harness.pass(3_000);
  const [id = ""] = ids.slice(2);
  const explained = await harness.run(explain(engine, { org: "default", jobId: `${id}:sub@1`, isForAll: false }));
  if (explained.kind !== "explained") throw new Error(explained.kind);
  const { wait, sentence, unblocks } = explained.explanation;
  expect(wait?.reason).toBe("run_slot");
  const why =
    "run of `inner` not started: 3 of 3 run slots of `default` in use, including its own run; " +
    "2 steps wait for a slot, oldest first, ahead of new runs; retried when a run ends";
  expect(sentence.startsWith(why)).toBe(true);
  expect(unblocks.map(({ what }) => what)).toContain("raise `orgs.default.limits.max_concurrent_runs`");
  const ofRun = await harness.run(explainRun(engine, { org: "default", runId: id }));
  const line = ofRun.kind === "explained" ? ofRun.lines[0] : undefined;
  expect(line).toMatchObject({ stepId: "sub", reason: sentence, unblocks: "cordum run list --state RUNNING" });
  await harness.run(pauseRun(engine, cancelRequest(id)));
  await harness.pass(40_000);
  const paused = await harness.run(explain(engine, { org: "default", jobId: `${id}:sub@1`, isForAll: false }));
  expect(paused).toMatchObject({
    explanation: {
      sentence: expect.stringContaining(`run ${id} is paused`),
      unblocks: [{ command: `cordum run explain ${id}` }, {}],
    },
  });
});

const parents = (harness: RunHarness): readonly Run[] =>
  [...harness.sim.net.store.rows(RUNS)].map(({ value }) => value).filter(({ parent }) => !parent);
