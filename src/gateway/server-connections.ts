/**
 * Connections of the HTTP server. Every state of a connection ends without the help of its client:
 *
 * | state | ends by |
 * |---|---|
 * | nothing or part of the headers received | `headersMs` |
 * | part of the body received | `requestMs` |
 * | kept alive between two requests | `keepAliveMs` |
 * | response not read, at once or byte by byte | `responseMs` |
 * | stream not read | `responseMs` without progress, the stream's buffer limit and its lifetime; a WebSocket also by a missing pong |
 * | refused upgrade, or a request that cannot be parsed | answered, then closed after `LINGER_MS` |
 *
 * 1. At a limit, in total or per address, a new connection replaces the one that has been without a request for the
 *    longest time. A connection whose request is being handled is never replaced; a request whose body has not arrived is
 *    not being handled.
 * 2. If none can be replaced, the new connection enters a small reserve. It is closed after `RESERVE_MS`, and only health
 *    routes are served on it. An address has a share of the reserve.
 */
import type { Server } from "node:http";
import { isIPv6, type Socket } from "node:net";

export interface ConnectionLimits {
  readonly max: number;
  readonly perAddressMax: number;
  readonly headersMs: number;
  readonly requestMs: number;
  readonly keepAliveMs: number;
  readonly responseMs: number;
}

interface Connection {
  readonly socket: Socket;
  readonly address: Address;
  /** Requests in handlers. */
  handling: number;
}

interface Address {
  count: number;
  /** Connections without a request in a handler; the first has been idle for the longest time. */
  readonly idle: Set<Connection>;
}

interface Sending {
  readonly sinceMs: number;
  /** Responses that the client has not received. */
  count: number;
}

export class ConnectionGuard {
  readonly #limits: ConnectionLimits;
  readonly #connections = new Map<Socket, Connection>();
  readonly #addresses = new Map<string, Address>();
  readonly #idle = new Set<Connection>();
  /** Sockets of the reserve, with their address; the first is the oldest. */
  readonly #reserve = new Map<Socket, string>();
  /** Sockets with responses on their way; the first has waited for the longest time for one to be received. */
  readonly #sending = new Map<Socket, Sending>();
  readonly #sweep: NodeJS.Timeout;

  constructor(server: Server, limits: ConnectionLimits) {
    this.#limits = limits;
    server.maxConnections = limits.max + RESERVE_MAX + 1;
    server.headersTimeout = Math.min(limits.headersMs, limits.requestMs);
    server.requestTimeout = limits.requestMs;
    server.keepAliveTimeout = limits.keepAliveMs;
    server.timeout = limits.responseMs;
    server.prependListener("connection", (socket: Socket) => this.#accept(socket));
    // A listener replaces the default action, which would also close a connection whose long poll has nothing to send.
    server.on("timeout", () => {});
    this.#sweep = setInterval(() => this.#endSlowReaders(), Math.min(SWEEP_MS, limits.responseMs)).unref();
    server.once("close", () => clearInterval(this.#sweep));
  }

  /** Only health routes are served on a connection of the reserve. */
  isReserved(socket: Socket): boolean {
    return this.#reserve.has(socket);
  }

  /** The head of a request has arrived: of all idle connections this one is replaced last. */
  received(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined || !this.#idle.delete(connection)) return;
    connection.address.idle.delete(connection);
    this.#addIdle(connection);
  }

  /** A request has arrived completely, and its handler begins. */
  started(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) return;
    connection.handling += 1;
    this.#idle.delete(connection);
    connection.address.idle.delete(connection);
  }

  /** A response is on its way to the client. `hasStarted`: it ends a handler. */
  answered(socket: Socket, hasStarted: boolean): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) return;
    const sending = this.#sending.get(socket);
    if (sending) sending.count += 1;
    else this.#sending.set(socket, { sinceMs: performance.now(), count: 1 });
    if (!hasStarted) return;
    connection.handling -= 1;
    if (connection.handling === 0) this.#addIdle(connection);
  }

  /** The client has received a response. Those of pipelined requests follow, each with its own time. */
  sent(socket: Socket): void {
    const sending = this.#sending.get(socket);
    this.#sending.delete(socket);
    if (sending && sending.count > 1) {
      this.#sending.set(socket, { sinceMs: performance.now(), count: sending.count - 1 });
    }
  }

