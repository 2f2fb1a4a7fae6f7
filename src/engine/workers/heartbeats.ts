import type { Stop } from "../../ports/bus.ts";
import type { Cancel } from "../../ports/clock.ts";
import type { Heartbeat, Packet } from "../../protocol/packet.ts";
import { CHANGED, HANDSHAKE, HEARTBEAT, PROGRESS } from "../../protocol/subjects.ts";
import { changeIn } from "../change-broadcast.ts";
import { recordHeartbeat } from "../dispatch/index.ts";
import type { DispatchContext } from "../engine.ts";
import { ProgressBuffer } from "./job-progress.ts";
import { POOLS_CHANGED, refreshPools } from "./worker-pools.ts";
import type { WorkerHeartbeat } from "./worker-registry.ts";

/**
 * Follows the workers: who is there, how much they have to do, how far they are, which pools take work.
 *
 * 1. A worker that comes finds its work at once: topics that were left alone are tried, and jobs that waited for what it
 *    can do are placed (L36).
 * 2. All of it is best effort: what is missed here is found by the sweeper, or by the job's own time.
 */
export async function watchWorkers(engine: DispatchContext): Promise<Stop> {
  const { bus } = engine.world;
  const progress = new ProgressBuffer(engine);
  const stops = await Promise.all([
    bus.subscribe(HEARTBEAT, (packet) => recordHeartbeat(engine, signIn(packet))),
    bus.subscribe(HANDSHAKE, (packet) => recordHeartbeat(engine, signIn(packet))),
    bus.subscribe(PROGRESS, (packet) => progress.hear(packet)),
    bus.subscribe(CHANGED, (packet) => {
      if (changeIn(engine, packet) === POOLS_CHANGED) engine.tasks.track(followPools(engine));
    }),
  ]);
  const stopRefreshing = refreshOften(engine);
  return async () => {
    stopRefreshing();
    progress.stop();
    await Promise.all(stops.map((stop) => stop()));
  };
}

function signIn({ body }: Packet): WorkerHeartbeat | null {
  switch (body.kind) {
    case "handshake": {
      if (body.role !== "worker") return null;
      const { componentId: id, readyTopics, capabilities } = body;
      return {
        id,
        transport: "bus",
        ...(readyTopics === undefined ? {} : { topics: readyTopics }),
        ...(capabilities === undefined ? {} : { flags: trueIn(capabilities) }),
      };
    }
    case "heartbeat":
      return signOf(body);
    default:
      return null;
  }
}

function signOf(body: Heartbeat): WorkerHeartbeat {
  const { workerId: id, topics, capabilities, pool, activeJobs, maxParallelJobs, isLeaving, labels } = body;
  return {
    id,
    transport: labels?.transport === "http" ? "http" : "bus",
    ...(labels?.org === undefined ? {} : { org: labels.org }),
    ...(topics === undefined ? {} : { topics }),
    ...(capabilities === undefined ? {} : { capabilities }),
    ...(pool === undefined ? {} : { pool }),
    ...(maxParallelJobs === undefined ? {} : { maxParallelJobs }),
    // On the wire a zero is not written.
    activeJobs: activeJobs ?? 0,
    isLeaving: isLeaving ?? false,
  };
}

const trueIn = (flags: Readonly<Record<string, boolean>>): readonly string[] =>
  Object.entries(flags).flatMap(([name, isSo]) => (isSo ? [name] : []));

async function followPools(engine: DispatchContext): Promise<void> {
  try {
    await refreshPools(engine);
  } catch (error) {
    engine.world.log.write("warn", "pools_not_read", { error: String(error) });
  }
}

/** Now, and every few seconds: who was not told of a change finds out all the same. */
function refreshOften(engine: DispatchContext): Cancel {
  const { clock, random } = engine.world;
  let isStopped = false;
  let cancel: Cancel = () => {};
  const refresh = () => {
    const done = followPools(engine).then(() => {
      if (!isStopped) cancel = clock.after(POOLS_EVERY_MS * (0.5 + random.next()), refresh);
    });
    engine.tasks.track(done);
  };
  refresh();
  return () => {
    isStopped = true;
    cancel();
  };
}

const POOLS_EVERY_MS = 15_000;
