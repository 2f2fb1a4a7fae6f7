import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { JOBS, type JobState } from "../../../src/core/model/job.ts";
import { RUNS, RUNS_GROUP, type Run } from "../../../src/core/model/run.ts";
import { cancelRun, pauseRun, resumeRun } from "../../../src/engine/runs/control-run.ts";
import { runLockKey } from "../../../src/engine/runs/run-lock.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { RunHarness } from "../run-harness.ts";

const range = (count: number) => ({ items: Array.from({ length: count }, (_, index) => index) });
const fan = (facts: object, workflow: object = {}) => ({
  id: "fan",
  ...workflow,
  steps: { each: { topic: "demo.fan", for_each: "${input.items}", max_parallel: 10_000, input: "${item}", ...facts } },
});

/** A run with many children whose worker succeeds, fails or hangs depending on the item. */
async function fanned(
  count: number,
  answer: (input: number) => "ok" | "bad" | "never",
  workflow: object,
  processes = 1,
) {
  const { dispatch } = defaultSettings();
  const harness = new RunHarness({ dispatch: { ...dispatch, windowMax: 10_000, deadlineMs: 3_600_000 } });
  const { engine } = await harness.control("c1");
  for (let at = 2; at <= processes; at++) await harness.control(`c${at}`);
  const aborted = new Set<number>();
  const handled: number[] = [];
  const handle = ({ input, signal }: { input: unknown; signal: AbortSignal }) => {
    const item = Number(input);
    handled.push(item);
    const result = answer(item);
    if (result === "ok") return Promise.resolve(item);
    if (result === "bad") return Promise.reject(new Error(`no: ${item}`));
    signal.addEventListener("abort", () => aborted.add(item));
    return new Promise(() => {});
  };
  await harness.worker("w1", ["demo.fan"], handle, 10_000, { extendsForMs: 3_600_000 });
  await harness.apply(engine, workflow);
  const states: Run["state"][] = [];
  let putsMax = 0;
  harness.sim.net.onCommit = (_, change, committed) => {
    if (committed.kind !== "committed") return;
    putsMax = Math.max(putsMax, change.puts.length);
    for (const { table, value } of change.puts) if (table === RUNS.name) states.push((value as Run).state);
  };
  const id = await harness.started(engine, "fan", { input: range(count) });
  return { harness, engine, id, aborted, handled, states, putsMax: () => putsMax };
}

const jobStates = (harness: RunHarness): Partial<Record<JobState, number>> => {
  const counts: Partial<Record<JobState, number>> = {};
  for (const { value } of harness.sim.net.store.rows(JOBS)) counts[value.state] = (counts[value.state] ?? 0) + 1;
  return counts;
};
const control = (runId: string) => ({ org: "default", runId, by: "bob", why: "enough" });

