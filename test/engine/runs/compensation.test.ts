import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { RUNS_GROUP } from "../../../src/core/model/run.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { dryRerun } from "../../../src/engine/observe/dry-rerun.ts";
import { explainRun } from "../../../src/engine/observe/explain-run.ts";
import { cancelRun, pauseRun } from "../../../src/engine/runs/control-run.ts";
import { RunHarness } from "../run-harness.ts";

const ONCE = { retry: { max_retries: 0 } };
const undo = (facts: object = {}) => ({ compensate: { topic: "demo.undo", ...ONCE, ...facts } });
const step = (facts: object = {}) => ({ topic: "demo.do", ...ONCE, ...facts });

/** Workers that do and undo; both fail for inputs in `broken`, and block for inputs in `slow`. */
async function openSaga() {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const broken = new Set<unknown>();
  const slow = new Set<unknown>();
  const done: unknown[] = [];
  const undone: unknown[] = [];
  const work = (list: unknown[], key: (input: unknown) => unknown) => async (item: { readonly input: unknown }) => {
    if (slow.has(key(item.input))) await new Promise<void>((resolve) => engine.world.clock.after(5_000, resolve));
    if (broken.has(key(item.input))) throw new Error(`broken: ${JSON.stringify(item.input)}`);
    list.push(item.input);
    return { made: item.input };
  };
  await harness.worker(
    "w1",
    ["demo.do"],
    work(done, (input) => input),
  );
  await harness.worker(
    "w2",
    ["demo.undo"],
    work(undone, (input) => `undo ${JSON.stringify(input)}`),
  );
  return { harness, engine, broken, slow, done, undone };
}

const SAGA = {
  id: "saga",
  steps: {
    charge: step({ input: "charge", ...undo({ input: { what: "${step.input}", got: "${step.output.made}" } }) }),
    book: step({ depends_on: ["charge"], input: "book", ...undo({ input: "book" }) }),
    note: step({ depends_on: ["book"], input: "note" }),
    mail: step({ depends_on: ["note"], input: "mail" }),
  },
};

const retry = (harness: RunHarness, engine: Engine, id: string) =>
  harness.run(redriveDeadLetter(engine, { org: "default", id, by: "bob" }));

const eventsOf = (harness: RunHarness, id: string) =>
  harness.runOf(id).lines.map(({ event, stepId = "" }) => `${event} ${stepId}`.trim());

