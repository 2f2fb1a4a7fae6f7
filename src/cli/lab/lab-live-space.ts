/**
 * The corner of a target that one row of a live run has for itself.
 *
 * 1. Every key begins with `<space>:`, every subject with `<space>.`, and the stream is `<space>_SYS`: so two runs, or a
 *    run and somebody's work, never meet. (Inboxes and the API of JetStream are the client's own.)
 * 2. `sweep` removes all of it, whoever made it and however that ended; it may be called again.
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
import type { LiveTarget } from "./lab-live-target.ts";

/** Plain JSON: it is handed to the processes. */
export type Space =
  | { readonly kind: "embedded"; readonly name: string; readonly dir: string }
  | { readonly kind: "cluster"; readonly name: string; readonly nats: string; readonly redis: string };

export function newSpace(target: LiveTarget, name: string): Space {
  if (target.kind === "cluster") return { ...target, name };
  return { kind: "embedded", name, dir: mkdtempSync(join(tmpdir(), `${name}-`)) };
}

/** A name that nobody else has, and that can be part of keys, subjects, streams and directories. */
export function newSpaceName(): string {
  return `cordum-lab-${process.pid.toString(36)}${Date.now().toString(36)}`;
}

/** What is left when something could not be removed, for whoever has to do it by hand. */
export function remainsOf(space: Space): string {
  if (space.kind === "embedded") return `the directory \`${space.dir}\``;
  return `the keys \`${space.name}:*\` on redis and the stream \`${streamOf(space)}\` on nats`;
}

export async function sweep(space: Space): Promise<void> {
  if (space.kind === "embedded") {
    rmSync(space.dir, { recursive: true, force: true });
    return;
  }
  await Promise.all([sweepRedis(space), sweepNats(space)]);
}

type OpenWish = Parameters<ProcessContext["openWorld"]>[0] & { readonly space: Space; readonly name: string };

export interface Opened {
  readonly world: World;
  bring(messages: readonly Message[]): Promise<void>;
  close(): Promise<void>;
}

/** As `cordum up` opens it, but for the space. */
export async function openSpace({ space, settings, safety, name }: OpenWish, log: Log): Promise<Opened> {
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
  const bring = (messages: readonly Message[]) => bringEach(space, messages, log);
  return { world: { ...world, blobs: prefixed(world.blobs, `${space.name}:`) }, bring, close };
}

/** How far it is to the servers of a target, and which they are. */
export interface Survey {
  readonly on: string;
  /** There and back, to the store and to the bus; null where there is no way. */
  readonly ping: Ping;
  readonly busPing: Ping | null;
}

export interface Ping {
  readonly meanMs: number;
  /** The standard deviation, as a share of the mean. */
  readonly spread: number;
}

export async function survey(target: LiveTarget): Promise<Survey> {
  if (target.kind === "embedded") return surveyEmbedded();
  const [{ connectRedis }, { connectNats }] = await Promise.all([
    import("../../adapters/redis/connection.ts"),
    import("../../adapters/nats/connection.ts"),
  ]);
  const redis = await connectRedis(target.redis, { log: SILENT });
  try {
    const nats = await connectNats(target.nats, { log: SILENT, name: "cordum-lab" });
    try {
      const ping = await pinged(() => redis.client.ping());
      const busPing = await pinged(() => nats.connection.flush());
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

/** Nothing lies between: a look at the store is as far as it goes. */
async function surveyEmbedded(): Promise<Survey> {
  const [{ defaultSettings }, { JOBS }] = await Promise.all([
    import("../../config/config.ts"),
    import("../../core/model/job.ts"),
  ]);
  const space = newSpace({ kind: "embedded" }, newSpaceName());
  try {
    const safety: Safety = { local: null, check: async () => ({ kind: "unavailable", reason: "never asked" }) };
    const opened = await openSpace({ space, name: space.name, safety, settings: defaultSettings() }, SILENT);
    const ping = await pinged(() => opened.world.store.load(JOBS, "none")).finally(() => opened.close());
    return { on: "the embedded world", ping, busPing: null };
  } finally {
    await sweep(space);
  }
}

type ClusterSpace = Extract<Space, { readonly kind: "cluster" }>;

const streamOf = ({ name }: Space): string => `${name}_SYS`;

/**
 * The mean, for what is waited for is a sum; and with pauses, for whoever waits sleeps meanwhile, and has to be woken by a
 * machine that may be busy with others.
 */
async function pinged(ping: () => Promise<unknown>): Promise<Ping> {
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

/** Payloads have the names of the wire protocol, which know of no space. */
function prefixed(blobs: Blobs, prefix: string): Blobs {
  return {
    put: (key, bytes, expiresAtMs) => blobs.put(prefix + key, bytes, expiresAtMs),
    get: (key) => blobs.get(prefix + key),
    delete: (key) => blobs.delete(prefix + key),
  };
}

/** Our own publishers send what comes in one go as one message; workers of others each send their own. */
async function bringEach(space: ClusterSpace, messages: readonly Message[], log: Log): Promise<void> {
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

async function sweepRedis({ name, redis }: ClusterSpace): Promise<void> {
  const { connectRedis } = await import("../../adapters/redis/connection.ts");
  const connection = await connectRedis(redis, { log: SILENT });
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

async function sweepNats(space: ClusterSpace): Promise<void> {
  const [{ connectNats }, { jetstreamManager, JetStreamApiError }] = await Promise.all([
    import("../../adapters/nats/connection.ts"),
    import("@nats-io/jetstream"),
  ]);
  const link = await connectNats(space.nats, { log: SILENT, name: "cordum-lab" });
  try {
    const manager: JetStreamManager = await jetstreamManager(link.connection, { checkAPI: false });
    await manager.streams.delete(streamOf(space)).catch((error: unknown) => {
      // Gone already, or never made.
      if (!(error instanceof JetStreamApiError && error.status === 404)) throw error;
    });
  } finally {
    await link.close();
  }
}
