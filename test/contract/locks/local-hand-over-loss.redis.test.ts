import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { WAITER_LEASE_MS } from "../../../src/ports/locks.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";
import { HandingBench, LOCK, ODD_NAME, QUEUE, request, TTL_MS } from "./hand-over-harness.ts";
import { leaseOf } from "./locks.subject.ts";

/** A lock went on within a process, and the server knows better, says nothing, or never hears of it. */
describe("handing on a lock within a process, on redis, when things go wrong", () => {
  let server: RunningServer;
  let bench: HandingBench;

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    bench = await HandingBench.open(server);
  });
  afterEach(() => bench.close());

  it("an heir is told when the server had taken the lock from who handed it on (L14, L15)", async () => {
    const { a, b } = await bench.line();
    await bench.client.del(LOCK, QUEUE);
    const taken = leaseOf(await bench.others.acquire(request("other")));
    const released = a.release();
    const heir = await b.lease;
    expect(heir.signal.aborted).toBe(false);
    expect(await released).toBe(false);
    expect(heir.signal.aborted).toBe(true);
    expect(heir.isLost).toBe(true);
    expect(await heir.release()).toBe(false);
    expect(await taken.release()).toBe(true);
  });

  it("who knows that it has lost the lock hands nothing on (L15)", async () => {
    const { a, b } = await bench.line();
    await bench.client.del(LOCK, QUEUE);
    const taken = leaseOf(await bench.others.acquire(request("other")));
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

  it("whom the server has given another turn meanwhile believes in none that was handed on, and leaves nothing", async () => {
    const { a, b, c } = await bench.line();
    // The holder's time is over, and somebody asks: the first who waits has it, but does not hear of that.
    const [, , asked] = await Promise.all([
      bench.client.call("client", "kill", "type", "pubsub"),
      bench.client.del(LOCK),
      bench.others.acquire(request("other", { waitMs: 0 })),
    ]);
    expect(asked).toMatchObject({ kind: "busy", holder: ODD_NAME });
    const released = a.release();
    const heir = await b.lease;
    expect(await released).toBe(false);
    expect(heir.isLost).toBe(true);
    await heir.release();
    await bench.settled();
    expect(c.isSettled).toBe(true);
    expect((await c.lease).fence).toBeGreaterThan(heir.fence);
  });

  it.each([
    { what: "a waiter's lease, however long who handed it on had it", ttlMs: TTL_MS, keptMs: WAITER_LEASE_MS },
    { what: "its own time, if that is shorter", ttlMs: 200, keptMs: 200 },
  ])("without an answer it is an heir's for $what (L15)", async ({ ttlMs, keptMs }) => {
    const { a, b } = await bench.line({ ttlMs });
    // Renewed, so that it is the holder's for its whole TTL.
    await bench.clock.pass(60);
    await bench.settled();
    await server.pause();
    void a.release().catch(() => undefined);
    const heir = await b.lease;
    await bench.clock.pass(keptMs - 1);
    expect(heir.isLost).toBe(false);
    await bench.clock.pass(1);
    expect(heir.isLost).toBe(true);
  });

  it("without an answer it is not an heir's for longer than it was of who handed it on (L15)", async () => {
    const { a, b } = await bench.line();
    await server.pause();
    await bench.clock.pass(WAITER_LEASE_MS * 0.6);
    void a.release().catch(() => undefined);
    const heir = await b.lease;
    await bench.clock.pass(WAITER_LEASE_MS * 0.4 - 1);
    expect(heir.isLost).toBe(false);
    await bench.clock.pass(1);
    expect(heir.isLost).toBe(true);
  });

  it.each([
    { what: "that still stands in the queue", isQueued: true },
    { what: "whose place in the queue is gone", isQueued: false },
  ])(
    "a release that never arrived: that of an heir $what gives its turn up, and the next try hands over",
    async (on) => {
      const { a, b, c } = await bench.line();
      if (!on.isQueued) await bench.client.zpopmin(QUEUE);
      const refused = expect(a.release()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      await bench.reconnect();
      await refused;
      const heir = await b.lease;
      expect(heir.isLost).toBe(false);
      expect(await heir.release()).toBe(false);
      expect((await bench.others.list(1))[0]).toMatchObject({ holder: "a", fence: a.fence, waiters: 1 });
      await bench.clock.pass(WAITER_LEASE_MS);
      await bench.settled();
      expect(c.isSettled).toBe(true);
      const last = await c.lease;
      expect(last.fence).toBeGreaterThan(heir.fence);
      expect(last.attempts).toBe(1);
    },
  );

  it("a release that never arrived: an heir that is still at work is told by its renewal (L15)", async () => {
    const { a, b } = await bench.line();
    const refused = expect(a.release()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await bench.reconnect();
    await refused;
    const heir = await b.lease;
    await bench.clock.pass(60);
    await bench.settled();
    expect(heir.isLost).toBe(true);
    expect(await heir.release()).toBe(false);
  });

  it("a release whose answer got lost: the heir keeps the lock, also when the release comes again", async () => {
    const { a, b, c } = await bench.line();
    await server.pause();
    const refused = expect(a.release()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await bench.clock.pass(0);
    await bench.reconnect();
    await refused;
    await bench.holdStill();
    const heir = await b.lease;
    await bench.clock.pass(60);
    await bench.settled();
    await bench.clock.pass(WAITER_LEASE_MS);
    await bench.settled();
    expect([heir.isLost, c.isSettled]).toEqual([false, false]);
    expect((await bench.others.list(1))[0]).toMatchObject({ holder: ODD_NAME, fence: heir.fence });
    expect(await heir.release()).toBe(true);
    expect((await c.lease).attempts).toBe(1);
  });
});
