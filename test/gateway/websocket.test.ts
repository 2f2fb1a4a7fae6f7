import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { type RawData, WebSocket } from "ws";
import { openTestGateway, type TestGateway } from "./test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const STREAM = "/api/v1/stream";

async function listen(): Promise<URL> {
  gateway = await openTestGateway();
  return new URL(await gateway.server.listen("127.0.0.1", 0));
}

async function open(url: URL, headers: Readonly<Record<string, string>> = {}): Promise<WebSocket> {
  const client = new WebSocket(new URL(STREAM, url), { headers });
  await once(client, "open");
  return client;
}

const nextMessage = async (client: WebSocket): Promise<string> => String((await once(client, "message"))[0] as RawData);

async function closeOf(client: WebSocket): Promise<{ readonly code: number; readonly reason: string }> {
  const [code, reason] = await once(client, "close");
  return { code, reason: String(reason) };
}

const deny = async (tenant: string): Promise<string> => {
  const response = await gateway.call("POST", "/api/v1/jobs", { tenant, body: { topic: "demo.forbidden" } });
  return response.json().job_id;
};

/** Resolves when the last stream has ended. */
function unsubscribed(): Promise<void> {
  const { clock } = gateway.engine.world;
  const after = clock.after.bind(clock);
  return new Promise((resolve) => {
    Object.assign(clock, {
      after: (delayMs: number, fn: () => void) => {
        // The events are kept for a while after the last reader.
        if (delayMs === 120_000) resolve();
        return after(delayMs, fn);
      },
    });
  });
}

/** An upgrade request on a plain socket, for what the client of `ws` does not send. */
async function upgrade(url: URL, path: string, headers: Readonly<Record<string, string>> = {}) {
  const socket: Socket = connect({ host: url.hostname, port: Number(url.port) });
  await once(socket, "connect");
  const all = {
    host: url.host,
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const response = once(socket, "data");
  socket.write(`GET ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
  return { socket, head: String((await response)[0]) };
}

describe("WebSocket stream", () => {
  test("sends events of the tenant, and closes with 1001 and a reason on stop", async () => {
    const client = await open(await listen(), { "x-tenant-id": "acme" });
    const message = nextMessage(client);
    await deny("other");
    const id = await deny("acme");
    expect(JSON.parse(await message)).toMatchObject({
      event: "job",
      data: { job_id: id, tenant_id: "acme", state: "DENIED" },
    });
    const closed = closeOf(client);
    const stopped = gateway.server.stop();
    expect(await closed).toEqual({ code: 1_001, reason: expect.stringContaining("shutting down") });
    await stopped;
  });

  test("answers the handshake of RFC 6455", async () => {
    const { socket, head } = await upgrade(await listen(), STREAM);
    expect(head).toMatch(/^HTTP\/1\.1 101 /);
    expect(head).toMatch(/sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/i);
    socket.destroy();
  });

  test("answers pings, ignores messages, and completes the closing handshake", async () => {
    const client = await open(await listen());
    client.send("hello");
    const pong = once(client, "pong");
    client.ping("are you there?");
    expect(String((await pong)[0])).toBe("are you there?");
    const closed = closeOf(client);
    client.close(1_000);
    expect((await closed).code).toBe(1_000);
  });

  test("closes with 1009 on an oversized message, and releases the slot", async () => {
    const url = await listen();
    const released = unsubscribed();
    const client = await open(url);
    const closed = closeOf(client);
    client.send("x".repeat(4_097));
    expect((await closed).code).toBe(1_009);
    await released;
  });

  test("closes with 1002 on an unmasked frame, and releases the slot of a client that stays connected", async () => {
    const url = await listen();
    const released = unsubscribed();
    const { socket } = await upgrade(url, STREAM);
    const response = once(socket, "data");
    socket.write(Buffer.from([0x81, 1, 0x61]));
    const frame = (await response)[0] as Buffer;
    expect([frame[0], frame.readUInt16BE(2)]).toEqual([0x88, 1_002]);
    await released;
    socket.destroy();
  });

  test("does not block the stop with a client that never reads", async () => {
    const { socket } = await upgrade(await listen(), STREAM);
    socket.pause();
    await gateway.server.stop();
    socket.destroy();
  });

  test.each([
    ["an invalid key", STREAM, { "x-api-key": "cordum_unknown_secret" }, 401],
    ["another origin", STREAM, { origin: "http://evil.example" }, 400],
    ["an invalid handshake key", STREAM, { "sec-websocket-key": "short" }, 400],
    ["an unsupported protocol version", STREAM, { "sec-websocket-version": "8" }, 400],
    ["an unknown query parameter", `${STREAM}?topics=x`, {}, 400],
    ["an unknown route", "/api/v1/nothing", {}, 404],
  ])("rejects %s with a problem document", async (_, path, headers, status) => {
    const { socket, head } = await upgrade(await listen(), path, headers);
    expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(head).toContain("application/problem+json");
    socket.destroy();
  });

  test("ignores the upgrade to another protocol and serves the request", async () => {
    const url = await listen();
    const body = JSON.stringify({ topic: "demo.far", input: { text: "whole" } });
    const text = await new Promise<string>((resolve, reject) => {
      let received = "";
      const socket = connect({ host: url.hostname, port: Number(url.port) }, () =>
        socket.write(
          `POST /api/v1/jobs HTTP/1.1\r\nHost: ${url.host}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n` +
            `HTTP2-Settings: AAEAAEAAAAIAAAAA\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        ),
      );
      socket.on("error", reject).on("data", (part) => {
        received += part.toString();
        if (!received.includes("job_id")) return;
        resolve(received);
        socket.destroy();
      });
    });
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    const { items } = (await gateway.call("GET", "/api/v1/jobs")).json();
    expect(items).toHaveLength(1);
  });
});
