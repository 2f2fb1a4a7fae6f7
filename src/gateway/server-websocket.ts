/**
 * Streams as WebSockets (RFC 6455), for those who asked for one: `GET /api/v1/stream` with `Upgrade: websocket`.
 *
 * 1. It is the same request by another way: who calls, how many may wait and what is shown is decided where it always is,
 *    and whatever is refused is refused as an ordinary answer.
 * 2. An event is a text message, `{"event": "job", "data": {…}}`; a sign of life is a ping; the end is a close with its reason.
 * 3. A client has nothing to say here: its pings are answered, what else it sends is thrown away, and what is no frame, or a
 *    large one, ends it. What is kept of it is bounded.
 */
import { createHash } from "node:crypto";
import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, FastifyReply } from "fastify";
import { Problem } from "./problem.ts";
import type { EventSink } from "./route.ts";

/**
 * Requests for a WebSocket go the way of all requests, with the connection as their answer. Whoever asks for something else
 * (many clients offer `h2c` with whatever they send) has asked in vain, and is read again as if it had not asked.
 */
export function handleUpgrades(app: FastifyInstance): void {
  app.server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    if (!isWebSocketRequest(request)) {
      socket.unshift(Buffer.concat([withoutUpgrade(request), head]));
      app.server.emit("connection", socket);
      return;
    }
    if (head.length > 0) socket.unshift(head);
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => socket.end());
    socket.on("error", () => socket.destroy());
    app.routing(request, response);
  });
}

/** The head of a request as it came, but for the wish for another protocol. */
function withoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = "", value = ""] = [rawHeaders[at], rawHeaders[at + 1]];
    if (!/^(upgrade|http2-settings)$/i.test(name)) {
      lines.push(`${name}: ${/^connection$/i.test(name) ? withoutWords(value) : value}`);
    }
  }
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1");
}

const withoutWords = (value: string): string =>
  value
    .split(",")
    .filter((word) => !/^\s*(upgrade|http2-settings)\s*$/i.test(word))
    .join(",") || "keep-alive";

export const isWebSocketRequest = ({ method, headers }: IncomingMessage): boolean =>
  method === "GET" && headers.upgrade?.toLowerCase() === "websocket";

/** Shakes hands, and gives the stream a reader on the other side. */
export function acceptWebSocket(reply: FastifyReply, stream: (reader: EventSink) => void): unknown {
  const { headers, socket } = reply.request.raw;
  const key = headers["sec-websocket-key"];
  if (headers["sec-websocket-version"] !== "13" || typeof key !== "string" || !KEY.test(key)) {
    reply.header("sec-websocket-version", "13");
    throw new Problem(
      "invalid_request",
      "this is no WebSocket of version 13; send `Sec-WebSocket-Key` and `-Version: 13`",
    );
  }
  reply.hijack();
  const accept = createHash("sha1").update(`${key}${GUID}`).digest("base64");
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
  );
  listenTo(socket);
  return stream(sinkOn(socket));
}

function sinkOn(socket: Socket): EventSink {
  const send = (opcode: number, payload: Buffer) => {
    if (!socket.writableEnded && !socket.destroyed) socket.write(frame(opcode, payload));
  };
  return {
    bufferedBytes: () => socket.writableLength,
    event: (name, data) => send(TEXT, Buffer.from(`{"event":"${name}","data":${data}}`)),
    heartbeat: () => send(PING, NOTHING),
    end(reason) {
      send(CLOSE, closing(GOING_AWAY, reason));
      socket.end();
    },
    drop: () => void socket.destroy(),
  };
}

/** Answers pings and the close; throws the rest away. */
function listenTo(socket: Socket): void {
  let rest: Buffer = NOTHING;
  const end = (code: number, why: string) => {
    if (!socket.writableEnded) socket.write(frame(CLOSE, closing(code, why)));
    // Who stays after that would keep its place.
    socket.removeAllListeners("data").destroySoon();
  };
  socket.on("data", (part: Buffer) => {
    rest = Buffer.concat([rest, part]);
    for (;;) {
      const read = readFrame(rest);
      if (read === null) return;
      if (read === "bad") return end(PROTOCOL_ERROR, "frames of clients are masked, and small");
      rest = rest.subarray(read.bytes);
      if (read.opcode === CLOSE) return end(NORMAL, "");
      if (read.opcode === PING && !socket.writableEnded) socket.write(frame(PONG, read.payload));
    }
  });
  socket.on("end", () => socket.end());
}

interface Frame {
  readonly opcode: number;
  readonly payload: Buffer;
  /** How many it took. */
  readonly bytes: number;
}

/** The first frame of a client; null while it is not all there. */
export function readFrame(bytes: Buffer): Frame | "bad" | null {
  const [first, second] = bytes;
  if (first === undefined || second === undefined) return null;
  const short = second & 0x7f;
  if ((second & 0x80) === 0 || short === 127) return "bad";
  const from = short === 126 ? 4 : 2;
  if (bytes.length < from) return null;
  const length = short === 126 ? bytes.readUInt16BE(2) : short;
  if (length > PAYLOAD_MAX) return "bad";
  const end = from + MASK_BYTES + length;
  if (bytes.length < end) return null;
  const mask = bytes.subarray(from, from + MASK_BYTES);
  const payload = Buffer.from(bytes.subarray(from + MASK_BYTES, end));
  for (let at = 0; at < payload.length; at++) payload[at] = (payload[at] ?? 0) ^ (mask[at % MASK_BYTES] ?? 0);
  return { opcode: first & 0x0f, payload, bytes: end };
}

/** Of ours: whole, and not masked. */
export function frame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = 0x80 | opcode;
  head[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}

/** A control frame has at most 125 bytes. */
function closing(code: number, why: string): Buffer {
  const payload = Buffer.alloc(2 + Math.min(Buffer.byteLength(why), REASON_BYTES_MAX));
  payload.writeUInt16BE(code, 0);
  payload.write(why, 2);
  return payload;
}

const KEY = /^[A-Za-z0-9+/]{22}==$/;
/** Of the protocol: it proves that the other side speaks it. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const [TEXT, CLOSE, PING, PONG] = [1, 8, 9, 10];
const [NORMAL, GOING_AWAY, PROTOCOL_ERROR] = [1_000, 1_001, 1_002];
const NOTHING: Buffer = Buffer.alloc(0);
const MASK_BYTES = 4;
const PAYLOAD_MAX = 4_096;
const REASON_BYTES_MAX = 123;
