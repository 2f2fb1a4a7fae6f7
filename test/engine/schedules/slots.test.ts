import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { startOf } from "../../../src/core/schedule/schedule.ts";
import { deleteWorkflow } from "../../../src/engine/runs/index.ts";
import { lasting, ScheduleHarness, slotsFrom } from "./schedule-harness.ts";

describe("slots", () => {
  test("each slot starts one run, at its time", async () => {
    const harness = new ScheduleHarness();
    const engine = await harness.open();
    const { nextMs } = await harness.schedule(engine, { input: { n: 1 } });
    await harness.pass(45_000);
    const first = nextMs ?? 0;
    expect(harness.slots().slice(0, 4)).toEqual(slotsFrom(first, 10_000, 4));
    for (const { createdMs, schedule, input, submittedBy, lines } of harness.runs()) {
      expect(createdMs - (schedule?.slotMs ?? 0)).toBeGreaterThanOrEqual(0);
      expect(createdMs - (schedule?.slotMs ?? 0)).toBeLessThan(100);
      expect([input, submittedBy]).toEqual([{ kind: "inline", value: { n: 1 } }, "alice"]);
      expect(lines[0]?.why).toBe(`schedule \`s\`, slot ${new Date(schedule?.slotMs ?? 0).toISOString()}`);
    }
    expect(harness.audited().filter((what) => what === "started")).toHaveLength(harness.runs().length);
    expect(harness.now().starts[0]?.runId).toBe(harness.runs().at(-1)?.id);
  });

  test("three processes start one run per slot", async () => {
    const harness = new ScheduleHarness();
    const engine = await harness.open();
    await harness.control("c2");
    await harness.control("c3");
    await harness.schedule(engine, { overlap: "allow" });
    await harness.pass(100_000);
    const slots = harness.slots();
    expect(slots.length).toBeGreaterThanOrEqual(9);
    expect(new Set(slots).size).toBe(slots.length);
  });

  test("a slot starts after its jitter, which differs between slots and schedules", async () => {
    const harness = new ScheduleHarness();
    const engine = await harness.open();
    for (const id of ["a", "b", "c"]) await harness.schedule(engine, { id, jitter_ms: 8_000 });
    await harness.pass(60_000);
    const offsets = ["a", "b", "c"].flatMap((id) =>
      harness.runs(id).map(({ createdMs, schedule }) => {
        const slotMs = schedule?.slotMs ?? 0;
        const startMs = startOf(harness.now(id), slotMs);
        expect(createdMs).toBeGreaterThanOrEqual(startMs);
        expect(createdMs).toBeLessThan(startMs + 100);
        return startMs - slotMs;
      }),
    );
    expect(new Set(offsets).size).toBe(offsets.length);
    expect(Math.max(...offsets) - Math.min(...offsets)).toBeGreaterThan(4_000);
  });

  test("slots of a downtime start late within the catch-up window, and are missed beyond it", async () => {
    const harness = new ScheduleHarness();
    const engine = await harness.open();
    await harness.schedule(engine, { overlap: "allow", catch_up_ms: 30_000 });
    await harness.pass(15_000);
    harness.crash("c1");
    const before = harness.slots().length;
    await harness.pass(100_000);
    await harness.control("c2");
    await harness.pass(4_000);
    const caughtUp = harness.runs().slice(before);
    expect(caughtUp.length).toBeGreaterThanOrEqual(3);
    for (const { createdMs, schedule } of caughtUp) {
      expect(createdMs - (schedule?.slotMs ?? 0)).toBeLessThanOrEqual(30_000);
    }
    const { counts, leftOut } = harness.now();
    expect(counts.missed).toBeGreaterThanOrEqual(6);
    expect(leftOut).toMatchObject({ kind: "missed", why: expect.stringContaining("catch-up window") });
    const [first = 0, last = 0] = [harness.slots()[0], harness.slots().at(-1)];
    expect(counts.started + counts.missed).toBe((last - first) / 10_000 + 1);
    expect(harness.audited()).toContain("missed");
  });

  // Each pass crashes the first process at a later commit.
  test("one run per slot, wherever a process dies (L23)", { timeout: 60_000 }, async () => {
    for (let crashCommit = 1; crashCommit <= 12; crashCommit++) {
      const harness = new ScheduleHarness();
      const engine = await harness.open();
      await harness.schedule(engine, { overlap: "allow" });
      let commits = 0;
      harness.sim.net.onCommit = (by, _, committed) => {
        if (by.name !== "c1" || committed.kind !== "committed") return;
        commits += 1;
        if (commits === crashCommit) harness.crash("c1");
      };
      await harness.pass(31_000);
      await harness.control("c2");
      await harness.pass(31_000);
      const slots = harness.slots();
      expect(slots).toEqual(slotsFrom(slots[0] ?? 0, 10_000, slots.length));
      expect(slots.length).toBeGreaterThanOrEqual(5);
    }
  });

  test("a start that the run limit refuses waits and says so; after the catch-up window it is missed", async () => {
    const harness = new ScheduleHarness({ limits: { ...defaultSettings().limits, concurrentRunsMax: 1 } });
    const engine = await harness.open();
    await harness.schedule(engine, { overlap: "allow", catch_up_ms: 6_000 });
    await harness.started(engine, "long");
    await harness.pass(11_000);
    expect(harness.now().wait?.why).toBe("tenant run limit reached: 1 open runs, limit 1");
    expect(harness.runs()).toEqual([]);
    await harness.pass(30_000);
    const { counts, leftOut, wait } = harness.now();
    expect(counts).toMatchObject({ missed: 2, failed: 0 });
    expect(leftOut).toMatchObject({ kind: "missed", why: "tenant run limit reached: 1 open runs, limit 1" });
    expect(wait).toBeUndefined();
    expect(harness.runs().length).toBe(counts.started);
    expect(counts.started).toBeGreaterThan(0);
  });

  test("a deleted workflow fails its slots, and an applied one starts the next", async () => {
    const harness = new ScheduleHarness();
    const engine = await harness.open();
    await harness.schedule(engine, {});
    await harness.run(deleteWorkflow(engine, { org: "default", id: "short", by: "bob" }));
    await harness.pass(11_000);
    expect(harness.now().leftOut).toMatchObject({ kind: "failed", why: "workflow `short` does not exist" });
    await harness.apply(engine, lasting("short", 1));
    await harness.pass(10_000);
    expect(harness.now().counts).toMatchObject({ failed: 1, started: 1 });
  });
});
