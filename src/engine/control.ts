import type { Patience } from "../core/retry/budget.ts";
import type { Packet } from "../protocol/packet.ts";
import { ENGINE_GROUP, RESULT, SCHEDULER_GROUP, SUBMIT } from "../protocol/subjects.ts";
import { accountIn, deliver, type Station } from "./delivery/deliver-message.ts";
import { schedule } from "./delivery/handle-submission.ts";
import { finish } from "./dispatch/settle-job.ts";
import type { Flow } from "./engine.ts";
import { Sweeper } from "./maintenance/sweeper.ts";
import { followSafety } from "./safety/watch-safety.ts";
import { followWorkers } from "./workers/heartbeats.ts";

/** One control-plane process: joins the stations to the bus and starts the sweeper. The same lines in every world. */
export async function startControl(flow: Flow): Promise<Control> {
  const { bus } = flow.world;
  const sweeper = new Sweeper(flow);
  const stops = await Promise.all([
    bus.consume(SUBMIT, SCHEDULER_GROUP, deliver(flow, SCHEDULE)),
    bus.consume(RESULT, ENGINE_GROUP, deliver(flow, FINISH)),
    followWorkers(flow),
    followSafety(flow),
  ]);
  sweeper.start();
  flow.notices.start();
  return {
    sweptMs: () => sweeper.sweptMs,
    async stop() {
      await Promise.all([...stops.map((stop) => stop()), sweeper.stop()]);
      await flow.desk.close();
      await flow.notices.stop();
    },
  };
}

export interface Control {
  /** When the last complete sweep ended. */
  sweptMs(): number;
  /** Takes nothing new, finishes what is in progress. */
  stop(): Promise<void>;
}

const SCHEDULE: Station = { name: "schedule", about: accountIn, handle: schedule };
const FINISH: Station = { name: "finish", about: accountIn, handle: finishOne };

/** Whatever becomes of the result: the worker is no longer busy with it. */
function finishOne(flow: Flow, packet: Packet, patience: Patience): Promise<void> {
  if (packet.body.kind === "job_result") flow.roster.answered(packet.body.jobId);
  return finish(flow, packet, patience);
}
