import { openNatsBus } from "../adapters/nats/bus.ts";
import type { NatsServer } from "../adapters/nats/connection.ts";
import { cryptoRandom } from "../adapters/node/crypto-random.ts";
import { wallClock } from "../adapters/node/wall-clock.ts";
import type { PacketCodec } from "../adapters/packet-codec.ts";
import { RedisBlobs } from "../adapters/redis/blobs.ts";
import { connectRedis, type RedisServer } from "../adapters/redis/connection.ts";
import { RedisLocks } from "../adapters/redis/locks.ts";
import { RedisStore } from "../adapters/redis/store.ts";
import type { BusOptions } from "../ports/bus.ts";
import type { Log } from "../ports/log.ts";
import type { Metrics } from "../ports/metrics.ts";
import type { Safety } from "../ports/safety.ts";
import type { World } from "../ports/world.ts";

/** Cluster composition: NATS JetStream for durable messages, Redis for state. */
export interface ClusterOptions {
  readonly nats: string;
  readonly redis: string;
  readonly name: string;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly safety: Safety;
  readonly bus: BusOptions;
  readonly ackPendingMax?: number;
  /** Packet encoding; unsigned by default. */
  readonly codec?: PacketCodec;
  /** Namespace for keys, subjects and the stream name: several systems can share the servers. */
  readonly space?: string;
}

export interface Cluster {
  readonly world: World;
  /** Server versions and settings, for `status` and `doctor`. */
  readonly servers: { readonly nats: NatsServer; readonly redis: RedisServer };
  close(): Promise<void>;
}

export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { log, metrics, safety, name, space } = options;
  const clock = wallClock;
  const random = cryptoRandom(clock);
  const redis = await connectRedis(options.redis, { log, ...(space === undefined ? {} : { prefix: `${space}:` }) });
  try {
    const bus = await openNatsBus(options.nats, {
      ...options.bus,
      log,
      name,
      ...(options.ackPendingMax === undefined ? {} : { ackPendingMax: options.ackPendingMax }),
      ...(options.codec === undefined ? {} : { codec: options.codec }),
      ...(space === undefined ? {} : { prefix: `${space}.`, stream: `${space}_SYS` }),
    });
    const locks = await RedisLocks.open(redis, clock, random);
    const store = new RedisStore(redis);
    const blobs = new RedisBlobs(redis.client);
    return {
      world: { name, clock, random, bus, store, locks, blobs, safety, log, metrics },
      servers: { nats: bus.server, redis: redis.server },
      async close() {
        await bus.close();
        await locks.close();
        await redis.close();
      },
    };
  } catch (error) {
    await redis.close();
    throw error;
  }
}
