import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import {
  LINES_MAX,
  RUN_RESERVATIONS,
  RUNS,
  type Run,
  TIMELINE,
  type TimelineLine,
} from "../../../src/core/model/run.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { timeline } from "../../../src/engine/runs/read-run.ts";
import { removeRun } from "../../../src/engine/runs/remove-run.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { RunHarness } from "../run-harness.ts";

const worker = (topic: string, facts: object = {}) => ({ topic, ...facts });
const LARGE = "x".repeat(300_000);

describe("large values", () => {
  test("pass inputs, templates, children and sub-workflows by pointer, unchanged", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["demo.echo"], async ({ input }) => input);
    await harness.apply(engine, { id: "inner", output: "${steps.a.output}", steps: { a: worker("demo.echo") } });
    await harness.apply(engine, {
      id: "large",
      output: { text: "${steps.sub.output.text}", sizes: "${steps.each.output.map(text, size(text))}" },
      steps: {
        a: worker("demo.echo", { input: { text: "${input.text}" } }),
        t: { type: "transform", depends_on: ["a"], input: { text: "${steps.a.output.text}" } },
        each: worker("demo.echo", { depends_on: ["t"], for_each: "${[1, 2]}", input: "${steps.t.output.text}" }),
        sub: { type: "subworkflow", workflow: "inner", depends_on: ["each"], input: "${steps.t.output}" },
      },
    });
    const id = await harness.started(engine, "large", { input: { text: LARGE } });
    await harness.pass(20_000);
    const run = harness.runOf(id);
    expect(run.state).toBe("SUCCEEDED");
    expect(run.output).toMatchObject({ kind: "pointer" });
    expect(readValue(harness, run.output)).toEqual({ text: LARGE, sizes: [LARGE.length, LARGE.length] });
    // The record itself stays small.
    expect(JSON.stringify(run).length).toBeLessThan(20_000);
  });

  test("can be approved, also after a redrive", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    const ask = { type: "approval", input: "${input}", timeout_sec: 60 };
    await harness.apply(engine, { id: "ask", steps: { first: ask, second: ask } });
    const id = await harness.started(engine, "ask", { input: { text: LARGE } });
    const approveStep = (step: string) =>
      harness.run(approve(engine, { org: "default", jobId: `${id}:${step}@1`, by: "bob" }));
    expect(await approveStep("first")).toEqual({ kind: "approved", state: "SUCCEEDED" });
    await harness.pass(70_000);
    expect(harness.states(id)).toEqual({ first: "SUCCEEDED", second: "TIMEOUT" });
    await harness.run(redriveDeadLetter(engine, { org: "default", id: `${id}:second@1`, by: "bob" }));
    expect(await approveStep("second")).toEqual({ kind: "approved", state: "SUCCEEDED" });
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
  });

  test.each([
    ["missing", undefined],
    ["damaged", "{}"],
  ])("L59: the step that reads a %s value fails with the reason", async (fault, text) => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    const pass = { type: "transform", depends_on: ["wait"], input: "${input.text}" };
    const steps = { wait: { type: "approval" }, pass, other: { type: "transform", depends_on: ["wait"], input: 1 } };
    await harness.apply(engine, { id: "w", steps: { ...steps, pass: { ...pass, on_error: "continue" } } });
    const id = await harness.started(engine, "w", { input: { text: LARGE } });
    const { input } = harness.runOf(id);
    const ptr = input.kind === "pointer" ? input.ptr : "";
    const bytes = new TextEncoder().encode(text);
    if (text === undefined) harness.sim.net.blobs.delete(ptr);
    else harness.sim.net.blobs.set(ptr, { bytes, expiresAtMs: 8e15 });
    // Another process: the first has the value in its cache.
    const { engine: other } = await harness.control("c2");
    await harness.run(approve(other, { org: "default", jobId: `${id}:wait@1`, by: "bob" }));
    await harness.pass(1_000);
    expect(harness.states(id)).toEqual({ wait: "SUCCEEDED", pass: "FAILED", other: "SUCCEEDED" });
    expect(harness.runOf(id).steps.pass?.error?.message).toContain(`a payload of run \`${id}\` is ${fault}`);
  });

  test("L59: a damaged input cannot be approved", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "ask", steps: { ask: { type: "approval", input: "${input}" } } });
    const id = await harness.started(engine, "ask", { input: { text: LARGE } });
    const { input } = await harness.job(`${id}:ask@1`);
    const ptr = input.kind === "pointer" ? input.ptr : "";
    const bytes = new TextEncoder().encode(`"${"y".repeat(300_000)}"`);
    harness.sim.net.blobs.set(ptr, { bytes, expiresAtMs: 8e15 });
    const answer = await harness.run(approve(engine, { org: "default", jobId: `${id}:ask@1`, by: "bob" }));
    expect(answer).toMatchObject({ kind: "input_gone", why: /is damaged/ as never });
  });

  test("many small outputs do not make the record large", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["demo.echo"], async () => "y".repeat(harness.settings.limits.inlineBytesMax / 2));
    const steps = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`s${at}`, worker("demo.echo")]));
    await harness.apply(engine, { id: "many", output: "done", steps });
    const first = await harness.started(engine, "many");
    await harness.pass(10_000);
    expect(harness.runOf(first).state).toBe("SUCCEEDED");
    const max = harness.settings.limits.inlineBytesMax + 20_000;
    expect(JSON.stringify(harness.runOf(first)).length).toBeLessThan(max);
    const request = { org: "default", runId: first, fromStep: "s19", by: "bob", idempotencyKey: null };
    const again = await harness.run(rerun(engine, request));
    if (again.kind !== "started") throw new Error(again.kind);
    await harness.pass(10_000);
    expect(JSON.stringify(harness.runOf(again.runId)).length).toBeLessThan(max);
  });

  test("an output over the limit fails its step with `TooLarge`", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    const input = { both: ["${input.text}", "${input.text}"] };
    await harness.apply(engine, { id: "huge", steps: { t: { type: "transform", input } } });
    const outcome = await harness.start(engine, "huge", { input: { text: "z".repeat(1_500_000) } });
    if (outcome.kind !== "started") throw new Error(outcome.kind);
    expect(harness.runOf(outcome.runId)).toMatchObject({ state: "FAILED", error: { name: "TooLarge" } });
  });
});

