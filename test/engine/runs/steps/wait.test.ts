import { describe, expect, test } from "vitest";
import type { Settings } from "../../../../src/core/settings.ts";
import { EVENT_BYTES_MAX, EVENTS_KEPT_MAX } from "../../../../src/core/workflow/run/wait.ts";
import { rerun } from "../../../../src/engine/intake/index.ts";
import { explainRun } from "../../../../src/engine/observe/index.ts";
import { cancelRun, pauseRun, resumeRun, sendEvent } from "../../../../src/engine/runs/index.ts";
import { RunHarness } from "../../run-harness.ts";

const WAIT = { type: "wait", event: "answer", timeout_sec: 60 };
const BY = { by: "ann", why: "test" };

async function open(steps: object, settings: Partial<Settings> = {}) {
  const harness = new RunHarness(settings);
  const { engine } = await harness.control("c1");
  await harness.apply(engine, { id: "w", steps });
  const runId = await harness.started(engine, "w", { input: { ticket: 7 } });
  const send = (name: string, data: unknown, more: { key?: string; id?: string } = {}) =>
    harness.run(sendEvent(engine, { org: "default", runId, event: { name, data, by: "ann", ...more } }));
  return { harness, engine, runId, send };
}

/** A step that keeps the run open, started after the `wait` step under test. */
const later = { type: "delay", delay_sec: 30 };

