import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { JOBS, type JobState } from "../../../src/core/model/job.ts";
import { RUNS, RUNS_GROUP, type Run } from "../../../src/core/model/run.ts";
import { cancelRun, pauseRun, resumeRun } from "../../../src/engine/runs/control-run.ts";
import { RunPlant } from "../run-harness.ts";

const range = (count: number) => ({ items: Array.from({ length: count }, (_, index) => index) });
const fan = (facts: object, workflow: object = {}) => ({
  id: "fan",
  ...workflow,
  steps: { each: { topic: "demo.fan", for_each: "${input.items}", max_parallel: 10_000, input: "${item}", ...facts } },
});

/** A run with many children whose workers answer by their number: with it, with an error, or never. */
async function fanned(
  count: number,
  answer: (input: number) => "ok" | "bad" | "never",
  workflow: object,
  processes = 1,
) {
  const { dispatch } = defaultSettings();
  const plant = new RunPlant({ dispatch: { ...dispatch, windowMax: 10_000, deadlineMs: 3_600_000 } });
  const { flow } = await plant.control("c1");
  for (let at = 2; at <= processes; at++) await plant.control(`c${at}`);
  const told = new Set<number>();
  const worked: number[] = [];
  const handle = ({ input, signal }: { input: unknown; signal: AbortSignal }) => {
    const item = Number(input);
    worked.push(item);
    const became = answer(item);
    if (became === "ok") return Promise.resolve(item);
    if (became === "bad") return Promise.reject(new Error(`no: ${item}`));
    signal.addEventListener("abort", () => told.add(item));
    return new Promise(() => {});
  };
  await plant.worker("w1", ["demo.fan"], handle, 10_000, { extendsForMs: 3_600_000 });
  await plant.apply(flow, workflow);
  const states: Run["state"][] = [];
  let putsMax = 0;
  plant.bench.net.onCommit = (_, change, committed) => {
    if (committed.kind !== "committed") return;
    putsMax = Math.max(putsMax, change.puts.length);
    for (const { table, value } of change.puts) if (table === RUNS.name) states.push((value as Run).state);
  };
  const id = await plant.started(flow, "fan", { input: range(count) });
  return { plant, flow, id, told, worked, states, putsMax: () => putsMax };
}

const jobStates = (plant: RunPlant): Partial<Record<JobState, number>> => {
  const counts: Partial<Record<JobState, number>> = {};
  for (const { value } of plant.bench.net.store.rows(JOBS)) counts[value.state] = (counts[value.state] ?? 0) + 1;
  return counts;
};
const who = (runId: string) => ({ org: "default", runId, by: "bob", why: "enough" });