  /** Closes the connections without a request; resolves when they are closed. */
  async closeIdle(): Promise<void> {
    const idle = [...this.#idle].map(({ socket }) => socket).filter((socket) => !this.#sending.has(socket));
    const closed = idle.map((socket) => new Promise((resolve) => socket.once("close", resolve)));
    for (const socket of idle) lingeringClose(socket);
    await Promise.all(closed);
  }

  #accept(socket: Socket): void {
    // A request with an ignored upgrade is parsed again as if its connection were new.
    if (this.#connections.has(socket) || this.#reserve.has(socket)) return;
    const name = addressOf(socket.remoteAddress ?? "");
    const address = this.#addresses.get(name) ?? { count: 0, idle: new Set() };
    const isAddressFull = address.count >= this.#limits.perAddressMax;
    if (isAddressFull || this.#connections.size >= this.#limits.max) {
      const [oldest] = isAddressFull ? address.idle : this.#idle;
      if (oldest === undefined) {
        this.#acceptInReserve(socket, name);
        return;
      }
      this.#remove(oldest);
      oldest.socket.destroy();
    }
    const connection: Connection = { socket, address, handling: 0 };
    this.#addresses.set(name, address);
    address.count += 1;
    this.#connections.set(socket, connection);
    this.#addIdle(connection);
    socket.once("close", () => {
      this.#remove(connection);
      if (address.count === 0 && this.#addresses.get(name) === address) this.#addresses.delete(name);
    });
    socket.on("timeout", () => {
      // While a handler works, silence is not the client's fault.
      if (connection.handling > 0 && socket.writableLength === 0) socket.setTimeout(this.#limits.responseMs);
      else socket.destroy();
    });
  }

  #acceptInReserve(socket: Socket, address: string): void {
    const own = [...this.#reserve].filter(([, name]) => name === address).map(([other]) => other);
    const [oldest] = own.length >= RESERVE_PER_ADDRESS_MAX ? own : this.#reserve.keys();
    const isFull = own.length >= RESERVE_PER_ADDRESS_MAX || this.#reserve.size >= RESERVE_MAX;
    if (oldest && isFull) {
      this.#reserve.delete(oldest);
      oldest.destroy();
    }
    this.#reserve.set(socket, address);
    const timer = setTimeout(() => socket.destroy(), RESERVE_MS).unref();
    socket.once("close", () => {
      clearTimeout(timer);
      this.#reserve.delete(socket);
    });
  }

  #addIdle(connection: Connection): void {
    this.#idle.add(connection);
    connection.address.idle.add(connection);
  }

  /** Counted once, although an evicted connection is also removed by its `close` event. */
  #remove(connection: Connection): void {
    if (!this.#connections.delete(connection.socket)) return;
    connection.address.count -= 1;
    this.#sending.delete(connection.socket);
    this.#idle.delete(connection);
    connection.address.idle.delete(connection);
  }

  #endSlowReaders(): void {
    const beforeMs = performance.now() - this.#limits.responseMs;
    for (const [socket, { sinceMs }] of this.#sending) {
      if (sinceMs > beforeMs) break;
      socket.destroy();
    }
  }
}

/** The address that limits apply to. An IPv6 client has a network of 64 bits, and any address in it. */
export function addressOf(remote: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(remote)?.[1];
  if (mapped !== undefined || !isIPv6(remote)) return mapped ?? remote;
  const [head = "", tail] = remote.split("%")[0]?.split("::") ?? [];
  const groups = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? 0 : tail.split(":").length + (tail.includes(".") ? 1 : 0);
  const zeros = tail === undefined ? 0 : 8 - groups.length - after;
  const all = [...groups, ...Array<string>(Math.max(0, zeros)).fill("0"), ...(tail ? tail.split(":") : [])];
  return `${all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`;
}

/**
 * Closes this side, and the other after `LINGER_MS`. Closing both at once would reset the connection if it has unread
 * input, and a reset can discard the response before the client reads it.
 */
export function lingeringClose(socket: Socket): void {
  socket.end();
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}

/** Interval of Node's checks for late headers and bodies. */
export const checkingInterval = ({ headersMs, requestMs }: ConnectionLimits): number =>
  Math.min(SWEEP_MS, headersMs, requestMs);

const SWEEP_MS = 1_000;
const LINGER_MS = 1_000;
const RESERVE_MAX = 64;
const RESERVE_PER_ADDRESS_MAX = 16;
/** Longer than the readiness check of the store. */
const RESERVE_MS = 5_000;