describe("timeline", () => {
  test.each([1, 7, 50, 1_000])("L51: a timeline is read in pages of %i, complete and in order", async (limit) => {
    const { harness, engine, id } = await openWithLongTimeline();
    const run = harness.runOf(id);
    expect(run.lineCount).toBeGreaterThan(3 * LINES_MAX);
    expect(run.lines.length).toBeLessThanOrEqual(LINES_MAX);
    const lines = await readAll(harness, engine, run, limit);
    expect(lines.map(({ seq }) => seq)).toEqual(Array.from({ length: run.lineCount }, (_, seq) => seq));
    expect(lines[0]).toMatchObject({ event: "run_started", who: "alice" });
    expect(lines.at(-1)).toMatchObject({ event: "run_succeeded" });
    // A cause precedes its effect.
    for (const { seq, cause } of lines) expect(cause ?? -1).toBeLessThan(seq);
    const times = lines.map(({ atMs }) => atMs);
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });

  test("is stored in pages of bounded size, with the first ten messages of a notified list", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    const each = { type: "notify", for_each: "${input}", message: "hello ${item}" };
    const steps = Array.from({ length: 200 }, (_, at) => [`s${at}`, { type: "transform", input: at }] as const);
    await harness.apply(engine, { id: "loud", steps: { each, ...Object.fromEntries(steps) } });
    const id = await harness.started(engine, "loud", { input: Array.from({ length: 2_000 }, (_, at) => at) });
    const run = harness.runOf(id);
    const pages = [...harness.sim.net.store.rows(TIMELINE)].map(({ value }) => value.lines.length);
    expect(pages.length).toBeGreaterThan(1);
    expect(Math.max(...pages)).toBeLessThanOrEqual(256);
    const lines = await readAll(harness, engine, run, 500);
    expect(lines.map(({ seq }) => seq)).toEqual(Array.from({ length: run.lineCount }, (_, seq) => seq));
    expect(lines.filter(({ event }) => event === "notified").at(-1)).toMatchObject({ index: 9, why: "hello 9" });
  });

  test("is consistent while the run writes further lines", async () => {
    const { harness, engine, id, continueRun } = await openWithLongTimeline(true);
    const early = harness.runOf(id);
    expect(early.state).toBe("RUNNING");
    await continueRun();
    expect(harness.runOf(id).lineCount).toBeGreaterThan(early.lineCount + LINES_MAX);
    const lines = await readAll(harness, engine, early, 1_000);
    expect(lines.map(({ seq }) => seq)).toEqual(Array.from({ length: early.lineCount }, (_, seq) => seq));
  });
});

describe("cleanup of a run", () => {
  const retention = { jobsMs: 60_000, runsMs: 60_000, idempotencyMs: 60_000 };

  test("removes everything after the retention", async () => {
    const harness = new RunHarness({ retention });
    const { engine } = await harness.control("c1");
    await createRecords(harness, engine);
    expect(remaining(harness).runs).toBeGreaterThan(3);
    expect(remaining(harness).blobs).toBeGreaterThan(3);
    await harness.pass(600_000);
    expect(remaining(harness)).toEqual(NOTHING);
  });

  test("removing a run by hand leaves its jobs to their retention", async () => {
    const harness = new RunHarness({ retention });
    const { engine } = await harness.control("c1");
    await createRecords(harness, engine);
    for (const { id: runId } of [...harness.sim.net.store.rows(RUNS)]) {
      expect(await harness.run(removeRun(engine, { org: "default", runId, by: "bob" }))).toEqual({ kind: "removed" });
      expect(await harness.run(removeRun(engine, { org: "default", runId, by: "bob" }))).toEqual({ kind: "not_found" });
    }
    expect(remaining(harness)).toMatchObject({ runs: 0, pages: 0 });
    await harness.pass(600_000);
    expect(remaining(harness)).toEqual(NOTHING);
  });
});

