/**
 * WebSocket transport of `GET /api/v1/stream`, on the `ws` package.
 *
 * 1. An upgrade is an ordinary request until its stream opens: authentication, limits and validation apply, and a
 *    refusal is an HTTP problem document.
 * 2. An event is a text message `{"event": "job", "id": "…", "data": {…}}`; a heartbeat is a ping, and a client that has not answered
 *    one by the next is disconnected; the stream ends with close code 1001 and a reason.
 * 3. Messages from the client are ignored. A frame over `MESSAGE_BYTES_MAX` or against the protocol closes the connection.
 */
import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, FastifyReply } from "fastify";
import { type ServerOptions, type WebSocket, WebSocketServer } from "ws";
import { Problem } from "./problem.ts";
import type { EventSink } from "./route.ts";
import { lingeringClose } from "./server-connections.ts";

/**
 * Routes WebSocket upgrades through Fastify. Other upgrades (many clients offer `h2c` with any request) are not
 * supported: the request is parsed again without its upgrade headers.
 */
export function handleUpgrades(app: FastifyInstance): void {
  const reparsed = new WeakMap<Socket, number>();
  app.server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    if (!isWebSocketRequest(request)) {
      const count = (reparsed.get(socket) ?? 0) + 1;
      reparsed.set(socket, count);
      socket.unshift(Buffer.concat([withoutUpgrade(request, count < REPARSED_MAX), head]));
      app.server.emit("connection", socket);
      return;
    }
    if (head.length > 0) socket.unshift(head);
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => lingeringClose(socket));
    socket.on("error", () => socket.destroy());
    app.routing(request, response);
  });
}

/** The request head as received, without the upgrade headers. */
function withoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage, isKeptAlive: boolean): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = "", value = ""] = [rawHeaders[at], rawHeaders[at + 1]];
    if (!/^(upgrade|http2-settings)$/i.test(name)) {
      const isConnection = /^connection$/i.test(name);
      lines.push(`${name}: ${isConnection ? (isKeptAlive ? withoutUpgradeTokens(value) : "close") : value}`);
    }
  }
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1");
}

const withoutUpgradeTokens = (value: string): string =>
  value
    .split(",")
    .filter((token) => !/^\s*(upgrade|http2-settings)\s*$/i.test(token))
    .join(",") || "keep-alive";

export const isWebSocketRequest = ({ method, headers }: IncomingMessage): boolean =>
  method === "GET" && headers.upgrade?.toLowerCase() === "websocket";

/** Completes the handshake and starts the stream. */
export function acceptWebSocket(reply: FastifyReply, stream: (sink: EventSink) => void): void {
  const { raw } = reply.request;
  const key = raw.headers["sec-websocket-key"];
  if (raw.headers["sec-websocket-version"] !== "13" || typeof key !== "string" || !HANDSHAKE_KEY.test(key)) {
    reply.header("sec-websocket-version", "13");
    throw new Problem(
      "invalid_request",
      "invalid WebSocket handshake; send `Sec-WebSocket-Version: 13` and a `Sec-WebSocket-Key` of 16 bytes in base64",
    );
  }
  reply.hijack();
  SERVER.handleUpgrade(raw, raw.socket, Buffer.alloc(0), (socket) => {
    // `ws` closes the connection after an error; without a listener the error would be thrown.
    socket.on("error", () => {});
    stream(socketSink(socket));
  });
}

function socketSink(socket: WebSocket): EventSink {
  let isAnswered = true;
  socket.on("pong", () => {
    isAnswered = true;
  });
  return {
    bufferedBytes: () => socket.bufferedAmount,
    event: (name, data, id) => socket.send(`{"event":"${name}","id":"${id}","data":${data}}`, ignoreClosed),
    heartbeat() {
      if (!isAnswered) return socket.terminate();
      isAnswered = false;
      socket.ping(undefined, undefined, ignoreClosed);
    },
    end: (reason) => socket.close(GOING_AWAY, reason),
    drop: () => socket.terminate(),
  };
}

/** Receives the error of a write to a closed connection. */
const ignoreClosed = (): void => {};

/** Each parse of a connection adds listeners to its socket; after this many the connection is closed. */
const REPARSED_MAX = 4;
const HANDSHAKE_KEY = /^[A-Za-z0-9+/]{22}==$/;
const GOING_AWAY = 1_001;
const MESSAGE_BYTES_MAX = 4_096;
/** A client that does not answer a close frame is disconnected, so that it does not keep its connection slot. */
const CLOSE_MS_MAX = 1_000;
// The types of `ws` do not list `closeTimeout`.
const OPTIONS: ServerOptions & { readonly closeTimeout: number } = {
  noServer: true,
  clientTracking: false,
  maxPayload: MESSAGE_BYTES_MAX,
  perMessageDeflate: false,
  closeTimeout: CLOSE_MS_MAX,
};
const SERVER = new WebSocketServer(OPTIONS);
