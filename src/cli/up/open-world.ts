/** Opens the configured world, embedded or cluster, and describes its durability. */
import type { PacketCodec } from "../../adapters/packet-codec.ts";
import type { RedisServer } from "../../adapters/redis/connection.ts";
import type { Config } from "../../config/config.ts";
import type { LiveSettings } from "../../core/settings.ts";
import type { ServerInfo } from "../../gateway/route.ts";
import type { Stop } from "../../ports/bus.ts";
import type { World } from "../../ports/world.ts";
import type { Cluster } from "../../worlds/cluster.ts";
import { makePrivate, openPaths } from "./private-directory.ts";

export interface OpenedWorld {
  readonly world: World;
  readonly facts: Pick<ServerInfo, "mode" | "durability" | "warnings" | "currentWarnings" | "servers" | "signatures">;
  readonly close: Stop;
}

type WorldOptions = Pick<World, "name" | "log" | "metrics" | "safety"> & {
  /** Aborts the wait for unreachable servers. */
  readonly signal: AbortSignal;
};

export async function openWorld(config: Config, live: LiveSettings, options: WorldOptions): Promise<OpenedWorld> {
  const { natsUrl, redisUrl, clusterWaitMs, dataDir, signatures } = config.process;
  const { ackWaitMs, deliverMax, ackPendingMax } = config.settings.bus;
  const bus = { ackWaitMs, deliverMax, inFlightMax: ackPendingMax };
  if (natsUrl === null || redisUrl === null) {
    // Loaded on demand: each mode loads only its own drivers.
    const { openEmbedded } = await import("../../worlds/embedded.ts");
    makePrivate(dataDir);
    const { world, close } = await openEmbedded({ ...options, dir: dataDir, bus });
    const facts = {
      mode: "embedded",
      durability: EMBEDDED,
      warnings: [],
      currentWarnings: () => openPaths(dataDir),
    } as const;
    return { world, facts, close };
  }
  const { openCluster } = await import("../../worlds/cluster.ts");
  const codec = await openCodec(signatures, live, options);
  // Grows while the process runs.
  const warnings: string[] = [];
  const cluster = await openCluster({
    ...options,
    waitMs: clusterWaitMs,
    onWarning: (warning) => warnings.push(warning),
    nats: natsUrl,
    redis: redisUrl,
    bus,
    ackPendingMax,
    ...(codec === null ? {} : { codec }),
  });
  const { world, servers, close } = cluster;
  const durability = {
    profile: `cluster, redis ${servers.redis.durability}`,
    meaning: `${REDIS_MEANS[servers.redis.durability]}; NATS ${servers.nats.version} syncs as set by its \`sync_interval\``,
  };
  warnings.push(...servers.nats.warnings, ...evictionWarning(servers.redis));
  const facts = {
    mode: "cluster",
    durability,
    warnings,
    servers: serversView(cluster),
    signatures: { mode: signatures.mode, has_key: signatures.keyFile !== null },
  } as const;
  return { world, facts, close };
}

/** null: packets are neither signed nor verified. */
async function openCodec(
  { mode, keyFile }: Config["process"]["signatures"],
  live: LiveSettings,
  { log, metrics }: WorldOptions,
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
  meaning: "acknowledged jobs survive a power failure (SQLite, WAL, synchronous=FULL)",
};

const REDIS_MEANS: Readonly<Record<RedisServer["durability"], string>> = {
  always: "acknowledged jobs survive a power failure at Redis",
  everysec: "a power failure at Redis may lose the last second; set `appendfsync always`",
  os: "a power failure at Redis loses unflushed writes; set `appendfsync always`",
  none: "a restart of Redis may lose everything since the last snapshot; set `appendonly yes` and `appendfsync always`",
  unknown: "Redis does not report its durability settings",
};

function serversView({ servers, wentBackAt }: Cluster): NonNullable<ServerInfo["servers"]> {
  const { product, version, durability, maxmemoryPolicy } = servers.redis;
  return {
    nats: { version: servers.nats.version },
    redis: {
      product,
      version,
      durability,
      maxmemory_policy: maxmemoryPolicy,
      get went_back_at() {
        return wentBackAt();
      },
    },
  };
}

function evictionWarning({ maxmemoryPolicy }: RedisServer): readonly string[] {
  if (maxmemoryPolicy === "noeviction") return [];
  const policy = maxmemoryPolicy ?? "unknown";
  return [`redis maxmemory-policy is ${policy}: a full server may lose jobs; set it to noeviction`];
}
