/**
 * The public API of `cordum/worker`.
 *
 *   const stop = await worker({ topics: ["demo.echo"], handle: async (item) => item.input, transport: http({ url }) });
 */
import { hostname } from "node:os";
import { type HttpOptions, startHttpWorker } from "../adapters/http/http-worker.ts";
import { cryptoRandom } from "../adapters/node/crypto-random.ts";
import { tokenFor } from "../adapters/node/startup-token.ts";
import { wallClock } from "../adapters/node/wall-clock.ts";
import type { PacketCodec } from "../adapters/packet-codec.ts";
import type { Stop } from "../ports/bus.ts";
import type { Log } from "../ports/log.ts";
import { startWorker, type WorkerOptions, type WorkerWorld } from "../worker/worker.ts";

export { permanent, retryAfter } from "../core/retry/intent.ts";
export type { WorkItem } from "../worker/item.ts";
export { startWorker } from "../worker/worker.ts";

export interface WorkerConfig extends Omit<WorkerOptions, "id" | "concurrency"> {
  /** Worker id shown to operators; derived from host and process by default. */
  readonly id?: string;
  /** Maximum number of concurrent jobs; 10 by default. */
  readonly concurrency?: number;
  readonly transport: Transport;
}

/** How a worker receives jobs. */
export type Transport = (options: WorkerOptions) => Promise<Stop>;

/** Starts a worker. The returned function stops it: no new jobs, and jobs in progress are awaited. */
export function worker({ transport, ...request }: WorkerConfig): Promise<Stop> {
  return transport({ concurrency: CONCURRENCY, id: ownName(), ...request });
}

/** Long-polls the gateway over HTTP. */
export function http(options: HttpOptions & { readonly log?: Log }): Transport {
  const parts = { clock: wallClock, random: cryptoRandom(wallClock), fetch, log: options.log ?? SILENT };
  const apiKey = options.apiKey ?? tokenFor(options.url, process.env);
  return (request) => startHttpWorker(parts, { ...options, ...(apiKey === null ? {} : { apiKey }) }, request);
}

/** Subscribes on the NATS server of a cluster. Payloads that exceed the message size are in Redis. */
export function nats(options: NatsOptions): Transport {
  return async (request) => {
    const { log = SILENT, space } = options;
    // Lazy imports: HTTP workers do not load these drivers.
    const [{ openNatsBus }, { connectPlain }, { RedisBlobs }] = await Promise.all([
      import("../adapters/nats/bus.ts"),
      import("../adapters/redis/connection.ts"),
      import("../adapters/redis/blobs.ts"),
    ]);
    const codec = await codecOf(options, log);
    const redis = await connectPlain(options.redis, log);
    try {
      const bus = await openNatsBus(options.nats, {
        ...BUS,
        log,
        name: request.id,
        ...(codec === null ? {} : { codec }),
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
  /** Namespace, equal to that of the control plane. */
  readonly space?: string;
  readonly log?: Log;
  /**
   * Private key (PEM, P-256) that signs the worker's packets. The control plane verifies them with the public key in
   * `cap.senders.<worker id>.key`.
   */
  readonly key?: string;
  /** Public key of the control plane (PEM). If set, packets without its signature are ignored. */
  readonly controlKey?: string;
}

/** Null if packets are neither signed nor verified. */
async function codecOf({ key, controlKey }: NatsOptions, log: Log): Promise<PacketCodec | null> {
  if (key === undefined && controlKey === undefined) return null;
  const [{ ownKeyIn, senderKeysIn }, { SignedCodec }] = await Promise.all([
    import("../adapters/node/packet-keys.ts"),
    import("../adapters/node/packet-signatures.ts"),
  ]);
  const problem = (option: string) => (detail: string) => new Error(`worker option \`${option}\`: ${detail}`);
  return new SignedCodec({
    mode: controlKey === undefined ? "off" : "enforce",
    key: key === undefined ? null : ownKeyIn(key, problem("key")).key,
    ours: controlKey === undefined ? [] : senderKeysIn(controlKey, problem("controlKey")),
    senders: () => NO_SENDERS,
    log,
  });
}

/** Runs the worker in the process of the control plane. */
export function inProcess(world: WorkerWorld): Transport {
  return (request) => startWorker(world, request);
}

/** Contains only characters that are valid in a subject. */
function ownName(): string {
  const random = cryptoRandom(wallClock).id().slice(-6);
  return `${hostname()}-${process.pid}-${random}`.replace(/[^A-Za-z0-9_-]/g, "-");
}

const NO_SENDERS: ReadonlyMap<string, readonly []> = new Map();
const SILENT: Log = { write: () => undefined };
const CONCURRENCY = 10;
/** A worker consumes no durable subjects, so these values have no effect. */
const BUS = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 1, groups: [] } as const;
