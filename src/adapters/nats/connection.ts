import { type ConnectionOptions, connect, type NatsConnection } from "@nats-io/transport-node";
import type { Log } from "../../ports/log.ts";
import { describeError, type NatsFailure, refused, unavailable } from "./errors.ts";

/**
 * The connection to NATS.
 *
 * 1. `connectNats` rejects if the server is unreachable, too old, or has no JetStream.
 * 2. Afterwards the client reconnects indefinitely, with jitter. While disconnected nothing is buffered: `isConnected` is
 *    false and calls fail at once.
 * 3. Servers silently ignore unknown options, so only features of the required version in `NEEDS` are used. Features of
 *    newer versions are reported as warnings.
 */
export async function connectNats(url: string, options: NatsOptions): Promise<NatsLink> {
  const address = withoutPassword(url);
  let connection: NatsConnection;
  try {
    connection = await connect(connectionOptions(url, options));
  } catch (error) {
    const reason = describeError(error);
    throw unavailable(
      `cannot reach nats at \`${address}\` (${reason}): start it, or set another address with --nats`,
      error,
    );
  }
  const link = new NatsLink(connection, address, options.log);
  const failure = unsupported(link, address);
  if (failure === null) return link;
  await link.close();
  throw failure;
}

export interface NatsOptions {
  readonly log: Log;
  /** Shown on the server's monitoring pages. */
  readonly name?: string;
  readonly connectMs?: number;
}

export interface NatsServer {
  readonly version: string;
  readonly payloadBytesMax: number;
  /** Limitations of this server version. */
  readonly warnings: readonly string[];
}

/** Minimum server version per feature. */
export const NEEDS = [
  { since: "2.9.0", required: true, what: "consumer API" },
  {
    since: "2.10.0",
    required: false,
    what: "`sync_interval: always` is missing: an acknowledged message survives a crash but not a power failure",
  },
  {
    since: "2.10.23",
    required: false,
    what: "fixes for streams with interest retention are missing: upgrade before production use",
  },
] as const;

export class NatsLink {
  readonly connection: NatsConnection;
  readonly server: NatsServer;
  #isConnected = true;
  readonly #disconnectListeners = new Set<() => void>();
  readonly #reconnectListeners = new Set<() => void>();

  constructor(connection: NatsConnection, address: string, log: Log) {
    this.connection = connection;
    const version = connection.info?.version ?? "0";
    this.server = {
      version,
      payloadBytesMax: connection.info?.max_payload ?? 1024 * 1024,
      warnings: NEEDS.filter((need) => !need.required && isOlder(version, need.since)).map(
        (need) => `nats-server ${version} is older than ${need.since}: ${need.what}`,
      ),
    };
    log.write("info", "nats_connected", { address, version });
    for (const warning of this.server.warnings) log.write("warn", "nats_server_outdated", { warning });
    void this.#watch(address, log);
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Called once per disconnect. Messages in flight may be lost. */
  onDisconnect(fn: () => void): void {
    this.#disconnectListeners.add(fn);
  }

  /** Called after a reconnect, with subscriptions restored. Returns a function that removes the listener. */
  onReconnect(fn: () => void): () => void {
    this.#reconnectListeners.add(fn);
    return () => this.#reconnectListeners.delete(fn);
  }

  /** Flushes pending writes, with a timeout. */
  async close(): Promise<void> {
    if (this.#isConnected) {
      let timer: NodeJS.Timeout | undefined;
      const timeout = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, CLOSE_MS_MAX);
      });
      await Promise.race([this.connection.flush().catch(() => undefined), timeout]);
      clearTimeout(timer);
    }
    await this.connection.close();
  }

  async #watch(address: string, log: Log): Promise<void> {
    for await (const status of this.connection.status()) {
      if (status.type === "disconnect") this.#setConnected(false, log, address);
      else if (status.type === "reconnect") this.#setConnected(true, log, address);
      else if (status.type === "error") log.write("warn", "nats_error", { address, error: status.error.message });
    }
    this.#isConnected = false;
    for (const fn of this.#disconnectListeners) fn();
  }

  #setConnected(isConnected: boolean, log: Log, address: string): void {
    if (this.#isConnected === isConnected) return;
    this.#isConnected = isConnected;
    if (isConnected) log.write("info", "nats_connected", { address, version: this.connection.info?.version });
    else log.write("warn", "nats_connection_lost", { address });
    for (const fn of isConnected ? this.#reconnectListeners : this.#disconnectListeners) fn();
  }
}

const CLOSE_MS_MAX = 2_000;

function connectionOptions(url: string, { name, connectMs }: NatsOptions): ConnectionOptions {
  const urls = url.split(",").map((one) => new URL(one.trim()));
  const [first] = urls;
  const user = decodeURIComponent(first?.username ?? "");
  const pass = decodeURIComponent(first?.password ?? "");
  const credentials = user === "" ? {} : pass === "" ? { token: user } : { user, pass };
  return {
    servers: urls.map((one) => one.host),
    ...credentials,
    ...(first?.protocol === "tls:" ? { tls: {} } : {}),
    ...(name === undefined ? {} : { name }),
    timeout: connectMs ?? 5_000,
    reconnect: true,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 200,
    reconnectJitter: 800,
    reconnectJitterTLS: 800,
    // A restarting server may reject credentials until it is fully configured: keep reconnecting.
    ignoreAuthErrorAbort: true,
    // Detects an unresponsive server within seconds.
    pingInterval: 5_000,
    maxPingOut: 2,
    // A lost connection creates thousands of errors: skip their stack traces.
    noAsyncTraces: true,
  };
}

function unsupported({ connection, server }: NatsLink, address: string): NatsFailure | null {
  const need = NEEDS.find((one) => one.required && isOlder(server.version, one.since));
  if (need) {
    return refused(`nats-server at \`${address}\` is version \`${server.version}\`: upgrade to ${need.since} or newer`);
  }
  if (connection.info?.jetstream !== true) {
    return refused(`nats-server at \`${address}\` runs without JetStream: start it with \`-js\``);
  }
  return null;
}

function isOlder(version: string, than: string): boolean {
  const [mine, theirs] = [version, than].map((text) => text.split(/[.-]/).slice(0, 3).map(Number));
  for (let part = 0; part < 3; part++) {
    const difference = (mine?.[part] ?? 0) - (theirs?.[part] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

function withoutPassword(url: string): string {
  try {
    return url
      .split(",")
      .map((one) => new URL(one.trim()).host)
      .join(",");
  } catch {
    return "an invalid URL";
  }
}
