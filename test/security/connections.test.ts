/** Every connection state × a silent client: the server ends each, and serves good clients and health checks meanwhile. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { ok, type Route } from "../../src/gateway/route.ts";
import { HEALTH_ROUTES } from "../../src/gateway/routes/health.ts";
import { ROUTES } from "../../src/gateway/server.ts";
import type { ConnectionLimits } from "../../src/gateway/server-connections.ts";
import { ManualClock } from "../contract/manual-clock.ts";
import { openTestGateway, TEST_LIMITS, type TestGateway } from "../gateway/test-gateway.ts";

let gateway: TestGateway;
const sockets: Socket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await gateway.close();
});

const LONG_MS = 600_000;
/** No state ends by its own timeout, except those a test shortens. */
const LONG: ConnectionLimits = {
  max: 1_000,
  perAddressMax: 1_000,
  headersMs: LONG_MS,
  requestMs: LONG_MS,
  keepAliveMs: LONG_MS,
  responseMs: LONG_MS,
};

/** More than the buffers of both kernels hold. */
const large: Route = {
  method: "GET",
  path: "/large",
  summary: "large",
  access: "open",
  handle: async () => ({ status: 200, body: "x".repeat(32 * 1024 * 1024), contentType: "text/plain" }),
};

/** A handler that is busy until the test ends it. */
function busyRoute(): { readonly route: Route; entered(count: number): Promise<void>; finish(): void } {
  const finishers: (() => void)[] = [];
  let onEntry = () => {};
  return {
    route: {
      method: "GET",
      path: "/busy",
      summary: "busy",
      access: "open",
      handle: () =>
        new Promise((resolve) => {
          finishers.push(() => resolve(ok({})));
          onEntry();
        }),
    },
    entered: (count) =>
      new Promise((resolve) => {
        onEntry = () => finishers.length >= count && resolve();
        onEntry();
      }),
    finish: () => {
      for (const finish of finishers) finish();
    },
  };
}

async function listen(connections: Partial<ConnectionLimits>, more: Parameters<typeof openTestGateway>[0] = {}) {
  const limits = { ...TEST_LIMITS, connections: { ...LONG, ...connections } };
  gateway = await openTestGateway({ ...more, limits });
  return new URL(await gateway.server.listen("127.0.0.1", 0));
}

interface Client {
  readonly socket: Socket;
  /** Resolves when the server has closed its side completely. A half-closed connection still occupies a slot. */
  readonly closed: Promise<unknown>;
}

async function open(url: URL, localAddress = "127.0.0.1"): Promise<Client> {
  const accepted = once(gateway.app.server, "connection") as Promise<[Socket]>;
  const socket = connect({ host: url.hostname, port: Number(url.port), localAddress, allowHalfOpen: true });
  socket.on("error", () => {});
  sockets.push(socket);
  const [peer] = await accepted;
  return { socket, closed: new Promise((resolve) => peer.once("close", resolve)) };
}

async function firstData(socket: Socket): Promise<string> {
  return String((await once(socket, "data"))[0]);
}

const get = (path: string, headers = "") => `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers}\r\n`;
const UPGRADE = "connection: upgrade\r\nupgrade: websocket\r\n";
const HANDSHAKE = `${UPGRADE}sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n`;

interface State {
  readonly name: string;
  /** The one timeout that ends the state. */
  readonly limits: Partial<ConnectionLimits>;
  enter(socket: Socket): Promise<void> | void;
}

