import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { WAITER_LEASE_MS } from "../../../src/ports/locks.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";
import { HandOverBench, LOCK, ODD_NAME, QUEUE, request, TTL_MS } from "./hand-over-harness.ts";
import { leaseOf } from "./locks.subject.ts";

// A lock was handed over locally, and the server disagrees, does not respond, or never receives the release.
describe("failures of a local hand-over on redis", () => {
  let server: RunningServer;
  let bench: HandOverBench;

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    bench = await HandOverBench.open(server);
  });
  afterEach(() => bench.close());

  it("aborts the successor if the previous holder had lost the lock (L14, L15)", async () => {
    const { a, b } = await bench.threeInLine();
    await bench.client.del(LOCK, QUEUE);
    const taken = leaseOf(await bench.otherLocks.acquire(request("other")));
    const released = a.release();
    const successor = await b.lease;
    expect(successor.signal.aborted).toBe(false);
    expect(await released).toBe(false);
    expect(successor.signal.aborted).toBe(true);
    expect(successor.isLost).toBe(true);
    expect(await successor.release()).toBe(false);
    expect(await taken.release()).toBe(true);
  });

  it("does not hand over a lock that is known to be lost (L15)", async () => {
    const { a, b } = await bench.threeInLine();
    await bench.client.del(LOCK, QUEUE);
    const taken = leaseOf(await bench.otherLocks.acquire(request("other")));
    await bench.clock.pass(60);
    await bench.settled();
    expect(a.isLost).toBe(true);
    await server.pause();
    const released = a.release();
    await bench.clock.pass(0);
    expect(b.isSettled).toBe(false);
    server.resume();
    expect(await released).toBe(false);
    expect(await taken.release()).toBe(true);
  });

  it("aborts a successor that the server has granted the lock meanwhile, and frees everything", async () => {
    const { a, b, c } = await bench.threeInLine();
    // The holder's lease ends, and a request makes the server grant the lock to the first waiter, unannounced.
    const [, , attempt] = await Promise.all([
      bench.client.call("client", "kill", "type", "pubsub"),
      bench.client.del(LOCK),
      bench.otherLocks.acquire(request("other", { waitMs: 0 })),
    ]);
    expect(attempt).toMatchObject({ kind: "busy", holder: ODD_NAME });
    const released = a.release();
    const successor = await b.lease;
    expect(await released).toBe(false);
    expect(successor.isLost).toBe(true);
    await successor.release();
    await bench.settled();
    expect(c.isSettled).toBe(true);
    expect((await c.lease).fence).toBeGreaterThan(successor.fence);
  });

  it.each([
    { what: "`WAITER_LEASE_MS`, if the previous holder's lease is longer", ttlMs: TTL_MS, keptMs: WAITER_LEASE_MS },
    { what: "its own TTL, if that is shorter", ttlMs: 200, keptMs: 200 },
  ])("without a reply the successor's lease lasts for $what (L15)", async ({ ttlMs, keptMs }) => {
    const { a, b } = await bench.threeInLine({ ttlMs });
    // Renewed, so that the holder's lease lasts for its whole TTL.
    await bench.clock.pass(60);
    await bench.settled();
    await server.pause();
    void a.release().catch(() => undefined);
    const successor = await b.lease;
    await bench.clock.pass(keptMs - 1);
    expect(successor.isLost).toBe(false);
    await bench.clock.pass(1);
    expect(successor.isLost).toBe(true);
  });

  it("without a reply the successor's lease ends with the previous holder's lease (L15)", async () => {
    const { a, b } = await bench.threeInLine();
    await server.pause();
    await bench.clock.pass(WAITER_LEASE_MS * 0.6);
    void a.release().catch(() => undefined);
    const successor = await b.lease;
    await bench.clock.pass(WAITER_LEASE_MS * 0.4 - 1);
    expect(successor.isLost).toBe(false);
    await bench.clock.pass(1);
    expect(successor.isLost).toBe(true);
  });

  it.each([
    { what: "is still in the queue", isQueued: true },
    { what: "has lost its place in the queue", isQueued: false },
  ])(
    "if the release is lost and the successor $what, its release gives up the turn, and the retry hands over",
    async (on) => {
      const { a, b, c } = await bench.threeInLine();
      if (!on.isQueued) await bench.client.zpopmin(QUEUE);
      const rejected = expect(a.release()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      await bench.reconnect();
      await rejected;
      const successor = await b.lease;
      expect(successor.isLost).toBe(false);
      expect(await successor.release()).toBe(false);
      expect((await bench.otherLocks.list(1))[0]).toMatchObject({ holder: "a", fence: a.fence, waiters: 1 });
      await bench.clock.pass(WAITER_LEASE_MS);
      await bench.settled();
      expect(c.isSettled).toBe(true);
      const last = await c.lease;
      expect(last.fence).toBeGreaterThan(successor.fence);
      expect(last.attempts).toBe(1);
    },
  );

  it("if the release is lost, the renewal of a running successor aborts it (L15)", async () => {
    const { a, b } = await bench.threeInLine();
    const rejected = expect(a.release()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await bench.reconnect();
    await rejected;
    const successor = await b.lease;
    await bench.clock.pass(60);
    await bench.settled();
    expect(successor.isLost).toBe(true);
    expect(await successor.release()).toBe(false);
  });

  it("if the reply is lost, the successor keeps the lock, also when the release is retried", async () => {
    const { a, b, c } = await bench.threeInLine();
    await server.pause();
    const rejected = expect(a.release()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await bench.clock.pass(0);
    await bench.reconnect();
    await rejected;
    await bench.freezeExpiry();
    const successor = await b.lease;
    await bench.clock.pass(60);
    await bench.settled();
    await bench.clock.pass(WAITER_LEASE_MS);
    await bench.settled();
    expect([successor.isLost, c.isSettled]).toEqual([false, false]);
    expect((await bench.otherLocks.list(1))[0]).toMatchObject({ holder: ODD_NAME, fence: successor.fence });
    expect(await successor.release()).toBe(true);
    expect((await c.lease).attempts).toBe(1);
  });
});
