import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import {
  backfillSchedule,
  cancelBackfill,
  deleteSchedule,
  pauseSchedule,
  resumeSchedule,
  triggerSchedule,
} from "../../../src/engine/schedules/index.ts";
import { ORG, ScheduleHarness, slotsFrom } from "./schedule-harness.ts";

const ACT = { org: ORG, id: "s", by: "bob" };
const trigger = { ...ACT, idempotencyKey: null, mayOverlap: false };
const openAt = (harness: ScheduleHarness) => harness.runs().filter(({ state }) => state === "RUNNING").length;

async function opened(fields: object = {}): Promise<{ harness: ScheduleHarness; engine: Engine }> {
  const harness = new ScheduleHarness();
  const engine = await harness.open();
  await harness.schedule(engine, fields);
  return { harness, engine };
}

describe("overlap, with runs of 25 s every 10 s", () => {
  test("skip: a slot is skipped while a run is open", async () => {
    const { harness } = await opened({ workflow_id: "long" });
    await harness.pass(75_000);
    const [first = 0] = harness.slots();
    expect(harness.slots()).toEqual(slotsFrom(first as number, 30_000, harness.slots().length));
    expect(harness.slots().length).toBeGreaterThanOrEqual(2);
    expect(harness.now().leftOut).toMatchObject({ kind: "skipped", why: expect.stringMatching(/^run `.+` is open$/) });
  });

  test("queue: one slot starts when the run ends, the others are skipped", async () => {
    const { harness } = await opened({ workflow_id: "long", overlap: "queue" });
    await harness.pass(85_000);
    const runs = harness.runs();
    expect(runs.length).toBeGreaterThanOrEqual(3);
    for (const [index, run] of runs.entries()) {
      const before = runs[index - 1];
      if (before) expect(run.createdMs - before.updatedMs).toBeLessThan(1_500);
      if (before) expect(run.createdMs).toBeGreaterThanOrEqual(before.updatedMs);
    }
    expect(harness.now().counts.skipped).toBeGreaterThan(0);
    expect(harness.now().leftOut?.why).toBe("another slot is queued");
  });

  test("cancel: the open run is cancelled, then the slot starts", async () => {
    const { harness } = await opened({ workflow_id: "long", overlap: "cancel" });
    await harness.pass(45_000);
    const states = harness.runs().map(({ state }) => state);
    expect(states.length).toBeGreaterThanOrEqual(4);
    expect(states).toEqual([...Array.from({ length: states.length - 1 }, () => "CANCELLED"), "RUNNING"]);
    expect(harness.runs()[0]?.error?.message).toContain("schedule `s`");
  });

  test("cancel: the process dies before it cancels the run", async () => {
    const { harness } = await opened({ workflow_id: "long", overlap: "cancel" });
    harness.sim.net.onCommit = (by) => {
      if (by.name === "c1" && harness.now().queuedMs !== undefined) harness.crash("c1");
    };
    await harness.pass(25_000);
    await harness.control("c2");
    await harness.pass(16_000);
    expect(harness.runs()[0]?.state).toBe("CANCELLED");
  });

  test("allow: every slot starts", async () => {
    const { harness } = await opened({ workflow_id: "long", overlap: "allow" });
    await harness.pass(45_000);
    expect(openAt(harness)).toBeGreaterThan(1);
    expect(harness.now().counts.skipped).toBe(0);
  });
});

describe("pause and resume", () => {
  test("no slot starts while paused, and none of the pause afterwards", async () => {
    const { harness, engine } = await opened();
    await harness.pass(12_000);
    const { length } = harness.runs();
    expect(await harness.run(pauseSchedule(engine, ACT))).toMatchObject({ kind: "moved" });
    expect(await harness.run(pauseSchedule(engine, ACT))).toMatchObject({ kind: "already" });
    expect(harness.now().dueMs).toBeNull();
    await harness.pass(60_000);
    expect(harness.runs()).toHaveLength(length);
    const { engine: other } = await harness.control("c2");
    await harness.run(resumeSchedule(other, ACT));
    const resumedMs = other.world.clock.now();
    await harness.pass(21_000);
    const after = harness.slots().slice(length);
    expect(after.length).toBe(2);
    expect(Math.min(...after.map(Number))).toBeGreaterThan(resumedMs);
    expect(harness.now().counts.missed).toBe(0);
  });

  test("a paused schedule drops its queued slot", async () => {
    const { harness, engine } = await opened({ workflow_id: "long", overlap: "queue" });
    for (let waited = 0; harness.now().queuedMs === undefined && waited < 30; waited++) await harness.pass(1_000);
    await harness.run(pauseSchedule(engine, ACT));
    await harness.pass(40_000);
    expect(harness.runs()).toHaveLength(1);
    expect(harness.now().leftOut).toMatchObject({ kind: "skipped", why: "paused while it was queued" });
  });
});