describe("ending a run with many open children", () => {
  test.each([1, 3])("cancel aborts all 1,000 jobs in bounded commits, with %i processes", async (processes) => {
    const { harness, engine, id, aborted, states, putsMax } = await fanned(1_000, () => "never", fan({}), processes);
    await harness.pass(30_000);
    expect(harness.runOf(id).steps.each?.fan).toMatchObject({ open: 1_000 });
    const cancelled = await harness.run(cancelRun(engine, control(id)));
    expect(cancelled).toEqual({ kind: "moved", state: "ENDING" });
    await harness.pass(3_000);
    expect(harness.runOf(id)).toMatchObject({ state: "CANCELLED", error: { message: "enough" } });
    expect(harness.runOf(id).steps.each).toMatchObject({ state: "CANCELLED", fan: { open: 0, cancelled: 1_000 } });
    expect(jobStates(harness)).toEqual({ CANCELLED: 1_000 });
    expect(aborted.size).toBe(1_000);
    expect(putsMax()).toBeLessThan(600);
    expect(states.filter((state) => state === "ENDING").length).toBeGreaterThan(2);
    expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(0);
  });

  test("another process completes the end after a crash", async () => {
    const { harness, engine, id, aborted } = await fanned(1_000, () => "never", fan({}));
    await harness.pass(30_000);
    harness.sim.net.onCommit = (by, change) => {
      const ends = change.puts.some(({ table, value }) => table === RUNS.name && (value as Run).state === "ENDING");
      if (by.name === "c1" && ends) harness.crash("c1");
    };
    void cancelRun(engine, control(id));
    await harness.pass(1_000);
    expect(harness.runOf(id).state).toBe("ENDING");
    expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(1);
    await harness.control("c2");
    await harness.pass(30_000);
    expect(harness.runOf(id).state).toBe("CANCELLED");
    expect(jobStates(harness)).toEqual({ CANCELLED: 1_000 });
    expect(aborted.size).toBeGreaterThan(700);
  });

  test("the run timeout aborts 300 jobs", async () => {
    const { harness, id, aborted, states } = await fanned(300, () => "never", fan({}, { timeout_sec: 60 }));
    await harness.pass(59_000);
    expect(harness.runOf(id).state).toBe("RUNNING");
    await harness.pass(10_000);
    expect(harness.runOf(id)).toMatchObject({ state: "TIMEOUT", error: { name: "DeadlineExceeded" } });
    expect(states).toContain("ENDING");
    expect(aborted.size).toBe(300);
    expect(jobStates(harness)).toEqual({ CANCELLED: 300 });
  });

  test("fail_fast: the first failure cancels the others and becomes the error of the run", async () => {
    const facts = { retry: { max_retries: 0 } };
    const { harness, id, aborted } = await fanned(1_000, (item) => (item === 500 ? "bad" : "never"), fan(facts));
    await harness.pass(60_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { message: "no: 500" } });
    const { each } = harness.runOf(id).steps;
    expect(each).toMatchObject({ state: "FAILED", fan: { open: 0, failed: 1 } });
    expect((each?.fan?.cancelled ?? 0) + 1).toBe(each?.fan?.spawned);
    const { FAILED, CANCELLED, ...rest } = jobStates(harness);
    expect({ FAILED, rest }).toEqual({ FAILED: 1, rest: {} });
    // Only running jobs are aborted.
    expect(aborted.size).toBeGreaterThan(0);
    expect(aborted.size).toBeLessThanOrEqual(CANCELLED ?? 0);
  });

  test.each([
    [{ tolerate: 3 }, "SUCCEEDED"],
    [{ tolerate: 2 }, "FAILED"],
    ["wait_all", "FAILED"],
  ])("%j with 3 failures among 100: %s, after all of them ran", async (failure, state) => {
    const facts = { failure, retry: { max_retries: 0 } };
    const workflow = fan(facts, { output: "${size(steps.each.output)}" });
    const { harness, id, handled } = await fanned(100, (item) => ([7, 50, 99].includes(item) ? "bad" : "ok"), workflow);
    await harness.pass(30_000);
    expect(harness.runOf(id).state).toBe(state);
    expect(harness.runOf(id).steps.each?.fan).toMatchObject({ open: 0, succeeded: 97, failed: 3 });
    expect(handled).toHaveLength(100);
    if (state === "SUCCEEDED") expect(harness.runOf(id).output).toEqual({ kind: "inline", value: 100 });
  });

  test("a paused run starts no further child and counts those that end; resumed, it starts the rest", async () => {
    const open: (() => void)[] = [];
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    const handle = () => new Promise<void>((resolve) => void open.push(resolve));
    await harness.worker("w1", ["demo.fan"], handle, 100, { extendsForMs: 3_600_000 });
    await harness.apply(engine, fan({ max_parallel: 10, input: "${item}" }));
    const id = await harness.started(engine, "fan", { input: range(30) });
    await harness.pass(1_000);
    await harness.run(pauseRun(engine, control(id)));
    for (const end of open.splice(0)) end();
    await harness.pass(60_000);
    expect(harness.runOf(id)).toMatchObject({ state: "PAUSED" });
    expect(harness.runOf(id).steps.each?.fan).toMatchObject({ spawned: 10, open: 0, succeeded: 10 });
    expect(await harness.run(resumeRun(engine, control(id)))).toEqual({ kind: "moved", state: "RUNNING" });
    for (let round = 0; round < 2; round++) {
      await harness.pass(2_000);
      expect(open).toHaveLength(10);
      for (const end of open.splice(0)) end();
    }
    await harness.pass(2_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED" });
  });

  test("a paused run can be cancelled", async () => {
    const { harness, engine, id } = await fanned(5, () => "never", fan({}));
    await harness.run(pauseRun(engine, control(id)));
    expect(await harness.run(pauseRun(engine, control(id)))).toEqual({ kind: "already", state: "PAUSED" });
    expect(await harness.run(cancelRun(engine, control(id)))).toMatchObject({ kind: "moved" });
    await harness.pass(2_000);
    expect(harness.runOf(id).state).toBe("CANCELLED");
    expect(await harness.run(resumeRun(engine, control(id)))).toEqual({ kind: "ended", state: "CANCELLED" });
  });
});

const MOVED = { kind: "moved", state: "PAUSED" };
const ALREADY = { kind: "already", state: "PAUSED" };
const ENDED = { kind: "ended", state: "CANCELLED" };

