import { connect } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { frame, readFrame } from "../../src/gateway/server-websocket.ts";
import { openTestGateway, type TestGateway } from "./test-gateway.ts";
import { openWebSocket } from "./websocket-client.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const STREAM = "/api/v1/stream";
const [TEXT, CLOSE, PING, PONG] = [1, 8, 9, 10];

async function listening(): Promise<URL> {
  gateway = await openTestGateway();
  return new URL(await gateway.server.listen("127.0.0.1", 0));
}

const deny = async (tenant: string): Promise<string> => {
  const answer = await gateway.call("POST", "/api/v1/jobs", { tenant, body: { topic: "demo.forbidden" } });
  return answer.json().job_id;
};

describe("the stream as a WebSocket", () => {
  test("shakes hands, has the events of the caller's tenant, and is closed with a reason by a stop", async () => {
    const url = await listening();
    const socket = await openWebSocket(url, STREAM, { "x-tenant-id": "acme" });
    expect(socket.head).toMatch(/^HTTP\/1\.1 101 /);
    // The example of the protocol itself.
    expect(socket.head).toContain("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    await deny("other");
    const id = await deny("acme");
    const [opcode, payload] = await socket.next();
    expect(opcode).toBe(TEXT);
    expect(JSON.parse(payload.toString())).toMatchObject({
      event: "job",
      data: { job_id: id, tenant_id: "acme", state: "DENIED" },
    });
    const stopped = gateway.server.stop();
    const [last, reason] = await socket.next();
    expect([last, reason.readUInt16BE(0)]).toEqual([CLOSE, 1_001]);
    expect(reason.toString("utf8", 2)).toContain("shutting down");
    await socket.ended;
    socket.destroy();
    await stopped;
  });

  test("answers pings, throws away what else it is told, and closes when it is asked to", async () => {
    const socket = await openWebSocket(await listening(), STREAM);
    socket.send(TEXT, "hello");
    socket.send(PING, "are you there?");
    expect(await socket.next()).toEqual([PONG, Buffer.from("are you there?")]);
    socket.send(CLOSE, "");
    const [opcode, payload] = await socket.next();
    expect([opcode, payload.readUInt16BE(0)]).toEqual([CLOSE, 1_000]);
    await socket.ended;
    socket.destroy();
  });

  test("ends with who does not keep to the protocol, and its place is free again", async () => {
    const url = await listening();
    const { events: notices } = gateway.engine;
    const listen = notices.subscribe.bind(notices);
    const left = new Promise<void>((resolve) => {
      Object.assign(notices, {
        subscribe: (...args: Parameters<typeof listen>) => {
          const stop = listen(...args);
          return () => {
            stop();
            resolve();
          };
        },
      });
    });
    const socket = await openWebSocket(url, STREAM);
    socket.send(TEXT, "not masked", false);
    const [opcode, payload] = await socket.next();
    expect([opcode, payload.readUInt16BE(0)]).toEqual([CLOSE, 1_002]);
    await left; // Although this side has not closed.
    socket.destroy();
  });

  test.each([
    ["a key that is none", STREAM, { "x-api-key": "cordum_nobody_nothing" }, 401],
    ["another site", STREAM, { origin: "http://evil.example" }, 400],
    ["no handshake", STREAM, { "sec-websocket-key": "short" }, 400],
    ["a query that nobody reads", `${STREAM}?topics=x`, {}, 400],
    ["another address", "/api/v1/nothing", {}, 404],
  ])("%s is refused as an ordinary answer", async (_, path, headers, status) => {
    const socket = await openWebSocket(await listening(), path, headers);
    expect(socket.head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(socket.head).toContain("application/problem+json");
    await socket.ended;
    socket.destroy();
  });

  test("a wish for another protocol does not harm the request that it came with", async () => {
    const url = await listening();
    const body = JSON.stringify({ topic: "demo.far", input: { text: "whole" } });
    const text = await new Promise<string>((resolve, reject) => {
      let seen = "";
      const socket = connect({ host: url.hostname, port: Number(url.port) }, () =>
        socket.write(
          `POST /api/v1/jobs HTTP/1.1\r\nHost: ${url.host}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n` +
            `HTTP2-Settings: AAEAAEAAAAIAAAAA\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        ),
      );
      socket.on("error", reject).on("data", (part) => {
        seen += part.toString();
        if (!seen.includes("job_id")) return;
        resolve(seen);
        socket.destroy();
      });
    });
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    const { items } = (await gateway.call("GET", "/api/v1/jobs")).json();
    expect(items).toHaveLength(1);
  });
});

describe("frames", () => {
  const masked = (first: number, second: number, ...rest: number[]) => Buffer.from([first, second, ...rest]);

  test("of a client are read when they are all there, and those that are too large or not masked are bad", async () => {
    gateway = await openTestGateway();
    const hello = masked(0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58);
    expect(readFrame(hello)).toEqual({ opcode: TEXT, payload: Buffer.from("Hello"), bytes: 11 });
    for (let length = 0; length < hello.length; length++) expect(readFrame(hello.subarray(0, length))).toBeNull();
    expect(readFrame(masked(0x81, 0x05))).toBe("bad");
    expect(readFrame(masked(0x81, 0xff))).toBe("bad");
    expect(readFrame(masked(0x81, 0xfe, 0x10, 0x01))).toBe("bad");
    expect(readFrame(masked(0x81, 0xfe, 0x10, 0x00))).toBeNull();
  });

  test("of ours say how long they are", async () => {
    gateway = await openTestGateway();
    const lengthOf = (length: number) => [...frame(TEXT, Buffer.alloc(length)).subarray(0, 4)];
    expect(lengthOf(125).slice(0, 2)).toEqual([0x81, 125]);
    expect(lengthOf(126)).toEqual([0x81, 126, 0, 126]);
    expect(lengthOf(65_536).slice(0, 2)).toEqual([0x81, 127]);
  });
});