describe("trigger", () => {
  test("starts a run now, also of a paused schedule, in the name of the caller", async () => {
    const { harness, engine } = await opened({ paused: true, input: { a: 1 } });
    const triggered = await harness.run(triggerSchedule(engine, trigger));
    expect(triggered).toMatchObject({ kind: "triggered", outcome: { kind: "started" } });
    const [run] = harness.runs();
    expect(run).toMatchObject({ submittedBy: "bob", schedule: { id: "s" }, input: { value: { a: 1 } } });
    expect(harness.now().starts).toMatchObject([{ cause: "trigger", slotMs: null, runId: run?.id }]);
    expect(harness.audited()).toEqual(["applied", "triggered"]);
  });

  test("respects the overlap policy, and can be told to ignore it", async () => {
    const { harness, engine } = await opened({ workflow_id: "long", paused: true });
    await harness.run(triggerSchedule(engine, trigger));
    const [first] = harness.runs();
    expect(await harness.run(triggerSchedule(engine, trigger))).toEqual({ kind: "overlap", runId: first?.id });
    await harness.run(triggerSchedule(engine, { ...trigger, mayOverlap: true }));
    expect(harness.runs()).toHaveLength(2);
  });

  test("a repeated key returns the same run, also while it is open (L21)", async () => {
    const { harness, engine } = await opened({ workflow_id: "long", paused: true });
    const keyed = { ...trigger, idempotencyKey: "k" };
    await harness.run(triggerSchedule(engine, keyed));
    const again = await harness.run(triggerSchedule(engine, keyed));
    expect(again).toMatchObject({ outcome: { kind: "replayed", runId: harness.runs()[0]?.id } });
    expect(harness.runs()).toHaveLength(1);
    expect(harness.now().counts.started).toBe(1);
  });
});

describe("backfill", () => {
  test("starts the slots of a range in order, with its pace, and none that has a run", async () => {
    const { harness, engine } = await opened({ overlap: "allow" });
    await harness.pass(35_000);
    const fromMs = Number(harness.slots()[0]) - 30_000;
    const untilMs = Number(harness.slots().at(-1));
    const known = harness.slots();
    await harness.run(pauseSchedule(engine, ACT));
    const asked = { ...ACT, fromMs, untilMs, paceMs: 2_000 };
    expect(await harness.run(backfillSchedule(engine, asked))).toMatchObject({
      kind: "moved",
      slots: 3 + known.length,
    });
    expect(await harness.run(backfillSchedule(engine, asked))).toEqual({ kind: "active" });
    await harness.pass(30_000);
    const made = harness.runs().slice(known.length);
    expect(made.map(({ schedule }) => schedule?.slotMs)).toEqual(slotsFrom(fromMs, 10_000, 3));
    const times = harness.now().starts.filter(({ cause }) => cause === "backfill");
    for (const [index, { atMs }] of times.entries()) {
      const before = times[index + 1];
      if (before) expect(atMs - before.atMs).toBeGreaterThanOrEqual(2_000);
    }
    expect(harness.now().backfill).toBeUndefined();
    expect(harness.audited()).toContain("backfill completed");
  });

  test("waits for the open run unless runs may overlap", async () => {
    const { harness, engine } = await opened({ workflow_id: "long", paused: true });
    const untilMs = engine.world.clock.now();
    await harness.run(backfillSchedule(engine, { ...ACT, fromMs: untilMs - 25_000, untilMs, paceMs: 100 }));
    await harness.pass(60_000);
    const runs = harness.runs();
    expect(runs.length).toBeGreaterThanOrEqual(2);
    for (const [index, run] of runs.entries()) {
      const before = runs[index - 1];
      if (before) expect(run.createdMs).toBeGreaterThanOrEqual(before.updatedMs);
    }
  });

  test("rejects a range without slots, in the future, or too long; a cancelled one stops", async () => {
    const { harness, engine } = await opened({ overlap: "allow", paused: true });
    const nowMs = engine.world.clock.now();
    const ask = (fromMs: number, untilMs: number) =>
      harness.run(backfillSchedule(engine, { ...ACT, fromMs, untilMs, paceMs: 1_000 }));
    const slotMs = Math.floor(nowMs / 10_000) * 10_000;
    expect(await ask(slotMs - 9_000, slotMs - 1_000)).toMatchObject({ why: "no slot of the schedule is in the range" });
    expect(await ask(nowMs, nowMs + 60_000)).toMatchObject({ why: expect.stringContaining("in the future") });
    expect(await ask(nowMs - 10_000, nowMs - 20_000)).toMatchObject({ why: "`from` is after `until`" });
    expect(await ask(nowMs - 20_000_000, nowMs)).toMatchObject({
      why: expect.stringContaining("more than 1000 slots"),
    });
    await ask(nowMs - 1_000_000, nowMs);
    await harness.pass(5_000);
    await harness.run(cancelBackfill(engine, ACT));
    const { length } = harness.runs();
    expect(length).toBeGreaterThan(2);
    await harness.pass(10_000);
    expect(harness.runs()).toHaveLength(length);
  });
});

