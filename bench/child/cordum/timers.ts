import { fillPending, firedNow, leastSweepUs } from "../../../test/system/runs/pending-timers.ts";
import { CpuMeter } from "../clocks.ts";
import type { TimersFigures, TimersTask } from "../task.ts";
import { untilRedisIdle } from "./jobs.ts";
import { cordumOnly, openWorld } from "./world.ts";

/** Sweeps with timers that are not due. They are written by another world, so that no cache knows them. */
export async function runTimers({ backend, pending, serverPids, ...times }: TimersTask): Promise<TimersFigures> {
  const spec = cordumOnly(backend);
  const filled = await openWorld(spec);
  await fillPending(filled.world, pending);
  await filled.close();
  if (spec.kind === "cluster") await untilRedisIdle(spec.redisUrl);
  const { world, close } = await openWorld(spec);
  const meter = new CpuMeter([], serverPids);
  const cpuUs = () => {
    const { clientUs, serverUs } = meter.used();
    return clientUs + serverUs;
  };
  // The first round warms up the compiler.
  await leastSweepUs(world, cpuUs, { ...times, rounds: 1 });
  const sweepUs = await leastSweepUs(world, cpuUs, times);
  const fired = await firedNow(world);
  await close();
  const isCorrect = fired.length === 1 && fired[0] === "due";
  return { sweepUs, faults: isCorrect ? [] : [`1 timer was due, the sweep fired ${fired.length}`] };
}
