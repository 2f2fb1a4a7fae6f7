/** The wait of a tenant's first step behind a large backlog of another tenant. */
import { defaultSettings } from "../../../src/config/config.ts";
import { backlogGroupOf, JOBS, type Job } from "../../../src/core/model/job.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { defaultRunRequest, startRun } from "../../../src/engine/intake/start-run.ts";
import { applyWorkflow } from "../../../src/engine/runs/workflows.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import type { Store } from "../../../src/ports/store.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { type BackendKind, openWorld, withBackend } from "../backends.ts";

export interface QueuedReport {
  /** The backlog of the first tenant when the second one starts its run. */
  readonly queued: number;
  /** The number of backlog steps that start between the start of that run and its first step. */
  readonly before: number;
}

/** Builds the backlog with a dispatch window of 0, then opens the window to `WINDOW`. */
export const stepsBefore = (kind: BackendKind, runs: number, itemsEach: number): Promise<QueuedReport> =>
  withBackend(kind, async (backend) => {
    const { world, close } = await openWorld(backend, "queued");
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
      const before = await startedBefore(engine);
      await control.stop();
      return { queued, before };
    } finally {
      await close();
    }
  });

/** Resolves when this number of jobs is queued; a run creates its children in several commits. */
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

/** Starts the second tenant's run after the workers have been busy with the backlog for a while. */
async function startedBefore(engine: Engine): Promise<number> {
  let started = 0;
  let onBusy = (): void => {};
  let onFirst = (): void => {};
  const busy = new Promise<void>((resolve) => (onBusy = resolve));
  const first = new Promise<void>((resolve) => (onFirst = resolve));
  const handle = async ({ org }: { readonly org: string }) => {
    if (org === "small") onFirst();
    else if (++started === WINDOW * 8) onBusy();
  };
  const stop = await startWorker(engine.world, { id: "w", topics: ["demo.queued"], concurrency: WINDOW, handle });
  await busy;
  await start(engine, "small", ONE.id, {});
  const startedAtSubmit = started;
  await first;
  const before = started - startedAtSubmit;
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