describe("the compensation of a run that fails", () => {
  test("undoes the completed steps in the reverse order of their completion, before the run ends", async () => {
    const { harness, engine, broken, slow, undone } = await openSaga();
    broken.add("mail");
    slow.add('undo "book"');
    await harness.apply(engine, SAGA);
    const id = await harness.started(engine, "saga");
    await harness.pass(2_000);
    expect(harness.runOf(id)).toMatchObject({
      state: "ENDING",
      endsAs: { state: "FAILED", error: { message: 'broken: "mail"' } },
      compensation: { order: ["book", "charge"] },
    });
    expect(harness.runOf(id).steps.book?.compensation).toMatchObject({ state: "RUNNING", jobId: `${id}:book.undo@1` });
    expect(harness.runOf(id).steps.charge?.compensation).toBeUndefined();
    expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(1);
    const explained = await harness.run(explainRun(engine, { org: "default", runId: id }));
    expect(explained).toMatchObject({
      lines: [
        { stepId: null, reason: 'ending as FAILED: broken: "mail"; undone: 0 of 2; undoing: book' },
        { stepId: "book", state: "DISPATCHED", jobId: `${id}:book.undo@1` },
      ],
    });
    await harness.pass(10_000);
    expect(undone).toEqual(["book", { what: "charge", got: "charge" }]);
    const run = harness.runOf(id);
    expect(run).toMatchObject({ state: "FAILED", error: { message: 'broken: "mail"' } });
    expect(run.lines.at(-1)).toMatchObject({ event: "run_failed", why: 'broken: "mail"; undone: 2 of 2' });
    expect(eventsOf(harness, id).slice(-6)).toEqual([
      "run_ending",
      "compensation_started book",
      "compensation_succeeded book",
      "compensation_started charge",
      "compensation_succeeded charge",
      "run_failed",
    ]);
    expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(0);
  });

  test("has a dead letter when it fails; the others still run, and the run ends with its error", async () => {
    const { harness, engine, broken, undone } = await openSaga();
    broken.add("mail").add('undo "book"');
    await harness.apply(engine, SAGA);
    const id = await harness.started(engine, "saga");
    await harness.pass(5_000);
    expect(undone).toEqual([{ what: "charge", got: "charge" }]);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { message: 'broken: "mail"' } });
    expect(harness.runOf(id).lines.at(-1)?.why).toBe('broken: "mail"; undone: 1 of 2; failed to undo: book');
    const letters = [...harness.sim.net.store.rows(DEAD_LETTERS)].map(({ id: letter }) => letter);
    expect(letters.toSorted()).toEqual([`${id}:book.undo@1`, `${id}:mail@1`]);
    const explained = await harness.run(explainRun(engine, { org: "default", runId: id }));
    expect(explained).toMatchObject({ lines: [{ unblocks: `cordum dlq retry ${id}:book.undo@1` }] });

    // The failed step would build on results that are gone.
    expect(await retry(harness, engine, `${id}:mail@1`)).toMatchObject({
      kind: "run_went_on",
      why: expect.stringContaining("has undone `charge`, `book`"),
    });
    expect(await retry(harness, engine, `${id}:book.undo@1`)).toMatchObject({ kind: "revived" });
    expect(harness.runOf(id)).toMatchObject({ state: "ENDING", endsAs: { error: { message: 'broken: "mail"' } } });
    await harness.pass(5_000);
    // Still broken.
    expect(harness.runOf(id).steps.book?.compensation).toMatchObject({ state: "FAILED" });
    broken.delete('undo "book"');
    expect(await retry(harness, engine, `${id}:book.undo@1`)).toMatchObject({ kind: "revived" });
    await harness.pass(5_000);
    expect(undone).toEqual([{ what: "charge", got: "charge" }, "book"]);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { message: 'broken: "mail"' } });
    expect(harness.runOf(id).steps.book?.compensation?.error).toBeUndefined();
    expect(harness.runOf(id).lines.at(-1)?.why).toBe('broken: "mail"; undone: 2 of 2');
    expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(0);
  });

  test("does not run for a run that succeeds, and not for a failure that is handled", async () => {
    const { harness, engine, broken, undone } = await openSaga();
    broken.add("mail");
    const steps = { ...SAGA.steps, mail: { ...SAGA.steps.mail, on_error: "continue" } };
    await harness.apply(engine, { ...SAGA, steps });
    const id = await harness.started(engine, "saga");
    await harness.pass(5_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
    expect(harness.runOf(id).compensation).toBeUndefined();
    expect(undone).toEqual([]);
  });

  test("runs when only the output of the run cannot be built", async () => {
    const { harness, engine, undone } = await openSaga();
    await harness.apply(engine, { ...SAGA, output: "${steps.mail.output.nothing.there}" });
    const id = await harness.started(engine, "saga");
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "ExpressionFailed" } });
    expect(undone).toHaveLength(2);
  });

  test("runs when the run is cancelled, also while it is paused, and when its deadline passes", async () => {
    const { harness, engine, slow, undone } = await openSaga();
    slow.add("mail");
    await harness.apply(engine, { ...SAGA, timeout_sec: 3 });
    const [cancelled, late] = [await harness.started(engine, "saga"), await harness.started(engine, "saga")];
    await harness.pass(1_000);
    const request = { org: "default", runId: cancelled, by: "bob", why: "no more" };
    await harness.run(pauseRun(engine, request));
    expect(await harness.run(cancelRun(engine, request))).toMatchObject({ kind: "moved", state: "ENDING" });
    await harness.pass(10_000);
    expect(harness.runOf(cancelled).state).toBe("CANCELLED");
    expect(harness.runOf(late).state).toBe("TIMEOUT");
    expect(undone).toHaveLength(4);
  });

  test("fails without a job if its input cannot be built", async () => {
    const { harness, engine, broken, undone } = await openSaga();
    broken.add("mail");
    const book = { ...SAGA.steps.book, ...undo({ input: "${step.output.nothing.there}" }) };
    await harness.apply(engine, { ...SAGA, steps: { ...SAGA.steps, book } });
    const id = await harness.started(engine, "saga");
    await harness.pass(5_000);
    expect(harness.runOf(id).steps.book?.compensation).toMatchObject({
      state: "FAILED",
      error: { name: "ExpressionFailed", message: expect.stringContaining("`compensate.input`") },
    });
    expect(harness.runOf(id).steps.book?.compensation?.jobId).toBeUndefined();
    expect(undone).toHaveLength(1);
    expect(harness.runOf(id).state).toBe("FAILED");
  });
});

