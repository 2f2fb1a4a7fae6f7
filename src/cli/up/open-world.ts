/** The outside that the configuration asks for: embedded, or a cluster on NATS and Redis; and what it promises. */

import type { PacketCodec } from "../../adapters/packet-codec.ts";
import type { RedisServer } from "../../adapters/redis/connection.ts";
import type { Config } from "../../config/config.ts";
import type { LiveSettings } from "../../core/settings.ts";
import type { ServerInfo } from "../../gateway/route.ts";
import type { Stop } from "../../ports/bus.ts";
import type { World } from "../../ports/world.ts";
import type { Cluster } from "../../worlds/cluster.ts";

export interface OpenedWorld {
  readonly world: World;
  readonly facts: Pick<ServerInfo, "mode" | "durability" | "warnings" | "servers" | "signatures">;
  readonly close: Stop;
}

type DecisionContext = Pick<World, "name" | "log" | "metrics" | "safety">;

export async function openWorld(config: Config, live: LiveSettings, given: DecisionContext): Promise<OpenedWorld> {
  const { natsUrl, redisUrl, dataDir, signatures } = config.process;
  const { ackWaitMs, deliverMax, ackPendingMax } = config.settings.bus;
  const bus = { ackWaitMs, deliverMax, inFlightMax: ackPendingMax };
  if (natsUrl === null || redisUrl === null) {
    // Imported only where it is used: neither kind should have to load the drivers of the other.
    const { openEmbedded } = await import("../../worlds/embedded.ts");
    const { world, close } = await openEmbedded({ ...given, dir: dataDir, bus });
    return { world, facts: { mode: "embedded", durability: EMBEDDED, warnings: [] }, close };
  }
  const { openCluster } = await import("../../worlds/cluster.ts");
  const codec = await openCodec(signatures, live, given);
  const { world, servers, close } = await openCluster({
    ...given,
    nats: natsUrl,
    redis: redisUrl,
    bus,
    ackPendingMax,
    ...(codec === null ? {} : { codec }),
  });
  const durability = {
    profile: `cluster, redis ${servers.redis.durability}`,
    meaning: `${REDIS_MEANS[servers.redis.durability]}; NATS ${servers.nats.version} writes as its \`sync_interval\` says`,
  };
  const warnings = [...servers.nats.warnings, ...evictionWarning(servers.redis)];
  const facts = {
    mode: "cluster",
    durability,
    warnings,
    servers: told(servers),
    signatures: { mode: signatures.mode, has_key: signatures.keyFile !== null },
  } as const;
  return { world, facts, close };
}

/** Null where signatures are neither made nor looked at: then nothing is in the way of a packet. */
async function openCodec(
  { mode, keyFile }: Config["process"]["signatures"],
  live: LiveSettings,
  { log, metrics }: DecisionContext,
): Promise<PacketCodec | null> {
  if (mode === "off" && keyFile === null) return null;
  const [{ openSenderKeys, readOwnKey }, { SignedCodec }] = await Promise.all([
    import("../../adapters/node/packet-keys.ts"),
    import("../../adapters/node/packet-signatures.ts"),
  ]);
  const own = keyFile === null ? null : readOwnKey(keyFile);
  const senders = openSenderKeys(() => live.current.senders, log);
  return new SignedCodec({ mode, key: own?.key ?? null, ours: own?.ours ?? [], senders, log, metrics });
}

const EMBEDDED: ServerInfo["durability"] = {
  profile: "embedded",
  meaning: "an acknowledged job survives a power cut (SQLite, WAL, synchronous=FULL)",
};

const REDIS_MEANS: Readonly<Record<RedisServer["durability"], string>> = {
  always: "an acknowledged job survives a power cut at Redis",
  everysec: "a power cut at Redis may lose its last second; `appendfsync always` loses nothing",
  os: "a power cut at Redis loses what the system had not written; `appendfsync always` loses nothing",
  none: "a restart of Redis may lose everything since its last snapshot; set `appendonly yes`, `appendfsync always`",
  unknown: "this Redis does not tell how durable it is",
};

function told({ nats, redis }: Cluster["servers"]): NonNullable<ServerInfo["servers"]> {
  const { product, version, durability, maxmemoryPolicy } = redis;
  return {
    nats: { version: nats.version },
    redis: { product, version, durability, maxmemory_policy: maxmemoryPolicy },
  };
}

function evictionWarning({ maxmemoryPolicy }: RedisServer): readonly string[] {
  if (maxmemoryPolicy === "noeviction") return [];
  const policy = maxmemoryPolicy ?? "not told";
  return [`redis maxmemory-policy is ${policy}: a full server may throw jobs away; set it to noeviction`];
}
