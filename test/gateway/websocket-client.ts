/** A WebSocket client of a few lines: what it sends is masked, what comes is kept as text. */
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";

export interface WebSocketClient {
  /** Everything before the first frame. */
  readonly head: string;
  /** The next frame: its opcode, and what is in it. */
  next(): Promise<readonly [opcode: number, payload: Buffer]>;
  send(opcode: number, payload: string, isMasked?: boolean): void;
  /** Resolves when the other side has ended. */
  readonly ended: Promise<void>;
  destroy(): void;
}

export async function openWebSocket(
  url: URL,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<WebSocketClient> {
  const socket = await new Promise<Socket>((resolve) => {
    const made: Socket = connect({ host: url.hostname, port: Number(url.port) }, () => resolve(made));
  });
  const inbox = new Inbox(socket);
  const usual = {
    host: url.host,
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  };
  const lines = Object.entries({ ...usual, ...headers }).map(([name, value]) => `${name}: ${value}`);
  socket.write(`GET ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
  const head = (await inbox.take(afterHead)).toString();
  return {
    head,
    async next() {
      const [first = 0, second = 0] = await inbox.take(() => 2);
      const length = second < 126 ? second : (await inbox.take(() => 2)).readUInt16BE(0);
      return [first & 0x0f, await inbox.take(() => length)];
    },
    send(opcode, payload, isMasked = true) {
      const [mask, bytes] = [randomBytes(4), Buffer.from(payload)];
      const masked = Buffer.from(bytes.map((byte, at) => byte ^ (mask[at % 4] ?? 0)));
      const start = Buffer.from([0x80 | opcode, (isMasked ? 0x80 : 0) | bytes.length]);
      socket.write(isMasked ? Buffer.concat([start, mask, masked]) : Buffer.concat([start, bytes]));
    },
    ended: inbox.ended,
    destroy: () => socket.destroy(),
  };
}

class Inbox {
  #bytes: Buffer = Buffer.alloc(0);
  #look = () => {};
  readonly ended: Promise<void>;

  constructor(socket: Socket) {
    socket.on("data", (part) => {
      this.#bytes = Buffer.concat([this.#bytes, part]);
      this.#look();
    });
    this.ended = new Promise((resolve) => socket.on("end", resolve).on("close", () => resolve()));
  }

  /** As many bytes as `lengthOf` says, once they are there; null while it cannot say. */
  take(lengthOf: (bytes: Buffer) => number | null): Promise<Buffer> {
    return new Promise((resolve) => {
      this.#look = () => {
        const length = lengthOf(this.#bytes);
        if (length === null || this.#bytes.length < length) return;
        this.#look = () => {};
        resolve(this.#bytes.subarray(0, length));
        this.#bytes = this.#bytes.subarray(length);
      };
      this.#look();
    });
  }
}

function afterHead(bytes: Buffer): number | null {
  const at = bytes.indexOf("\r\n\r\n");
  return at < 0 ? null : at + 4;
}
