import { afterEach, describe, expect, test } from "vitest";
import { API_KEYS, KEYS_GROUP, ROOT_KEYS } from "../../../src/core/model/api-key.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { put } from "../../../src/ports/store.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

class SteppedClock implements Clock {
  #nowMs = 1_700_000_000_000;
  #timers: { readonly atMs: number; readonly fn: () => void }[] = [];
  #armed: { readonly delayMs: number; readonly resolve: () => void }[] = [];

  now(): number {
    return this.#nowMs;
  }

  after(delayMs: number, fn: () => void): () => void {
    const timer = { atMs: this.#nowMs + delayMs, fn };
    this.#timers.push(timer);
    for (const one of this.#armed.filter((waiter) => waiter.delayMs === delayMs)) one.resolve();
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Resolves when the next timer of this length is set. */
  armed(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.#armed.push({ delayMs, resolve }));
  }

  advance(ms: number): void {
    this.#nowMs += ms;
    const due = this.#timers.filter(({ atMs }) => atMs <= this.#nowMs);
    this.#timers = this.#timers.filter(({ atMs }) => atMs > this.#nowMs);
    for (const { fn } of due) fn();
  }
}

/** Bypasses the gateway, like another process: the key cache is not invalidated. */
async function revokeElsewhere(id: string): Promise<void> {
  const { store, clock } = gateway.world;
  const found = await store.load(API_KEYS, id);
  const revoked = found && { ...found.value, revokedMs: clock.now() };
  const change = { org: "acme", atMs: clock.now(), guards: [], sends: [], watch: [] };
  await store.commit({ ...change, puts: [put(API_KEYS, id, found, revoked)] });
}

test("keeps one of two root keys that are revoked concurrently", async () => {
  gateway = await openTestGateway();
  const roots = [await gateway.keyOf("*", "admin"), await gateway.keyOf("*", "admin")];
  const responses = await Promise.all(
    roots.map(({ id, key }) => gateway.call("DELETE", `/api/v1/keys/${id}`, { key })),
  );
  expect(responses.map((response) => response.statusCode).toSorted()).toEqual([200, 409]);
  expect((await gateway.world.store.counts(KEYS_GROUP, 10)).get(ROOT_KEYS)).toBe(1);
});

describe("a long-lived request whose key ends", () => {
  test("a long poll is refused within a second of the revocation", async () => {
    const clock = new SteppedClock();
    gateway = await openTestGateway({ change: () => ({ clock }) });
    const { id, key } = await gateway.keyOf("acme", "worker");
    const waits = clock.armed(1_000);
    const body = { worker_id: "w", topics: ["z.z"], wait_ms: 30_000 };
    const poll = gateway.call("POST", "/api/v1/worker/lease", { key, body });
    await waits;
    await revokeElsewhere(id);
    clock.advance(1_000);
    expect((await poll).json()).toMatchObject({ status: 401, code: "key_revoked" });
  });

  test("a stream ends with the reason when the key expires", async () => {
    const clock = new SteppedClock();
    gateway = await openTestGateway({ change: () => ({ clock }) });
    const url = await gateway.server.listen("127.0.0.1", 0);
    const { key } = await gateway.keyOf("acme", "viewer", clock.now() + 5_000);
    const stream = await fetch(`${url}/api/v1/stream`, { headers: { "x-api-key": key } });
    const text = stream.text();
    clock.advance(5_000);
    expect(await text).toContain("the API key has expired or was revoked");
  });

  test("a stream without a key ends when the first key is created", async () => {
    const clock = new SteppedClock();
    gateway = await openTestGateway({ change: () => ({ clock }) });
    const url = await gateway.server.listen("127.0.0.1", 0);
    const text = (await fetch(`${url}/api/v1/stream`)).text();
    await gateway.call("POST", "/api/v1/keys", { body: { tenant: "*", role: "admin" } });
    clock.advance(1_000);
    expect(await text).toContain("the API key has expired or was revoked");
  });

  test("an unavailable store does not end it; the key is checked again a second later", async () => {
    const clock = new SteppedClock();
    let isUnavailable = false;
    gateway = await openTestGateway({
      change: ({ store }) => ({
        clock,
        store: new Proxy(store, {
          get(target, name) {
            if (isUnavailable && name === "load") return () => Promise.reject(new Error("unavailable"));
            return Reflect.get(target, name).bind(target);
          },
        }),
      }),
    });
    const { id, key } = await gateway.keyOf("acme", "worker");
    const waits = clock.armed(1_000);
    const body = { worker_id: "w", topics: ["z.z"], wait_ms: 30_000 };
    const poll = gateway.call("POST", "/api/v1/worker/lease", { key, body });
    await waits;
    isUnavailable = true;
    const again = clock.armed(1_000);
    clock.advance(1_000);
    await again;
    isUnavailable = false;
    await revokeElsewhere(id);
    clock.advance(1_000);
    expect((await poll).json()).toMatchObject({ code: "key_revoked" });
  });
});
