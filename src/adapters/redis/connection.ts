import { Redis, type RedisOptions } from "ioredis";
import type { Log } from "../../ports/log.ts";
import { RedisFailure } from "./errors.ts";
import { PREFIX } from "./keys.ts";
import { RedisPipe } from "./pipe.ts";

/**
 * The connection to Redis 7 or Valkey, and what kind of server is at its other end.
 *
 * 1. A server that is too old, or none, is an error at the start that says what to do.
 * 2. Afterwards the client reconnects for as long as the process lives. Meanwhile every command fails at once; a
 *    command without an answer fails after `timeoutMs`. None waits for better times, none is sent twice.
 * 3. Settings of the server that can lose jobs are logged at the start, and are data for status and doctor.
 */
export async function connectRedis(url: string, options: ConnectOptions): Promise<RedisConnection> {
  const prefix = options.prefix ?? PREFIX;
  const address = withoutPassword(url);
  const clients: Redis[] = [];
  const open = async (): Promise<Redis> => {
    const client = new Redis(url, clientOptions(options.timeoutMs ?? TIMEOUT_MS));
    clients.push(client);
    await opened(client, address, options.log);
    return client;
  };
  const close = async (): Promise<void> => {
    await Promise.all(clients.splice(0).map(ended));
  };
  try {
    const client = await open();
    const server = await serverFacts(client);
    requireVersion(server, address);
    warnOf(server, options.log);
    return { client, pipe: new RedisPipe(client, prefix), prefix, server, openAnother: open, close };
  } catch (error) {
    await close();
    throw error;
  }
}

export interface ConnectOptions {
  readonly log: Log;
  readonly prefix?: string;
  /** How long a command may be without an answer. */
  readonly timeoutMs?: number;
}

export interface RedisConnection {
  readonly client: Redis;
  readonly pipe: RedisPipe;
  readonly prefix: string;
  readonly server: RedisServer;
  /** One more connection, closed with this one: pub/sub needs one for itself. */
  openAnother(): Promise<Redis>;
  close(): Promise<void>;
}

export interface RedisServer {
  readonly product: "redis" | "valkey";
  readonly version: string;
  /** null where the server does not tell. */
  readonly maxmemoryPolicy: string | null;
  readonly durability: RedisDurability;
}

/**
 * `always`: what was acknowledged survives a power cut. `everysec`, `os`: but for the last seconds, and some of it may be
 * lost when the server is killed, because it answers before it writes while the disk is busy. `none`: not even a restart.
 */
export type RedisDurability = "always" | "everysec" | "os" | "none" | "unknown";

const TIMEOUT_MS = 5_000;
const RECONNECT_MS_MIN = 50;
const RECONNECT_MS_MAX = 2_000;
const VERSION_MIN = { redis: [7, 0], valkey: [7, 2] } as const;

function clientOptions(timeoutMs: number) {
  return {
    lazyConnect: true,
    // Replies of scripts look the same in both protocols; this one is understood by everything that speaks Redis.
    protocol: 2,
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
    enableOfflineQueue: false,
    // Whoever subscribes does so again on "ready": the client's own attempt has nobody to tell when it fails.
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (times: number) => {
      const delayMs = Math.min(RECONNECT_MS_MIN * 2 ** (times - 1), RECONNECT_MS_MAX);
      return delayMs / 2 + Math.random() * (delayMs / 2);
    },
  } satisfies RedisOptions;
}

async function opened(client: Redis, address: string, log: Log): Promise<void> {
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
      `cannot reach redis at \`${address}\` (${lastError}): start it, or give another address with --redis`,
      cause,
    );
  }
}

/** Waits for what is under way, but not for a server that does not answer. */
async function ended(client: Redis): Promise<void> {
  if (client.status === "ready") await client.quit().catch(() => undefined);
  // Of a connection that has ended the client would wait for the end once more, and keep the process for two seconds.
  if (client.status !== "end") client.disconnect();
}

async function serverFacts(client: Redis): Promise<RedisServer> {
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

/** Hosted servers often forbid CONFIG: then nothing is known, which is not the same as fine. */
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
    `${product} at \`${address}\` is version \`${version}\`: ${majorMin}.${minorMin} or newer is needed`,
  );
}

function warnOf({ product, version, maxmemoryPolicy, durability }: RedisServer, log: Log): void {
  if (maxmemoryPolicy !== "noeviction") {
    log.write("warn", "redis_may_evict", {
      policy: maxmemoryPolicy,
      risk: "a full server throws jobs away",
      fix: "CONFIG SET maxmemory-policy noeviction",
    });
  }
  if (durability !== "always") {
    log.write("warn", "redis_may_lose", {
      product,
      version,
      durability,
      risk: "a power cut loses what was acknowledged last",
      fix: "appendonly yes, appendfsync always",
    });
  }
}

function withoutPassword(url: string): string {
  try {
    const { protocol, host } = new URL(url);
    return `${protocol}//${host}`;
  } catch {
    return "an address that is not a URL";
  }
}
