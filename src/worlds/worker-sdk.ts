/**
 * What `cordum/worker` exports: a worker is topics and a handler, on whichever way its work comes.
 *
 *   const stop = await worker({ topics: ["demo.echo"], handle: async (item) => item.input, transport: http({ url }) });
 */
import { hostname } from "node:os";
import { type HttpOptions, startHttpWorker } from "../adapters/http/http-worker.ts";
import { cryptoRandom } from "../adapters/node/crypto-random.ts";
import { wallClock } from "../adapters/node/wall-clock.ts";
import type { PacketForm } from "../adapters/packet-form.ts";
import type { Stop } from "../ports/bus.ts";
import type { Log } from "../ports/log.ts";
import { startWorker, type WorkerOptions, type WorkerWorld } from "../worker/worker.ts";

export { permanent, retryAfter } from "../core/retry/intent.ts";
export type { WorkItem } from "../worker/item.ts";
export { startWorker } from "../worker/worker.ts";

export interface WorkerWish extends Omit<WorkerOptions, "id" | "concurrency"> {
  /** Names it to operators; of this host and process when left out. */
  readonly id?: string;
  /** Jobs at the same time; 10 when left out. */
  readonly concurrency?: number;
  readonly transport: Transport;
}

/** How work comes to a worker. */
export type Transport = (options: WorkerOptions) => Promise<Stop>;

/** Works until the answer is called: that takes nothing new, and waits for what is being worked on. */
export function worker({ transport, ...request }: WorkerWish): Promise<Stop> {
  return transport({ concurrency: CONCURRENCY, id: ownName(), ...request });
}

/** Over HTTP, from anywhere that reaches the gateway. */
export function http(options: HttpOptions & { readonly log?: Log }): Transport {
  const parts = { clock: wallClock, random: cryptoRandom(wallClock), fetch, log: options.log ?? SILENT };
  return (request) => startHttpWorker(parts, options, request);
}

/** On the bus of a cluster: work is sent without being asked for, large payloads stand in Redis. */
export function nats(options: NatsOptions): Transport {
  return async (request) => {
    const { log = SILENT, space } = options;
    // Imported only where it is used: who works over HTTP should not have to load these drivers.
    const [{ openNatsBus }, { connectRedis }, { RedisBlobs }] = await Promise.all([
      import("../adapters/nats/bus.ts"),
      import("../adapters/redis/connection.ts"),
      import("../adapters/redis/blobs.ts"),
    ]);
    const form = await formOf(options, log);
    const redis = await connectRedis(options.redis, { log });
    try {
      const bus = await openNatsBus(options.nats, {
        ...BUS,
        log,
        name: request.id,
        ...(form === null ? {} : { form }),
        ...(space === undefined ? {} : { prefix: `${space}.`, stream: `${space}_SYS` }),
      });
      const world = {
        bus,
        blobs: new RedisBlobs(redis.client),
        clock: wallClock,
        random: cryptoRandom(wallClock),
        log,
      };
      const stop = await startWorker(world, request);
      return async () => {
        await stop();
        await bus.close();
        await redis.close();
      };
    } catch (error) {
      await redis.close();
      throw error;
    }
  };
}

export interface NatsOptions {
  readonly nats: string;
  readonly redis: string;
  /** As the control plane has it: for several systems on one pair of servers. */
  readonly space?: string;
  readonly log?: Log;
  /**
   * The private key (PEM, P-256) with which it signs what it sends, under its id as the sender's: the control plane knows
   * the public half as `cap.senders.<id>.key`.
   */
  readonly key?: string;
  /** The public key of the control plane (PEM). With it, only work and cancellations are heard that it has signed. */
  readonly controlKey?: string;
}

/** Null where signatures are neither made nor looked at. */
async function formOf({ key, controlKey }: NatsOptions, log: Log): Promise<PacketForm | null> {
  if (key === undefined && controlKey === undefined) return null;
  const [{ ownKeyIn, senderKeysIn }, { SignedForm }] = await Promise.all([
    import("../adapters/node/packet-keys.ts"),
    import("../adapters/node/packet-signatures.ts"),
  ]);
  const problem = (option: string) => (why: string) => new Error(`\`${option}\` of this worker: ${why}`);
  return new SignedForm({
    mode: controlKey === undefined ? "off" : "enforce",
    key: key === undefined ? null : ownKeyIn(key, problem("key")).key,
    ours: controlKey === undefined ? [] : senderKeysIn(controlKey, problem("controlKey")),
    senders: () => NOBODY,
    log,
  });
}

/** In the process of the control plane itself. */
export function inProcess(world: WorkerWorld): Transport {
  return (request) => startWorker(world, request);
}

/** Can stand in a subject. */
function ownName(): string {
  const random = cryptoRandom(wallClock).id().slice(-6);
  return `${hostname()}-${process.pid}-${random}`.replace(/[^A-Za-z0-9_-]/g, "-");
}

const NOBODY: ReadonlyMap<string, readonly []> = new Map();
const SILENT: Log = { write: () => undefined };
const CONCURRENCY = 10;
/** It consumes nothing: of what consumers are like, the control plane decides. */
const BUS = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 1, groups: [] } as const;
