import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { isFinal, JOBS } from "../../../src/core/model/job.ts";
import { isRunFinal, RUNS, RUNS_GROUP } from "../../../src/core/model/run.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { startRun } from "../../../src/engine/intake/start-run.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { RUN_REQUEST, RunHarness } from "../run-harness.ts";

const worker = (topic: string, facts: object = {}) => ({ topic, ...facts });

/** Every kind of step: worker, switch, children, sub-workflow, race, delay, and a step that fails. */
const ALL = {
  id: "all",
  output: { sum: "${steps.gather.output}", sub: "${steps.sub.output.a}", race: "${steps.race.state}" },
  steps: {
    first: worker("demo.echo", { input: "${input.items}" }),
    which: { type: "switch", switch: "${size(steps.first.output)}", cases: { "3": ["each"] }, depends_on: ["first"] },
    each: worker("demo.echo", { for_each: "${steps.first.output}", max_parallel: 2, input: "${item * 10}" }),
    gather: { type: "transform", depends_on: ["each"], input: "${steps.each.output}" },
    sub: { type: "subworkflow", workflow: "inner", depends_on: ["gather"] },
    race: { type: "parallel", branches: ["fast", "slow"], join: "any", depends_on: ["gather"] },
    fast: { type: "delay", delay_sec: 1 },
    slow: worker("demo.never"),
    bad: worker("demo.bad", { on_error: "mend", retry: { max_retries: 1, jitter: "none" }, depends_on: ["first"] }),
    mend: worker("demo.echo", { input: "${steps.bad.error.message}" }),
  },
};
const INNER = { id: "inner", steps: { a: worker("demo.echo", { input: "inner" }) } };

describe.each(["local", "remote"] as const)("crash recovery, kernel %s", (safety) => {
  // Each pass crashes the first process at a later commit.
  test("another process completes the run, wherever the first one crashes", { timeout: 120_000 }, async () => {
    let crashes = 0;
    for (let crashCommit = 0; ; crashCommit++) {
      const { harness, engine } = await open(safety);
      let commits = 0;
      harness.sim.net.onCommit = (by, _, committed) => {
        if (by.name !== "c1" || committed.kind !== "committed") return;
        commits += 1;
        if (commits === crashCommit) harness.crash("c1");
      };
      const started = startRun(
        engine,
        { ...RUN_REQUEST, workflowId: "all", input: { items: [1, 2, 3] }, idempotencyKey: "k" },
        "t",
      );
      void started.catch(() => {});
      await harness.pass(5_000);
      const { engine: second } = await harness.control("c2", safety);
      const id = await settledRun(harness, second);
      expect(harness.runOf(id)).toMatchObject({
        state: "SUCCEEDED",
        output: { value: { sum: [10, 20, 30], sub: "inner", race: "SUCCEEDED" } },
      });
      const { bad, ...others } = harness.states(id);
      expect(others).toMatchObject({ mend: "SUCCEEDED", slow: "CANCELLED", each: "SUCCEEDED" });
      // A job that was never dispatched counts as a lost attempt.
      expect(["FAILED", "TIMEOUT"]).toContain(bad);
      expect(openRecords(harness)).toEqual({ runs: [], jobs: [], slots: 0 });
      if (crashCommit > 0 && commits < crashCommit) break;
      crashes += 1;
    }
    expect(crashes).toBeGreaterThan(10);
  });
});

test("20 approvals of one run, given twice in three processes, count once each", async () => {
  const harness = new RunHarness();
  const engines: Engine[] = [];
  for (const name of ["c1", "c2", "c3"]) engines.push((await harness.control(name)).engine);
  const items = Array.from({ length: 20 }, (_, at) => at);
  await harness.apply(engines[0]!, { id: "ask", steps: { ask: { type: "approval", for_each: "${input}" } } });
  const id = await harness.started(engines[0]!, "ask", { input: items });
  const request = (at: number) => ({ org: "default", jobId: `${id}:ask.${at}@1`, by: "bob" });
  await harness.pass(100); // All approvals are requested.
  // Every approval is given twice.
  const answers = [...items, ...items].map((at, index) => approve(engines[index % 3]!, request(at)));
  const outcomes = await harness.run(Promise.all(answers));
  expect(outcomes.filter(({ kind }) => kind === "approved")).toHaveLength(20);
  expect(outcomes.filter(({ kind }) => kind === "not_waiting")).toHaveLength(20);
  expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED" });
  expect(harness.runOf(id).steps.ask?.fan).toMatchObject({ succeeded: 20, open: 0 });
});