const STATES: readonly State[] = [
  { name: "nothing sent", limits: { headersMs: 50 }, enter: () => {} },
  {
    name: "part of the request line sent",
    limits: { headersMs: 50 },
    enter: (socket) => void socket.write("GET /hea"),
  },
  {
    name: "part of the headers sent",
    limits: { headersMs: 50 },
    enter: (socket) => void socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\nx-more"),
  },
  {
    name: "part of the body sent",
    limits: { requestMs: 50 },
    enter: (socket) =>
      void socket.write(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
      ),
  },
  {
    name: "part of a chunked body sent",
    limits: { requestMs: 50 },
    enter: (socket) =>
      void socket.write(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{",
      ),
  },
  {
    name: "rejected before the body, which is never sent",
    limits: { requestMs: 50 },
    enter: (socket) =>
      void socket.write(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: wrong\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n",
      ),
  },
  {
    name: "kept alive after a response",
    limits: { keepAliveMs: 50 },
    async enter(socket) {
      socket.write(get("/healthz"));
      await firstData(socket);
    },
  },
  {
    name: "kept alive after an ignored upgrade",
    limits: { keepAliveMs: 50 },
    async enter(socket) {
      socket.write(get("/healthz", "connection: upgrade\r\nupgrade: h2c\r\n"));
      await firstData(socket);
    },
  },
  { name: "upgrade on a plain route", limits: {}, enter: (socket) => void socket.write(get("/healthz", UPGRADE)) },
  { name: "upgrade on an unknown route", limits: {}, enter: (socket) => void socket.write(get("/none", UPGRADE)) },
  {
    name: "upgrade to another protocol with part of a body",
    limits: { requestMs: 50 },
    enter: (socket) =>
      void socket.write(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 99\r\n\r\n{",
      ),
  },
  {
    name: "invalid WebSocket handshake",
    limits: {},
    enter: (socket) => void socket.write(get("/api/v1/stream", UPGRADE)),
  },
  { name: "malformed request", limits: {}, enter: (socket) => void socket.write("nonsense\r\n\r\n") },
  { name: "client side closed without a request", limits: {}, enter: (socket) => void socket.end() },
  { name: "client side closed after a request", limits: {}, enter: (socket) => void socket.end(get("/healthz")) },
  {
    name: "client side closed after an upgrade",
    limits: {},
    enter: (socket) => void socket.end(get("/healthz", UPGRADE)),
  },
];

describe("the server ends a silent connection", () => {
  test.each(STATES)("$name", async ({ limits, enter }) => {
    const url = await listen(limits, { routes: ROUTES });
    const { socket, closed } = await open(url);
    socket.resume();
    await enter(socket);
    await closed;
    expect((await fetch(new URL("/healthz", url))).status).toBe(200);
  });

  test("response that is never read", async () => {
    const url = await listen({ responseMs: 50 }, { routes: [large, ...HEALTH_ROUTES] });
    const { socket, closed } = await open(url);
    socket.pause();
    socket.write(get("/large"));
    await closed;
  });

  test("response that is read byte by byte", async () => {
    const url = await listen({ responseMs: 200 }, { routes: [large, ...HEALTH_ROUTES] });
    const { socket, closed } = await open(url);
    let isClosed = false;
    void closed.then(() => {
      isClosed = true;
    });
    socket.write(get("/large"));
    // Each read makes progress, so that the connection is never without activity.
    while (!isClosed) {
      await Promise.race([once(socket, "readable"), closed]);
      socket.read(1_024);
    }
  });

  test("pipelined requests whose responses are not read", async () => {
    const url = await listen({ responseMs: 100 }, { routes: [large, ...HEALTH_ROUTES] });
    const { socket, closed } = await open(url);
    socket.pause();
    socket.write(get("/large").repeat(20));
    await closed;
  });

  test("event stream that is not read", async () => {
    const clock = new ManualClock();
    const url = await listen({}, { change: () => ({ clock }) });
    const { socket, closed } = await open(url);
    socket.write(get("/api/v1/stream"));
    await firstData(socket);
    socket.pause();
    await clock.pass(3_700_000);
    await closed;
  });

  test("WebSocket that does not answer pings", async () => {
    const clock = new ManualClock();
    const url = await listen({}, { change: () => ({ clock }) });
    const { socket, closed } = await open(url);
    socket.write(get("/api/v1/stream", HANDSHAKE));
    expect(await firstData(socket)).toContain("101 Switching Protocols");
    await clock.pass(31_000);
    await closed;
  });
});

describe("at the connection limit", () => {
  test.each([
    ["in total", { max: 20 }],
    ["per address", { perAddressMax: 20 }],
  ])("silent connections are replaced, %s", async (_, limits) => {
    const url = await listen(limits);
    const first = await open(url);
    for (let at = 1; at < 20; at++) await open(url);
    const { key } = await gateway.keyOf("acme", "viewer");
    const response = await fetch(new URL("/api/v1/jobs", url), { headers: { "x-api-key": key } });
    expect(response.status).toBe(200);
    await first.closed;
  });

  test("an address at its limit does not affect another", async () => {
    const busy = busyRoute();
    const url = await listen({ max: 100, perAddressMax: 5 }, { routes: [busy.route, ...HEALTH_ROUTES] });
    for (let at = 0; at < 5; at++) (await open(url)).socket.write(get("/busy"));
    await busy.entered(5);
    const { socket: refused } = await open(url);
    refused.write(get("/busy"));
    expect(await firstData(refused)).toMatch(/^HTTP\/1\.1 503 [\s\S]*"code":"too_many_connections"/);
    const { socket: other } = await open(url, "127.0.0.2");
    other.write(get("/busy"));
    await busy.entered(6);
    busy.finish();
    expect(await firstData(other)).toMatch(/^HTTP\/1\.1 200 /);
  });

  test("health checks are served from a reserve while every connection is busy", async () => {
    const busy = busyRoute();
    const url = await listen({ max: 5 }, { routes: [busy.route, ...HEALTH_ROUTES] });
    for (let at = 0; at < 5; at++) (await open(url)).socket.write(get("/busy"));
    await busy.entered(5);
    // Silent connections cannot fill the reserve: the oldest one is replaced.
    for (let at = 0; at < 100; at++) await open(url);
    for (const path of ["/healthz", "/readyz"]) {
      const response = await fetch(new URL(path, url));
      expect([response.status, response.headers.get("connection")]).toEqual([200, "close"]);
    }
    const refused = await fetch(new URL("/busy", url));
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
    busy.finish();
  });
});
