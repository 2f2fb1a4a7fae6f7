import { Redis, type RedisOptions } from "ioredis";
import type { Log } from "../../ports/log.ts";
import { RedisFailure } from "./errors.ts";
import { PREFIX } from "./keys.ts";
import { RedisPipe } from "./pipe.ts";

/**
 * The connection to Redis 7 or Valkey.
 *
 * 1. `connectRedis` rejects if the server is unreachable or too old.
 * 2. Afterwards the client reconnects indefinitely. While disconnected every command fails at once; a command without a
 *    reply fails after `timeoutMs`. Commands are neither queued nor resent.
 * 3. Server settings that risk data loss are logged at the start and reported by `status` and `doctor`.
 */
export async function connectRedis(url: string, options: ConnectOptions): Promise<RedisConnection> {
  const prefix = options.prefix ?? PREFIX;
  const address = withoutPassword(url);
  const clients: Redis[] = [];
  const open = async (): Promise<Redis> => {
    const client = new Redis(url, clientOptions(options.timeoutMs ?? TIMEOUT_MS));
    clients.push(client);
    await connect(client, address, options.log);
    return client;
  };
  const close = async (): Promise<void> => {
    await Promise.all(clients.splice(0).map(disconnect));
  };
  try {
    const client = await open();
    const server = await serverInfo(client);
    requireVersion(server, address);
    warnAbout(server, options.log);
    return { client, pipe: new RedisPipe(client, prefix), prefix, server, openAnother: open, close };
  } catch (error) {
    await close();
    throw error;
  }
}

export interface ConnectOptions {
  readonly log: Log;
  readonly prefix?: string;
  /** Timeout of a command. */
  readonly timeoutMs?: number;
}

export interface RedisConnection {
  readonly client: Redis;
  readonly pipe: RedisPipe;
  readonly prefix: string;
  readonly server: RedisServer;
  /** Opens a further connection, closed together with this one: pub/sub needs its own. */
  openAnother(): Promise<Redis>;
  close(): Promise<void>;
}

export interface RedisServer {
  readonly product: "redis" | "valkey";
  readonly version: string;
  /** `null` if the server does not allow `CONFIG GET`. */
  readonly maxmemoryPolicy: string | null;
  readonly durability: RedisDurability;
}

/**
 * What survives: `always`: every acknowledged write survives a power failure. `everysec`, `os`: a power failure, or a kill
 * of the server, can lose the last seconds. `none`: a restart loses everything.
 */
export type RedisDurability = "always" | "everysec" | "os" | "none" | "unknown";

const TIMEOUT_MS = 5_000;
const RECONNECT_MS_MIN = 50;
const RECONNECT_MS_MAX = 2_000;
const VERSION_MIN = { redis: [7, 0], valkey: [7, 2] } as const;

function clientOptions(timeoutMs: number) {
  return {
    lazyConnect: true,
    // RESP2 is supported by every server, and scripts reply the same in RESP3.
    protocol: 2,
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
    enableOfflineQueue: false,
    // Subscribers resubscribe on "ready": the client would ignore a failure of its own attempt.
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (times: number) => {
      const delayMs = Math.min(RECONNECT_MS_MIN * 2 ** (times - 1), RECONNECT_MS_MAX);
      return delayMs / 2 + Math.random() * (delayMs / 2);
    },
  } satisfies RedisOptions;
}

async function connect(client: Redis, address: string, log: Log): Promise<void> {
  let lastError = "connection closed";
  let isOpen = false;
  client.on("error", (error: Error) => {
    lastError = error.message;
  });
  client.on("close", () => {
    if (isOpen) log.write("warn", "redis_connection_lost", { address, error: lastError });
    isOpen = false;
  });
  client.on("ready", () => {
    log.write("info", "redis_connected", { address });
    isOpen = true;
  });
  try {
    await client.connect();
  } catch (error) {
    const cause = error instanceof Error ? error : undefined;
    throw new RedisFailure(
      "STORE_UNAVAILABLE",
      `cannot reach redis at \`${address}\` (${lastError}): start it, or set another address with --redis`,
      cause,
    );
  }
}

/** Waits for commands in flight, unless the connection is down. */
async function disconnect(client: Redis): Promise<void> {
  if (client.status === "ready") await client.quit().catch(() => undefined);
  // On an ended connection `disconnect` would keep the process alive for two seconds.
  if (client.status !== "end") client.disconnect();
}

async function serverInfo(client: Redis): Promise<RedisServer> {
  const info = await client.info("server");
  const field = (name: string): string | null => new RegExp(`^${name}:(.*?)\r?$`, "m").exec(info)?.[1] ?? null;
  const settings = await settingsOf(client);
  const valkey = field("valkey_version");
  return {
    product: valkey === null ? "redis" : "valkey",
    version: valkey ?? field("redis_version") ?? "0",
    maxmemoryPolicy: settings?.get("maxmemory-policy") ?? null,
    durability: durabilityOf(settings),
  };
}

/** `null` if the server forbids CONFIG, as hosted servers often do. */
async function settingsOf(client: Redis): Promise<ReadonlyMap<string, string> | null> {
  try {
    const flat = (await client.call("config", "get", "maxmemory-policy", "appendonly", "appendfsync")) as string[];
    const settings = new Map<string, string>();
    for (let at = 0; at + 1 < flat.length; at += 2) settings.set(flat[at]!, flat[at + 1]!);
    return settings;
  } catch {
    return null;
  }
}

function durabilityOf(settings: ReadonlyMap<string, string> | null): RedisDurability {
  if (settings === null) return "unknown";
  if (settings.get("appendonly") !== "yes") return "none";
  const fsync = settings.get("appendfsync");
  return fsync === "always" || fsync === "everysec" ? fsync : "os";
}

function requireVersion({ product, version }: RedisServer, address: string): void {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [majorMin, minorMin] = VERSION_MIN[product];
  if (major > majorMin || (major === majorMin && minor >= minorMin)) return;
  throw new RedisFailure(
    "STORE_REFUSED",
    `${product} at \`${address}\` is version \`${version}\`: upgrade to ${majorMin}.${minorMin} or newer`,
  );
}

function warnAbout({ product, version, maxmemoryPolicy, durability }: RedisServer, log: Log): void {
  if (maxmemoryPolicy !== "noeviction") {
    log.write("warn", "redis_eviction_enabled", {
      policy: maxmemoryPolicy,
      risk: "a full server evicts jobs",
      fix: "CONFIG SET maxmemory-policy noeviction",
    });
  }
  if (durability !== "always") {
    log.write("warn", "redis_durability_weak", {
      product,
      version,
      durability,
      risk: "a power failure loses the last acknowledged writes",
      fix: "appendonly yes, appendfsync always",
    });
  }
}

function withoutPassword(url: string): string {
  try {
    const { protocol, host } = new URL(url);
    return `${protocol}//${host}`;
  } catch {
    return "an invalid URL";
  }
}
