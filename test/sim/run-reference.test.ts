import { describe, expect, test } from "vitest";
import { type Fan, RUNS, type Run, stepJobId } from "../../src/core/model/run.ts";
import { cancelOwnJob } from "../../src/engine/dispatch/index.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { CREATED_MAX, pauseRun } from "../../src/engine/runs/index.ts";
import type { Change } from "../../src/ports/store.ts";
import { Violations } from "../../src/sim/checks/violations.ts";
import { RunReferenceChecker } from "../../src/sim/reference/reference-checker.ts";
import { applyEvents, startRef } from "../../src/sim/reference/run-reference.ts";
import type { SimStep, SimWorkflow } from "../../src/sim/workload/run-plan.ts";
import { documentOf } from "../../src/sim/workload/workflow-document.ts";
import { RunHarness } from "../engine/run-harness.ts";

/**
 * Runs the engine with the reference model beside it. `seenAs`: what the checker sees instead of each commit; `act`: what
 * a client requests after a second.
 */
async function runBeside(
  steps: readonly SimStep[],
  seenAs = (change: Change): Change => change,
  act?: (harness: RunHarness, engine: Engine, runId: string) => Promise<void>,
) {
  const workflow: SimWorkflow = { id: "flow", timeoutSec: 5, steps };
  const harness = new RunHarness();
  const { store, timeline } = harness.sim.net;
  const violations = new Violations(timeline);
  const checker = new RunReferenceChecker({ workflows: [workflow], orders: [] }, violations);
  store.observe((change, before) => checker.committed(seenAs(change), before));
  const { engine } = await harness.control("c1");
  await harness.apply(engine, documentOf(workflow));
  const id = await harness.started(engine, "flow", { input: { number: 1, text: "" } });
  await harness.pass(1_000);
  await act?.(harness, engine, id);
  await harness.pass(10_000);
  return { run: harness.runOf(id), states: harness.states(id), found: violations.found.map(({ hint }) => hint) };
}

const REQUEST = { org: "default", by: "test", why: "not any more" };
const WORK = { kind: "worker", act: "job", topic: "work" } as const;
const DELAY = { kind: "delay", act: "job", delayMs: 60_000 } as const;
const LIST = { count: 3, parallelMax: 2, isFailFast: true, failuresMax: 0 };
const BOTH = step("both", { kind: "parallel", act: "parallel", branches: ["wait", "now"], need: 1 });
const NOW = step("now", { kind: "transform", act: "instant" });