describe("a wait step", () => {
  test("takes the event of its name and has its data as output", async () => {
    const { harness, runId, send } = await open({ ask: WAIT });
    expect(await send("other", 1)).toEqual({ kind: "kept" });
    expect(harness.states(runId)).toEqual({ ask: "RUNNING" });
    expect(await send("answer", { ok: true })).toEqual({ kind: "delivered", stepId: "ask" });
    const run = harness.runOf(runId);
    expect(run).toMatchObject({ state: "SUCCEEDED", output: { value: { ask: { ok: true } } } });
    const received = run.lines.find(({ event, stepId }) => event === "event_received" && stepId === "ask");
    expect(received).toMatchObject({ who: "ann", why: "event `answer`" });
    const ended = run.lines.find(({ event }) => event === "step_succeeded");
    expect(ended).toMatchObject({ stepId: "ask", who: "ann", cause: received?.seq });
  });

  test("takes the oldest event that arrived before it started", async () => {
    const { harness, runId, send } = await open({ first: later, ask: { ...WAIT, depends_on: ["first"] } });
    expect(await send("answer", 1)).toEqual({ kind: "kept" });
    expect(await send("answer", 2)).toEqual({ kind: "kept" });
    await harness.pass(31_000);
    const run = harness.runOf(runId);
    expect(run).toMatchObject({ state: "SUCCEEDED", output: { value: { ask: 1 } } });
    expect(run.events?.kept).toMatchObject([{ data: { value: 2 } }]);
  });

  test("with `correlate` takes only events with an equal correlation key", async () => {
    const { harness, runId, send } = await open({ ask: { ...WAIT, correlate: "input.ticket" } });
    expect(harness.runOf(runId).steps.ask?.awaits).toEqual({ event: "answer", key: "7" });
    expect(await send("answer", 1, { key: "8" })).toEqual({ kind: "kept" });
    expect(await send("answer", 2)).toEqual({ kind: "kept" });
    expect(await send("answer", 3, { key: "7" })).toEqual({ kind: "delivered", stepId: "ask" });
    expect(harness.runOf(runId).output).toMatchObject({ value: { ask: 3 } });
  });

  test.each([
    ["input.none", "no such key"],
    ["input", "must be a string, a number or a boolean"],
  ])("fails if `correlate` is `%s`", async (correlate, problem) => {
    const { harness, runId } = await open({ ask: { ...WAIT, correlate } });
    const error = { name: "ExpressionFailed", message: expect.stringContaining(problem) };
    expect(harness.runOf(runId)).toMatchObject({ state: "FAILED", error });
  });

  test("one event is taken by one of two steps, in definition order", async () => {
    const { harness, runId, send } = await open({ b: WAIT, a: WAIT });
    expect(await send("answer", 1)).toEqual({ kind: "delivered", stepId: "b" });
    expect(harness.states(runId)).toEqual({ b: "SUCCEEDED", a: "RUNNING" });
    expect(await send("answer", 2)).toEqual({ kind: "delivered", stepId: "a" });
    expect(harness.runOf(runId).output).toMatchObject({ value: { b: 1, a: 2 } });
  });

  test("ends as TIMEOUT at its deadline; a later event has no effect", async () => {
    const { harness, runId, send } = await open({ ask: { ...WAIT, on_error: "continue" }, later });
    await harness.pass(1_000);
    const { dueMs, startedMs } = harness.runOf(runId).steps.ask ?? {};
    expect(dueMs).toBe((startedMs ?? 0) + 60_000);
    await harness.pass(70_000);
    const message = "no matching event `answer` arrived within 60 s";
    expect(harness.runOf(runId)).toMatchObject({
      state: "SUCCEEDED",
      steps: { ask: { state: "TIMEOUT", error: { name: "DeadlineExceeded", message } } },
    });
    expect(await send("answer", 1)).toEqual({ kind: "ended", state: "SUCCEEDED" });
  });

  test("validates the data against `output_schema`", async () => {
    const { harness, runId, send } = await open({ ask: { ...WAIT, output_schema: { type: "object" } } });
    expect(await send("answer", 1)).toEqual({ kind: "delivered", stepId: "ask" });
    expect(harness.runOf(runId)).toMatchObject({ state: "FAILED", error: { name: "OutputInvalid" } });
  });

  test("takes events while the run is paused, and is cancelled with the run", async () => {
    const { harness, engine, runId, send } = await open({ ask: WAIT, again: { ...WAIT, depends_on: ["ask"] } });
    await harness.run(pauseRun(engine, { org: "default", runId, ...BY }));
    expect(await send("answer", 1)).toEqual({ kind: "delivered", stepId: "ask" });
    expect(await send("answer", 2)).toEqual({ kind: "kept" });
    expect(harness.states(runId)).toEqual({ ask: "SUCCEEDED" });
    await harness.run(resumeRun(engine, { org: "default", runId, ...BY }));
    expect(harness.runOf(runId)).toMatchObject({ state: "SUCCEEDED", output: { value: { again: 2 } } });

    const second = await open({ ask: WAIT });
    await second.harness.run(cancelRun(second.engine, { org: "default", runId: second.runId, ...BY }));
    expect(second.harness.states(second.runId)).toEqual({ ask: "CANCELLED" });
    expect(await second.send("answer", 1)).toEqual({ kind: "ended", state: "CANCELLED" });
  });

  test("as a branch it is cancelled when another branch wins", async () => {
    const branches = { ask: WAIT, slow: later };
    const both = { type: "parallel", branches: ["ask", "slow"], join: "any" };
    const { harness, runId } = await open({ both, ...branches });
    await harness.pass(31_000);
    expect(harness.states(runId)).toEqual({ both: "SUCCEEDED", ask: "CANCELLED", slow: "SUCCEEDED" });
    expect(harness.runOf(runId).state).toBe("SUCCEEDED");
  });

  test("is explained with its deadline and the command that sends the event", async () => {
    const { harness, engine, runId } = await open({ ask: { ...WAIT, correlate: '"it\'s " + string(input.ticket)' } });
    const explained = await harness.run(explainRun(engine, { org: "default", runId }));
    const { dueMs = 0 } = harness.runOf(runId).steps.ask ?? {};
    expect(explained).toMatchObject({
      lines: [
        {
          stepId: "ask",
          untilMs: dueMs,
          reason: "waiting for event `answer` with correlation key `it's 7`",
          unblocks: `cordum run event ${runId} answer '{}' --correlation-key 'it'\\''s 7'`,
        },
      ],
    });
  });

  test("of a rerun waits for a new event; kept results include the data", async () => {
    const { harness, engine, runId, send } = await open({ ask: WAIT, after: { ...WAIT, depends_on: ["ask"] } });
    await send("answer", 1);
    await send("answer", 2);
    await send("unused", 3);
    const outcome = await harness.run(
      rerun(engine, {
        org: "default",
        runId,
        fromStep: "after",
        by: "ann",
        idempotencyKey: null,
        keepsApprovals: false,
      }),
    );
    const again = outcome.kind === "started" ? outcome.runId : "";
    expect(harness.runOf(again)).toMatchObject({
      steps: { ask: { output: { value: 1 } }, after: { state: "RUNNING" } },
    });
    expect(harness.runOf(again).events).toBeUndefined();
  });
});

