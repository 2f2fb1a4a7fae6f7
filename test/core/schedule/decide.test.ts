import { describe, expect, test } from "vitest";
import { afterRefusal, afterStart, decideSchedule } from "../../../src/core/schedule/decide.ts";
import { applySpec, checkSchedule, type ScheduleSpec } from "../../../src/core/schedule/request.ts";
import { nextSlots, type Schedule, startOf } from "../../../src/core/schedule/schedule.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;
const SPEC: ScheduleSpec = {
  id: "s",
  workflowId: "w",
  timing: { kind: "every", everyMs: MINUTE },
  input: {},
  overlap: "skip",
  jitterMs: 0,
  catchUpMs: 10 * MINUTE,
  isPaused: false,
};

function scheduled(spec: Partial<ScheduleSpec> = {}, nowMs = 0): Schedule {
  const applying = { org: "o", uid: "u", submittedBy: "ann", caller: undefined, nowMs };
  const made = applySpec(null, { ...SPEC, ...spec }, applying);
  if (!made) throw new Error("nothing was applied");
  return made;
}

describe("the next action", () => {
  test("rests before a slot, and starts it when it is due", () => {
    const schedule = scheduled();
    expect(decideSchedule(schedule, { nowMs: MINUTE - 1, open: [] })).toEqual({ kind: "rest" });
    expect(decideSchedule(schedule, { nowMs: MINUTE, open: [] })).toMatchObject({ kind: "start", slotMs: MINUTE });
  });

  test("counts the slots of a year of downtime without a loop, and starts those within the window", () => {
    const schedule = scheduled({ timing: { kind: "every", everyMs: SECOND }, catchUpMs: 5 * SECOND });
    const action = decideSchedule(schedule, { nowMs: 365 * DAY, open: [] });
    expect(action).toMatchObject({ kind: "start", slotMs: 365 * DAY - 5 * SECOND });
    if (action.kind === "start") expect(action.next.counts.missed).toBe(365 * 86_400 - 6);
  });

  test("counts the missed slots of a cron expression in bounded steps", () => {
    let schedule = scheduled({ timing: { kind: "cron", cron: "* * * * *", timeZone: "UTC" } });
    const nowMs = 3 * DAY;
    let saves = 0;
    for (;;) {
      const action = decideSchedule(schedule, { nowMs, open: [] });
      if (action.kind !== "save") {
        expect(action).toMatchObject({ kind: "start", slotMs: nowMs - 10 * MINUTE });
        break;
      }
      schedule = action.next;
      saves += 1;
    }
    expect(saves).toBe(2);
    expect(decideSchedule(schedule, { nowMs, open: [] })).toMatchObject({
      next: { counts: { missed: 3 * 1_440 - 11 } },
    });
  });

  test("a clock that steps back repeats no slot", () => {
    const first = decideSchedule(scheduled(), { nowMs: MINUTE, open: [] });
    if (first.kind !== "start") throw new Error(first.kind);
    const started = afterStart(first.next, { runId: "r", slotMs: MINUTE, cause: "slot", atMs: MINUTE });
    expect(decideSchedule(started, { nowMs: 10, open: [] })).toEqual({ kind: "rest" });
    const applying = { org: "o", uid: "u", submittedBy: "ann", caller: undefined, nowMs: 10 };
    const retimed = applySpec(started, { ...SPEC, timing: { kind: "every", everyMs: 30 * SECOND } }, applying);
    expect(retimed?.nextMs).toBe(MINUTE + 30 * SECOND);
  });

  test("a refused start is retried with growing jitter, and stays at the head", () => {
    let schedule = scheduled();
    const delays: number[] = [];
    for (let tries = 0; tries < 8; tries++) {
      schedule = afterRefusal(schedule, "slot", "full", MINUTE, 1);
      delays.push((schedule.dueMs ?? 0) - MINUTE);
    }
    expect(delays).toEqual([2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000]);
    expect(afterRefusal(schedule, "slot", "full", MINUTE, 0).dueMs).toBe(MINUTE + 1_000);
    expect(decideSchedule(schedule, { nowMs: MINUTE + 1, open: [] })).toEqual({ kind: "rest" });
    expect(decideSchedule(schedule, { nowMs: MINUTE + 30_000, open: [] })).toMatchObject({ slotMs: MINUTE });
  });
});

describe("jitter", () => {
  test("is the same in every process, within its bound, and spread over slots and schedules", () => {
    const starts = Array.from(
      { length: 1_000 },
      (_, slot) => startOf({ uid: "a", jitterMs: 1_000 }, slot * MINUTE) - slot * MINUTE,
    );
    expect(Math.min(...starts)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...starts)).toBeLessThan(1_000);
    const bins = Array.from({ length: 10 }, (_, bin) => starts.filter((ms) => Math.floor(ms / 100) === bin).length);
    expect(Math.min(...bins)).toBeGreaterThan(60);
    const schedules = Array.from({ length: 100 }, (_, at) => startOf({ uid: `u${at}`, jitterMs: 100_000 }, 0));
    expect(new Set(schedules).size).toBeGreaterThan(90);
  });

  test("the next slots show it", () => {
    const schedule = scheduled({ jitterMs: 30_000 });
    for (const { slotMs, startMs } of nextSlots(schedule, 5)) expect(startMs).toBe(startOf(schedule, slotMs));
  });
});

describe("documents", () => {
  const check = (document: unknown) => checkSchedule(document, { intervalMsMin: 10_000, nowMs: 0 });
  const good = { id: "s", workflow_id: "w", every: "10m" };

  test("defaults", () => {
    expect(check(good)).toMatchObject({
      kind: "ok",
      spec: { overlap: "skip", jitterMs: 0, catchUpMs: 3_600_000, isPaused: undefined, input: {} },
    });
  });

  test("reports all problems at once", () => {
    const bad = check({ id: "", cron: "x", overlap: "no", jitter_ms: -1, catch_up_ms: 1.5, paused: 1, extra: 1 });
    expect(bad.kind === "bad" && bad.problems).toHaveLength(8);
  });

  test("limits are inclusive", () => {
    const atMost = { ...good, every: "24h", jitter_ms: DAY, catch_up_ms: 30 * DAY };
    expect(check(atMost).kind).toBe("ok");
    for (const over of [{ jitter_ms: DAY + 1 }, { catch_up_ms: 30 * DAY + 1 }]) {
      expect(check({ ...atMost, ...over })).toMatchObject({ kind: "bad", problems: [expect.any(String)] });
    }
  });

  test.each([7, {}, ["Europe/Berlin"]])("a time zone is a text, not %j", (time_zone) => {
    const bad = check({ id: "s", workflow_id: "w", cron: "0 0 * * *", time_zone });
    expect(bad).toMatchObject({ kind: "bad", problems: [expect.stringContaining("`time_zone`")] });
  });

  test.each([null, 7, "text", [good]])("rejects %j", (document) => {
    expect(check(document)).toMatchObject({ kind: "bad" });
  });
});
