/** What the store holds about a rollout, read without a control plane. */
import { type Arms, unitsOf } from "../../../src/core/model/arms.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { RUNS } from "../../../src/core/model/run.ts";
import { type Judgement, judge, newJudgement } from "../../../src/core/rollout/judgement.ts";
import { ROLLOUTS, type Rollout, rolloutRecordId } from "../../../src/core/rollout/rollout.ts";
import { JUDGEMENTS } from "../../../src/core/rollout/stored-judgement.ts";
import { readUnits } from "../../../src/engine/rollouts/read-units.ts";
import type { World } from "../../../src/ports/world.ts";
import { type Backend, openWorld } from "../backends.ts";

export interface StoredRollout {
  readonly rollout: Rollout;
  readonly judgement: Judgement;
  /** The judgement of the same units in one call. */
  readonly atOnce: Judgement;
  /** The arms of the measured runs. */
  readonly arms: ReadonlyMap<string, Arms>;
}

export async function withStore<T>(backend: Backend, work: (world: World) => Promise<T>): Promise<T> {
  const { world, close } = await openWorld(backend, "reader");
  try {
    return await work(world);
  } finally {
    await close();
  }
}

export async function storedRollout(world: World, id: string): Promise<StoredRollout> {
  const [rollout, judged] = await Promise.all([
    world.store.load(ROLLOUTS, rolloutRecordId(id)),
    world.store.load(JUDGEMENTS, id),
  ]);
  if (rollout === null || judged === null) throw new Error(`rollout \`${id}\` is not judged`);
  const { judgement } = judged.value;
  return {
    rollout: rollout.value,
    judgement,
    atOnce: await judgedAtOnce(world, rollout.value, judgement),
    arms: await armsOf(world, id),
  };
}

/** Units after the last judged one are left out. */
async function judgedAtOnce(world: World, rollout: Rollout, { cursor }: Judgement): Promise<Judgement> {
  const page = await readUnits({ world }, rollout, { cursors: { runs: null, jobs: null }, judged: null }, new Map());
  const last = page.units.findIndex(({ id }) => id === cursor?.id);
  const units = page.units.slice(0, last + 1);
  return judge(rollout, newJudgement(rollout), units, Number.POSITIVE_INFINITY).judgement;
}

async function armsOf({ store }: World, rolloutId: string): Promise<ReadonlyMap<string, Arms>> {
  const arms = new Map<string, Arms>();
  let cursor: string | undefined;
  do {
    const page = await store.list(RUNS, { index: unitsOf(rolloutId), limit: PAGE, order: "oldest", cursor });
    for (const { id, value } of page.items) arms.set(id, value.arms ?? {});
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  return arms;
}

/** The arms of jobs that workers have received. */
export async function jobArms({ store }: World, jobIds: readonly string[]): Promise<readonly unknown[]> {
  const found = await Promise.all(jobIds.map((id) => store.load(JOBS, id)));
  return found.map((job) => job?.value.arms);
}

export async function runArms({ store }: World, runIds: readonly string[]): Promise<readonly unknown[]> {
  const found = await Promise.all(runIds.map((id) => store.load(RUNS, id)));
  return found.map((run) => run?.value.arms);
}

const PAGE = 200;
