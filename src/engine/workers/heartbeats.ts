import type { Stop } from "../../ports/bus.ts";
import type { Cancel } from "../../ports/clock.ts";
import { PROTOCOL_VERSION } from "../../protocol/codec.ts";
import type { Heartbeat, Packet } from "../../protocol/packet.ts";
import { ALERT, CHANGED, HANDSHAKE, HEARTBEAT, PROGRESS } from "../../protocol/subjects.ts";
import { changeIn } from "../change-broadcast.ts";
import { recordHeartbeat } from "../dispatch/index.ts";
import type { DispatchContext } from "../engine.ts";
import { ProgressBuffer } from "./job-progress.ts";
import { POOLS_CHANGED, refreshPools } from "./worker-pools.ts";
import type { WorkerHeartbeat } from "./worker-registry.ts";

/**
 * Subscribes to worker handshakes, heartbeats and progress, and to pool changes.
 *
 * 1. A new worker finds its work at once: idle topics are drained and jobs that waited for its capabilities are
 *    requeued (L36).
 * 2. Best effort: the sweeper and the jobs' due times repair what is missed.
 */
export async function watchWorkers(engine: DispatchContext): Promise<Stop> {
  engine.pools.awaitRead();
  const { bus } = engine.world;
  const progress = new ProgressBuffer(engine);
  const stops = await Promise.all([
    bus.subscribe(HEARTBEAT, (packet) => receive(engine, packet)),
    bus.subscribe(HANDSHAKE, (packet) => receive(engine, packet)),
    bus.subscribe(PROGRESS, (packet) => progress.receive(packet)),
    bus.subscribe(CHANGED, (packet) => {
      if (changeIn(engine, packet) === POOLS_CHANGED) engine.tasks.track(tryRefreshPools(engine));
    }),
  ]);
  const stopRefreshing = await startRefresh(engine);
  return async () => {
    stopRefreshing();
    progress.stop();
    await Promise.all(stops.map((stop) => stop()));
  };
}

function receive(engine: DispatchContext, packet: Packet): void {
  const heartbeat = heartbeatIn(packet);
  if (heartbeat === null) return;
  const { registry, world } = engine;
  const wasUnsupported = registry.isUnsupported(heartbeat, world.clock.now());
  recordHeartbeat(engine, heartbeat);
  // Once, not with every heartbeat.
  if (!wasUnsupported && registry.isUnsupported(heartbeat, world.clock.now())) alertUnsupported(engine, packet);
}

function heartbeatIn({ body, otherVersion }: Packet): WorkerHeartbeat | null {
  switch (body.kind) {
    case "handshake": {
      if (body.role !== "worker") return null;
      const { componentId: id, readyTopics, capabilities, supportedVersions: versions = [] } = body;
      return {
        id,
        transport: "bus",
        sendsOtherVersion: otherVersion !== undefined,
        supportsVersion: versions.length === 0 ? null : versions.includes(PROTOCOL_VERSION),
        ...(readyTopics === undefined ? {} : { topics: readyTopics }),
        ...(capabilities === undefined ? {} : { flags: trueIn(capabilities) }),
      };
    }
    case "heartbeat":
      return { ...heartbeatOf(body), sendsOtherVersion: otherVersion !== undefined };
    default:
      return null;
  }
}

/** Tells subscribers of `sys.alert` why a worker gets no job. */
function alertUnsupported({ world }: DispatchContext, { body, traceId, otherVersion = 0 }: Packet): void {
  if (body.kind !== "handshake" && body.kind !== "heartbeat") return;
  const { bus, clock, log, name } = world;
  const component = (body.kind === "handshake" ? body.componentId : body.workerId).slice(0, NAME_LENGTH_MAX);
  const declared = body.kind === "handshake" ? (body.supportedVersions ?? []) : [];
  const versions = (declared.length > 0 ? declared : [otherVersion]).slice(0, VERSIONS_MAX).join(", ");
  const message = `worker \`${component}\` supports only protocol versions ${versions}; it gets no jobs: use an SDK of version ${PROTOCOL_VERSION}`;
  log.write("warn", "component_unsupported", { component, versions });
  bus.broadcast(ALERT, {
    traceId,
    senderId: name,
    createdAtMs: clock.now(),
    body: {
      kind: "alert",
      level: "ERROR",
      message,
      component,
      code: "VERSION_MISMATCH",
      severity: "error",
      errorCodeEnum: "version_mismatch",
      sourceComponent: name,
    },
  });
}

const NAME_LENGTH_MAX = 128;
const VERSIONS_MAX = 16;

function heartbeatOf(body: Heartbeat): WorkerHeartbeat {
  const { workerId: id, topics, capabilities, pool, activeJobs, maxParallelJobs, isLeaving, labels } = body;
  return {
    id,
    transport: labels?.transport === "http" ? "http" : "bus",
    ...(labels?.org === undefined ? {} : { org: labels.org }),
    ...(topics === undefined ? {} : { topics }),
    ...(capabilities === undefined ? {} : { capabilities }),
    ...(pool === undefined ? {} : { pool }),
    ...(maxParallelJobs === undefined ? {} : { maxParallelJobs }),
    // Protobuf omits zeros.
    activeJobs: activeJobs ?? 0,
    isLeaving: isLeaving ?? false,
  };
}

const trueIn = (flags: Readonly<Record<string, boolean>>): readonly string[] =>
  Object.entries(flags).flatMap(([name, isSo]) => (isSo ? [name] : []));

async function tryRefreshPools(engine: DispatchContext): Promise<void> {
  try {
    await refreshPools(engine);
  } catch (error) {
    engine.world.log.write("warn", "pool_read_failed", { error: String(error) });
  }
}

/** Refreshes now and every few seconds, in case a broadcast was missed. */
async function startRefresh(engine: DispatchContext): Promise<Cancel> {
  const { clock, random } = engine.world;
  let isStopped = false;
  let cancel: Cancel = () => {};
  const refresh = async () => {
    await tryRefreshPools(engine);
    if (!isStopped)
      cancel = clock.after(refreshMs(engine) * (0.5 + random.next()), () => engine.tasks.track(refresh()));
  };
  await refresh();
  return () => {
    isStopped = true;
    cancel();
  };
}

function refreshMs({ pools, rollouts }: DispatchContext): number {
  if (pools.isUnread) return UNREAD_EVERY_MS;
  return rollouts.active.length > 0 ? ROLLOUTS_EVERY_MS : POOLS_EVERY_MS;
}

/** Nothing is dispatched before the first read. */
const UNREAD_EVERY_MS = 500;
const POOLS_EVERY_MS = 15_000;
/** While a rollout is active: a rollback must reach every process within a minute, although broadcasts and reads fail. */
const ROLLOUTS_EVERY_MS = 5_000;
