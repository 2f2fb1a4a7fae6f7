import { expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import type { Run } from "../../../src/core/model/run.ts";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";
import { advance, type RunEvent } from "../../../src/core/workflow/run/advance.ts";
import { openRun } from "../../../src/core/workflow/run/open-run.ts";
import { Values } from "../../../src/core/workflow/run/values.ts";
import { EVENT_IDS_MAX } from "../../../src/core/workflow/run/wait.ts";

const { inlineBytesMax, listInputBytesMax, outputBytesMax } = defaultSettings().limits;
const LIMITS = { inlineBytesMax, listInputBytesMax, outputBytesMax, blobBytesMax: 1_000_000, startsMax: 32, keptMs: 1 };

function open(steps: object) {
  const compiled = compileWorkflow({ id: "w", steps });
  if (compiled.kind === "bad") throw new Error(compiled.problems.join("\n"));
  const { plan } = compiled;
  const order = { runId: "r", org: "o", version: 1, traceId: "t", labels: {}, priority: null, submittedBy: null };
  const whole = { ...order, actorId: null, traceparent: null, parent: null };
  const opened = openRun(plan, whole, { kind: "inline", value: {} }, { nowMs: 0, deadlineMs: 1e9 });
  const at = (run: Run, nowMs: number, ...events: readonly RunEvent[]) =>
    advance(plan, run, events, new Values(), { nowMs, limits: LIMITS });
  return { at, run: at(opened, 0, { kind: "time" }).run };
}

const received = (data: unknown, id?: string): RunEvent => ({
  kind: "received",
  event: { name: "answer", data, by: "ann", ...(id !== undefined && { id }) },
});
const WAIT = { type: "wait", event: "answer", timeout_sec: 60, on_error: "continue" };

test("a step does not take an event at or after its deadline, also if its timer is late", () => {
  const { at, run } = open({ ask: WAIT });
  expect(run.dueMs).toBe(60_000);
  const late = received(1);
  const decided = at(run, 60_000, late);
  expect(decided.answers.get(late)).toEqual({ kind: "kept" });
  const inTime = received(1);
  expect(at(run, 59_999, inTime).answers.get(inTime)).toEqual({ kind: "delivered", stepId: "ask" });
  expect(at(decided.run, 60_001, { kind: "time" }).run.steps.ask?.state).toBe("TIMEOUT");
});

test("events of one batch are taken in their order, each once", () => {
  const { at, run } = open({ one: WAIT, two: WAIT });
  const [first, second, third] = [received(1, "a"), received(1, "a"), received(2, "b")];
  const { answers, run: after } = at(run, 1, first, second, third);
  expect([first, second, third].map((event) => answers.get(event)?.kind)).toEqual([
    "delivered",
    "duplicate",
    "delivered",
  ]);
  expect(after).toMatchObject({ state: "SUCCEEDED", output: { value: { one: 1, two: 2 } } });
});

test("remembers a bounded number of ids, the latest", () => {
  const { at, run } = open({ ask: WAIT });
  const ids = Array.from({ length: EVENT_IDS_MAX }, (_, index) => `old-${index}`);
  const full: Run = { ...run, events: { kept: [], bytes: 0, ids } };
  const next = at(full, 1, received(1, "new")).run.events?.ids ?? [];
  expect(next).toHaveLength(EVENT_IDS_MAX);
  expect(next[0]).toBe("old-1");
  expect(next.at(-1)).toMatch(/^[0-9a-f]{16}$/);
});
