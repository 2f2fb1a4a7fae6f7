import { getEventListeners } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { retryAfterMs, webhookNotifier } from "../../../src/adapters/node/webhook-notifier.ts";

const SECRET = `whsec_${Buffer.from("a key of thirty-two bytes, or so").toString("base64")}`;
const MESSAGE = { id: "msg_1", atMs: 1_700_000_000_900, body: '{"text":"é"}' };
const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A receiver; status 0 never answers. */
async function receiver(status: number, headers: Record<string, string> = {}) {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    received.push({ path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks).toString() });
    if (status > 0) response.writeHead(status, headers).end("ignored");
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook/token`, received };
}

function send(url: string, { signal = new AbortController().signal, timeoutMs = 10_000 } = {}) {
  const notifier = webhookNotifier({ urls: [url], secret: SECRET, signal, timeoutMs });
  return notifier.send(notifier.receivers[0] ?? "", MESSAGE);
}

/** With Web Crypto, independent of the adapter. */
async function isAuthentic({ headers, body }: Received): Promise<boolean> {
  const bytes = Uint8Array.from(atob(SECRET.slice("whsec_".length)), (char) => char.charCodeAt(0));
  const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const [version, signature = ""] = String(headers["webhook-signature"]).split(",");
  const signed = new TextEncoder().encode(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`);
  const given = Uint8Array.from(atob(signature), (char) => char.charCodeAt(0));
  return version === "v1" && crypto.subtle.verify("HMAC", key, given, signed);
}

test("posts the body with a valid signature", async () => {
  const { url, received } = await receiver(204);
  expect(await send(url)).toEqual({ kind: "accepted" });
  const [request] = received as [Received];
  expect(request.body).toBe(MESSAGE.body);
  expect(request.headers).toMatchObject({
    "webhook-id": "msg_1",
    "webhook-timestamp": "1700000000",
    "content-type": "application/cloudevents+json; charset=utf-8",
  });
  expect(await isAuthentic(request)).toBe(true);
  expect(await isAuthentic({ ...request, body: `${request.body} ` })).toBe(false);
});

test("does not follow a redirect", async () => {
  const other = await receiver(200);
  const { url } = await receiver(307, { location: other.url });
  expect(await send(url)).toEqual({ kind: "failed", why: "HTTP 307: redirects are not followed", retryAfterMs: 0 });
  expect(other.received).toEqual([]);
});

test("a failure names the status or the system error, not the address", async () => {
  const { url } = await receiver(503, { "retry-after": "7" });
  expect(await send(url)).toEqual({ kind: "failed", why: "HTTP 503", retryAfterMs: 7_000 });
  await new Promise((resolve) => servers.splice(0)[0]?.close(resolve));
  const refused = await send(url);
  expect(refused).toMatchObject({ kind: "failed", why: expect.stringMatching(/^request failed/) });
  expect(JSON.stringify(refused)).not.toContain("token");
});

test("ends at the timeout and when the process stops", async () => {
  const { url } = await receiver(0);
  expect(await send(url, { timeoutMs: 50 })).toEqual({
    kind: "failed",
    why: "no response within 50 ms",
    retryAfterMs: 0,
  });
  const stop = new AbortController();
  const sent = send(url, { signal: stop.signal });
  stop.abort();
  expect(await sent).toEqual({ kind: "stopped" });
});

test("does not wait for the rest of a response", async () => {
  const server = createServer((_, response) => {
    // Never ends.
    response.writeHead(200).write("x".repeat(1_000));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  expect(await send(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)).toEqual({ kind: "accepted" });
});

test("reads seconds and dates of Retry-After", () => {
  const nowMs = Date.parse("2026-01-01T00:00:00Z");
  expect(retryAfterMs("120", nowMs)).toBe(120_000);
  expect(retryAfterMs("Thu, 01 Jan 2026 00:01:00 GMT", nowMs)).toBe(60_000);
  for (const value of [null, "", "-5", "soon", "9".repeat(40), "Wed, 31 Dec 2025 00:00:00 GMT"]) {
    expect(retryAfterMs(value, nowMs)).toBe(0);
  }
});

test("a receiver that hangs uses no request of another one", () => {
  const signal = new AbortController().signal;
  const notifier = webhookNotifier({ urls: ["https://a.example/", "https://b.example/"], secret: SECRET, signal });
  const [a = "", b = ""] = notifier.receivers;
  let release: (() => void) | null = null;
  for (let next = notifier.reserve(a); next !== null; next = notifier.reserve(a)) release = next;
  expect(notifier.reserve(b)).not.toBeNull();
  release?.();
  expect(notifier.reserve(a)).not.toBeNull();
});

test("stops many open requests without a listener for each", async () => {
  const { url } = await receiver(0);
  const stop = new AbortController();
  const notifier = webhookNotifier({ urls: [url], secret: SECRET, signal: stop.signal });
  const sent = Array.from({ length: 16 }, () => notifier.send(notifier.receivers[0] ?? "", MESSAGE));
  expect(getEventListeners(stop.signal, "abort")).toHaveLength(1);
  stop.abort();
  expect(new Set((await Promise.all(sent)).map(({ kind }) => kind))).toEqual(new Set(["stopped"]));
});
