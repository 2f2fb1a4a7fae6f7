import type { Run } from "../../../src/core/model/run.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import type { Backend, Events } from "../backend.ts";
import { type Input, STEP_TOPICS, stepOf } from "../payload.ts";
import {
  applyAll,
  beginRollout,
  MANY_RUNS,
  ORG,
  openEngineWith,
  startOrThrow,
  THREE,
  watchRunEnds,
} from "./workflows.ts";
import { type CordumSpec, openWorld } from "./world.ts";

/**
 * Runs on Cordum as `cordum up` composes it, with one worker for the three topics and the default settings, except for the
 * limit of open runs.
 *
 * 1. A run ends when the commit of its final state has resolved.
 * 2. Every step is a job: it is checked against the policy, dispatched to the worker, and its result arrives over the bus.
 */
export async function openCordumRuns(spec: CordumSpec, events: Events): Promise<Backend> {
  const opened = await openWorld(spec);
  const { world } = opened;
  const engine = openEngineWith(world, MANY_RUNS);
  watchRunEnds(world, (run) => {
    if (run.state === "SUCCEEDED") events.ended(numberOf(run));
    else process.stderr.write(`a run ended as ${run.state}: ${run.error?.message}\n`);
  });
  await applyAll(engine, ORG, [THREE]);
  const stops: (() => Promise<void>)[] = [];
  return {
    async submit(input) {
      await startOrThrow(engine, THREE.id, input);
    },
    async fill() {
      throw new Error("the backlog is measured with jobs only");
    },
    async start() {
      const control = await startControl(engine);
      stops.push(() => control.stop());
      if (spec.hasRollout) await beginRollout(engine);
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
    async close() {
      // The worker stops first, so that its jobs can finish.
      for (const stop of stops.toReversed()) await stop();
      await opened.close();
    },
  };
}

function numberOf(run: Run): number {
  return run.input.kind === "inline" ? (run.input.value as Input).n : Number.NaN;
}