describe("the compensation of lists", () => {
  const each = step({
    for_each: "${[1, 2, 3, 4, 5]}",
    max_parallel: 1,
    failure: "wait_all",
    input: "${item}",
    ...undo({ input: { item: "${item}", index: "${index}", in: "${step.input}", out: "${step.output.made}" } }),
  });

  test("undoes each child that succeeded, the last one first", async () => {
    const { harness, engine, broken, undone } = await openSaga();
    broken.add(2).add(4);
    await harness.apply(engine, {
      id: "list",
      steps: { first: SAGA.steps.charge, each: { ...each, depends_on: ["first"] } },
    });
    const id = await harness.started(engine, "list");
    await harness.pass(10_000);
    const child = (item: number) => ({ item, index: item - 1, in: item, out: item });
    expect(undone).toEqual([child(5), child(3), child(1), { what: "charge", got: "charge" }]);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", compensation: { order: ["each", "first"] } });
    expect(harness.runOf(id).steps.each?.compensation).toMatchObject({
      state: "SUCCEEDED",
      fan: { left: 0, open: 0, succeeded: 3, failed: 0 },
    });
  });

  test("redrives one failed compensation of a child", async () => {
    const { harness, engine, broken, undone } = await openSaga();
    const third = `undo ${JSON.stringify({ item: 3, index: 2, in: 3, out: 3 })}`;
    broken.add(2).add(third);
    await harness.apply(engine, { id: "list", steps: { each } });
    const id = await harness.started(engine, "list");
    await harness.pass(10_000);
    expect(harness.runOf(id).steps.each?.compensation).toMatchObject({
      state: "FAILED",
      fan: { failed: 1, succeeded: 3 },
    });
    broken.delete(third);
    expect(await retry(harness, engine, `${id}:each.2.undo@1`)).toMatchObject({ kind: "revived" });
    await harness.pass(5_000);
    expect(undone).toHaveLength(4);
    expect(harness.runOf(id).steps.each?.compensation).toMatchObject({
      state: "SUCCEEDED",
      fan: { failed: 0, succeeded: 4 },
    });
  });

  test("of 300 children takes bounded commits and undoes each once", async () => {
    const { harness, engine, broken, undone } = await openSaga();
    broken.add("mail");
    const many = step({
      for_each: "input.items",
      input: "${item}",
      ...undo({ input: "${item}" }),
    });
    await harness.apply(engine, { id: "many", steps: { many, mail: step({ depends_on: ["many"], input: "mail" }) } });
    const id = await harness.started(engine, "many", {
      input: { items: Array.from({ length: 300 }, (_, index) => index) },
    });
    await harness.pass(120_000);
    expect(harness.runOf(id).state).toBe("FAILED");
    expect(undone).toHaveLength(300);
    expect(new Set(undone).size).toBe(300);
    const jobs = [...harness.sim.net.store.rows(JOBS)].filter(({ value }) => value.step?.isCompensation);
    expect(jobs).toHaveLength(300);
  });
});

describe("an operator", () => {
  test("cancels a run without undoing it", async () => {
    const { harness, engine, slow, undone } = await openSaga();
    slow.add("mail");
    await harness.apply(engine, SAGA);
    const id = await harness.started(engine, "saga");
    await harness.pass(1_000);
    const request = { org: "default", runId: id, by: "bob", why: "keep it", skipsCompensation: true };
    expect(await harness.run(cancelRun(engine, request))).toMatchObject({ kind: "moved", state: "CANCELLED" });
    await harness.pass(5_000);
    expect(undone).toEqual([]);
    expect(harness.runOf(id).lines.at(-1)?.why).toBe("keep it; undone: 0 of 2; not undone: book, charge");
  });

  test("stops a compensation: what has started ends, and nothing else starts", async () => {
    const { harness, engine, broken, slow, undone } = await openSaga();
    broken.add("mail");
    slow.add('undo "book"');
    await harness.apply(engine, SAGA);
    const id = await harness.started(engine, "saga");
    await harness.pass(2_000);
    const request = { org: "default", runId: id, by: "bob", why: "enough" };
    expect(await harness.run(cancelRun(engine, request))).toEqual({ kind: "already", state: "ENDING" });
    const stop = { ...request, skipsCompensation: true };
    expect(await harness.run(cancelRun(engine, stop))).toEqual({ kind: "moved", state: "ENDING" });
    await harness.pass(10_000);
    expect(undone).toEqual(["book"]);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", compensation: { isStopped: true } });
    expect(harness.runOf(id).lines.at(-1)?.why).toBe('broken: "mail"; undone: 1 of 2; not undone: charge');
  });
});

