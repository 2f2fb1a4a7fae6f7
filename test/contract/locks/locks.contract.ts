import { afterEach, describe, expect, it, type TestContext } from "vitest";
import { type LocksCase, LocksKit, type LocksSubject, SOON_MS, TTL_MS, type Waiting } from "./locks.subject.ts";
import { waitCases } from "./locks.waiting.ts";

export type { LocksSubject } from "./locks.subject.ts";

/**
 * The contract suite of the Locks port (`src/ports/locks.ts`) for all adapters. Cases wait for results instead of sleeping,
 * and advance time only through the subject. `L14` and the like refer to docs/lessons.md.
 */
export function locksContract(name: string, open: () => Promise<LocksSubject>): void {
  describe(`locks contract: ${name}`, () => {
    const opened: LocksSubject[] = [];
    afterEach(async () => {
      for (const subject of opened.splice(0)) await subject.close();
    });
    let keys = 0;
    const test: LocksCase = (title, body, needs) =>
      it(
        title,
        async (context) => {
          const subject = await open();
          opened.push(subject);
          if (needs === "cut" && subject.cut === undefined) {
            skip(context, `${name}: ${title}: these locks have no connection that could be cut`);
          }
          const { noReserve } = subject.capabilities;
          if (needs === "reserve" && noReserve !== undefined) skip(context, `${name}: ${title}: ${noReserve}`);
          keys += 1;
          await body(new LocksKit(subject, `cordum:wf:run:lock:contract-${keys}`));
        },
        CASE_MS_MAX,
      );
    holdCases(test);
    lossCases(test);
    waitCases(test);
    reserveCases(test);
    listCases(test);
  });
}

function holdCases(test: LocksCase): void {
  test("acquires a free lock at once, with one attempt", async (kit) => {
    const lease = await kit.hold(await kit.open(), "a");
    expect(lease).toMatchObject({ key: kit.key, attempts: 1 });
    expect(lease.token).not.toBe("");
    expect(lease.isLost).toBe(false);
    expect(lease.signal.aborted).toBe(false);
    expect(await kit.release(lease)).toBe(true);
  });

  test("allows one holder at a time, within and across processes (L13)", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    expect((await kit.attempt(here, "b")).kind).toBe("busy");
    expect((await kit.attempt(there, "c")).kind).toBe("busy");
    await kit.release(lease);
    await kit.release(await kit.hold(there, "c"));
    await kit.hold(here, "b");
  });

  test("grants one of many concurrent requests", async (kit) => {
    const [here, there] = await kit.two();
    const requests = Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? here : there).acquire(kit.request(`${n}`)));
    const held = (await kit.run(Promise.all(requests))).filter(({ kind }) => kind === "held");
    expect(held).toHaveLength(1);
  });

  test("returns busy with the holder, without waiting if `waitMs` is 0 (L19)", async (kit) => {
    const [here, there] = await kit.two();
    await kit.hold(here, "gateway-1: approve");
    const busy = await kit.attempt(there, "engine-2");
    expect(busy).toMatchObject({ kind: "busy", holder: "gateway-1: approve", attempts: 1 });
  });

  test("keeps locks of different keys independent", async (kit) => {
    const locks = await kit.open();
    const lease = await kit.hold(locks, "a");
    const other = await kit.hold(locks, "a", { key: `${kit.key}-other` });
    await kit.release(lease);
    expect((await kit.attempt(locks, "b", { key: `${kit.key}-other` })).kind).toBe("busy");
    expect(await kit.release(other)).toBe(true);
  });

  test("increases the fence with every acquisition in an org, across keys and processes (L14)", async (kit) => {
    const [here, there] = await kit.two();
    const fences: number[] = [];
    for (let n = 0; n < 8; n += 1) {
      const lease = await kit.hold(n % 2 === 0 ? here : there, "a", { key: `${kit.key}-${n % 3}` });
      fences.push(lease.fence);
      await kit.release(lease);
    }
    for (const [at, fence] of fences.entries()) expect(fence).toBeGreaterThan(fences[at - 1] ?? 0);
  });

  test("does not free the lock of another holder on a second release", async (kit) => {
    const [here, there] = await kit.two();
    const first = await kit.hold(here, "a");
    expect(await kit.release(first)).toBe(true);
    const second = await kit.hold(there, "b");
    await kit.release(first);
    expect(await kit.attempt(here, "c")).toMatchObject({ kind: "busy", holder: "b" });
    expect(await kit.release(second)).toBe(true);
  });

  test("renews the lease of a live holder beyond the TTL (L15)", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    await kit.pass(TTL_MS * 2.5);
    expect(await kit.attempt(there, "b")).toMatchObject({ kind: "busy", holder: "a" });
    expect(lease.signal.aborted).toBe(false);
    expect(await kit.release(lease)).toBe(true);
  });

  test("does not abort the signal after a release", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    await kit.release(lease);
    await kit.hold(there, "b");
    await kit.pass(TTL_MS * 1.5);
    expect(lease.signal.aborted).toBe(false);
  });
}