describe("a delay that would end after the run deadline", () => {
  test.each([
    { about: "a branch", fan: null, state: "FAILED", failed: undefined },
    { about: "a branch with a list", fan: LIST, state: "FAILED", failed: 1 },
    { about: "a branch that waits for all items", fan: { ...LIST, isFailFast: false }, state: "FAILED", failed: 3 },
    {
      about: "a branch that tolerates the failures",
      fan: { ...LIST, isFailFast: false, failuresMax: 3 },
      state: "SUCCEEDED",
      failed: 3,
    },
  ])("fails before an instant branch ends the parallel step: $about", async ({ fan, state, failed }) => {
    const { run, states, found } = await runBeside([BOTH, step("wait", { ...DELAY, fan }), NOW]);
    expect(states).toEqual({ both: "SUCCEEDED", wait: state, now: "SUCCEEDED" });
    expect(run.steps.wait?.fan?.failed).toBe(failed);
    expect(found).toEqual([]);
  });

  test.each([null, LIST])("fails the parallel step that needs it, but not its other branches: list %j", async (fan) => {
    const both = { ...BOTH, need: 2, onError: "continue" };
    const { states, found } = await runBeside([both, step("wait", { ...DELAY, fan }), NOW]);
    expect(states).toEqual({ both: "FAILED", wait: "FAILED", now: "SUCCEEDED" });
    expect(found).toEqual([]);
  });

  test("ends the run before later steps start", async () => {
    const { states, found } = await runBeside([step("wait", { ...DELAY, fan: LIST }), NOW]);
    expect(states).toEqual({ wait: "FAILED", now: "CANCELLED" });
    expect(found).toEqual([]);
  });

  test("fails the later items of a list", async () => {
    const fan = { ...LIST, parallelMax: 1 };
    const { run, states, found } = await runBeside([step("wait", { ...DELAY, delayMs: 3_000, fan })]);
    expect(states).toEqual({ wait: "FAILED" });
    expect(run.steps.wait?.fan).toMatchObject({ succeeded: 1, failed: 1, spawned: 2 });
    expect(found).toEqual([]);
  });

  describe("fails after an item that failed for another reason", () => {
    const fan = { ...LIST, parallelMax: 1, isFailFast: false, failuresMax: 2 };
    const wait = step("wait", { ...DELAY, delayMs: 2_000, fan });

    const cancelFirst = async (harness: RunHarness, engine: Engine, runId: string): Promise<void> => {
      const request = { ...REQUEST, jobId: stepJobId(runId, "wait", 0) };
      expect(await harness.run(cancelOwnJob(engine, request))).toMatchObject({ kind: "cancelled" });
    };

    test("and agrees with the engine", async () => {
      const { run, states, found } = await runBeside([wait], undefined, cancelFirst);
      expect(states).toEqual({ wait: "SUCCEEDED" });
      expect(run.steps.wait?.fan).toMatchObject({ succeeded: 1, failed: 2, error: { name: "Cancelled" } });
      expect(found).toEqual([]);
    });

    test("and is not cancelled", async () => {
      const oneFailed = (seen: Fan): Fan =>
        seen.failed < 2 ? seen : { ...seen, failed: 1, cancelled: seen.cancelled + 1 };
      const { found } = await runBeside([wait], seenRuns(withFan("wait", oneFailed)), cancelFirst);
      expect(found).toEqual([expect.stringContaining("expected wait SUCCEEDED (0 open, 1 ok, 2 failed, 0 stopped)")]);
    });
  });

  test.each([null, LIST])("is not cancelled by the parallel step: list %j", async (fan) => {
    const cancelled = ({ steps, ...run }: Run): Run => ({
      ...run,
      steps: { ...steps, ...(steps.wait && { wait: { ...steps.wait, state: "CANCELLED" } }) },
    });
    const { found } = await runBeside([BOTH, step("wait", { ...DELAY, fan }), NOW], seenRuns(cancelled));
    expect(found).toEqual([expect.stringContaining("expected both SUCCEEDED, wait FAILED")]);
  });
});

describe("a list that is stopped by the commit that starts it", () => {
  const WIDE = { count: 40, parallelMax: 256, isFailFast: true, failuresMax: 0 };
  const list = (count: number): SimStep => step("list", { ...WORK, fan: { ...WIDE, count } });
  const all = step("all", { kind: "parallel", act: "parallel", branches: ["no", "list"], need: 2 });
  const no = step("no", { ...WORK, when: false });

  test.each([
    { about: "its own items", before: [], count: 40, cancelled: CREATED_MAX },
    { about: "a single step", before: [step("one", WORK)], count: CREATED_MAX, cancelled: CREATED_MAX - 1 },
    {
      about: "another list",
      before: [step("other", { ...WORK, fan: { ...WIDE, count: 5 } })],
      count: CREATED_MAX - 4,
      cancelled: CREATED_MAX - 5,
    },
  ])("has no items beyond the limit of a commit, reached with $about", async ({ before, count, cancelled }) => {
    const { run, found } = await runBeside([...before, all, no, list(count)]);
    expect(run).toMatchObject({ state: "FAILED", steps: { list: { state: "CANCELLED", fan: { cancelled } } } });
    expect(found).toEqual([]);
  });

  test("has all items below the limit", async () => {
    const count = CREATED_MAX - 1;
    const oneLess = ({ spawned, cancelled, ...fan }: Fan): Fan => ({
      ...fan,
      spawned: spawned - 1,
      cancelled: cancelled - 1,
    });
    const { found } = await runBeside([all, no, list(count)], seenRuns(withFan("list", oneLess)));
    expect(found).toEqual([
      expect.stringContaining(
        `expected all FAILED, no SKIPPED, list CANCELLED (0 open, 0 ok, 0 failed, ${count} stopped)`,
      ),
    ]);
  });
});

