import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { WAITER_LEASE_MS } from "../../../src/ports/locks.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";
import { HandingBench, LOCK, ODD_NAME, QUEUE, request, TTL_MS } from "./hand-over-harness.ts";
import { leaseOf, Waiting } from "./locks.subject.ts";

/** A lock goes on within a process before the server has heard of it: to whom, and when not. */
describe("handing on a lock within a process, on redis", () => {
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

  it("who is next in the process has it while the server stands still, which then agrees", async () => {
    const { a, b, c } = await bench.line();
    await server.pause();
    const released = a.release();
    await bench.clock.pass(0);
    expect(b.isSettled).toBe(true);
    const heir = await b.lease;
    expect(heir.attempts).toBe(1);
    expect(heir.fence).toBeGreaterThan(a.fence);

    server.resume();
    expect(await released).toBe(true);
    const [view] = await bench.others.list(1);
    expect(view).toMatchObject({ key: LOCK, holder: ODD_NAME, fence: heir.fence, waiters: 1 });
    expect(await heir.release()).toBe(true);
    const last = await c.lease;
    expect(last.attempts).toBe(1);
    expect(last.fence).toBeGreaterThan(heir.fence);
    expect([heir.isLost, last.isLost]).toEqual([false, false]);
  });

  it("the answer names the next one: it goes on and on without the server", async () => {
    const { a, b, c } = await bench.line();
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

  it("who is done before the server has answered hands over by the server: all in the order they came", async () => {
    const { a, b, c } = await bench.line();
    await server.pause();
    const first = a.release();
    const heir = await b.lease;
    const second = heir.release();
    await bench.clock.pass(0);
    expect(c.isSettled).toBe(false);
    server.resume();
    expect(await Promise.all([first, second])).toEqual([true, true]);
    expect((await c.lease).fence).toBeGreaterThan(heir.fence);
    expect((await c.lease).attempts).toBe(1);
  });

  it("nobody is overtaken: if the next one is of another process, it goes there", async () => {
    const first = leaseOf(await bench.others.acquire(request("first")));
    const mine = new Waiting("a", bench.locks.acquire(request("a")));
    await bench.settled();
    const theirs = new Waiting("b", bench.others.acquire(request("b")));
    await bench.settled();
    const behind = new Waiting("c", bench.locks.acquire(request("c")));
    await bench.holdStill();
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

  it("a promise is void when who has it gives up, and the one behind it does not wait for that", async () => {
    const { a, b, c } = await bench.line({ waitMs: 100 });
    await bench.clock.pass(100);
    expect(await b.acquired).toMatchObject({ kind: "busy", holder: "a", attempts: 1 });
    expect(await a.release()).toBe(true);
    await bench.settled();
    expect(c.isSettled).toBe(true);
    expect((await c.lease).attempts).toBe(1);
  });

  it("who has begun to give up inherits nothing", async () => {
    const { a, b, c } = await bench.line({ waitMs: 100 });
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

  it("a promise is kept though who has it has shown no sign of life: it may be at work already", async () => {
    const { a, b, c } = await bench.line();
    const [token] = await bench.client.zrange(QUEUE, "0", "0");
    expect(await bench.client.del(`cordum:lock:waiter:${token}`)).toBe(1);
    expect(await a.release()).toBe(true);
    const heir = await b.lease;
    expect((await bench.others.list(1))[0]).toMatchObject({ holder: ODD_NAME, fence: heir.fence });
    await bench.settled();
    expect([heir.isLost, c.isSettled]).toEqual([false, false]);
    expect(await heir.release()).toBe(true);
  });

  it.each([
    { what: "little time is left", ttlMs: TTL_MS, leftMs: WAITER_LEASE_MS * 0.2 },
    { what: "the time left is little for the next one, though not for who has it", ttlMs: 900, leftMs: 240 },
  ])("it is the server that hands over when $what", async ({ ttlMs, leftMs }) => {
    const { a, b } = await bench.line({}, { ttlMs });
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