describe("many open children", () => {
  test.each([1, 3])("cancel reaches all 1,000 workers, in bounded commits, with %i processes", async (processes) => {
    const { plant, flow, id, told, states, putsMax } = await fanned(1_000, () => "never", fan({}), processes);
    await plant.pass(30_000);
    expect(plant.runOf(id).steps.each?.fan).toMatchObject({ open: 1_000 });
    const cancelled = await plant.run(cancelRun(flow, who(id)));
    expect(cancelled).toEqual({ kind: "moved", state: "ENDING" });
    await plant.pass(3_000);
    expect(plant.runOf(id)).toMatchObject({ state: "CANCELLED", error: { message: "enough" } });
    expect(plant.runOf(id).steps.each).toMatchObject({ state: "CANCELLED", fan: { open: 0, cancelled: 1_000 } });
    expect(jobStates(plant)).toEqual({ CANCELLED: 1_000 });
    expect(told.size).toBe(1_000);
    expect(putsMax()).toBeLessThan(600);
    expect(states.filter((state) => state === "ENDING").length).toBeGreaterThan(2);
    expect(plant.bench.net.store.count(RUNS_GROUP, "default")).toBe(0);
  });

  test("one whose process dies while it is ending is ended by another", async () => {
    const { plant, flow, id, told } = await fanned(1_000, () => "never", fan({}));
    await plant.pass(30_000);
    plant.bench.net.onCommit = (by, change) => {
      const ends = change.puts.some(({ table, value }) => table === RUNS.name && (value as Run).state === "ENDING");
      if (by.name === "c1" && ends) plant.crash("c1");
    };
    void cancelRun(flow, who(id));
    await plant.pass(1_000);
    expect(plant.runOf(id).state).toBe("ENDING");
    expect(plant.bench.net.store.count(RUNS_GROUP, "default")).toBe(1);
    await plant.control("c2");
    await plant.pass(30_000);
    expect(plant.runOf(id).state).toBe("CANCELLED");
    expect(jobStates(plant)).toEqual({ CANCELLED: 1_000 });
    expect(told.size).toBeGreaterThan(700);
  });

  test("the run's own timeout stops 300 of them", async () => {
    const { plant, id, told, states } = await fanned(300, () => "never", fan({}, { timeout_sec: 60 }));
    await plant.pass(59_000);
    expect(plant.runOf(id).state).toBe("RUNNING");
    await plant.pass(10_000);
    expect(plant.runOf(id)).toMatchObject({ state: "TIMEOUT", error: { name: "DeadlineExceeded" } });
    expect(states).toContain("ENDING");
    expect(told.size).toBe(300);
    expect(jobStates(plant)).toEqual({ CANCELLED: 300 });
  });

  test("fail_fast: the first failure stops the 999 others, and ends the run with its words", async () => {
    const facts = { retry: { max_retries: 0 } };
    const { plant, id, told } = await fanned(1_000, (item) => (item === 500 ? "bad" : "never"), fan(facts));
    await plant.pass(60_000);
    expect(plant.runOf(id)).toMatchObject({ state: "FAILED", error: { message: "no: 500" } });
    const { each } = plant.runOf(id).steps;
    expect(each).toMatchObject({ state: "FAILED", fan: { open: 0, failed: 1 } });
    expect((each?.fan?.cancelled ?? 0) + 1).toBe(each?.fan?.spawned);
    const { FAILED, CANCELLED, ...rest } = jobStates(plant);
    expect({ FAILED, rest }).toEqual({ FAILED: 1, rest: {} });
    // Whoever was at work heard of it.
    expect(told.size).toBeGreaterThan(0);
    expect(told.size).toBeLessThanOrEqual(CANCELLED ?? 0);
  });

  test.each([
    [{ tolerate: 3 }, "SUCCEEDED"],
    [{ tolerate: 2 }, "FAILED"],
    ["wait_all", "FAILED"],
  ])("%j with 3 failures among 100: %s, and all of them were done", async (failure, state) => {
    const facts = { failure, retry: { max_retries: 0 } };
    const workflow = fan(facts, { output: "${size(steps.each.output)}" });
    const { plant, id, worked } = await fanned(100, (item) => ([7, 50, 99].includes(item) ? "bad" : "ok"), workflow);
    await plant.pass(30_000);
    expect(plant.runOf(id).state).toBe(state);
    expect(plant.runOf(id).steps.each?.fan).toMatchObject({ open: 0, succeeded: 97, failed: 3 });
    expect(worked).toHaveLength(100);
    if (state === "SUCCEEDED") expect(plant.runOf(id).output).toEqual({ kind: "inline", value: 100 });
  });

  test("paused, no further child is made; those that are out end and are counted; resumed, the rest follow", async () => {
    const open: (() => void)[] = [];
    const plant = new RunPlant();
    const { flow } = await plant.control("c1");
    const handle = () => new Promise<void>((resolve) => void open.push(resolve));
    await plant.worker("w1", ["demo.fan"], handle, 100, { extendsForMs: 3_600_000 });
    await plant.apply(flow, fan({ max_parallel: 10, input: "${item}" }));
    const id = await plant.started(flow, "fan", { input: range(30) });
    await plant.pass(1_000);
    await plant.run(pauseRun(flow, who(id)));
    for (const end of open.splice(0)) end();
    await plant.pass(60_000);
    expect(plant.runOf(id)).toMatchObject({ state: "PAUSED" });
    expect(plant.runOf(id).steps.each?.fan).toMatchObject({ spawned: 10, open: 0, succeeded: 10 });
    expect(await plant.run(resumeRun(flow, who(id)))).toEqual({ kind: "moved", state: "RUNNING" });
    for (let round = 0; round < 2; round++) {
      await plant.pass(2_000);
      expect(open).toHaveLength(10);
      for (const end of open.splice(0)) end();
    }
    await plant.pass(2_000);
    expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED" });
  });

  test("paused after the last child was made: its end waits for the resume; cancelled while paused it ends", async () => {
    const { plant, flow, id } = await fanned(5, () => "never", fan({}));
    await plant.run(pauseRun(flow, who(id)));
    expect(await plant.run(pauseRun(flow, who(id)))).toEqual({ kind: "already", state: "PAUSED" });
    expect(await plant.run(cancelRun(flow, who(id)))).toMatchObject({ kind: "moved" });
    await plant.pass(2_000);
    expect(plant.runOf(id).state).toBe("CANCELLED");
    expect(await plant.run(resumeRun(flow, who(id)))).toEqual({ kind: "ended", state: "CANCELLED" });
  });
});

test("people who want different things at once are each told what became of the run", async () => {
  const plant = new RunPlant();
  const flows = [(await plant.control("c1")).flow, (await plant.control("c2")).flow] as const;
  await plant.apply(flows[0], { id: "ask", steps: { ask: { type: "approval" } } });
  const id = await plant.started(flows[0], "ask");
  const wishes = [pauseRun, cancelRun, pauseRun, cancelRun, pauseRun];
  const outcomes = await plant.run(Promise.all(wishes.map((wish, at) => wish(flows[at % 2] ?? flows[0], who(id)))));
  expect(plant.runOf(id).state).toBe("CANCELLED");
  for (const [at, outcome] of outcomes.entries()) {
    if (wishes[at] === cancelRun) expect(outcome).toMatchObject({ state: "CANCELLED" });
    // A pause that came too late has moved nothing.
    else expect(outcome).toEqual({ kind: outcome.kind, state: outcome.kind === "ended" ? "CANCELLED" : "PAUSED" });
  }
  const events = plant.runOf(id).lines.map(({ event }) => event);
  expect(events.filter((event) => event === "run_cancelled")).toHaveLength(1);
});

test("a paused run whose last step has ended concludes when it is resumed", async () => {
  const plant = new RunPlant();
  const { flow } = await plant.control("c1");
  await plant.apply(flow, { id: "wait", steps: { wait: { type: "delay", delay_sec: 2 } } });
  const id = await plant.started(flow, "wait");
  await plant.run(pauseRun(flow, who(id)));
  await plant.pass(10_000);
  expect(plant.runOf(id).state).toBe("PAUSED");
  expect(plant.states(id)).toEqual({ wait: "SUCCEEDED" });
  expect(await plant.run(resumeRun(flow, who(id)))).toEqual({ kind: "moved", state: "SUCCEEDED" });
});
