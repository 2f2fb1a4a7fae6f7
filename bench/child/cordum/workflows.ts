// The measured workflows. They are applied and started as the gateway does, without HTTP.

import { configure } from "../../../src/config/config.ts";
import { isRunFinal, RUNS, type Run } from "../../../src/core/model/run.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { defaultRunRequest, type StartOutcome, startRun } from "../../../src/engine/intake/start-run.ts";
import { applyWorkflow } from "../../../src/engine/runs/workflows.ts";
import type { World } from "../../../src/ports/world.ts";
import { STEP_TOPICS } from "../payload.ts";

export const ORG = "default";
export const CHILD_TOPIC = "bench.child";

/** Three worker steps in a row, each with the run's input. */
export const THREE = {
  id: "three",
  steps: Object.fromEntries(
    STEP_TOPICS.map((topic, step) => [`s${step}`, { topic, ...(step > 0 && { depends_on: [`s${step - 1}`] }) }]),
  ),
};

/** The same steps at the same time: their results contend for the run. */
export const WIDE = {
  id: "wide",
  steps: Object.fromEntries(STEP_TOPICS.map((topic, step) => [`s${step}`, { topic }])),
};

/** A child per item of the input, with the default parallelism. */
export const FAN = { id: "fan", steps: { each: { topic: CHILD_TOPIC, for_each: "input.items" } } };

/** Stays open: its approval is never given. */
export const HELD = { id: "held", steps: { ask: { type: "approval", reason: "measured" } } };

/** The default settings with these changes, in the form of a configuration file. */
export const openEngineWith = (world: World, differing: Readonly<Record<string, unknown>>): Engine =>
  openEngine(world, { current: settingsWith(differing) });

export function settingsWith(differing: Readonly<Record<string, unknown>>): Settings {
  // JSON is YAML.
  const configured = configure({ file: { name: "bench", text: JSON.stringify(differing) } });
  if (configured.kind === "bad") throw new Error(configured.problems.join("; "));
  return configured.config.settings;
}

export async function applyAll(engine: Engine, org: string, documents: readonly unknown[]): Promise<void> {
  for (const document of documents) {
    const applied = await applyWorkflow(engine, { org, by: "bench", document });
    if (applied.kind !== "applied") throw new Error(JSON.stringify(applied));
  }
}

export function start(engine: Engine, org: string, workflowId: string, input: unknown): Promise<StartOutcome> {
  return startRun(engine, { ...defaultRunRequest(org, workflowId, null), input }, "/api/v1/workflows/runs");
}

/** Returns the run id. Throws when the run did not start. */
export async function startOrThrow(engine: Engine, workflowId: string, input: unknown): Promise<string> {
  const outcome = await start(engine, ORG, workflowId, input);
  if (outcome.kind !== "started") throw new Error(`a run did not start: ${JSON.stringify(outcome)}`);
  return outcome.runId;
}

/** Calls back after every commit that ended a run. */
export function watchRunEnds({ store }: World, ended: (run: Run) => void): void {
  const commit = store.commit.bind(store);
  store.commit = (change) => {
    const committing = commit(change);
    const run = change.puts.find(({ table }) => table === RUNS.name)?.value as Run | null | undefined;
    if (!run || !isRunFinal(run.state)) return committing;
    return committing.then((committed) => {
      if (committed.kind === "committed") ended(run);
      return committed;
    });
  };
}

/** A world without a local kernel: jobs are committed and announced here, and checked by another process. */
export function withoutKernel(world: World): World {
  return { ...world, safety: { local: null, check: (request) => world.safety.check(request) } };
}

/** No limit on open runs. */
export const MANY_RUNS = { limits: { max_concurrent_runs: 100_000 } };