const NOTHING = { runs: 0, jobs: 0, pages: 0, keys: 0, deadLetters: 0, blobs: 0, lists: 0 };

function remaining(harness: RunHarness): typeof NOTHING {
  const { store, blobs } = harness.sim.net;
  const lists = [RUNS, JOBS, TIMELINE].flatMap(({ name }) => [...store.entries(name, "lists")]);
  return {
    runs: [...store.rows(RUNS)].length,
    jobs: [...store.rows(JOBS)].length,
    pages: [...store.rows(TIMELINE)].length,
    keys: [...store.rows(RUN_RESERVATIONS)].length,
    deadLetters: [...store.rows(DEAD_LETTERS)].length,
    blobs: blobs.size,
    lists: lists.length,
  };
}

/** Runs with everything a run can create: timeline pages, blobs, dead letters, sub-runs, reruns. */
async function createRecords(harness: RunHarness, engine: Engine): Promise<void> {
  await harness.worker("w1", ["demo.echo"], async ({ input }) => input, 100);
  await harness.worker("w2", ["demo.bad"], async () => {
    throw new Error("no");
  });
  const items = "${[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(i, input.text)}";
  const each = worker("demo.echo", { for_each: items });
  const notifications = Object.fromEntries(
    Array.from({ length: 60 }, (_, at) => [`n${at}`, { type: "notify", message: "hello", depends_on: ["each"] }]),
  );
  await harness.apply(engine, {
    id: "inner",
    output: "${input}",
    steps: { a: worker("demo.echo", { input: "${input}" }) },
  });
  await harness.apply(engine, {
    id: "busy",
    steps: {
      each,
      ...notifications,
      t: { type: "transform", input: ["${input.text}"] },
      sub: { type: "subworkflow", workflow: "inner", input: ["${input.text}"] },
      bad: worker("demo.bad", { on_error: "continue", retry: { max_retries: 0 }, input: "${input.text}" }),
    },
  });
  await harness.apply(engine, { id: "hang", steps: { ask: { type: "approval", input: "${input.text}" }, sub: SUB } });
  const input = { text: "x".repeat(100_000) };
  const first = await harness.started(engine, "busy", { input, idempotencyKey: "k" });
  const hang = await harness.started(engine, "hang", { input });
  await harness.pass(20_000);
  expect(harness.runOf(first).state).toBe("SUCCEEDED");
  await harness.run(cancelRun(engine, { org: "default", runId: hang, by: "bob", why: "enough" }));
  const request = { org: "default", runId: first, fromStep: "sub", by: "bob", idempotencyKey: null };
  expect(await harness.run(rerun(engine, request))).toMatchObject({ kind: "started" });
  await harness.pass(10_000);
}

const SUB = { type: "subworkflow", workflow: "hang2", on_error: "continue" };

/** A run with hundreds of timeline lines, optionally held half-way. */
async function openWithLongTimeline(isHeld = false) {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["demo.echo"], async ({ input }) => input);
  const steps: Record<string, object> = {};
  for (let at = 0; at < 120; at++) {
    const before = at === 0 ? {} : { depends_on: [`s${at - 1}`] };
    steps[`s${at}`] =
      isHeld && at === 40 ? { type: "approval", allow_submitter: true, ...before } : worker("demo.echo", before);
  }
  await harness.apply(engine, { id: "talk", steps });
  const id = await harness.started(engine, "talk");
  await harness.pass(20_000);
  const continueRun = async () => {
    await harness.run(approve(engine, { org: "default", jobId: `${id}:s40@1`, by: "bob" }));
    await harness.pass(20_000);
  };
  return { harness, engine, id, continueRun };
}

async function readAll(harness: RunHarness, engine: Engine, run: Run, limit: number): Promise<TimelineLine[]> {
  const lines: TimelineLine[] = [];
  for (let cursor: string | undefined, pages = 0; pages < 1_000; pages++) {
    const page = await harness.run(timeline(engine, run, { cursor, limit }));
    expect(page.lines.length).toBeLessThanOrEqual(limit);
    lines.push(...page.lines);
    if (page.cursor === null) break;
    cursor = page.cursor;
  }
  return lines;
}

function readValue(harness: RunHarness, payload: Run["output"]): unknown {
  if (payload?.kind !== "pointer") return payload?.value;
  const blob = harness.sim.net.blobs.get(payload.ptr);
  return blob && JSON.parse(new TextDecoder().decode(blob.bytes));
}
