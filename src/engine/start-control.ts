import { ENGINE_GROUP, RESULT, SCHEDULER_GROUP, SUBMIT } from "../protocol/subjects.ts";
import {
  deliverTo,
  handleResult,
  handleSubmission,
  type MessageHandler,
  retryKeyOf,
  watchCancels,
} from "./delivery/index.ts";
import type { Engine } from "./engine.ts";
import { type DutyStatus, Sweeper } from "./maintenance/index.ts";
import { watchSafety } from "./safety/index.ts";
import { watchWorkers } from "./workers/index.ts";

/** Subscribes the message handlers of one control-plane process to the bus and starts the sweeper. */
export async function startControl(engine: Engine): Promise<Control> {
  const { bus } = engine.world;
  const sweeper = new Sweeper(engine);
  const stops = await Promise.all([
    bus.consume(SUBMIT, SCHEDULER_GROUP, deliverTo(engine, submissions(engine))),
    bus.consume(RESULT, ENGINE_GROUP, deliverTo(engine, results(engine))),
    watchCancels(engine),
    watchWorkers(engine),
    watchSafety(engine),
  ]);
  sweeper.start();
  engine.events.start();
  return {
    duties: () => sweeper.duties(),
    async stop() {
      await Promise.all([...stops.map((stop) => stop()), sweeper.stop()]);
      await engine.contention.flush();
      await engine.tasks.close();
      await engine.events.stop();
    },
  };
}

export interface Control {
  /** The background loops of this process. */
  duties(): readonly DutyStatus[];
  /** Accepts nothing new and waits for work in progress. */
  stop(): Promise<void>;
}

const submissions = (engine: Engine): MessageHandler => ({
  name: "submission",
  about: retryKeyOf,
  handle: (packet) => handleSubmission(engine, packet),
});

const results = (engine: Engine): MessageHandler => ({
  name: "result",
  about: retryKeyOf,
  handle: (packet, retryState) => {
    if (packet.body.kind === "job_result") engine.registry.recordAnswer(packet.body.jobId);
    return handleResult(engine, packet, retryState);
  },
});
