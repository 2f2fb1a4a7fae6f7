import { expect } from "vitest";
import { WAITER_LEASE_MS } from "../../../src/ports/locks.ts";
import { type LocksCase, SOON_MS, TTL_MS, WAIT_MS, type Waiting } from "./locks.subject.ts";

/** The queue before a lock: who is next, and what becomes of those who go away. */
export function waitCases(test: LocksCase): void {
  test("a release hands the lock to the one who waits: one attempt, no TTL", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a", { ttlMs: WAIT_MS });
    const waiting = await kit.queue(there, "b", { ttlMs: WAIT_MS });
    expect(waiting.isSettled).toBe(false);
    expect(await kit.release(lease)).toBe(true);
    const next = await kit.run(waiting.lease);
    expect(next.attempts).toBe(1);
    expect(next.waitedMs).toBeGreaterThan(0);
    expect(next.fence).toBeGreaterThan(lease.fence);
    expect(await kit.ask(here, "c")).toMatchObject({ kind: "busy", holder: "b" });
  });

  test("waiters are served one by one, in the order in which they came, by one attempt each", async (kit) => {
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

  test("in turns and in blocks, of two processes: each in its turn, by one attempt, known by its name", async (kit) => {
    const [here, there] = await kit.two();
    const newcomer = await kit.open();
    let before = await kit.hold(here, "first");
    const waiting: Waiting[] = [];
    for (const [at, where] of [..."hhhtththhhtt"].entries()) {
      // What a name contains is nobody's business.
      waiting.push(await kit.queue(where === "h" ? here : there, `${at}\n${at} x 1\n`));
    }
    for (const [at, next] of waiting.entries()) {
      const released = before.release();
      const lease = await kit.run(next.lease);
      expect(lease.fence).toBeGreaterThan(before.fence);
      expect(lease.attempts).toBe(1);
      // Every third is done in the moment in which it gets it, before anybody else may have heard of that.
      if (at % 3 < 2) {
        expect(await kit.run(released)).toBe(true);
        await kit.pass(SOON_MS);
        expect(await kit.ask(newcomer, "newcomer")).toMatchObject({ kind: "busy", holder: next.owner });
      }
      expect(waiting.filter(({ isSettled }) => isSettled)).toEqual(waiting.slice(0, at + 1));
      expect(lease.isLost).toBe(false);
      before = lease;
    }
    expect(await kit.release(before)).toBe(true);
    await kit.hold(newcomer, "newcomer");
  });

  test("in the queues of two keys the fences of each grow, and none is given twice (L14)", async (kit) => {
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

  test("a newcomer does not overtake those who wait, not even at the moment of the release", async (kit) => {
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

  test("waiting goes on beyond a waiter's own lease, also when the holder renews", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    const waiting = await kit.queue(there, "b");
    await kit.pass(Math.max(WAITER_LEASE_MS, TTL_MS) * 2);
    expect(waiting.isSettled).toBe(false);
    await kit.release(lease);
    expect(await kit.run(waiting.lease)).toMatchObject({ attempts: 1 });
  });

  test("a lock that was handed over is its holder's own for the whole TTL, and beyond", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    // So long that whoever only renews at a third of it loses what was handed over for a waiter's lease.
    const waiting = await kit.queue(there, "b", { ttlMs: WAITER_LEASE_MS * 4 });
    await kit.release(lease);
    const next = await kit.run(waiting.lease);
    await kit.pass(WAITER_LEASE_MS * 2);
    expect(await kit.ask(here, "c")).toMatchObject({ kind: "busy", holder: "b" });
    expect(next.signal.aborted).toBe(false);
    expect(await kit.release(next)).toBe(true);
  });

  test("whoever waited long enough is told who holds it, leaves the queue and blocks nobody", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    const short = await kit.queue(there, "short", { waitMs: SOON_MS * 2 });
    const long = await kit.queue(there, "long");
    const gaveUp = await kit.run(short.acquired);
    expect(gaveUp).toMatchObject({ kind: "busy", holder: "a" });
    if (gaveUp.kind === "busy") expect(gaveUp.waitedMs).toBeGreaterThan(0);
    await kit.release(lease);
    const next = await kit.run(long.lease);
    expect(next.attempts).toBe(1);
    await kit.release(next);
    await kit.hold(here, "b");
  });

  test("leaving in the very moment of the hand-over loses nothing: the lock is held or free, never stuck", async (kit) => {
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

  test("locks that nobody waits for are free at once, again and again", async (kit) => {
    const [here, there] = await kit.two();
    for (let n = 0; n < 20; n += 1) {
      const lease = await kit.hold(n % 2 === 0 ? here : there, `${n}`, { waitMs: WAIT_MS });
      expect(lease.attempts).toBe(1);
      expect(await kit.release(lease)).toBe(true);
    }
  });
}