describe("a sub-workflow", () => {
  const INNER = { id: "inner", steps: { a: step({ input: "inner", ...undo({ input: "inner" }) }) } };

  test("that succeeded is undone by the `compensate` of its step only", async () => {
    const { harness, engine, broken, undone } = await openSaga();
    broken.add("mail");
    await harness.apply(engine, INNER);
    const sub = { type: "subworkflow", workflow: "inner", ...undo({ input: "${step.output.a.made}" }) };
    await harness.apply(engine, { id: "outer", steps: { sub, mail: { ...SAGA.steps.mail, depends_on: ["sub"] } } });
    const id = await harness.started(engine, "outer");
    await harness.pass(10_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", compensation: { order: ["sub"] } });
    expect(undone).toEqual(["inner"]);
  });

  test("that fails has undone its own steps before its step fails", async () => {
    const { harness, engine, broken, undone } = await openSaga();
    broken.add("mail");
    const { steps } = INNER;
    await harness.apply(engine, { id: "inner", steps: { ...steps, mail: { ...SAGA.steps.mail, depends_on: ["a"] } } });
    const first = step({ input: "first", ...undo({ input: "first" }) });
    const sub = { type: "subworkflow", workflow: "inner", depends_on: ["first"] };
    await harness.apply(engine, { id: "outer", steps: { first, sub } });
    const id = await harness.started(engine, "outer");
    await harness.pass(10_000);
    expect(harness.runOf(id).state).toBe("FAILED");
    expect(undone).toEqual(["inner", "first"]);
  });
});

describe("a rerun of a compensated run", () => {
  const again = (engine: Engine, runId: string, fromStep: string) =>
    rerun(engine, { org: "default", runId, fromStep, by: "bob", idempotencyKey: null });

  test("executes the steps again that were undone, with all that follow", async () => {
    const { harness, engine, broken, done, undone } = await openSaga();
    broken.add("mail");
    const steps = { before: step({ input: "before" }), ...SAGA.steps };
    await harness.apply(engine, { ...SAGA, steps: { ...steps, charge: { ...steps.charge, depends_on: ["before"] } } });
    const id = await harness.started(engine, "saga");
    await harness.pass(5_000);
    broken.clear();
    const dry = await harness.run(dryRerun(engine, { org: "default", runId: id, fromStep: "mail", by: "bob" }));
    expect(dry.kind === "dry" && dry.steps.map(({ stepId }) => stepId)).toEqual(["charge", "book", "note", "mail"]);
    const second = await harness.run(again(engine, id, "mail"));
    await harness.pass(5_000);
    expect(second.kind === "started" && harness.runOf(second.runId)).toMatchObject({ state: "SUCCEEDED" });
    expect(done).toEqual(["before", "charge", "book", "note", "charge", "book", "note", "mail"]);
    expect(undone).toHaveLength(2);
  });

  test("is refused if it would keep a step whose compensation failed", async () => {
    const { harness, engine, broken } = await openSaga();
    broken.add("mail").add('undo "book"');
    await harness.apply(engine, SAGA);
    const id = await harness.started(engine, "saga");
    await harness.pass(5_000);
    expect(await harness.run(again(engine, id, "note"))).toEqual({
      kind: "invalid",
      problems: ["the compensation of `book` failed: redrive its dead letter, or rerun from `book`"],
    });
    expect(await harness.run(again(engine, id, "book"))).toMatchObject({ kind: "started" });
  });

  test("does not undo the steps that it kept from a run that succeeded", async () => {
    const { harness, engine, broken, undone } = await openSaga();
    await harness.apply(engine, SAGA);
    const id = await harness.started(engine, "saga");
    await harness.pass(5_000);
    broken.add("mail");
    const second = await harness.run(again(engine, id, "book"));
    await harness.pass(5_000);
    expect(second.kind === "started" && harness.runOf(second.runId)).toMatchObject({
      state: "FAILED",
      compensation: { order: ["book"] },
    });
    expect(undone).toEqual(["book"]);
  });
});
