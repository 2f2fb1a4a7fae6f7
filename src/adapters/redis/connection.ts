import type { Redis, RedisOptions } from "ioredis";
import type { Log } from "../../ports/log.ts";
import { RedisFailure } from "./errors.ts";
import { GuardedClient } from "./guarded-client.ts";
import { PREFIX } from "./keys.ts";
import { RedisPipe } from "./pipe.ts";
import { SchemaGuard } from "./schema-guard.ts";

/**
 * The connection to Redis 7 or Valkey.
 *
 * 1. `connectRedis` rejects if the server is unreachable or too old, or if its data has another schema.
 * 2. Afterwards the client reconnects indefinitely. While disconnected every command fails at once; a command without a
 *    reply fails after `timeoutMs`. Commands are neither queued nor resent.
 * 3. Server settings that risk data loss are logged at the start and reported by `status` and `doctor`.
 */
export async function connectRedis(url: string, options: ConnectOptions): Promise<RedisConnection> {
  const { log, prefix = PREFIX, timeoutMs = TIMEOUT_MS, onWentBack = () => undefined } = options;
  const address = withoutPassword(url);
  const client = new GuardedClient(url, clientOptions(timeoutMs));
  const clients: Redis[] = [client];
  const guard = new SchemaGuard(client, { prefix, address, log, onWentBack });
  const openAnother = async (): Promise<Redis> => {
    const another = plainClient(url, timeoutMs);
    clients.push(another);
    await connect(another, address, log);
    return another;
  };
  const close = async (): Promise<void> => {
    guard.stop();
    await Promise.all(clients.splice(0).map(disconnect));
  };
  try {
    await connect(client, address, log);
    const server = await serverInfo(client);
    requireVersion(server, address);
    await guard.start();
    warnAbout(server, log);
    const pipe = new RedisPipe(client, prefix, () => void guard.recheck());
    return { client, pipe, prefix, server, guard, log, openAnother, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A connection that reads no data of the engine: payloads of workers, lists and pings. The schema is not checked. */
export async function connectPlain(url: string, log: Log): Promise<PlainConnection> {
  const address = withoutPassword(url);
  const client = plainClient(url, TIMEOUT_MS);
  try {
    await connect(client, address, log);
    const server = await serverInfo(client);
    requireVersion(server, address);
    return { client, server, close: () => disconnect(client) };
  } catch (error) {
    await disconnect(client);
    throw error;
  }
}

function plainClient(url: string, timeoutMs: number): GuardedClient {
  const client = new GuardedClient(url, clientOptions(timeoutMs));
  client.refusal = null;
  return client;
}

export type PlainConnection = Pick<RedisConnection, "client" | "server" | "close">;

export interface ConnectOptions {
  readonly log: Log;
  readonly prefix?: string;
  /** Timeout of a command. */
  readonly timeoutMs?: number;
  /** Called when the server lacks writes that it had acknowledged to this process. */
  readonly onWentBack?: (detail: string) => void;
}

export interface RedisConnection {
  readonly client: Redis;
  readonly pipe: RedisPipe;
  readonly prefix: string;
  readonly server: RedisServer;
  readonly guard: SchemaGuard;
  readonly log: Log;
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

async function connect(client: GuardedClient, address: string, log: Log): Promise<void> {
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
    // Otherwise the guard logs it after its check.
    if (client.refusal === null) log.write("info", "redis_connected", { address });
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

async function serverInfo(client: GuardedClient): Promise<RedisServer> {
  const info = await client.unguarded(() => client.info("server"));
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
async function settingsOf(client: GuardedClient): Promise<ReadonlyMap<string, string> | null> {
  try {
    const names = ["maxmemory-policy", "appendonly", "appendfsync"];
    const flat = (await client.unguarded(() => client.call("config", "get", ...names))) as string[];
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
