/** One tenant with very many steps that wait for workers, and the first step of another: when it is begun. */
import { defaultSettings } from "../../../src/config/config.ts";
import { backlogGroupOf, JOBS, type Job } from "../../../src/core/model/job.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { startControl } from "../../../src/engine/control.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { defaultRunRequest, startRun } from "../../../src/engine/intake/start-run.ts";
import { applyWorkflow } from "../../../src/engine/runs/workflows.ts";
import type { Store } from "../../../src/ports/store.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { type GroundKind, onGround, openQuiet } from "../backends.ts";

export interface QueuedReport {
  /** Steps of the one tenant that waited when the other came. */
  readonly queued: number;
  /** How many of them were begun after the other had come, and before its first. */
  readonly before: number;
}

/** So many runs with so many steps each, of which workers do `WINDOW` at a time. */
export const firstBehind = (kind: GroundKind, runs: number, itemsEach: number): Promise<QueuedReport> =>
  onGround(kind, async (ground) => {
    const { world, close } = await openQuiet(ground, "queued");
    try {
      const live = { current: windowOf(0) };
      const allQueued = untilQueued(world.store, runs * itemsEach);
      const engine = openEngine(world, live);
      const control = await startControl(engine);
      await apply(engine, "big", WIDE);
      await apply(engine, "small", ONE);
      const items = Array.from({ length: itemsEach }, (_, index) => index);
      for (let run = 0; run < runs; run++) await start(engine, "big", WIDE.id, { items });
      await allQueued;
      const queued = (await world.store.counts(backlogGroupOf("demo.queued"), 10)).get("big") ?? 0;
      live.current = windowOf(WINDOW);
      const before = await begunBefore(engine);
      await control.stop();
      return { queued, before };
    } finally {
      await close();
    }
  });

/** A run makes what it has left to make by itself, after its start. */
function untilQueued(store: Store, count: number): Promise<void> {
  const commit = store.commit.bind(store);
  let left = count;
  return new Promise((resolve) => {
    store.commit = async (change) => {
      const committed = await commit(change);
      if (committed.kind === "committed" && left > 0) {
        for (const { table, value } of change.puts) if (table === JOBS.name && isQueued(value)) left -= 1;
        if (left <= 0) resolve();
      }
      return committed;
    };
  });
}

const isQueued = (value: unknown): boolean => (value as Job | null)?.state === "SCHEDULED";

/** Workers have been busy with the one tenant for a while when the other's first comes. */
async function begunBefore(engine: Engine): Promise<number> {
  let [begun, came] = [0, 0];
  let isBusy = (): void => {};
  let isFirst = (): void => {};
  const busy = new Promise<void>((resolve) => (isBusy = resolve));
  const first = new Promise<void>((resolve) => (isFirst = resolve));
  const handle = async ({ org }: { readonly org: string }) => {
    if (org === "small") isFirst();
    else if (++begun === WINDOW * 8) isBusy();
  };
  const stop = await startWorker(engine.world, { id: "w", topics: ["demo.queued"], concurrency: WINDOW, handle });
  await busy;
  await start(engine, "small", ONE.id, {});
  came = begun;
  await first;
  const before = begun - came;
  await stop();
  return before;
}

async function apply(engine: Engine, org: string, document: object): Promise<void> {
  const applied = await applyWorkflow(engine, { org, by: "test", document });
  if (applied.kind === "invalid") throw new Error(applied.problems.join("\n"));
}

async function start(engine: Engine, org: string, workflowId: string, input: unknown): Promise<void> {
  const outcome = await startRun(engine, { ...defaultRunRequest(org, workflowId, "alice"), input }, "test");
  if (outcome.kind !== "started") throw new Error(JSON.stringify(outcome));
}

function windowOf(windowMax: number): Settings {
  const settings = defaultSettings();
  return { ...settings, dispatch: { ...settings.dispatch, windowMax } };
}

const WINDOW = 4;
const EACH = { topic: "demo.queued", for_each: "${input.items}", max_parallel: 10_000 };
const WIDE = { id: "wide", steps: { each: EACH } };
const ONE = { id: "one", steps: { only: { topic: "demo.queued" } } };