test("L25: redriving a dead letter of a failed run needs a run slot", async () => {
  const harness = new RunHarness({ limits: { ...defaultSettings().limits, concurrentRunsMax: 1 } });
  const { engine } = await harness.control("c1");
  let isBroken = true;
  await harness.worker("w", ["demo.bad"], async () => {
    if (isBroken) throw new Error("no");
    return "mended";
  });
  await harness.apply(engine, { id: "bad", steps: { a: worker("demo.bad", { retry: { max_retries: 0 } }) } });
  await harness.apply(engine, { id: "ask", steps: { ask: { type: "approval" } } });
  const id = await harness.started(engine, "bad");
  await harness.pass(5_000);
  expect(harness.runOf(id).state).toBe("FAILED");
  isBroken = false;
  const other = await harness.started(engine, "ask");
  const deadLetter = { org: "default", id: `${id}:a@1`, by: "bob" };
  expect(await harness.run(redriveDeadLetter(engine, deadLetter))).toMatchObject({
    kind: "full",
    current: 1,
    limit: 1,
  });
  expect(harness.runOf(id).state).toBe("FAILED");
  await harness.run(cancelRun(engine, { org: "default", runId: other, by: "bob", why: "enough" }));
  const both = [redriveDeadLetter(engine, deadLetter), startRun(engine, { ...RUN_REQUEST, workflowId: "ask" }, "test")];
  const outcomes = await harness.run(Promise.all(both));
  expect(outcomes.filter(({ kind }) => kind === "full")).toHaveLength(1);
  expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(1);
});

test("sub-workflow children take turns at the free run slots", async () => {
  const harness = new RunHarness({ limits: { ...defaultSettings().limits, concurrentRunsMax: 3 } });
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["demo.echo"], async ({ input }) => input);
  await harness.apply(engine, INNER);
  const sub = { type: "subworkflow", workflow: "inner", for_each: "${[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}" };
  await harness.apply(engine, { id: "many", steps: { sub } });
  let openMax = 0;
  harness.sim.net.onCommit = () => {
    openMax = Math.max(openMax, harness.sim.net.store.count(RUNS_GROUP, "default"));
  };
  const id = await harness.started(engine, "many");
  await harness.pass(300_000);
  expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED" });
  expect(harness.runOf(id).steps.sub?.fan).toMatchObject({ succeeded: 10 });
  expect(openMax).toBe(3);
});

async function open(safety: "local" | "remote") {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1", safety);
  await harness.worker("echo", ["demo.echo"], async ({ input }) => input);
  await harness.worker("bad", ["demo.bad"], async () => {
    throw new Error("no");
  });
  await harness.worker("never", ["demo.never"], () => new Promise(() => {}), 10, { extendsForMs: 3_600_000 });
  for (const document of [INNER, ALL]) await harness.apply(engine, document);
  return { harness, engine };
}

/** Starts the run again under its key, as a client without an answer does. */
async function settledRun(harness: RunHarness, engine: Engine): Promise<string> {
  const request = { input: { items: [1, 2, 3] }, idempotencyKey: "k" };
  const outcome = await harness.start(engine, "all", request);
  if (outcome.kind !== "started" && outcome.kind !== "replayed") throw new Error(outcome.kind);
  await harness.pass(300_000);
  return outcome.runId;
}

function openRecords(harness: RunHarness) {
  const { store } = harness.sim.net;
  return {
    runs: [...store.rows(RUNS)].filter(({ value }) => !isRunFinal(value.state)).map(({ id }) => id),
    jobs: [...store.rows(JOBS)].filter(({ value }) => !isFinal(value.state)).map(({ id }) => id),
    slots: store.count(RUNS_GROUP, "default"),
  };
}
