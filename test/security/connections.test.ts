/** Every connection state × a silent client: the server ends each, and serves good clients and health checks meanwhile. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { ok, type Route } from "../../src/gateway/route.ts";
import { HEALTH_ROUTES } from "../../src/gateway/routes/health.ts";
import { ROUTES } from "../../src/gateway/server.ts";
import { addressOf, type ConnectionLimits } from "../../src/gateway/server-connections.ts";
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
const headOf = (method: string, path: string, headers: string) =>
  `${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers}\r\n`;
/** Announces a body that the client never sends. */
const NO_BODY = "content-type: application/json\r\ncontent-length: 99\r\n";
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
  {
    name: "body of an unknown route never sent",
    limits: { requestMs: 50 },
    enter: (socket) => void socket.write(headOf("POST", "/none", NO_BODY)),
  },
  {
    name: "body never sent after `100 Continue`",
    limits: { requestMs: 50 },
    enter: (socket) => void socket.write(headOf("POST", "/none", `expect: 100-continue\r\n${NO_BODY}`)),
  },
  {
    name: "unknown expectation",
    limits: { keepAliveMs: 50, requestMs: 50 },
    enter: (socket) => void socket.write(headOf("POST", "/none", `expect: other\r\n${NO_BODY}`)),
  },
  {
    name: "body of a route without one never sent",
    limits: { requestMs: 50, keepAliveMs: 50 },
    enter: (socket) => void socket.write(headOf("GET", "/healthz", NO_BODY)),
  },
  {
    name: "HTTP/1.0 with an upgrade",
    limits: {},
    enter: (socket) => void socket.write(get("/healthz", UPGRADE).replace("HTTP/1.1", "HTTP/1.0")),
  },
  {
    name: "HTTP/1.0 kept alive",
    limits: { keepAliveMs: 50 },
    async enter(socket) {
      socket.write(get("/healthz", "connection: keep-alive\r\n").replace("HTTP/1.1", "HTTP/1.0"));
      expect(await firstData(socket)).toMatch(/^HTTP\/1\.1 200 /);
    },
  },
  { name: "CONNECT", limits: {}, enter: (socket) => void socket.write("CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n") },
  {
    name: "upgrade with a body that is never sent",
    limits: {},
    enter: (socket) => void socket.write(headOf("GET", "/healthz", `${UPGRADE}${NO_BODY}`)),
  },
  {
    name: "upgrades to other protocols, one after another",
    limits: { keepAliveMs: 50 },
    async enter(socket) {
      socket.write(get("/healthz", "connection: upgrade\r\nupgrade: h2c\r\n").repeat(8));
      await firstData(socket);
    },
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

  test.each([
    ["response that is read", 1],
    ["pipelined responses that are read", 3],
  ])("%s byte by byte", async (_, count) => {
    const url = await listen({ responseMs: 200 }, { routes: [large, ...HEALTH_ROUTES] });
    const { socket, closed } = await open(url);
    let isClosed = false;
    void closed.then(() => {
      isClosed = true;
    });
    // The first response is received at once, the others are not.
    socket.write((count > 1 ? get("/healthz") : "") + get("/large").repeat(count));
    // Each read makes progress, so that the connection is never without activity.
    while (!isClosed) {
      await Promise.race([once(socket, "readable"), closed]);
      socket.read(16);
      // Reading what is buffered needs no turn of the event loop, and timers would not run.
      await nextTurn();
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

  test.each<[string, (socket: Socket) => void]>([
    [
      "to a route that exists",
      (socket) => socket.write(headOf("POST", "/api/v1/jobs", `${NO_BODY}x-api-key: none\r\n`)),
    ],
    ["to an unknown route", (socket) => socket.write(headOf("POST", "/none", NO_BODY))],
    ["after `100 Continue`", (socket) => socket.write(headOf("POST", "/none", `expect: 100-continue\r\n${NO_BODY}`))],
  ])("requests without their body are replaced, %s", async (_, enter) => {
    const url = await listen({ max: 20 }, { routes: ROUTES });
    for (let at = 0; at < 20; at++) {
      const head = once(gateway.app.server, "request");
      const { socket } = await open(url);
      socket.resume();
      enter(socket);
      await head;
    }
    const { key } = await gateway.keyOf("acme", "viewer");
    const response = await fetch(new URL("/api/v1/jobs", url), { headers: { "x-api-key": key } });
    expect(response.status).toBe(200);
  });

  test("a client with a network of IPv6 addresses is one address", () => {
    const groups = ["2001:db8:0:1::1", "2001:db8:0:1:ffff::", "2001:0db8:0000:0001:2:3:4:5", "2001:db8:0:1::%eth0"];
    expect(new Set(groups.map(addressOf))).toEqual(new Set(["2001:db8:0:1::/64"]));
    expect(["2001:db8::1", "::1", "10.0.0.1", "::ffff:10.0.0.1", ""].map(addressOf)).toEqual([
      ...["2001:db8:0:0::/64", "0:0:0:0::/64", "10.0.0.1", "10.0.0.1", ""],
    ]);
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
    const waiting = await open(url, "127.0.0.2");
    for (let at = 0; at < 100; at++) await open(url);
    // Nor can those of one address replace the others.
    waiting.socket.write(get("/healthz"));
    expect(await firstData(waiting.socket)).toMatch(/^HTTP\/1\.1 200 /);
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
