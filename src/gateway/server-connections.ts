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
 *    longest time. A connection whose request is being handled is never replaced.
 * 2. If none can be replaced, the new connection enters a small reserve. It is closed after `RESERVE_MS`, and only health
 *    routes are served on it.
 */
import type { Server } from "node:http";
import type { Socket } from "node:net";

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

export class ConnectionGuard {
  readonly #limits: ConnectionLimits;
  readonly #connections = new Map<Socket, Connection>();
  readonly #addresses = new Map<string, Address>();
  readonly #idle = new Set<Connection>();
  readonly #reserve = new Set<Socket>();
  /** Sockets with a response on its way, by the time it was handed over; the first is the oldest. */
  readonly #sending = new Map<Socket, number>();
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

  /** A handler has begun. */
  started(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) return;
    connection.handling += 1;
    this.#idle.delete(connection);
    connection.address.idle.delete(connection);
  }

  /** A handler has ended; its response is on its way to the client. */
  answered(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) return;
    if (!this.#sending.has(socket)) this.#sending.set(socket, performance.now());
    connection.handling -= 1;
    if (connection.handling === 0) this.#addIdle(connection);
  }

  /** The client has received the response. */
  sent(socket: Socket): void {
    this.#sending.delete(socket);
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
    const name = socket.remoteAddress ?? "";
    const address = this.#addresses.get(name) ?? { count: 0, idle: new Set() };
    const isAddressFull = address.count >= this.#limits.perAddressMax;
    if (isAddressFull || this.#connections.size >= this.#limits.max) {
      const [oldest] = isAddressFull ? address.idle : this.#idle;
      if (oldest === undefined) {
        this.#acceptInReserve(socket);
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

  #acceptInReserve(socket: Socket): void {
    const [oldest] = this.#reserve;
    if (oldest && this.#reserve.size >= RESERVE_MAX) oldest.destroy();
    this.#reserve.add(socket);
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
    for (const [socket, sinceMs] of this.#sending) {
      if (sinceMs > beforeMs) break;
      socket.destroy();
    }
  }
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
/** Longer than the readiness check of the store. */
const RESERVE_MS = 5_000;
