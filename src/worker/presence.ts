import type { Stop } from "../ports/bus.ts";
import type { Cancel } from "../ports/clock.ts";
import type { PacketBody } from "../protocol/packet.ts";
import { HANDSHAKE, HEARTBEAT } from "../protocol/subjects.ts";
import type { WorkerOptions, WorkerWorld } from "./worker.ts";

/**
 * Tells the control plane that the worker is there: once with a handshake, then by heartbeats with all that it has to know,
 * because a control plane that starts later has not heard the first. Spread, so that a fleet does not beat together.
 */
export function appear(
  world: WorkerWorld,
  options: WorkerOptions,
  load: () => number,
): { readonly leave: () => void; readonly stop: Stop } {
  const { id, topics, concurrency, pool, capabilities = [] } = options;
  const abilities = [...OURS, ...capabilities];
  const everyMs = options.heartbeatMs ?? HEARTBEAT_MS;
  let cancel: Cancel = () => {};
  const tell = (subject: string, body: PacketBody) =>
    world.bus.broadcast(subject, {
      traceId: world.random.id(),
      senderId: id,
      createdAtMs: world.clock.now(),
      body,
    });
  const beat = (isLeaving: boolean) =>
    tell(HEARTBEAT, {
      kind: "heartbeat",
      workerId: id,
      activeJobs: load(),
      maxParallelJobs: concurrency,
      topics,
      capabilities: abilities,
      ...(pool === undefined ? {} : { pool }),
      ...(isLeaving ? { isLeaving } : {}),
    });
  const beatOn = () => {
    beat(false);
    cancel = world.clock.after(everyMs * (0.8 + 0.4 * world.random.next()), beatOn);
  };
  tell(HANDSHAKE, {
    kind: "handshake",
    componentId: id,
    role: "worker",
    readyTopics: topics,
    capabilities: Object.fromEntries(abilities.map((name) => [name, true])),
  });
  beatOn();
  return {
    leave: () => beat(true),
    stop: async () => cancel(),
  };
}

/** It listens on a subject of its own as well, and takes its input with the message. */
const OURS = ["direct", "inline"] as const;
const HEARTBEAT_MS = 10_000;
