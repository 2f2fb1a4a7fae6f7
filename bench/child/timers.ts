import { fillPending, firedNow, leastSweepUs } from "../../test/system/runs/pending-timers.ts";
import { CpuMeter } from "./cpu.ts";
import { openWorld, oursOnly } from "./ours/our-world.ts";
import { untilRedisRests } from "./ours/ours.ts";
import type { TimersFigures, TimersTask } from "./task.ts";

/** Sweeps past timers that are far from due: the process that sweeps has not written them. */
export async function runTimers({ side, pending, serverPids, ...times }: TimersTask): Promise<TimersFigures> {
  const spec = oursOnly(side);
  const filled = await openWorld(spec);
  await fillPending(filled.world, pending);
  await filled.close();
  if (spec.kind === "cluster") await untilRedisRests(spec.redisUrl);
  const { world, close } = await openWorld(spec);
  const meter = new CpuMeter([], serverPids);
  const cpuUs = () => {
    const { clientUs, serverUs } = meter.used();
    return clientUs + serverUs;
  };
  // Once without being measured, for code that is still being compiled.
  await leastSweepUs(world, cpuUs, { ...times, rounds: 1 });
  const sweepUs = await leastSweepUs(world, cpuUs, times);
  const fired = await firedNow(world);
  await close();
  const isRight = fired.length === 1 && fired[0] === "due";
  return { sweepUs, faults: isRight ? [] : [`of one timer that was due, ${fired.length} were found`] };
}