function lossCases(test: LocksCase): void {
  test(
    "aborts a disconnected holder after the TTL, and grants the lock with a larger fence (L14, L15)",
    async (kit) => {
      const [here, there] = await kit.two();
      const lost = await kit.hold(here, "a");
      await kit.subject.cut?.(here);
      expect((await kit.attempt(there, "b")).kind).toBe("busy");
      const next = await kit.run((await kit.queue(there, "b")).lease);
      expect(next.fence).toBeGreaterThan(lost.fence);
      await kit.pass(TTL_MS);
      expect(lost.signal.aborted).toBe(true);
      expect(lost.isLost).toBe(true);
      await kit.run(lost.release().catch(() => false));
      expect(await kit.release(next)).toBe(true);
    },
    "cut",
  );

  test(
    "throws if the backend does not respond: neither held nor busy (L16)",
    async (kit) => {
      const [here, there] = await kit.two();
      await kit.subject.cut?.(here);
      for (const waitMs of [0, TTL_MS]) {
        const acquired = here.acquire(kit.request("a", { waitMs }));
        await expect(kit.run(acquired)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      }
      await kit.hold(there, "b");
    },
    "cut",
  );

  test(
    "rejects a disconnected waiter, and grants the lock to the next one (L16)",
    async (kit) => {
      const [here, there] = await kit.two();
      const lease = await kit.hold(there, "holder");
      const lost = await kit.queue(here, "lost");
      const behind = await kit.queue(there, "behind");
      await kit.subject.cut?.(here);
      await kit.release(lease);
      expect((await kit.run(behind.lease)).fence).toBeGreaterThan(lease.fence);
      await expect(kit.run(lost.acquired)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    },
    "cut",
  );
}

function reserveCases(test: LocksCase): void {
  test(
    "reserves each fence once and in ascending order, in two processes (L14)",
    async (kit) => {
      const [here, there] = await kit.two();
      const reserved = [here, there].map((locks) => ({ locks, fences: [] as number[] }));
      for (let round = 0; round < 40; round += 1) {
        for (const { locks, fences } of reserved) {
          for (let n = 0; n < 100; n += 1) {
            const fence = locks.reserveFence(kit.key, "default", fences.at(-1) ?? 0);
            if (fence !== null) fences.push(fence);
          }
        }
        // Lets pending draws complete.
        await kit.run(Promise.all([here.list(1), there.list(1)]));
      }
      for (const { fences } of reserved) {
        expect(fences.length).toBeGreaterThan(2_048);
        expect(fences).toEqual([...fences].sort((a, b) => a - b));
      }
      const all = reserved.flatMap(({ fences }) => fences);
      expect(new Set(all).size).toBe(all.length);
    },
    "reserve",
  );

  test(
    "reserves fences larger than those of earlier acquisitions, and none twice (L14)",
    async (kit) => {
      const [here, there] = await kit.two();
      const acquire = async (): Promise<number> => {
        const lease = await kit.hold(there, "a");
        await kit.release(lease);
        return lease.fence;
      };
      const before = await acquire();
      const reserve = (above: number): number | null => here.reserveFence(kit.key, "default", above);
      expect(reserve(0)).toBeNull();
      let first: number | null = null;
      while (first === null) {
        await kit.run(here.list(1));
        first = reserve(before);
      }
      expect(first).toBeGreaterThan(before);
      const after = await acquire();
      // The block was drawn before that acquisition, so it cannot be used for a record written since.
      expect(reserve(after)).toBeNull();
      const next = reserve(first);
      expect(next).toBeGreaterThan(first);
      expect(next).toBeLessThan(after);
      expect(here.reserveFence(kit.key, "another org", 0)).toBeNull();
    },
    "reserve",
  );
}

function listCases(test: LocksCase): void {
  test("lists locks that are held or have waiters, most waiters first (L19)", async (kit) => {
    const [here, there] = await kit.two();
    const keyOf = (name: string): string => `${kit.key}-${name}`;
    const quiet = await kit.hold(here, "a", { key: keyOf("quiet") });
    const hot = await kit.hold(here, "b: approve", { key: keyOf("hot") });
    const warm = await kit.hold(there, "c", { key: keyOf("warm") });
    const waiting: Waiting[] = [];
    for (const name of ["hot", "warm", "hot", "hot"]) {
      waiting.push(await kit.queue(there, "waiter", { key: keyOf(name) }));
    }
    const all = await kit.run(there.list(10));
    expect(all.map(({ key, holder, fence, waiters }) => ({ key, holder, fence, waiters }))).toEqual([
      { key: keyOf("hot"), holder: "b: approve", fence: hot.fence, waiters: 3 },
      { key: keyOf("warm"), holder: "c", fence: warm.fence, waiters: 1 },
      { key: keyOf("quiet"), holder: "a", fence: quiet.fence, waiters: 0 },
    ]);
    expect(new Set(all.map(({ expiresAtMs }) => Number.isFinite(expiresAtMs) && expiresAtMs > 0))).toEqual(
      new Set([true]),
    );
    expect((await kit.run(here.list(1))).map(({ key }) => key)).toEqual([keyOf("hot")]);

    await kit.release(quiet);
    await kit.release(warm);
    await kit.release(await kit.run(waiting[1]!.lease));
    await kit.pass(SOON_MS);
    expect((await kit.run(here.list(10))).map(({ key }) => key)).toEqual([keyOf("hot")]);
  });
}

function skip(context: TestContext, what: string): never {
  process.stderr.write(`skipped: ${what}\n`);
  return context.skip(what);
}

const CASE_MS_MAX = 60_000;
