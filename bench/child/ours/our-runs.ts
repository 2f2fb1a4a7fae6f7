import type { Run } from "../../../src/core/model/run.ts";
import { startControl } from "../../../src/engine/control.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import type { Events, Side } from "../side.ts";
import { applyAll, MANY_RUNS, mustStart, ORG, openFlowWith, THREE, watchRunEnds } from "./our-workflows.ts";
import { type OurSpec, openWorld } from "./our-world.ts";
import { type Input, STEP_TOPICS, stepOf } from "./payload.ts";

/**
 * Runs of ours, as `cordum up` joins it: a world, the control plane, one worker for the three topics; the default
 * settings but for the number of runs that may be open.
 *
 * 1. A run has ended when the commit of its final state has resolved.
 * 2. Every step is a job: its policy is checked, it is dispatched to the worker, its result comes back over the bus.
 */
export async function openOurRuns(spec: OurSpec, events: Events): Promise<Side> {
  const opened = await openWorld(spec);
  const { world } = opened;
  const engine = openFlowWith(world, MANY_RUNS);
  watchRunEnds(world, (run) => {
    if (run.state === "SUCCEEDED") events.ended(numberOf(run));
    else process.stderr.write(`a run ended as ${run.state}: ${run.error?.message}\n`);
  });
  await applyAll(engine, ORG, [THREE]);
  const stops: (() => Promise<void>)[] = [];
  return {
    async submit(input) {
      await mustStart(engine, THREE.id, input);
    },
    async fill() {
      throw new Error("the backlog is measured with jobs alone");
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
    async close() {
      // The worker first, so that what it has begun can still be finished.
      for (const stop of stops.toReversed()) await stop();
      await opened.close();
    },
  };
}

function numberOf(run: Run): number {
  return run.input.kind === "inline" ? (run.input.value as Input).n : Number.NaN;
}
