import { expect, test } from "vitest";
import { openWorld, withBackend } from "../backends.ts";
import { startBurst } from "./schedule-burst.ts";

test("2,000 schedules due in the same second start one run each", { timeout: 120_000 }, async () => {
  const { lateMs, cpuUs, faults } = await withBackend("embedded", async (backend) => {
    const { world, close } = await openWorld(backend, "burst");
    const figures = await startBurst(world, ownUs, { schedules: 2_000, jitterMs: 1_000 });
    await close();
    return figures;
  });
  expect(faults).toEqual([]);
  expect(lateMs).toHaveLength(2_000);
  expect(lateMs[0]).toBeGreaterThanOrEqual(0);
  // CPU time, because the machine may be busy. 10,000 of them are measured by `npm run bench -- --only schedules`.
  expect(cpuUs / 1e6).toBeLessThan(5);
});

function ownUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
