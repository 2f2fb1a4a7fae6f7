import { deliver, type Station } from "./flow/deliver.ts";
import { drain } from "./flow/drain.ts";
import { finish } from "./flow/finish.ts";
import type { Flow } from "./flow/flow.ts";
import { schedule } from "./flow/schedule.ts";
import { Sweeper } from "./flow/sweep.ts";
import type { Packet } from "./wire/packet.ts";
import { ENGINE_GROUP, HANDSHAKE, RESULT, SCHEDULER_GROUP, SUBMIT } from "./wire/subjects.ts";

/** One control-plane process: joins the stations to the bus and starts the sweeper. The same lines in every world. */
export async function startControl(flow: Flow): Promise<Control> {
  const { bus } = flow.world;
  const sweeper = new Sweeper(flow);
  const stops = await Promise.all([
    bus.consume(SUBMIT, SCHEDULER_GROUP, deliver(flow, SCHEDULE)),
    bus.consume(RESULT, ENGINE_GROUP, deliver(flow, FINISH)),
    bus.listen(HANDSHAKE, (packet) => welcome(flow, packet)),
  ]);
  sweeper.start();
  return {
    sweptMs: () => sweeper.sweptMs,
    async stop() {
      await Promise.all([...stops.map((stop) => stop()), sweeper.stop()]);
      await flow.desk.close();
    },
  };
}

export interface Control {
  /** When the last complete sweep ended. */
  sweptMs(): number;
  /** Takes nothing new, finishes what is in progress. */
  stop(): Promise<void>;
}

const SCHEDULE: Station = { name: "schedule", about: jobIn, handle: schedule };
const FINISH: Station = { name: "finish", about: jobIn, handle: finish };

/** A packet of another kind is about nothing but itself. */
function jobIn({ body }: Packet): string {
  return body.kind === "job_request" || body.kind === "job_result" ? `job/${body.jobId}` : "";
}

/** A worker has come: topics that had been left alone are tried at once. */
function welcome(flow: Flow, packet: Packet): void {
  if (packet.body.kind !== "handshake" || packet.body.role !== "worker") return;
  for (const topic of packet.body.readyTopics ?? []) {
    if (flow.desk.markServed(topic)) drain(flow, topic);
  }
}
