import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RunningServer } from "../servers/server.ts";
import { startRedis } from "../servers/start.ts";
import { bundle } from "./bundle.ts";
import { Child } from "./command-process.ts";
import type { Span } from "./fixtures/redis-lock-process.ts";

/** Locks between real processes that die, or stand still, without a word. */
describe("locks on redis, between processes", () => {
  let server: RunningServer;
  let script: string;
  const children: Child<object>[] = [];

  beforeAll(async () => {
    script = await bundle("redis-lock-process.ts");
  });
  beforeEach(async () => {
    server = await startRedis();
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await child.kill();
    await server.stop();
  });

  const start = async (): Promise<Child<object>> => {
    const child = new Child(script, server.url);
    children.push(child);
    await child.answer("ready");
    return child;
  };

  it("100 contenders of 4 processes: never two inside, one attempt each, each with a larger fence (L13, L14)", async () => {
    const four = await Promise.all([start(), start(), start(), start()]);
    for (const child of four) child.tell({ do: "contend", key: KEY, count: 25, holdMs: 3 });
    const spans = (await Promise.all(four.map((child) => child.answer<Span[]>("spans")))).flat();
    expect(spans).toHaveLength(100);
    expect(spans.filter(({ inside }) => inside !== 1)).toEqual([]);
    const fences = spans.toSorted((a, b) => a.turn - b.turn).map(({ fence }) => fence);
    for (const [at, fence] of fences.entries()) expect(fence).toBeGreaterThan(fences[at - 1] ?? 0);
    expect(spans.filter(({ attempts }) => attempts !== 1)).toEqual([]);
  });

  it("kill -9 of the holder: the lock is free when its TTL is over, and goes to the first who waits", async () => {
    const [holder, first, second] = [await start(), await start(), await start()];
    holder.tell({ do: "hold", key: KEY, ttlMs: 2_000 });
    const fence = await holder.answer<number>("fence");
    for (const child of [first, second]) {
      child.tell({ do: "wait", key: KEY, ttlMs: 30_000 });
      await child.answer("queued");
    }
    await holder.kill();
    expect(await first.answer<number>("fence")).toBeGreaterThan(fence);
    first.tell({ do: "release" });
    expect(await first.answer("released")).toBe(true);
    expect(await second.answer<number>("fence")).toBeGreaterThan(fence + 1);
  });

  it("kill -9 of a process that has handed a lock on to itself: what it had and was promised dies with it", async () => {
    const [holder, dying, next] = [await start(), await start(), await start()];
    holder.tell({ do: "hold", key: KEY, ttlMs: 600_000 });
    let fence = await holder.answer<number>("fence");
    // Two behind the one that gets it first: one to hand it on to, and one with a promise.
    for (const child of [dying, dying, dying, next]) {
      child.tell({ do: "wait", key: KEY, ttlMs: 2_000 });
      await child.answer("queued");
    }
    for (const child of [holder, dying]) {
      child.tell({ do: "release" });
      const nextFence = await dying.answer<number>("fence");
      expect(nextFence).toBeGreaterThan(fence);
      fence = nextFence;
    }
    await dying.kill();
    expect(await next.answer<number>("fence")).toBeGreaterThan(fence);
    next.tell({ do: "release" });
    expect(await next.answer("released")).toBe(true);
  });

  it("kill -9 of the waiter at the head delays those behind it by its own short lease at most", async () => {
    const [holder, dead, next] = [await start(), await start(), await start()];
    // Far longer than the test may take: only the waiter's own lease can be what lets the next one in.
    holder.tell({ do: "hold", key: KEY, ttlMs: 600_000 });
    await holder.answer("fence");
    for (const child of [dead, next]) {
      child.tell({ do: "wait", key: KEY, ttlMs: 600_000 });
      await child.answer("queued");
    }
    await dead.kill();
    holder.tell({ do: "release" });
    expect(await next.answer("fence")).toBeGreaterThan(0);
  });

  it("a waiter at the head that stands still gets the lock, does not take it up, and loses it to the next", async () => {
    const [holder, still, next] = [await start(), await start(), await start()];
    holder.tell({ do: "hold", key: KEY, ttlMs: 600_000 });
    const fence = await holder.answer<number>("fence");
    for (const child of [still, next]) {
      child.tell({ do: "wait", key: KEY, ttlMs: 600_000 });
      await child.answer("queued");
    }
    still.signal("SIGSTOP");
    holder.tell({ do: "release" });
    const nextFence = await next.answer<number>("fence");
    expect(nextFence).toBeGreaterThan(fence);
    // It wakes up, finds the message that it was its turn, and must not believe it.
    still.signal("SIGCONT");
    next.tell({ do: "release" });
    await next.answer("released");
    expect(await still.answer<number>("fence")).toBeGreaterThan(nextFence);
  });

  it("a holder that stands still beyond its TTL: its late write is refused, the new holder's is not (L14)", async () => {
    const [old, next] = [await start(), await start()];
    old.tell({ do: "hold", key: KEY, ttlMs: 1_500 });
    const oldFence = await old.answer<number>("fence");
    next.tell({ do: "wait", key: KEY, ttlMs: 30_000 });
    await next.answer("queued");
    old.signal("SIGSTOP");
    const nextFence = await next.answer<number>("fence");
    next.tell({ do: "write", id: "run-1", text: "new", fence: nextFence });
    expect(await next.answer("outcome")).toBe("committed");
    // Given while it stands still: it is the first thing it does when it goes on.
    old.tell({ do: "write", id: "run-1", text: "old", fence: oldFence });
    old.signal("SIGCONT");
    expect(await old.answer("outcome")).toBe("refused");
    expect(await old.answer("lost")).toBe(true);
    old.tell({ do: "release" });
    expect(await old.answer("released")).toBe(false);
    next.tell({ do: "write", id: "run-1", text: "newer", fence: nextFence });
    expect(await next.answer("outcome")).toBe("committed");
    next.tell({ do: "release" });
    expect(await next.answer("released")).toBe(true);
  });
});

const KEY = "cordum:wf:run:lock:hot";
