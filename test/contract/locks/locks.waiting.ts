import { expect } from "vitest";
import { WAITER_LEASE_MS } from "../../../src/ports/locks.ts";
import { type LocksCase, SOON_MS, TTL_MS, WAIT_MS, type Waiting } from "./locks.subject.ts";

/** The locks contract on the wait queue. */
export function waitCases(test: LocksCase): void {
  test("hands the lock to the waiter on release, with one attempt and before the TTL", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a", { ttlMs: WAIT_MS });
    const waiting = await kit.queue(there, "b", { ttlMs: WAIT_MS });
    expect(waiting.isSettled).toBe(false);
    expect(await kit.release(lease)).toBe(true);
    const next = await kit.run(waiting.lease);
    expect(next.attempts).toBe(1);
    expect(next.waitedMs).toBeGreaterThan(0);
    expect(next.fence).toBeGreaterThan(lease.fence);
    expect(await kit.attempt(here, "c")).toMatchObject({ kind: "busy", holder: "b" });
  });

  test("serves waiters in order of arrival, with one attempt each", async (kit) => {
    const [here, there] = await kit.two();
    let lease = await kit.hold(here, "first");
    const waiting: Waiting[] = [];
    for (let n = 0; n < 6; n += 1) waiting.push(await kit.queue(n % 2 === 0 ? there : here, `${n}`));
    const served: string[] = [];
    for (const _ of waiting) {
      await kit.release(lease);
      lease = await kit.run(Promise.race(waiting.filter(({ owner }) => !served.includes(owner)).map((w) => w.lease)));
      await kit.pass(SOON_MS);
      const now = waiting.filter(({ isSettled, owner }) => isSettled && !served.includes(owner));
      expect(now).toHaveLength(1);
      served.push(now[0]!.owner);
      expect(lease.attempts).toBe(1);
    }
    expect(served).toEqual(["0", "1", "2", "3", "4", "5"]);
  });

  test("serves interleaved waiters of two processes in order, with one attempt each", async (kit) => {
    const [here, there] = await kit.two();
    const newcomer = await kit.open();
    let before = await kit.hold(here, "first");
    const waiting: Waiting[] = [];
    for (const [at, where] of [..."hhhtththhhtt"].entries()) {
      // Owner names may contain separators.
      waiting.push(await kit.queue(where === "h" ? here : there, `${at}\n${at} x 1\n`));
    }
    for (const [at, next] of waiting.entries()) {
      const released = before.release();
      const lease = await kit.run(next.lease);
      expect(lease.fence).toBeGreaterThan(before.fence);
      expect(lease.attempts).toBe(1);
      // Every third releases at once, before the server can have confirmed the hand-over.
      if (at % 3 < 2) {
        expect(await kit.run(released)).toBe(true);
        await kit.pass(SOON_MS);
        expect(await kit.attempt(newcomer, "newcomer")).toMatchObject({ kind: "busy", holder: next.owner });
      }
      expect(waiting.filter(({ isSettled }) => isSettled)).toEqual(waiting.slice(0, at + 1));
      expect(lease.isLost).toBe(false);
      before = lease;
    }
    expect(await kit.release(before)).toBe(true);
    await kit.hold(newcomer, "newcomer");
  });

  test("increases the fences of each key, and uses none twice (L14)", async (kit) => {
    const [here, there] = await kit.two();
    const keys = [`${kit.key}-0`, `${kit.key}-1`];
    const fences: number[] = [];
    const queues = [];
    for (const key of keys) queues.push({ last: await kit.hold(there, "first", { key }), waiting: [] as Waiting[] });
    for (const where of [here, here, there, here, here]) {
      for (const [at, key] of keys.entries()) queues[at]!.waiting.push(await kit.queue(where, "waiter", { key }));
    }
    for (let turn = 0; turn < 5; turn += 1) {
      for (const queue of turn % 2 === 0 ? queues : queues.toReversed()) {
        const released = queue.last.release();
        const next = await kit.run(queue.waiting[turn]!.lease);
        expect(await kit.run(released)).toBe(true);
        expect(next.fence).toBeGreaterThan(queue.last.fence);
        fences.push(next.fence);
        queue.last = next;
      }
    }
    expect(new Set(fences).size).toBe(fences.length);
  });

  test("does not let a newcomer overtake waiters, even during a release", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    const waiting = await kit.queue(there, "b");
    const released = lease.release();
    const newcomers = [here, there].map((locks) => locks.acquire(kit.request("newcomer")));
    const behind = here.acquire(kit.request("behind", { waitMs: WAIT_MS }));
    expect(await kit.run(released)).toBe(true);
    for (const newcomer of newcomers) expect((await kit.run(newcomer)).kind).toBe("busy");
    const next = await kit.run(waiting.lease);
    await kit.release(next);
    expect(await kit.run(behind)).toMatchObject({ kind: "held" });
  });

  test("keeps a waiter queued beyond `WAITER_LEASE_MS` and renewals of the holder", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    const waiting = await kit.queue(there, "b");
    await kit.pass(Math.max(WAITER_LEASE_MS, TTL_MS) * 2);
    expect(waiting.isSettled).toBe(false);
    await kit.release(lease);
    expect(await kit.run(waiting.lease)).toMatchObject({ attempts: 1 });
  });

  test("extends a lock that was handed over to the full TTL", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    // A first renewal at a third of this TTL would come after the waiter lease has ended.
    const waiting = await kit.queue(there, "b", { ttlMs: WAITER_LEASE_MS * 4 });
    await kit.release(lease);
    const next = await kit.run(waiting.lease);
    await kit.pass(WAITER_LEASE_MS * 2);
    expect(await kit.attempt(here, "c")).toMatchObject({ kind: "busy", holder: "b" });
    expect(next.signal.aborted).toBe(false);
    expect(await kit.release(next)).toBe(true);
  });

  test("returns busy after `waitMs`, and removes the waiter from the queue", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    const short = await kit.queue(there, "short", { waitMs: SOON_MS * 2 });
    const long = await kit.queue(there, "long");
    const timedOut = await kit.run(short.acquired);
    expect(timedOut).toMatchObject({ kind: "busy", holder: "a" });
    if (timedOut.kind === "busy") expect(timedOut.waitedMs).toBeGreaterThan(0);
    await kit.release(lease);
    const next = await kit.run(long.lease);
    expect(next.attempts).toBe(1);
    await kit.release(next);
    await kit.hold(here, "b");
  });

  test("leaves the lock held or free if a waiter times out during the hand-over", async (kit) => {
    const [here, there] = await kit.two();
    for (let n = 0; n < 5; n += 1) {
      const lease = await kit.hold(here, "a", { ttlMs: WAIT_MS });
      const waiting = there.acquire(kit.request("b", { ttlMs: WAIT_MS, waitMs: SOON_MS }));
      await kit.pass(SOON_MS - 2 + n);
      await kit.release(lease);
      const outcome = await kit.run(waiting);
      if (outcome.kind === "held") expect(await kit.release(outcome.lease)).toBe(true);
      await kit.release(await kit.hold(here, "c", { waitMs: WAIT_MS }));
    }
  });

  test("grants locks without waiters at once, repeatedly", async (kit) => {
    const [here, there] = await kit.two();
    for (let n = 0; n < 20; n += 1) {
      const lease = await kit.hold(n % 2 === 0 ? here : there, `${n}`, { waitMs: WAIT_MS });
      expect(lease.attempts).toBe(1);
      expect(await kit.release(lease)).toBe(true);
    }
  });
}
