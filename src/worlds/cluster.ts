import { type NatsBus, openNatsBus } from "../adapters/nats/bus.ts";
import type { NatsServer } from "../adapters/nats/connection.ts";
import { cryptoRandom } from "../adapters/node/crypto-random.ts";
import { threadEvaluator } from "../adapters/node/thread-evaluator.ts";
import { systemTime } from "../adapters/node/wall-clock.ts";
import type { PacketCodec } from "../adapters/packet-codec.ts";
import { RedisBlobs } from "../adapters/redis/blobs.ts";
import { connectRedis, type RedisServer } from "../adapters/redis/connection.ts";
import { RedisLocks } from "../adapters/redis/locks.ts";
import { SharedClock } from "../adapters/redis/shared-clock.ts";
import { RedisStore } from "../adapters/redis/store.ts";
import type { BusOptions } from "../ports/bus.ts";
import type { Log } from "../ports/log.ts";
import type { Metrics } from "../ports/metrics.ts";
import type { Safety } from "../ports/safety.ts";
import type { TimeSource } from "../ports/steady-clock.ts";
import type { World } from "../ports/world.ts";
import { ALERT } from "../protocol/subjects.ts";
import { waitForServer } from "./wait-for-server.ts";

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
  /** Replaces the clocks of the system; for tests. */
  readonly time?: TimeSource;
  /** Namespace for keys, subjects and the stream name: several systems can share the servers. */
  readonly space?: string;
  /** How long to wait for an unreachable server, until `signal` aborts; one attempt by default. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
  /** Called when a server lacks data that it had acknowledged. */
  readonly onWarning?: (warning: string) => void;
}

export interface Cluster {
  readonly world: World;
  /** Server versions and settings, for `status` and `doctor`. */
  readonly servers: { readonly nats: NatsServer; readonly redis: RedisServer };
  /** When Redis was found to lack acknowledged writes (ISO 8601); `null` if never. */
  readonly wentBackAt: () => string | null;
  close(): Promise<void>;
}

export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { log, metrics, safety, name, space, signal, waitMs = 0 } = options;
  const waiting = { waitMs, signal, log };
  let bus: NatsBus | null = null;
  let clock: SharedClock | null = null;
  const onWentBack = (detail: string): void => {
    options.onWarning?.(detail);
    const body = {
      kind: "alert",
      level: "CRITICAL",
      message: detail,
      component: name,
      code: "store_went_back",
    } as const;
    try {
      bus?.broadcast(ALERT, { traceId: "", senderId: name, createdAtMs: clock?.now() ?? 0, body });
    } catch (error) {
      log.write("warn", "alert_failed", { error: String(error) });
    }
  };
  const redisOptions = { log, onWentBack, ...(space === undefined ? {} : { prefix: `${space}:` }) };
  const redis = await waitForServer(() => connectRedis(options.redis, redisOptions), waiting);
  try {
    const shared = await SharedClock.open(options.time ?? systemTime, redis.pipe);
    clock = shared;
    const random = cryptoRandom(shared);
    const busOptions = {
      ...options.bus,
      log,
      name,
      ...(options.ackPendingMax === undefined ? {} : { ackPendingMax: options.ackPendingMax }),
      ...(options.codec === undefined ? {} : { codec: options.codec }),
      ...(space === undefined ? {} : { prefix: `${space}.`, stream: `${space}_SYS` }),
    };
    const nats = await waitForServer(() => openNatsBus(options.nats, busOptions), waiting);
    bus = nats;
    const locks = await RedisLocks.open(redis, shared, random);
    const store = new RedisStore(redis);
    const blobs = new RedisBlobs(redis.client, (atMs) => shared.toServerMs(atMs));
    const evaluator = threadEvaluator();
    return {
      world: { name, clock: shared, random, bus: nats, store, locks, blobs, safety, evaluator, log, metrics },
      servers: { nats: nats.server, redis: redis.server },
      wentBackAt: () => redis.guard.wentBackAt,
      async close() {
        shared.close();
        await evaluator.close();
        await nats.close();
        await locks.close();
        await redis.close();
      },
    };
  } catch (error) {
    await redis.close();
    throw error;
  }
}
