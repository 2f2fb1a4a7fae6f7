import { afterEach, describe, expect, it, type TestContext } from "vitest";
import { type LocksCase, LocksKit, type LocksSubject, SOON_MS, TTL_MS, type Waiting } from "./locks.subject.ts";
import { waitCases } from "./locks.waiting.ts";

export type { LocksSubject } from "./locks.subject.ts";

/**
 * What all locks promise (`src/ports/locks.ts`), as one suite for all adapters. The suite never sleeps: it waits for
 * answers, and it lets time pass only by asking its subject to. `L14` and the like name the failures of others that a
 * case guards against.
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
            skip(context, `${name}: ${title}: nothing lies between these locks and their process`);
          }
          const { noMoments } = subject.capabilities;
          if (needs === "moments" && noMoments !== undefined) skip(context, `${name}: ${title}: ${noMoments}`);
          keys += 1;
          await body(new LocksKit(subject, `cordum:wf:run:lock:contract-${keys}`));
        },
        CASE_MS_MAX,
      );
    holdCases(test);
    lossCases(test);
    waitCases(test);
    momentCases(test);
    listCases(test);
  });
}

function holdCases(test: LocksCase): void {
  test("a free lock is held at once, by one attempt, under the name asked for", async (kit) => {
    const lease = await kit.hold(await kit.open(), "a");
    expect(lease).toMatchObject({ key: kit.key, attempts: 1 });
    expect(lease.token).not.toBe("");
    expect(lease.isLost).toBe(false);
    expect(lease.signal.aborted).toBe(false);
    expect(await kit.release(lease)).toBe(true);
  });

  test("one holder at a time, in one process and between two (L13)", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    expect((await kit.ask(here, "b")).kind).toBe("busy");
    expect((await kit.ask(there, "c")).kind).toBe("busy");
    await kit.release(lease);
    await kit.release(await kit.hold(there, "c"));
    await kit.hold(here, "b");
  });

  test("of many that ask in one tick, one holds it", async (kit) => {
    const [here, there] = await kit.two();
    const asked = Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? here : there).acquire(kit.request(`${n}`)));
    const held = (await kit.run(Promise.all(asked))).filter(({ kind }) => kind === "held");
    expect(held).toHaveLength(1);
  });

  test("busy tells who holds it, and does not wait unless asked to (L19)", async (kit) => {
    const [here, there] = await kit.two();
    await kit.hold(here, "gateway-1: approve");
    const busy = await kit.ask(there, "engine-2");
    expect(busy).toMatchObject({ kind: "busy", holder: "gateway-1: approve", attempts: 1 });
  });

  test("locks of two keys do not disturb each other", async (kit) => {
    const locks = await kit.open();
    const lease = await kit.hold(locks, "a");
    const other = await kit.hold(locks, "a", { key: `${kit.key}-other` });
    await kit.release(lease);
    expect((await kit.ask(locks, "b", { key: `${kit.key}-other` })).kind).toBe("busy");
    expect(await kit.release(other)).toBe(true);
  });

  test("fences grow with every acquisition in an org, whatever the key and the process (L14)", async (kit) => {
    const [here, there] = await kit.two();
    const fences: number[] = [];
    for (let n = 0; n < 8; n += 1) {
      const lease = await kit.hold(n % 2 === 0 ? here : there, "a", { key: `${kit.key}-${n % 3}` });
      fences.push(lease.fence);
      await kit.release(lease);
    }
    for (const [at, fence] of fences.entries()) expect(fence).toBeGreaterThan(fences[at - 1] ?? 0);
  });

  test("a release that comes twice frees nobody else's lock", async (kit) => {
    const [here, there] = await kit.two();
    const first = await kit.hold(here, "a");
    expect(await kit.release(first)).toBe(true);
    const second = await kit.hold(there, "b");
    await kit.release(first);
    expect(await kit.ask(here, "c")).toMatchObject({ kind: "busy", holder: "b" });
    expect(await kit.release(second)).toBe(true);
  });

  test("a holder that lives keeps its lock beyond the TTL (L15)", async (kit) => {
    const [here, there] = await kit.two();
    const lease = await kit.hold(here, "a");
    await kit.pass(TTL_MS * 2.5);
    expect(await kit.ask(there, "b")).toMatchObject({ kind: "busy", holder: "a" });
    expect(lease.signal.aborted).toBe(false);
    expect(await kit.release(lease)).toBe(true);
  });

  test("nothing aborts after a release", async (kit) => {
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
    "a holder that is cut off loses its lock after the TTL, and is told; the next fence is larger (L14, L15)",
    async (kit) => {
      const [here, there] = await kit.two();
      const lost = await kit.hold(here, "a");
      await kit.subject.cut?.(here);
      expect((await kit.ask(there, "b")).kind).toBe("busy");
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
    "a backend that does not answer is an error: neither held nor busy (L16)",
    async (kit) => {
      const [here, there] = await kit.two();
      await kit.subject.cut?.(here);
      for (const waitMs of [0, TTL_MS]) {
        const asked = here.acquire(kit.request("a", { waitMs }));
        await expect(kit.run(asked)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      }
      await kit.hold(there, "b");
    },
    "cut",
  );

  test(
    "a waiter that is cut off while it waits gets an error, and those behind it the lock (L16)",
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

function momentCases(test: LocksCase): void {
  test(
    "fences for a moment are each given once and grow, in each of two processes (L14)",
    async (kit) => {
      const [here, there] = await kit.two();
      const given = [here, there].map((locks) => ({ locks, fences: [] as number[] }));
      for (let round = 0; round < 40; round += 1) {
        for (const { locks, fences } of given) {
          for (let asked = 0; asked < 100; asked += 1) {
            const fence = locks.reserveFence(kit.key, "default", fences.at(-1) ?? 0);
            if (fence !== null) fences.push(fence);
          }
        }
        // What is drawn meanwhile travels with this.
        await kit.run(Promise.all([here.list(1), there.list(1)]));
      }
      for (const { fences } of given) {
        expect(fences.length).toBeGreaterThan(2_048);
        expect(fences).toEqual([...fences].sort((a, b) => a - b));
      }
      const all = given.flatMap(({ fences }) => fences);
      expect(new Set(all).size).toBe(all.length);
    },
    "moments",
  );

  test(
    "a fence for a moment is larger than that of an acquisition before it was drawn, and none is given twice (L14)",
    async (kit) => {
      const [here, there] = await kit.two();
      const acquire = async (): Promise<number> => {
        const lease = await kit.hold(there, "a");
        await kit.release(lease);
        return lease.fence;
      };
      const before = await acquire();
      const moment = (above: number): number | null => here.reserveFence(kit.key, "default", above);
      expect(moment(0)).toBeNull();
      let first: number | null = null;
      while (first === null) {
        await kit.run(here.list(1));
        first = moment(before);
      }
      expect(first).toBeGreaterThan(before);
      const after = await acquire();
      // Drawn before that acquisition: it is not for a record that was written since.
      expect(moment(after)).toBeNull();
      const next = moment(first);
      expect(next).toBeGreaterThan(first);
      expect(next).toBeLessThan(after);
      expect(here.reserveFence(kit.key, "another org", 0)).toBeNull();
    },
    "moments",
  );
}

function listCases(test: LocksCase): void {
  test("what is held or waited for can be listed, most waiters first (L19)", async (kit) => {
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
