import { setTimeout as delay } from "node:timers/promises";
import { defaultSettings } from "../../../src/config/config.ts";
import type { RolloutRequest } from "../../../src/core/rollout/request.ts";
import { JUDGEMENTS } from "../../../src/core/rollout/stored-judgement.ts";
import type { Settings } from "../../../src/core/settings.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { endRollout, RolloutJudge, startRollout } from "../../../src/engine/rollouts/index.ts";
import { threadsUs } from "../clocks.ts";
import { Loop, settled } from "../loop.ts";
import { STEPS } from "../payload.ts";
import type { PairedFigures, PairedGroup, PairedLoad, PairedTask } from "../task.ts";
import type { CordumBackend } from "./cordum-backend.ts";
import { openCordumJobs } from "./jobs.ts";
import { openCordumRuns } from "./runs.ts";
import { MANY_RUNS, settingsWith, THREE, WIDE } from "./workflows.ts";
import { type CordumSpec, cordumOnly } from "./world.ts";

/**
 * The CPU per job of a feature: blocks of one closed loop with the feature off and on, in one process on one store.
 *
 * 1. A group is off, on, on, off: a drift of the machine that is linear over the group has no effect on the comparison.
 * 2. A block starts when all jobs have ended that were in flight at the switch.
 * 3. No unit of the blocks is judged. The judgement is measured by itself, after the load.
 */
export async function runPaired(task: PairedTask): Promise<PairedFigures> {
  const loop = new Loop(task.load === "jobs" ? 1 : STEPS, task.load !== "wide runs");
  const live = { current: task.load === "jobs" ? defaultSettings() : settingsWith(MANY_RUNS) };
  const backend = await open(cordumOnly(task.backend), task.load, loop, live);
  const { engine } = backend;
  // Otherwise every switch would start a pass of the judge.
  engine.rollouts.onApply = () => () => undefined;
  await backend.start();
  const feature = task.feature === "record" ? recordOf(live) : await rolloutOf(engine);
  loop.begin(backend, task.inFlight);
  const groups = await Promise.race([measure(task, loop, feature), loop.failed]);
  feature.on();
  const judgedId = task.feature === "rollout" ? await beginJudged(engine) : null;
  loop.end();
  await settled(loop);
  await backend.stop();
  const judge = judgedId === null ? null : await measureJudge(task, engine, judgedId);
  await backend.close();
  return { groups, judge, faults: loop.ledger.faults({ isWorkHere: true, isDrained: true }) };
}

type Live = { current: Settings };
type Feature = Readonly<Record<"on" | "off", () => void>>;

function open(spec: CordumSpec, load: PairedLoad, loop: Loop, live: Live): Promise<CordumBackend> {
  if (load === "jobs") return openCordumJobs(spec, "all", loop, live);
  return openCordumRuns(spec, loop, load === "runs" ? THREE : WIDE, live);
}

async function measure(task: PairedTask, loop: Loop, feature: Feature): Promise<readonly PairedGroup[]> {
  await loop.flowing;
  // Both states are compiled before the first block.
  for (let turn = 0; turn < WARM_TURNS; turn++) {
    feature[turn % 2 === 0 ? "on" : "off"]();
    await delay(task.warmMs / WARM_TURNS);
  }
  const groups: PairedGroup[] = [];
  while (groups.length < task.groups) {
    const usedUs = { off: 0, on: 0 };
    for (const state of ["off", "on", "on", "off"] as const) {
      feature[state]();
      await loop.afterEnds(2 * task.inFlight);
      const fromUs = threadsUs(task.serverPids);
      await loop.afterEnds(task.blockSize);
      usedUs[state] += threadsUs(task.serverPids) - fromUs;
    }
    const jobs = 2 * task.blockSize;
    groups.push({ offUs: usedUs.off / jobs, onUs: usedUs.on / jobs });
  }
  return groups;
}

function recordOf(live: Live): Feature {
  const settings = (record: boolean): Settings => ({ ...live.current, contention: { record } });
  const [on, off] = [settings(true), settings(false)];
  const set = (current: Settings) => {
    live.current = current;
  };
  return { on: () => set(on), off: () => set(off) };
}

/**
 * A rollout with the default measures and gates. It is active in the store all the time, and this process knows it or not: a
 * stored start and end would cost as much as a block.
 */
async function rolloutOf(engine: Engine): Promise<Feature> {
  const { rollouts, world } = engine;
  const apply = rollouts.apply.bind(rollouts);
  let isOn = true;
  let read: Parameters<typeof apply>[0] = [];
  rollouts.apply = (inForce, readMs) => {
    read = inForce;
    apply(isOn ? inForce : [], readMs);
  };
  await begin(engine, {});
  const set = (on: boolean) => {
    isOn = on;
    apply(on ? read : [], world.clock.now());
  };
  return { on: () => set(true), off: () => set(false) };
}

async function begin(engine: Engine, request: Partial<RolloutRequest>): Promise<string> {
  const started = await startRollout(engine, { ...REQUEST, ...request });
  if (started.kind !== "started") throw new Error(JSON.stringify(started));
  return started.rollout.id;
}

/** Some seconds of units, whose horizon ends after the load. */
async function beginJudged(engine: Engine): Promise<string> {
  for (const { id } of engine.rollouts.active) await endRollout(engine, { id, by: "bench", reason: "measured" });
  const id = await begin(engine, { horizonMs: JUDGED_MS + HORIZON_MS });
  await delay(JUDGED_MS);
  return id;
}

async function measureJudge(
  { serverPids }: PairedTask,
  engine: Engine,
  id: string,
): Promise<NonNullable<PairedFigures["judge"]>> {
  await delay(JUDGED_MS + HORIZON_MS + STORED_MS);
  const judge = new RolloutJudge(engine);
  const fromUs = threadsUs(serverPids);
  for (let left = await judge.pass(); left !== null; ) left = await judge.pass();
  const cpuUs = threadsUs(serverPids) - fromUs;
  const arms = (await engine.world.store.load(JUDGEMENTS, id))?.value.judgement.arms;
  const units = (arms?.control.units ?? 0) + (arms?.treatment.units ?? 0);
  return { cpuUs: cpuUs / units, units };
}

/** A tenth of the units is in the treatment arm. */
const REQUEST: RolloutRequest = {
  ...{ subject: "lock_busy", treatment: "bounded:400ms:0.3", shares: [0.1], by: "bench" },
};
const WARM_TURNS = 8;
const JUDGED_MS = 4_000;
const HORIZON_MS = 1_000;
/** Longer than the time that the judge allows for storing a unit. */
const STORED_MS = 2_500;
