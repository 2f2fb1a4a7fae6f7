import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { isFinal, JOBS } from "../../../src/core/model/job.ts";
import { isRunFinal, RUNS, RUNS_GROUP } from "../../../src/core/model/run.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { startRun } from "../../../src/engine/intake/start-run.ts";
import { retryLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { RunPlant, WISH } from "../run-harness.ts";

const worker = (topic: string, facts: object = {}) => ({ topic, ...facts });

/** Something of everything: a step, a switch, children, a sub-workflow, a race, a delay, and a step that fails. */
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

describe.each(["local", "remote"] as const)("kernel %s", (safety) => {
  // Each commit of the first process in turn is the last thing that it does.
  test("wherever a process dies, another brings the run to the same end", { timeout: 120_000 }, async () => {
    let deaths = 0;
    for (let fatal = 0; ; fatal++) {
      const { plant, flow } = await open(safety);
      let commits = 0;
      plant.bench.net.onCommit = (by, _, committed) => {
        if (by.name !== "c1" || committed.kind !== "committed") return;
        commits += 1;
        if (commits === fatal) plant.crash("c1");
      };
      const begun = startRun(
        flow,
        { ...WISH, workflowId: "all", input: { items: [1, 2, 3] }, idempotencyKey: "k" },
        "t",
      );
      void begun.catch(() => {});
      await plant.pass(5_000);
      const { flow: second } = await plant.control("c2", safety);
      const id = await settledRun(plant, second);
      expect(plant.runOf(id)).toMatchObject({
        state: "SUCCEEDED",
        output: { value: { sum: [10, 20, 30], sub: "inner", race: "SUCCEEDED" } },
      });
      const { bad, ...others } = plant.states(id);
      expect(others).toMatchObject({ mend: "SUCCEEDED", slow: "CANCELLED", each: "SUCCEEDED" });
      // A work order that its process did not live to send is an attempt that was lost.
      expect(["FAILED", "TIMEOUT"]).toContain(bad);
      expect(left(plant)).toEqual({ runs: [], jobs: [], slots: 0 });
      if (fatal > 0 && commits < fatal) break;
      deaths += 1;
    }
    expect(deaths).toBeGreaterThan(10);
  });
});

test("20 approvals of one run, given in three processes at once, each count once", async () => {
  const plant = new RunPlant();
  const flows: Flow[] = [];
  for (const name of ["c1", "c2", "c3"]) flows.push((await plant.control(name)).flow);
  const items = Array.from({ length: 20 }, (_, at) => at);
  await plant.apply(flows[0]!, { id: "ask", steps: { ask: { type: "approval", for_each: "${input}" } } });
  const id = await plant.started(flows[0]!, "ask", { input: items });
  const wish = (at: number) => ({ org: "default", jobId: `${id}:ask.${at}@1`, by: "bob" });
  await plant.pass(100); // All of them are asked for.
  // Everybody twice.
  const answers = [...items, ...items].map((at, index) => approve(flows[index % 3]!, wish(at)));
  const outcomes = await plant.run(Promise.all(answers));
  expect(outcomes.filter(({ kind }) => kind === "approved")).toHaveLength(20);
  expect(outcomes.filter(({ kind }) => kind === "not_waiting")).toHaveLength(20);
  expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED" });
  expect(plant.runOf(id).steps.ask?.fan).toMatchObject({ succeeded: 20, open: 0 });
});

test("L25: a run that lives on with its dead letter needs a slot, like one that starts", async () => {
  const plant = new RunPlant({ limits: { ...defaultSettings().limits, concurrentRunsMax: 1 } });
  const { flow } = await plant.control("c1");
  let isBroken = true;
  await plant.worker("w", ["demo.bad"], async () => {
    if (isBroken) throw new Error("no");
    return "mended";
  });
  await plant.apply(flow, { id: "bad", steps: { a: worker("demo.bad", { retry: { max_retries: 0 } }) } });
  await plant.apply(flow, { id: "ask", steps: { ask: { type: "approval" } } });
  const id = await plant.started(flow, "bad");
  await plant.pass(5_000);
  expect(plant.runOf(id).state).toBe("FAILED");
  isBroken = false;
  const other = await plant.started(flow, "ask");
  const letter = { org: "default", id: `${id}:a@1`, by: "bob" };
  expect(await plant.run(retryLetter(flow, letter))).toMatchObject({ kind: "full", current: 1, limit: 1 });
  expect(plant.runOf(id).state).toBe("FAILED");
  await plant.run(cancelRun(flow, { org: "default", runId: other, by: "bob", why: "enough" }));
  const both = [retryLetter(flow, letter), startRun(flow, { ...WISH, workflowId: "ask" }, "test")];
  const outcomes = await plant.run(Promise.all(both));
  expect(outcomes.filter(({ kind }) => kind === "full")).toHaveLength(1);
  expect(plant.bench.net.store.count(RUNS_GROUP, "default")).toBe(1);
});

test("children that are sub-workflows take turns at the slots that are left", async () => {
  const plant = new RunPlant({ limits: { ...defaultSettings().limits, concurrentRunsMax: 3 } });
  const { flow } = await plant.control("c1");
  await plant.worker("w1", ["demo.echo"], async ({ input }) => input);
  await plant.apply(flow, INNER);
  const sub = { type: "subworkflow", workflow: "inner", for_each: "${[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}" };
  await plant.apply(flow, { id: "many", steps: { sub } });
  let openMax = 0;
  plant.bench.net.onCommit = () => {
    openMax = Math.max(openMax, plant.bench.net.store.count(RUNS_GROUP, "default"));
  };
  const id = await plant.started(flow, "many");
  await plant.pass(300_000);
  expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED" });
  expect(plant.runOf(id).steps.sub?.fan).toMatchObject({ succeeded: 10 });
  expect(openMax).toBe(3);
});

async function open(safety: "local" | "remote") {
  const plant = new RunPlant();
  const { flow } = await plant.control("c1", safety);
  await plant.worker("echo", ["demo.echo"], async ({ input }) => input);
  await plant.worker("bad", ["demo.bad"], async () => {
    throw new Error("no");
  });
  await plant.worker("never", ["demo.never"], () => new Promise(() => {}), 10, { extendsForMs: 3_600_000 });
  for (const document of [INNER, ALL]) await plant.apply(flow, document);
  return { plant, flow };
}

/** Asked for again under its key by somebody who does not know what became of the first wish. */
async function settledRun(plant: RunPlant, flow: Flow): Promise<string> {
  const wish = { input: { items: [1, 2, 3] }, idempotencyKey: "k" };
  const outcome = await plant.start(flow, "all", wish);
  if (outcome.kind !== "started" && outcome.kind !== "replayed") throw new Error(outcome.kind);
  await plant.pass(300_000);
  return outcome.runId;
}

function left(plant: RunPlant) {
  const { store } = plant.bench.net;
  return {
    runs: [...store.rows(RUNS)].filter(({ value }) => !isRunFinal(value.state)).map(({ id }) => id),
    jobs: [...store.rows(JOBS)].filter(({ value }) => !isFinal(value.state)).map(({ id }) => id),
    slots: store.count(RUNS_GROUP, "default"),
  };
}
