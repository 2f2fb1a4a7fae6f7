import { expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { RUNS } from "../../../src/core/model/run.ts";
import { SCHEDULES, scheduleKey } from "../../../src/core/schedule/schedule.ts";
import { put } from "../../../src/ports/store.ts";
import { burstSchedule } from "../../system/runs/schedule-burst.ts";
import { lasting, ScheduleHarness } from "./schedule-harness.ts";

const SCHEDULED = 1_500;

test("a burst of slots starts within 5 s, with a bounded number of commits at a time", {
  timeout: 60_000,
}, async () => {
  const { limits } = defaultSettings();
  const harness = new ScheduleHarness({ limits: { ...limits, concurrentRunsMax: SCHEDULED } });
  const engine = await harness.open();
  await harness.apply(engine, lasting("w", 600));
  const { store, clock } = engine.world;
  const slotMs = Math.ceil(clock.now() / 1_000) * 1_000 + 3_000;
  const schedules = Array.from({ length: SCHEDULED }, (_, n) => ({ ...burstSchedule(n, slotMs, 0), org: "default" }));
  const puts = schedules.map((schedule) => put(SCHEDULES, scheduleKey(schedule.org, schedule.id), null, schedule));
  await harness.run(store.commit({ org: "default", atMs: clock.now(), puts, guards: [], sends: [], watch: [] }));
  const commit = store.commit.bind(store);
  let [open, most] = [0, 0];
  store.commit = (change) => {
    const isStart = change.puts.some(({ table, expect: version }) => table === RUNS.name && version === 0);
    if (isStart) most = Math.max(most, ++open);
    return commit(change).finally(() => {
      if (isStart) open -= 1;
    });
  };
  await harness.pass(slotMs - clock.now() + 5_000);
  const runs = [...harness.sim.net.store.rows(RUNS)].map(({ value }) => value);
  expect(new Set(runs.map(({ schedule }) => schedule?.id)).size).toBe(SCHEDULED);
  expect(runs).toHaveLength(SCHEDULED);
  for (const { createdMs } of runs) expect(createdMs).toBeGreaterThanOrEqual(slotMs);
  // 256 schedules are handled at a time.
  expect(most).toBeGreaterThan(100);
  expect(most).toBeLessThanOrEqual(256);
});
