import type { RetryState } from "../core/retry/budget.ts";
import type { Packet } from "../protocol/packet.ts";
import { ENGINE_GROUP, RESULT, SCHEDULER_GROUP, SUBMIT } from "../protocol/subjects.ts";
import { deliverTo, handleResult, handleSubmission, type MessageHandler, retryKeyOf } from "./delivery/index.ts";
import type { Engine } from "./engine.ts";
import { Sweeper } from "./maintenance/index.ts";
import { watchSafety } from "./safety/index.ts";
import { watchWorkers } from "./workers/index.ts";

/** One control-plane process: joins the stations to the bus and starts the sweeper. The same lines in every world. */
export async function startControl(engine: Engine): Promise<Control> {
  const { bus } = engine.world;
  const sweeper = new Sweeper(engine);
  const stops = await Promise.all([
    bus.consume(SUBMIT, SCHEDULER_GROUP, deliverTo(engine, SCHEDULE)),
    bus.consume(RESULT, ENGINE_GROUP, deliverTo(engine, FINISH)),
    watchWorkers(engine),
    watchSafety(engine),
  ]);
  sweeper.start();
  engine.events.start();
  return {
    sweptMs: () => sweeper.sweptMs,
    async stop() {
      await Promise.all([...stops.map((stop) => stop()), sweeper.stop()]);
      await engine.tasks.close();
      await engine.events.stop();
    },
  };
}

export interface Control {
  /** When the last complete sweep ended. */
  sweptMs(): number;
  /** Takes nothing new, finishes what is in progress. */
  stop(): Promise<void>;
}

const SCHEDULE: MessageHandler = { name: "schedule", about: retryKeyOf, handle: handleSubmission };
const FINISH: MessageHandler = { name: "finish", about: retryKeyOf, handle: finishOne };

/** Whatever becomes of the result: the worker is no longer busy with it. */
function finishOne(engine: Engine, packet: Packet, retryState: RetryState): Promise<void> {
  if (packet.body.kind === "job_result") engine.registry.recordAnswer(packet.body.jobId);
  return handleResult(engine, packet, retryState);
}
