import type { Run } from "../../../src/core/model/run.ts";
import type { LiveSettings } from "../../../src/core/settings.ts";
import { openEngine } from "../../../src/engine/engine.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import type { Events } from "../backend.ts";
import { type Input, STEP_TOPICS, stepOf } from "../payload.ts";
import { type CordumBackend, Stops } from "./cordum-backend.ts";
import { applyAll, MANY_RUNS, ORG, settingsWith, startOrThrow, THREE, watchRunEnds } from "./workflows.ts";
import { type CordumSpec, openWorld } from "./world.ts";

/**
 * Runs on Cordum as `cordum up` composes it, with one worker for the three topics and the default settings, except for the
 * limit of open runs.
 *
 * 1. A run ends when the commit of its final state has resolved.
 * 2. Every step is a job: it is checked against the policy, dispatched to the worker, and its result arrives over the bus.
 */
export async function openCordumRuns(
  spec: CordumSpec,
  events: Events,
  workflow: typeof THREE = THREE,
  live: LiveSettings = { current: settingsWith(MANY_RUNS) },
): Promise<CordumBackend> {
  const opened = await openWorld(spec);
  const { world } = opened;
  const engine = openEngine(world, live);
  watchRunEnds(world, (run) => {
    if (run.state === "SUCCEEDED") events.ended(numberOf(run));
    else process.stderr.write(`a run ended as ${run.state}: ${run.error?.message}\n`);
  });
  await applyAll(engine, ORG, [workflow]);
  const stops = new Stops();
  return {
    engine,
    async submit(input) {
      await startOrThrow(engine, workflow.id, input);
    },
    async fill() {
      throw new Error("the backlog is measured with jobs only");
    },
    async start() {
      const control = await startControl(engine);
      stops.push(() => control.stop());
      const worker = await startWorker(world, {
        id: "bench",
        topics: STEP_TOPICS,
        concurrency: spec.concurrency,
        async handle({ input, attempt, topic }) {
          const { n } = input as Input;
          events.worked(input as Input, attempt, stepOf(topic));
          return { ok: true, n };
        },
      });
      stops.push(worker);
    },
    stop: () => stops.run(),
    async close() {
      await stops.run();
      await opened.close();
    },
  };
}

function numberOf(run: Run): number {
  return run.input.kind === "inline" ? (run.input.value as Input).n : Number.NaN;
}
