import type { Stop } from "../ports/bus.ts";
import type { Cancel } from "../ports/clock.ts";
import { PROTOCOL_VERSION } from "../protocol/codec.ts";
import type { PacketBody } from "../protocol/packet.ts";
import { HANDSHAKE, HEARTBEAT } from "../protocol/subjects.ts";
import type { WorkerOptions, WorkerWorld } from "./worker.ts";

/**
 * Announces a worker: a handshake at the start, then heartbeats. Heartbeats repeat all the data, for control planes that
 * start later, and are jittered.
 */
export function announce(
  world: WorkerWorld,
  options: WorkerOptions,
  load: () => number,
): { readonly leave: () => void; readonly stop: Stop } {
  const { id, topics, concurrency, pool, capabilities = [] } = options;
  const allCapabilities = [...SDK_CAPABILITIES, ...capabilities];
  const everyMs = options.heartbeatMs ?? HEARTBEAT_MS;
  let cancel: Cancel = () => {};
  const broadcast = (subject: string, body: PacketBody) =>
    world.bus.broadcast(subject, {
      traceId: world.random.id(),
      senderId: id,
      createdAtMs: world.clock.now(),
      body,
    });
  const beat = (isLeaving: boolean) =>
    broadcast(HEARTBEAT, {
      kind: "heartbeat",
      workerId: id,
      activeJobs: load(),
      maxParallelJobs: concurrency,
      topics,
      capabilities: allCapabilities,
      ...(pool === undefined ? {} : { pool }),
      ...(isLeaving ? { isLeaving } : {}),
    });
  const beatPeriodically = () => {
    beat(false);
    cancel = world.clock.after(everyMs * (0.8 + 0.4 * world.random.next()), beatPeriodically);
  };
  broadcast(HANDSHAKE, {
    kind: "handshake",
    componentId: id,
    role: "worker",
    supportedVersions: [PROTOCOL_VERSION],
    readyTopics: topics,
    capabilities: Object.fromEntries(allCapabilities.map((name) => [name, true])),
  });
  beatPeriodically();
  return {
    leave: () => beat(true),
    stop: async () => cancel(),
  };
}

/** Serves its direct subject, and accepts inline input. */
const SDK_CAPABILITIES = ["direct", "inline"] as const;
const HEARTBEAT_MS = 10_000;