describe("apply", () => {
  test("an unchanged document changes nothing; a new expression repeats no slot", async () => {
    const { harness, engine } = await opened({ overlap: "allow" });
    await harness.pass(25_000);
    expect(await harness.tryApply(engine, { overlap: "allow" })).toMatchObject({ result: "unchanged" });
    const handled = harness.slots();
    expect(await harness.tryApply(engine, { overlap: "allow", every: "20s" })).toMatchObject({ result: "updated" });
    await harness.pass(45_000);
    const later = harness.slots().slice(handled.length).map(Number);
    expect(later.length).toBeGreaterThanOrEqual(2);
    expect(Math.min(...later)).toBeGreaterThan(Number(handled.at(-1)));
    for (const slotMs of later) expect(slotMs % 20_000).toBe(0);
  });

  test("an apply while no control plane runs keeps the slots that are due", async () => {
    const { harness } = await opened({ overlap: "allow" });
    await harness.pass(12_000);
    const before = harness.slots().length;
    harness.crash("c1");
    await harness.pass(50_000);
    const engine = harness.engine("c2");
    await harness.schedule(engine, { overlap: "allow", jitter_ms: 100 });
    await harness.control("c3");
    await harness.pass(3_000);
    expect(harness.slots().length - before).toBeGreaterThanOrEqual(4);
  });

  test("rejects what can never start, and more schedules than the limit", async () => {
    const harness = new ScheduleHarness({ limits: { ...defaultSettings().limits, schedulesMax: 2 } });
    const engine = await harness.open();
    expect(await harness.tryApply(engine, { workflow_id: "nope" })).toEqual({
      kind: "invalid",
      problems: ["workflow `nope` does not exist; apply it first with `cordum workflow apply`"],
    });
    await harness.apply(engine, {
      id: "typed",
      input_schema: { type: "object", required: ["n"] },
      steps: { a: { type: "delay", delay_sec: 1 } },
    });
    expect(await harness.tryApply(engine, { workflow_id: "typed" })).toMatchObject({ kind: "invalid" });
    await harness.schedule(engine, { id: "a" });
    await harness.schedule(engine, { id: "b" });
    expect(await harness.tryApply(engine, { id: "c" })).toEqual({ kind: "too_many", limit: 2 });
    await harness.schedule(engine, { id: "b", every: "20s" });
    await harness.run(deleteSchedule(engine, { ...ACT, id: "a" }));
    await harness.schedule(engine, { id: "c" });
  });

  test("tenants do not see each other's schedules", async () => {
    const { harness, engine } = await opened();
    const other = { ...ACT, org: "acme" };
    expect(await harness.run(pauseSchedule(engine, other))).toEqual({ kind: "not_found" });
    expect(await harness.run(deleteSchedule(engine, other))).toEqual({ kind: "not_found" });
  });
});