test("a list of a run that is resumed and cancelled in one commit starts its next item", async () => {
  const fan = { ...LIST, parallelMax: 1 };
  const list = step("list", { ...DELAY, delayMs: 2_000, fan });
  const { run, found } = await runBeside([list], undefined, async (harness, engine, runId) => {
    await harness.run(pauseRun(engine, { ...REQUEST, runId }));
    // The item that is open ends meanwhile.
    await harness.pass(1_500);
    const requests = (["resume", "cancel"] as const).map((kind) =>
      engine.runInbox.enqueue(
        { org: REQUEST.org, runId, path: "gateway" },
        { kind: "event", event: { ...REQUEST, kind }, puts: [] },
      ),
    );
    await harness.run(Promise.all(requests));
  });
  expect(run).toMatchObject({ state: "CANCELLED", steps: { list: { fan: { succeeded: 1, cancelled: 1 } } } });
  const [resumed, ending] = ["run_resumed", "run_ending"].map((wanted) =>
    run.lines.find(({ event }) => event === wanted),
  );
  expect(resumed?.atMs).toBe(ending?.atMs);
  expect(found).toEqual([]);
});

/** Changes the runs that the checker sees. */
function seenRuns(change: (run: Run) => Run): (seen: Change) => Change {
  return (seen) => ({
    ...seen,
    puts: seen.puts.map((one) => (one.table === RUNS.name ? { ...one, value: change(one.value as Run) } : one)),
  });
}

function withFan(id: string, change: (fan: Fan) => Fan): (run: Run) => Run {
  return (run) => {
    const known = run.steps[id];
    return known?.fan ? { ...run, steps: { ...run.steps, [id]: { ...known, fan: change(known.fan) } } } : run;
  };
}

function step(id: string, facts: Pick<SimStep, "kind" | "act"> & Partial<SimStep>): SimStep {
  return {
    id,
    dependsOn: [],
    onError: "fail",
    when: null,
    arms: {},
    chosen: "fault",
    branches: [],
    need: 0,
    fan: null,
    topic: "",
    actions: [],
    decision: "approve",
    delayMs: 0,
    timeoutSec: null,
    retriesMax: null,
    workflowId: null,
    undo: null,
    ...facts,
  };
}

describe("the events of one commit", () => {
  const list = step("list", { ...WORK, fan: { ...LIST, parallelMax: 3 } });
  const steps = [list, step("other", WORK)];

  test("are all applied before a failed list stops its open children", () => {
    const events = [
      { job: "list.0", end: "fail" },
      { job: "other", end: "ok" },
    ] as const;
    const { steps: states, end } = applyEvents({ steps }, startRef({ steps }), events);
    expect(Object.fromEntries(states)).toEqual({ list: "FAILED", other: "SUCCEEDED" });
    expect(end).toBe("FAILED");
  });

  test("free a place in another list before a timeout ends the run", () => {
    const late = step("late", { ...WORK, fan: { ...LIST, parallelMax: 3 } });
    const tolerant = step("list", { ...WORK, fan: { ...LIST, isFailFast: false } });
    const workflow = { steps: [tolerant, late] };
    const events = [{ expire: "late" }, { job: "list.0", end: "fail" }] as const;
    const { steps: states, children } = applyEvents(workflow, startRef(workflow), events);
    expect(Object.fromEntries(states)).toEqual({ list: "CANCELLED", late: "TIMEOUT" });
    expect(children.get("list")).toEqual(["fail", "stopped", "stopped"]);
  });
});
