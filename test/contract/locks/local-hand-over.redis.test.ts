import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { WAITER_LEASE_MS } from "../../../src/ports/locks.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";
import { HandOverBench, LOCK, ODD_NAME, QUEUE, request, TTL_MS } from "./hand-over-harness.ts";
import { leaseOf, Waiting } from "./locks.subject.ts";

// A release hands the lock to the next waiter of the same process before the server confirms it.
describe("local hand-over on redis", () => {
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

  it("grants the lock to the next waiter of the process while the server is stalled; the server confirms it", async () => {
    const { a, b, c } = await bench.threeInLine();
    await server.pause();
    const released = a.release();
    await bench.clock.pass(0);
    expect(b.isSettled).toBe(true);
    const successor = await b.lease;
    expect(successor.attempts).toBe(1);
    expect(successor.fence).toBeGreaterThan(a.fence);

    server.resume();
    expect(await released).toBe(true);
    const [view] = await bench.otherLocks.list(1);
    expect(view).toMatchObject({ key: LOCK, holder: ODD_NAME, fence: successor.fence, waiters: 1 });
    expect(await successor.release()).toBe(true);
    const last = await c.lease;
    expect(last.attempts).toBe(1);
    expect(last.fence).toBeGreaterThan(successor.fence);
    expect([successor.isLost, last.isLost]).toEqual([false, false]);
  });

  it("repeats: the reply to a release reserves the lock for the next waiter", async () => {
    const { a, b, c } = await bench.threeInLine();
    expect(await a.release()).toBe(true);
    await server.pause();
    const released = (await b.lease).release();
    await bench.clock.pass(0);
    expect(c.isSettled).toBe(true);
    server.resume();
    expect(await released).toBe(true);
    expect(await (await c.lease).release()).toBe(true);
    expect(await bench.client.exists(LOCK)).toBe(0);
  });

  it("goes through the server if the successor releases before the reply, in order of arrival", async () => {
    const { a, b, c } = await bench.threeInLine();
    await server.pause();
    const first = a.release();
    const successor = await b.lease;
    const second = successor.release();
    await bench.clock.pass(0);
    expect(c.isSettled).toBe(false);
    server.resume();
    expect(await Promise.all([first, second])).toEqual([true, true]);
    expect((await c.lease).fence).toBeGreaterThan(successor.fence);
    expect((await c.lease).attempts).toBe(1);
  });

  it("does not skip a waiter of another process", async () => {
    const first = leaseOf(await bench.otherLocks.acquire(request("first")));
    const mine = new Waiting("a", bench.locks.acquire(request("a")));
    await bench.settled();
    const theirs = new Waiting("b", bench.otherLocks.acquire(request("b")));
    await bench.settled();
    const behind = new Waiting("c", bench.locks.acquire(request("c")));
    await bench.freezeExpiry();
    await first.release();
    const lease = await mine.lease;
    await server.pause();
    const released = lease.release();
    await bench.clock.pass(0);
    expect(behind.isSettled).toBe(false);
    server.resume();
    expect(await released).toBe(true);
    await theirs.lease;
    expect(behind.isSettled).toBe(false);
  });

  it("drops the reservation if the waiter times out, without delaying the next one", async () => {
    const { a, b, c } = await bench.threeInLine({ waitMs: 100 });
    await bench.clock.pass(100);
    expect(await b.acquired).toMatchObject({ kind: "busy", holder: "a", attempts: 1 });
    expect(await a.release()).toBe(true);
    await bench.settled();
    expect(c.isSettled).toBe(true);
    expect((await c.lease).attempts).toBe(1);
  });

  it("skips a waiter that is timing out", async () => {
    const { a, b, c } = await bench.threeInLine({ waitMs: 100 });
    await server.pause();
    await bench.clock.pass(100);
    const released = a.release();
    await bench.clock.pass(0);
    expect(b.isSettled).toBe(false);
    server.resume();
    expect((await b.acquired).kind).toBe("busy");
    expect(await released).toBe(true);
    await bench.settled();
    expect(c.isSettled).toBe(true);
    expect((await c.lease).isLost).toBe(false);
  });

  it("keeps a reservation whose waiter registration has expired: the waiter may already work under the lock", async () => {
    const { a, b, c } = await bench.threeInLine();
    const [token] = await bench.client.zrange(QUEUE, "0", "0");
    expect(await bench.client.del(`cordum:lock:waiter:${token}`)).toBe(1);
    expect(await a.release()).toBe(true);
    const successor = await b.lease;
    expect((await bench.otherLocks.list(1))[0]).toMatchObject({ holder: ODD_NAME, fence: successor.fence });
    await bench.settled();
    expect([successor.isLost, c.isSettled]).toEqual([false, false]);
    expect(await successor.release()).toBe(true);
  });

  it.each([
    { what: "the holder's lease is about to end", ttlMs: TTL_MS, leftMs: WAITER_LEASE_MS * 0.2 },
    { what: "the rest of the holder's lease is too short for the successor", ttlMs: 900, leftMs: 240 },
  ])("goes through the server if $what", async ({ ttlMs, leftMs }) => {
    const { a, b } = await bench.threeInLine({}, { ttlMs });
    await server.pause();
    await bench.clock.pass(Math.min(ttlMs, WAITER_LEASE_MS) - leftMs);
    const released = a.release();
    await bench.clock.pass(0);
    expect(b.isSettled).toBe(false);
    server.resume();
    expect(await released).toBe(true);
    expect((await b.lease).attempts).toBe(1);
  });
});
