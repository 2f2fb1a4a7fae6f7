/**
 * The namespace of a live row on its target: keys `<name>:…`, subjects `<name>.…` and the stream `<name>_SYS`, so that
 * runs do not interfere with each other or with other users. `removeNamespace` deletes all of it and is idempotent.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { JetStreamManager } from "@nats-io/jetstream";
import { headers } from "@nats-io/nats-core";
import type { ProcessContext } from "../../lab/live.ts";
import { mean } from "../../lab/statistics.ts";
import type { Blobs } from "../../ports/blobs.ts";
import type { Message } from "../../ports/bus.ts";
import type { Log } from "../../ports/log.ts";
import type { Safety } from "../../ports/safety.ts";
import type { World } from "../../ports/world.ts";
import type { LiveTarget } from "./live-options.ts";

/** Plain JSON, sent to the child processes. */
export type Namespace =
  | { readonly kind: "embedded"; readonly name: string; readonly dir: string }
  | { readonly kind: "cluster"; readonly name: string; readonly nats: string; readonly redis: string };

export function createNamespace(target: LiveTarget, name: string): Namespace {
  if (target.kind === "cluster") return { ...target, name };
  return { kind: "embedded", name, dir: mkdtempSync(join(tmpdir(), `${name}-`)) };
}

/** Unique, and valid in keys, subjects, stream names and paths. */
export function namespaceName(): string {
  return `cordum-lab-${process.pid.toString(36)}${Date.now().toString(36)}`;
}

/** Names what must be removed by hand after a failed removal. */
export function describeLeftovers(space: Namespace): string {
  if (space.kind === "embedded") return `directory \`${space.dir}\``;
  return `keys \`${space.name}:*\` in redis and stream \`${streamOf(space)}\` in nats`;
}

export async function removeNamespace(space: Namespace): Promise<void> {
  if (space.kind === "embedded") {
    rmSync(space.dir, { recursive: true, force: true });
    return;
  }
  await Promise.all([removeKeys(space), removeStream(space)]);
}

type OpenOptions = Parameters<ProcessContext["openWorld"]>[0] & { readonly space: Namespace; readonly name: string };

export interface OpenedNamespace {
  readonly world: World;
  bring(messages: readonly Message[]): Promise<void>;
  close(): Promise<void>;
}

/** Like `openWorld` of `cordum up`, within the namespace. */
export async function openNamespace(
  { space, settings, safety, name }: OpenOptions,
  log: Log,
): Promise<OpenedNamespace> {
  const { promMetrics } = await import("../../adapters/node/prom-metrics.ts");
  const { ackWaitMs, deliverMax, ackPendingMax } = settings.bus;
  const bus = { ackWaitMs, deliverMax, inFlightMax: ackPendingMax };
  const given = { name, log, metrics: promMetrics(), safety, bus };
  if (space.kind === "embedded") {
    const { openEmbedded } = await import("../../worlds/embedded.ts");
    const { world, close } = await openEmbedded({ ...given, dir: space.dir });
    const bring = async (messages: readonly Message[]): Promise<void> => {
      await Promise.all(messages.map((message) => world.bus.publish(message)));
    };
    return { world, bring, close };
  }
  const { openCluster } = await import("../../worlds/cluster.ts");
  const { nats, redis } = space;
  const { world, close } = await openCluster({ ...given, nats, redis, ackPendingMax, space: space.name });
  const bring = (messages: readonly Message[]) => publishEach(space, messages, log);
  return { world: { ...world, blobs: prefixed(world.blobs, `${space.name}:`) }, bring, close };
}

export interface TargetMeasurement {
  readonly on: string;
  /** Round trips to the store and the bus; null for an embedded bus. */
  readonly ping: Ping;
  readonly busPing: Ping | null;
}

export interface Ping {
  readonly meanMs: number;
  /** Coefficient of variation. */
  readonly spread: number;
}

export async function measureTarget(target: LiveTarget): Promise<TargetMeasurement> {
  if (target.kind === "embedded") return measureEmbedded();
  const [{ connectPlain }, { connectNats }] = await Promise.all([
    import("../../adapters/redis/connection.ts"),
    import("../../adapters/nats/connection.ts"),
  ]);
  const redis = await connectPlain(target.redis, SILENT);
  try {
    const nats = await connectNats(target.nats, { log: SILENT, name: "cordum-lab" });
    try {
      const ping = await measurePing(() => redis.client.ping());
      const busPing = await measurePing(() => nats.connection.flush());
      const { product, version } = redis.server;
      return { on: `nats ${nats.server.version} and ${product} ${version}`, ping, busPing };
    } finally {
      await nats.close();
    }
  } finally {
    await redis.close();
  }
}