describe("an event", () => {
  test("with an id is applied once", async () => {
    const { harness, runId, send } = await open({ ask: WAIT, again: { ...WAIT, depends_on: ["ask"] } });
    expect(await send("answer", 1, { id: "e-1" })).toEqual({ kind: "delivered", stepId: "ask" });
    expect(await send("answer", 1, { id: "e-1" })).toEqual({ kind: "duplicate" });
    expect(harness.states(runId)).toEqual({ ask: "SUCCEEDED", again: "RUNNING" });
    expect(await send("answer", 2, { id: "e-2" })).toEqual({ kind: "delivered", stepId: "again" });
    expect(await send("answer", 2, { id: "e-2" })).toEqual({ kind: "duplicate" });
  });

  test("with an id is applied once when two requests race", async () => {
    const { harness, engine, runId } = await open({ ask: WAIT, again: { ...WAIT, depends_on: ["ask"] } });
    const event = { name: "answer", data: 1, id: "e-1", by: "ann" };
    const both = Promise.all([1, 2].map(() => sendEvent(engine, { org: "default", runId, event })));
    expect((await harness.run(both)).map(({ kind }) => kind)).toEqual(["delivered", "duplicate"]);
    expect(harness.states(runId)).toEqual({ ask: "SUCCEEDED", again: "RUNNING" });
  });

  test("is refused beyond the number and the size of events that a run keeps", async () => {
    const { harness, engine, runId, send } = await open({ ask: WAIT });
    const event = { name: "early", data: 1, by: "ann" };
    const all = Array.from({ length: EVENTS_KEPT_MAX }, () => sendEvent(engine, { org: "default", runId, event }));
    expect((await harness.run(Promise.all(all))).every(({ kind }) => kind === "kept")).toBe(true);
    expect(await send("early", 1, { id: "e-1" })).toMatchObject({ kind: "full", why: expect.stringContaining("100") });
    // A step takes an event also when no more are kept, and a refused id can be sent again.
    expect(await send("answer", 1, { id: "e-1" })).toEqual({ kind: "delivered", stepId: "ask" });

    const large = await open({ ask: WAIT });
    const text = "x".repeat(EVENT_BYTES_MAX - 2);
    expect(await large.send("early", `${text}x`)).toMatchObject({ kind: "too_large" });
    for (let count = 0; count < 4; count++) expect(await large.send("early", text)).toEqual({ kind: "kept" });
    expect(await large.send("early", 1)).toMatchObject({ kind: "full", why: expect.stringContaining("bytes") });
    expect(JSON.stringify(large.harness.runOf(large.runId)).length).toBeLessThan(4_000);
    expect(await large.send("answer", text)).toEqual({ kind: "delivered", stepId: "ask" });
  });

  test("for an unknown run or one of another tenant is refused", async () => {
    const { harness, engine, runId } = await open({ ask: WAIT });
    const event = { name: "answer", data: 1, by: "ann" };
    const send = (org: string, id: string) => harness.run(sendEvent(engine, { org, runId: id, event }));
    expect(await send("default", "none")).toEqual({ kind: "not_found" });
    expect(await send("acme", runId)).toEqual({ kind: "not_found" });
    expect(harness.states(runId)).toEqual({ ask: "RUNNING" });
  });

  test("with a number out of range is refused", async () => {
    const { send } = await open({ ask: WAIT });
    expect(await send("answer", { amount: Number.POSITIVE_INFINITY })).toEqual({
      kind: "bad_number",
      path: "data.amount",
    });
  });
});
