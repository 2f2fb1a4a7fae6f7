import { startBurst } from "../../../test/system/runs/schedule-burst.ts";
import { CpuMeter } from "../clocks.ts";
import type { SchedulesFigures, SchedulesTask } from "../task.ts";
import { cordumOnly, openWorld } from "./world.ts";

export async function runSchedules(task: SchedulesTask): Promise<SchedulesFigures> {
  const { backend, schedules, jitterMs, serverPids } = task;
  const { world, close } = await openWorld(cordumOnly(backend));
  const meter = new CpuMeter([], serverPids);
  const cpuUs = () => {
    const { clientUs, serverUs } = meter.used();
    return clientUs + serverUs;
  };
  const burst = await startBurst(world, cpuUs, { schedules, jitterMs });
  await close();
  const { lateMs, cpuUs: usedUs, faults } = burst;
  const share = (part: number) => lateMs[Math.floor(part * (lateMs.length - 1))] ?? 0;
  return { lateP50Ms: share(0.5), lateP99Ms: share(0.99), lateMaxMs: share(1), startUs: usedUs / schedules, faults };
}