const SILENT: Log = { write: () => undefined };
const PINGS = 250;
const WARM_UP = 50;
const PAUSE_MS = 2;
const SCAN_COUNT = 1_000;

/** Embedded: the round trip is a read from the store. */
async function measureEmbedded(): Promise<TargetMeasurement> {
  const [{ defaultSettings }, { JOBS }] = await Promise.all([
    import("../../config/config.ts"),
    import("../../core/model/job.ts"),
  ]);
  const space = createNamespace({ kind: "embedded" }, namespaceName());
  try {
    const safety: Safety = { local: null, check: async () => ({ kind: "unavailable", reason: "not used" }) };
    const opened = await openNamespace({ space, name: space.name, safety, settings: defaultSettings() }, SILENT);
    const ping = await measurePing(() => opened.world.store.load(JOBS, "none")).finally(() => opened.close());
    return { on: "the embedded world", ping, busPing: null };
  } finally {
    await removeNamespace(space);
  }
}

type ClusterNamespace = Extract<Namespace, { readonly kind: "cluster" }>;

const streamOf = ({ name }: Namespace): string => `${name}_SYS`;

/** The mean, because waits add up; with pauses, so that the wake-up time of an idle process is included. */
async function measurePing(ping: () => Promise<unknown>): Promise<Ping> {
  const timesMs: number[] = [];
  for (let count = 0; count < WARM_UP + PINGS; count += 1) {
    await sleep(PAUSE_MS);
    const fromMs = performance.now();
    await ping();
    if (count >= WARM_UP) timesMs.push(performance.now() - fromMs);
  }
  const meanMs = mean(timesMs);
  return { meanMs, spread: Math.sqrt(mean(timesMs.map((timeMs) => (timeMs - meanMs) ** 2))) / meanMs };
}

/** Blob keys follow the wire protocol and have no namespace of their own. */
function prefixed(blobs: Blobs, prefix: string): Blobs {
  return {
    put: (key, bytes, expiresAtMs) => blobs.put(prefix + key, bytes, expiresAtMs),
    get: (key) => blobs.get(prefix + key),
    delete: (key) => blobs.delete(prefix + key),
  };
}

/** Publishes one NATS message per result, like external workers; our own publisher would batch them. */
async function publishEach(space: ClusterNamespace, messages: readonly Message[], log: Log): Promise<void> {
  const [{ connectNats }, { encodePacket }] = await Promise.all([
    import("../../adapters/nats/connection.ts"),
    import("../../protocol/codec.ts"),
  ]);
  const link = await connectNats(space.nats, { log, name: "cordum-lab" });
  try {
    for (const { id, subject, packet } of messages) {
      const fields = headers();
      fields.set("Nats-Msg-Id", id);
      link.connection.publish(`${space.name}.${subject}`, encodePacket(packet), { headers: fields });
    }
    await link.connection.flush();
  } finally {
    await link.close();
  }
}

async function removeKeys({ name, redis }: ClusterNamespace): Promise<void> {
  const { connectPlain } = await import("../../adapters/redis/connection.ts");
  const connection = await connectPlain(redis, SILENT);
  try {
    let cursor = "0";
    do {
      const [next, keys] = await connection.client.scan(cursor, "MATCH", `${name}:*`, "COUNT", SCAN_COUNT);
      if (keys.length > 0) await connection.client.unlink(...keys);
      cursor = next;
    } while (cursor !== "0");
  } finally {
    await connection.close();
  }
}

async function removeStream(space: ClusterNamespace): Promise<void> {
  const [{ connectNats }, { jetstreamManager, JetStreamApiError }] = await Promise.all([
    import("../../adapters/nats/connection.ts"),
    import("@nats-io/jetstream"),
  ]);
  const link = await connectNats(space.nats, { log: SILENT, name: "cordum-lab" });
  try {
    const manager: JetStreamManager = await jetstreamManager(link.connection, { checkAPI: false });
    await manager.streams.delete(streamOf(space)).catch((error: unknown) => {
      // Already removed, or never created.
      if (!(error instanceof JetStreamApiError && error.status === 404)) throw error;
    });
  } finally {
    await link.close();
  }
}
