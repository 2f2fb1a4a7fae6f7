import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../../src/core/model/job.ts";
import { RUNS } from "../../../../src/core/model/run.ts";
import type { Settings } from "../../../../src/core/settings.ts";
import type { Engine } from "../../../../src/engine/engine.ts";
import { rerun } from "../../../../src/engine/intake/index.ts";
import { redriveDeadLetter } from "../../../../src/engine/maintenance/redrive.ts";
import { explainRun } from "../../../../src/engine/observe/index.ts";
import { cancelRun, pauseRun, resumeRun, sendEvent } from "../../../../src/engine/runs/index.ts";
import { approve } from "../../../../src/engine/safety/index.ts";
import { RunHarness } from "../../run-harness.ts";

const BY = { by: "ann", why: "test" };
const LOOP = { type: "loop", max_iterations: 5, timeout_sec: 600 };
/** Counts its iterations in the step `count`. */
const COUNT = { type: "transform", input: { n: "${iteration == 1 ? 1 : previous.count.output.n + 1}" } };

interface Opened {
  readonly harness: RunHarness;
  readonly engine: Engine;
  readonly runId: string;
  /** Calls of the worker of `demo.work`, with their inputs. */
  readonly calls: unknown[];
}

async function open(
  steps: object,
  work: (input: unknown, call: number) => unknown = (input) => input,
  settings: Partial<Settings> = {},
): Promise<Opened> {
  const harness = new RunHarness(settings);
  const { engine } = await harness.control("c1");
  const calls: unknown[] = [];
  await harness.worker("w1", ["demo.work"], async ({ input }) => work(input, calls.push(input)), 100);
  await harness.apply(engine, { id: "w", steps });
  const runId = await harness.started(engine, "w", { input: { ticket: 7, items: [1, 2, 3] } });
  return { harness, engine, runId, calls };
}

const jobIds = ({ harness, runId }: Opened) =>
  [...harness.sim.net.store.rows(JOBS)].map(({ id }) => id.replace(runId, "R")).toSorted();

