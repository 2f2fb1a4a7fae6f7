import { type ConnectionOptions, connect, type NatsConnection } from "@nats-io/transport-node";
import type { Log } from "../../ports/log.ts";
import { describeError, type NatsFailure, refused, unavailable } from "./errors.ts";

/**
 * The connection to NATS, and what kind of server is at its other end.
 *
 * 1. No server, one that is too old or one without JetStream is an error at the start that says what to do.
 * 2. Afterwards the client reconnects for as long as the process lives, with jitter. Meanwhile nothing is buffered:
 *    `isConnected` is false and callers fail at once.
 * 3. An old server ignores silently what it does not know. So nothing beyond `VERSION_MIN` is used, and what a newer
 *    version would give is said at the start, as data.
 */
export async function connectNats(url: string, options: NatsOptions): Promise<NatsLink> {
  const address = withoutPassword(url);
  let connection: NatsConnection;
  try {
    connection = await connect(connectionOptions(url, options));
  } catch (error) {
    const why = describeError(error);
    throw unavailable(
      `cannot reach nats at \`${address}\` (${why}): start it, or give another address with --nats`,
      error,
    );
  }
  const link = new NatsLink(connection, address, options.log);
  const failure = missing(link, address);
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
  /** What this version cannot do, and what that means. */
  readonly warnings: readonly string[];
}

/** What each feature needs. The first entry is what we cannot do without. */
export const NEEDS = [
  { since: "2.9.0", required: true, what: "the consumer API that is used here" },
  {
    since: "2.10.0",
    required: false,
    what: "`sync_interval: always`: without it an acknowledged message is safe from the death of any process, but not from a power cut",
  },
  {
    since: "2.10.23",
    required: false,
    what: "the fixes of 2.10 to streams that keep what somebody still has to read; recommended for production",
  },
] as const;

export class NatsLink {
  readonly connection: NatsConnection;
  readonly server: NatsServer;
  #isConnected = true;
  readonly #lost = new Set<() => void>();
  readonly #back = new Set<() => void>();

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
    for (const warning of this.server.warnings) log.write("warn", "nats_server_is_old", { warning });
    void this.#watch(address, log);
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** What was on its way is lost or unanswered; called once for each time that the connection breaks. */
  onLost(fn: () => void): void {
    this.#lost.add(fn);
  }

  /** Connected again, subscriptions in place. Returns a function that ends it. */
  onBack(fn: () => void): () => void {
    this.#back.add(fn);
    return () => this.#back.delete(fn);
  }

  /** Lets what was written go out, but does not wait for a server that does not answer. */
  async close(): Promise<void> {
    if (this.#isConnected) {
      let overdue: NodeJS.Timeout | undefined;
      const retryState = new Promise<void>((resolve) => {
        overdue = setTimeout(resolve, CLOSE_MS_MAX);
      });
      await Promise.race([this.connection.flush().catch(() => undefined), retryState]);
      clearTimeout(overdue);
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
    for (const fn of this.#lost) fn();
  }

  #setConnected(isConnected: boolean, log: Log, address: string): void {
    if (this.#isConnected === isConnected) return;
    this.#isConnected = isConnected;
    if (isConnected) log.write("info", "nats_connected", { address, version: this.connection.info?.version });
    else log.write("warn", "nats_connection_lost", { address });
    for (const fn of isConnected ? this.#back : this.#lost) fn();
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
    // A wrong password may be a server that is not fully configured yet: after the start it is never a reason to die.
    ignoreAuthErrorAbort: true,
    // A peer that stands still is noticed within seconds, not minutes.
    pingInterval: 5_000,
    maxPingOut: 2,
    // Errors are made by the thousand when a server goes away; their stacks would cost more than they tell.
    noAsyncTraces: true,
  };
}

function missing({ connection, server }: NatsLink, address: string): NatsFailure | null {
  const need = NEEDS.find((one) => one.required && isOlder(server.version, one.since));
  if (need) {
    return refused(`nats-server at \`${address}\` is version \`${server.version}\`: ${need.since} or newer is needed`);
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
    return "an address that is not a URL";
  }
}
