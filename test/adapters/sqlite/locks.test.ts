import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EmbeddedLocks } from "../../../src/adapters/sqlite/locks.ts";
import { Sequence } from "../../../src/adapters/sqlite/sequence.ts";
import type { LockLease, Locks } from "../../../src/ports/locks.ts";
import { ManualClock } from "../../contract/manual-clock.ts";
import { TestDirectory } from "./directory.ts";

const TTL_MS = 30_000;
const random = { next: () => 0.5, id: () => "token" };
const request = (owner: string, waitMs = 0) => ({ key: "k", org: "default", ttlMs: TTL_MS, waitMs, owner });

async function hold(locks: Locks, owner: string, waitMs = 0): Promise<LockLease> {
  const answer = await locks.acquire(request(owner, waitMs));
  if (answer.kind === "busy") throw new Error(`busy: ${answer.holder}`);
  return answer.lease;
}

describe("a process paused for longer than the TTL (L14)", () => {
  let clock: ManualClock;
  let locks: EmbeddedLocks;
  beforeEach(() => {
    let fence = 0;
    clock = new ManualClock();
    locks = new EmbeddedLocks(clock, random, () => ++fence);
  });
  afterEach(() => locks.close());

  it("loses its lock: the signal aborts and the waiter gets a larger fence", async () => {
    const lease = await hold(locks, "old");
    const waiting = hold(locks, "new", 60_000);
    await clock.pause(TTL_MS + 1_000);
    const next = await waiting;
    expect(lease.signal.aborted).toBe(true);
    expect(next.fence).toBeGreaterThan(lease.fence);
    expect(await lease.release()).toBe(false);
    expect(await locks.acquire(request("third"))).toMatchObject({ kind: "busy", holder: "new" });
    expect(await next.release()).toBe(true);
  });

  it("loses it to a request that arrives before its timers fire", async () => {
    const lease = await hold(locks, "old");
    const { signal } = lease;
    const paused = clock.pause(TTL_MS);
    const next = await hold(locks, "new");
    expect(signal.aborted).toBe(true);
    await paused;
    expect(await lease.release()).toBe(false);
    expect(await next.release()).toBe(true);
  });

  it("release returns false", async () => {
    const lease = await hold(locks, "old");
    const paused = clock.pause(TTL_MS);
    expect(await lease.release()).toBe(false);
    await paused;
    expect(lease.signal.aborted).toBe(false);
    await hold(locks, "new");
  });

  it("keeps its lock when the pause was shorter", async () => {
    const lease = await hold(locks, "a");
    for (let n = 0; n < 5; n++) await clock.pause(TTL_MS - 1);
    expect(lease.signal.aborted).toBe(false);
    expect(await lease.release()).toBe(true);
  });
});

describe("embedded locks", () => {
  it("reject waiters and abort holders on close", async () => {
    const clock = new ManualClock();
    const locks = new EmbeddedLocks(clock, random, () => 1);
    const lease = await hold(locks, "a");
    const { signal } = lease;
    const waiting = locks.acquire(request("b", 1_000));
    locks.close();
    await expect(waiting).rejects.toThrow("closed");
    expect(signal.aborted).toBe(true);
    await expect(locks.acquire(request("c"))).rejects.toThrow("closed");
  });

  it("throw when there is no fence: neither held nor busy (L16)", async () => {
    let isBroken = true;
    const nextFence = () => {
      if (isBroken) throw new Error("no fence");
      return 1;
    };
    const locks = new EmbeddedLocks(new ManualClock(), random, nextFence);
    await expect(locks.acquire(request("a"))).rejects.toThrow("no fence");
    expect(await locks.list(10)).toEqual([]);
    isBroken = false;
    const lease = await hold(locks, "b");
    const waiting = locks.acquire(request("c", 1_000));
    isBroken = true;
    expect(await lease.release()).toBe(true);
    await expect(waiting).rejects.toThrow("no fence");
    isBroken = false;
    await hold(locks, "d");
  });
});

describe("sequence", () => {
  let directory: TestDirectory;
  beforeEach(() => {
    directory = new TestDirectory();
  });
  afterEach(() => directory.close());

  it("grows across crashes, starting with 1", async () => {
    let last = 0;
    for (let boot = 0; boot < 3; boot++) {
      const { writer, tables } = await directory.open();
      const numbers = await Sequence.open(writer, tables.sequences, directory.log, "fence");
      if (boot === 0) expect(numbers.next()).toBe(1);
      for (let n = 0; n < 100; n++) {
        const next = numbers.next();
        expect(next).toBeGreaterThan(last);
        last = next;
      }
      await directory.crash();
    }
  });

  it("reserves blocks ahead and never repeats a number", async () => {
    const { writer, tables } = await directory.open();
    const numbers = await Sequence.open(writer, tables.sequences, directory.log, "fence");
    let last = 0;
    for (let round = 0; round < 30; round++) {
      for (let n = 0; n < 20_000; n++) {
        const next = numbers.next();
        if (next !== last + 1) expect(next).toBe(last + 1);
        last = next;
      }
      await writer.read("memory", () => {});
    }
    expect(last).toBe(600_000);
    expect(directory.commits).toBeLessThan(20);
  });

  it("throws when no block can be reserved", async () => {
    const { writer, tables } = await directory.open();
    const numbers = await Sequence.open(writer, tables.sequences, directory.log, "fence");
    directory.commitErrors = Array.from({ length: 1_000 }, () => new Error("disk I/O error"));
    const seen = new Set<number>();
    const takeAll = async () => {
      for (;;) {
        seen.add(numbers.next());
        if (seen.size % 20_000 === 0) await directory.clock.pass(0);
      }
    };
    await expect(takeAll()).rejects.toThrow("could be reserved");
    expect(seen.size).toBe(100_000);
  });
});