test("concurrent pause and cancel requests each report the resulting state", async () => {
  const harness = new RunHarness();
  const engines = [(await harness.control("c1")).engine, (await harness.control("c2")).engine] as const;
  await harness.apply(engines[0], { id: "ask", steps: { ask: { type: "approval" } } });
  const id = await harness.started(engines[0], "ask");
  const requests = [pauseRun, cancelRun, pauseRun, cancelRun, pauseRun];
  const outcomes = await harness.run(
    Promise.all(requests.map((request, at) => request(engines[at % 2] ?? engines[0], control(id)))),
  );
  expect(harness.runOf(id).state).toBe("CANCELLED");
  for (const [at, outcome] of outcomes.entries()) {
    if (requests[at] === cancelRun) expect([{ ...ENDED, kind: "moved" }, ENDED]).toContainEqual(outcome);
    // A pause after the end changes nothing.
    else expect([MOVED, ALREADY, ENDED]).toContainEqual(outcome);
  }
  expect(outcomes.filter(({ kind }, at) => requests[at] === cancelRun && kind === "moved")).not.toEqual([]);
  // Each request that is answered as done has one audit entry, the others have none.
  const audited = await auditLines(harness, engines[0], "run");
  for (const [request, entry] of [
    [pauseRun, "bob pause"],
    [cancelRun, "bob cancel"],
  ] as const) {
    const moved = outcomes.filter(({ kind }, at) => requests[at] === request && kind === "moved");
    expect(audited.filter((line) => line === entry)).toHaveLength(moved.length);
  }
  const events = harness.runOf(id).lines.map(({ event }) => event);
  expect(events.filter((event) => event === "run_cancelled")).toHaveLength(1);
});

test.each([
  { request: cancelRun, answer: { kind: "ended", state: "SUCCEEDED" } },
  // A paused run ends when it is resumed.
  { request: pauseRun, answer: { kind: "moved", state: "PAUSED" } },
])("a request that meets the end of the last step in one commit is answered $answer", async ({ request, answer }) => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.apply(engine, { id: "ask", steps: { ask: { type: "approval" } } });
  const id = await harness.started(engine, "ask", { submittedBy: "alice" });
  // While another process holds the lock, the requests gather.
  const lock = { key: runLockKey(id), org: "default", ttlMs: 1_000, waitMs: 0, owner: "dead" };
  await harness.run(harness.engine("dead").world.locks.acquire(lock));
  harness.crash("dead");
  const approved = approve(engine, { org: "default", jobId: `${id}:ask@1`, by: "bob" });
  await harness.pass(100);
  const [, outcome] = await harness.run(Promise.all([approved, request(engine, control(id))]));
  expect(outcome).toEqual(answer);
  expect(harness.runOf(id).state).toBe(answer.state);
});

test("a paused run whose last step has ended ends when it is resumed", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.apply(engine, { id: "wait", steps: { wait: { type: "delay", delay_sec: 2 } } });
  const id = await harness.started(engine, "wait");
  await harness.run(pauseRun(engine, control(id)));
  await harness.pass(10_000);
  expect(harness.runOf(id).state).toBe("PAUSED");
  expect(harness.states(id)).toEqual({ wait: "SUCCEEDED" });
  expect(await harness.run(resumeRun(engine, control(id)))).toEqual({ kind: "moved", state: "SUCCEEDED" });
});

describe("a batch that completes a run and then cancels it", () => {
  const started = {
    id: "race",
    steps: {
      any: { type: "parallel", branches: ["ask", "list"], join: "any" },
      ask: { type: "approval" },
      list: { topic: "demo.none", for_each: "[1, 2]" },
    },
  };
  const late = {
    id: "race",
    steps: {
      ask: { type: "approval" },
      any: { type: "parallel", branches: ["now", "list"], join: "any", depends_on: ["ask"] },
      now: { type: "transform", input: 1 },
      list: { topic: "demo.none", for_each: "[1, 2]" },
    },
  };
  const failing = {
    id: "race",
    steps: {
      ask: { type: "approval" },
      list: { topic: "demo.none", for_each: "[1, 2]", depends_on: ["ask"], on_error: "continue" },
    },
  };

  test.each([
    { about: "open children of a decided branch", workflow: started, states: { ask: "SUCCEEDED" } },
    { about: "children that are never created", workflow: late, states: { now: "SUCCEEDED" } },
  ])("ends as the same events would one after another: $about", async ({ workflow, states }) => {
    const { harness, id } = await completedAndCancelled(workflow);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
    expect(harness.states(id)).toMatchObject({ any: "SUCCEEDED", list: "CANCELLED", ...states });
  });

  test("a run with work left is cancelled", async () => {
    const { harness, id } = await completedAndCancelled(failing);
    expect(harness.runOf(id).state).toBe("CANCELLED");
    expect(harness.states(id)).toEqual({ ask: "SUCCEEDED", list: "CANCELLED" });
  });

  /** Both requests wait for the run lock, so they meet in one batch. */
  async function completedAndCancelled(workflow: object) {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, workflow);
    const id = await harness.started(engine, "race", { submittedBy: "alice" });
    const lock = { key: runLockKey(id), org: "default", ttlMs: 1_000, waitMs: 0, owner: "dead" };
    await harness.run(harness.engine("dead").world.locks.acquire(lock));
    harness.crash("dead");
    const approved = approve(engine, { org: "default", jobId: `${id}:ask@1`, by: "bob" });
    await harness.pass(100);
    const cancelled = cancelRun(engine, control(id));
    await harness.run(Promise.all([approved, cancelled]));
    await harness.pass(2_000);
    return { harness, id };
  }
});