describe("a loop", () => {
  test("repeats its steps until the condition holds, and carries their outputs", async () => {
    const steps = { count: COUNT, work: { topic: "demo.work", depends_on: ["count"], input: "${steps.count.output}" } };
    const opened = await open({ retry: { ...LOOP, steps, until: "steps.work.output.n == 3" } });
    const { harness, runId, calls } = opened;
    await harness.pass(5_000);
    expect(harness.runOf(runId)).toMatchObject({
      state: "SUCCEEDED",
      output: { value: { retry: { work: { n: 3 } } } },
      steps: { retry: { state: "SUCCEEDED", loop: { iteration: 3, iterationsMax: 5 } } },
    });
    expect(calls).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    expect(jobIds(opened)).toEqual(["R:work@1", "R:work@2", "R:work@3"]);
    const started = harness.runOf(runId).lines.filter(({ event }) => event === "iteration_started");
    expect(started.map(({ why }) => why)).toEqual([1, 2, 3].map((n) => `iteration ${n} of at most 5`));
  });

  test("a loop without jobs advances one iteration per commit, and its record does not grow", async () => {
    const { harness, runId } = await open({
      spin: { ...LOOP, max_iterations: 400, steps: { count: COUNT }, until: "steps.count.output.n == 400" },
    });
    await harness.pass(20_000);
    const run = harness.runOf(runId);
    expect(run).toMatchObject({ state: "SUCCEEDED", output: { value: { spin: { count: { n: 400 } } } } });
    expect(run.lines.length).toBeLessThanOrEqual(64);
    expect(run.inlineBytes).toBeLessThan(200);
    expect(harness.sim.net.store.load(RUNS, runId)?.version).toBeGreaterThanOrEqual(400);
  });

  test("fails with its own error at its limit of iterations", async () => {
    const { harness, runId, calls } = await open({
      retry: { ...LOOP, steps: { work: { topic: "demo.work" } }, until: "false" },
      after: { type: "notify", message: "not reached", depends_on: ["retry"] },
    });
    await harness.pass(5_000);
    const error = { name: "LoopExhausted", message: "`until` is false after 5 iterations, the limit of the loop" };
    expect(harness.runOf(runId)).toMatchObject({ state: "FAILED", error, steps: { retry: { state: "FAILED" } } });
    expect(calls).toHaveLength(5);
  });

  test("ends as TIMEOUT at its deadline and stops what is open", async () => {
    const steps = { pause: { type: "delay", delay_sec: 25 } };
    const opened = await open({ wait: { ...LOOP, timeout_sec: 60, steps, until: "false", on_error: "continue" } });
    const { harness, runId } = opened;
    await harness.pass(70_000);
    const error = { name: "DeadlineExceeded", message: "2 of at most 5 iterations completed before the deadline" };
    const run = harness.runOf(runId);
    expect(run).toMatchObject({
      state: "SUCCEEDED",
      steps: { wait: { state: "TIMEOUT", error }, pause: { state: "CANCELLED" } },
    });
    expect(harness.sim.net.store.load(JOBS, `${runId}:pause@3`)?.value.state).toBe("CANCELLED");
    expect(jobIds(opened)).toEqual(["R:pause@1", "R:pause@2", "R:pause@3"]);
  });

  test("a step that fails fails the loop, not the run; `on_error` inside handles it", async () => {
    const fails = (input: unknown, call: number) => {
      if (call === 2) throw Object.assign(new Error("no"), { retryNever: true });
      return input;
    };
    const work = { topic: "demo.work", retry: { max_retries: 0 } };
    const failing = await open(
      {
        retry: {
          ...LOOP,
          steps: { work, pause: { type: "delay", delay_sec: 50 } },
          until: "iteration == 3",
          on_error: "sorry",
        },
        sorry: { type: "transform", input: "${steps.retry.error.message}" },
      },
      fails,
    );
    await failing.harness.pass(120_000);
    const run = failing.harness.runOf(failing.runId);
    expect(run).toMatchObject({ state: "SUCCEEDED", output: { value: { sorry: "no" } } });
    expect(failing.harness.states(failing.runId)).toMatchObject({
      retry: "FAILED",
      work: "FAILED",
      pause: "CANCELLED",
    });

    const handled = await open(
      { retry: { ...LOOP, steps: { work: { ...work, on_error: "continue" } }, until: "iteration == 3" } },
      fails,
    );
    await handled.harness.pass(20_000);
    expect(handled.harness.runOf(handled.runId)).toMatchObject({ state: "SUCCEEDED" });
    expect(handled.calls).toHaveLength(3);
  });

  test("contains approvals, lists, branches and conditions; later steps read the last iteration", async () => {
    const arm = "then";
    const steps = {
      each: { topic: "demo.work", for_each: "input.items", input: "${item * iteration}" },
      sum: { type: "transform", depends_on: ["each"], input: "${steps.each.output[0] + steps.each.output[2]}" },
      both: { type: "parallel", branches: ["left", "right"], depends_on: ["sum"] },
      left: { type: "transform", input: 1 },
      right: { topic: "demo.work", input: "right" },
      large: { type: "condition", condition: "steps.sum.output > 4", [arm]: ["ask"], depends_on: ["both"] },
      ask: { type: "approval", allow_submitter: true },
      before: { type: "transform", input: "${iteration == 1 ? [] : previous.each.output}", depends_on: ["sum"] },
    };
    const opened = await open({
      loop: { ...LOOP, steps, until: "steps.ask.state == 'SUCCEEDED'" },
      after: { type: "transform", depends_on: ["loop"], input: ["${steps.each.output}", "${steps.before.output}"] },
    });
    const { harness, engine, runId } = opened;
    await harness.pass(5_000);
    expect(harness.states(runId)).toMatchObject({ loop: "RUNNING", ask: "RUNNING", large: "SUCCEEDED" });
    expect(harness.runOf(runId).steps.loop?.loop?.iteration).toBe(2);
    await harness.run(approve(engine, { org: "default", jobId: `${runId}:ask@2`, by: "bob" }));
    await harness.pass(5_000);
    expect(harness.runOf(runId)).toMatchObject({
      state: "SUCCEEDED",
      output: {
        value: {
          after: [
            [2, 4, 6],
            [1, 2, 3],
          ],
        },
      },
    });
    expect(jobIds(opened)).toEqual([
      "R:ask@2",
      ...[0, 1, 2].flatMap((index) => [`R:each.${index}@1`, `R:each.${index}@2`]),
      ...["R:right@1", "R:right@2"],
    ]);
  });

  test("waits for one event per iteration; events that arrive between iterations are kept", async () => {
    const steps = { ask: { type: "wait", event: "answer", timeout_sec: 60 } };
    const { harness, engine, runId } = await open({
      chat: { ...LOOP, steps, until: "steps.ask.output.done" },
    });
    const send = (data: unknown) =>
      harness.run(sendEvent(engine, { org: "default", runId, event: { name: "answer", data, by: "ann" } }));
    await harness.run(pauseRun(engine, { org: "default", runId, ...BY }));
    for (const done of [false, false, true]) await send({ done });
    expect(harness.runOf(runId).steps.chat?.loop?.iteration).toBe(2);
    await harness.run(resumeRun(engine, { org: "default", runId, ...BY }));
    await harness.pass(1_000);
    expect(harness.runOf(runId)).toMatchObject({ state: "SUCCEEDED", steps: { chat: { loop: { iteration: 3 } } } });
    expect(harness.runOf(runId).events?.kept).toEqual([]);
  });

  test("is cancelled with its run, and explained by its iteration and the open step", async () => {
    const steps = {
      pause: { type: "delay", delay_sec: 500 },
      after: { type: "transform", input: 1, depends_on: ["pause"] },
    };
    const opened = await open({
      first: { ...LOOP, steps, until: "true" },
      last: { type: "notify", message: "m", depends_on: ["first"] },
    });
    const { harness, engine, runId } = opened;
    const explained = await harness.run(explainRun(engine, { org: "default", runId }));
    expect(explained).toMatchObject({
      lines: [
        { stepId: "first", reason: "in iteration 1 of at most 5; waiting for its steps" },
        { stepId: "pause", reason: expect.stringContaining("delay step") },
        { stepId: "after", reason: "waiting for pause" },
        { stepId: "last", reason: "waiting for first" },
      ],
    });
    await harness.run(cancelRun(engine, { org: "default", runId, ...BY }));
    expect(harness.states(runId)).toEqual({
      first: "CANCELLED",
      pause: "CANCELLED",
      after: "CANCELLED",
      last: "CANCELLED",
    });
    expect(harness.runOf(runId).state).toBe("CANCELLED");
  });

  test("is rerun as a whole, from its first iteration; a kept loop keeps its last results", async () => {
    const steps = {
      count: COUNT,
      work: { topic: "demo.work", depends_on: ["count"], input: "${steps.count.output.n}" },
    };
    const after = { type: "transform", depends_on: ["loop"], input: "${steps.work.output}" };
    const opened = await open({ loop: { ...LOOP, steps, until: "iteration == 2" }, after });
    const { harness, engine, runId, calls } = opened;
    await harness.pass(3_000);
    const again = async (fromStep: string) => {
      const options = { org: "default", runId, fromStep, by: "ann", idempotencyKey: null, keepsApprovals: false };
      const outcome = await harness.run(rerun(engine, options));
      await harness.pass(3_000);
      return harness.runOf(outcome.kind === "started" ? outcome.runId : "");
    };
    expect(await again("work")).toMatchObject({ state: "SUCCEEDED", output: { value: { after: 2 } } });
    expect(calls).toEqual([1, 2, 1, 2]);
    const kept = await again("after");
    expect(kept).toMatchObject({ state: "SUCCEEDED", output: { value: { after: 2 } } });
    expect(kept.steps.loop?.loop).toEqual({ iteration: 2, iterationsMax: 5 });
    expect(calls).toHaveLength(4);
  });

  test("a rerun keeps no step of a loop that was cancelled in the middle of an iteration", async () => {
    const steps = { count: COUNT, gate: { type: "wait", event: "go", timeout_sec: 60 } };
    const opened = await open({
      loop: { ...LOOP, steps, until: "iteration == 2" },
      other: { type: "transform", input: 1 },
    });
    const { harness, engine, runId } = opened;
    const event = { name: "go", data: null, by: "ann" };
    await harness.run(sendEvent(engine, { org: "default", runId, event }));
    expect(harness.runOf(runId).steps).toMatchObject({
      count: { output: { value: { n: 2 } } },
      gate: { state: "RUNNING" },
    });
    await harness.run(cancelRun(engine, { org: "default", runId, ...BY }));
    const options = {
      org: "default",
      runId,
      fromStep: "other",
      by: "ann",
      idempotencyKey: null,
      keepsApprovals: false,
    };
    const outcome = await harness.run(rerun(engine, options));
    const again = outcome.kind === "started" ? outcome.runId : "";
    expect(harness.runOf(again).steps).toMatchObject({
      loop: { loop: { iteration: 1 } },
      count: { output: { value: { n: 1 } } },
    });
  });

  test("a dead letter of a step in a loop is not redriven: the loop is rerun", async () => {
    const work = { topic: "demo.work", retry: { max_retries: 0 } };
    const { harness, engine, runId } = await open({ loop: { ...LOOP, steps: { work }, until: "true" } }, () => {
      throw new Error("no");
    });
    await harness.pass(5_000);
    expect(harness.runOf(runId).state).toBe("FAILED");
    const [letter] = [...harness.sim.net.store.rows(DEAD_LETTERS)];
    const outcome = await harness.run(redriveDeadLetter(engine, { org: "default", id: letter?.id ?? "", by: "bob" }));
    expect(outcome).toMatchObject({
      kind: "run_went_on",
      why: "step `work` belongs to loop `loop`; rerun from `loop`",
    });
  });
});
