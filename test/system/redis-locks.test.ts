import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RunningServer } from "../servers/server.ts";
import { startRedis } from "../servers/start.ts";
import { bundle } from "./bundle.ts";
import { CommandProcess } from "./command-process.ts";
import type { Span } from "./fixtures/redis-lock-process.ts";

/** Locks between processes that are killed or stopped. */
describe("locks on Redis between processes", () => {
  let server: RunningServer;
  let script: string;
  const children: CommandProcess<object>[] = [];

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

  const start = async (): Promise<CommandProcess<object>> => {
    const child = new CommandProcess(script, server.url);
    children.push(child);
    await child.receive("ready");
    return child;
  };

  it("100 contenders in 4 processes hold it one at a time, with one attempt and increasing fences (L13, L14)", async () => {
    const four = await Promise.all([start(), start(), start(), start()]);
    for (const child of four) child.send({ do: "contend", key: KEY, count: 25, holdMs: 3 });
    const spans = (await Promise.all(four.map((child) => child.receive<Span[]>("spans")))).flat();
    expect(spans).toHaveLength(100);
    expect(spans.filter(({ inside }) => inside !== 1)).toEqual([]);
    const fences = spans.toSorted((a, b) => a.turn - b.turn).map(({ fence }) => fence);
    for (const [at, fence] of fences.entries()) expect(fence).toBeGreaterThan(fences[at - 1] ?? 0);
    expect(spans.filter(({ attempts }) => attempts !== 1)).toEqual([]);
  });

  it("hands the lock to the first waiter when the TTL of a killed holder expires", async () => {
    const [holder, first, second] = [await start(), await start(), await start()];
    holder.send({ do: "hold", key: KEY, ttlMs: 2_000 });
    const fence = await holder.receive<number>("fence");
    for (const child of [first, second]) {
      child.send({ do: "wait", key: KEY, ttlMs: 30_000 });
      await child.receive("queued");
    }
    await holder.kill();
    expect(await first.receive<number>("fence")).toBeGreaterThan(fence);
    first.send({ do: "release" });
    expect(await first.receive("released")).toBe(true);
    expect(await second.receive<number>("fence")).toBeGreaterThan(fence + 1);
  });

  it("frees a killed process's lock and its local hand-overs", async () => {
    const [holder, dying, next] = [await start(), await start(), await start()];
    holder.send({ do: "hold", key: KEY, ttlMs: 600_000 });
    let fence = await holder.receive<number>("fence");
    // Three waiters of one process: a holder, a local hand-over, and a reserved next one.
    for (const child of [dying, dying, dying, next]) {
      child.send({ do: "wait", key: KEY, ttlMs: 2_000 });
      await child.receive("queued");
    }
    for (const child of [holder, dying]) {
      child.send({ do: "release" });
      const nextFence = await dying.receive<number>("fence");
      expect(nextFence).toBeGreaterThan(fence);
      fence = nextFence;
    }
    await dying.kill();
    expect(await next.receive<number>("fence")).toBeGreaterThan(fence);
    next.send({ do: "release" });
    expect(await next.receive("released")).toBe(true);
  });

  it("a killed waiter at the head delays the queue by its waiter lease at most", async () => {
    const [holder, dead, next] = [await start(), await start(), await start()];
    // Longer than the test: only the expiry of the waiter lease can admit the next waiter.
    holder.send({ do: "hold", key: KEY, ttlMs: 600_000 });
    await holder.receive("fence");
    for (const child of [dead, next]) {
      child.send({ do: "wait", key: KEY, ttlMs: 600_000 });
      await child.receive("queued");
    }
    await dead.kill();
    holder.send({ do: "release" });
    expect(await next.receive("fence")).toBeGreaterThan(0);
  });

  it("a stopped waiter at the head gets the lock and loses it to the next waiter", async () => {
    const [holder, stopped, next] = [await start(), await start(), await start()];
    holder.send({ do: "hold", key: KEY, ttlMs: 600_000 });
    const fence = await holder.receive<number>("fence");
    for (const child of [stopped, next]) {
      child.send({ do: "wait", key: KEY, ttlMs: 600_000 });
      await child.receive("queued");
    }
    stopped.signal("SIGSTOP");
    holder.send({ do: "release" });
    const nextFence = await next.receive<number>("fence");
    expect(nextFence).toBeGreaterThan(fence);
    // After the resume it reads the notification, which is stale.
    stopped.signal("SIGCONT");
    next.send({ do: "release" });
    await next.receive("released");
    expect(await stopped.receive<number>("fence")).toBeGreaterThan(nextFence);
  });

  it("rejects a late write of a holder that was stopped beyond its TTL (L14)", async () => {
    const [old, next] = [await start(), await start()];
    old.send({ do: "hold", key: KEY, ttlMs: 1_500 });
    const oldFence = await old.receive<number>("fence");
    next.send({ do: "wait", key: KEY, ttlMs: 30_000 });
    await next.receive("queued");
    old.signal("SIGSTOP");
    const nextFence = await next.receive<number>("fence");
    next.send({ do: "write", id: "run-1", text: "new", fence: nextFence });
    expect(await next.receive("outcome")).toBe("committed");
    // Sent while it is stopped, so it is handled first after the resume.
    old.send({ do: "write", id: "run-1", text: "old", fence: oldFence });
    old.signal("SIGCONT");
    expect(await old.receive("outcome")).toBe("refused");
    expect(await old.receive("lost")).toBe(true);
    old.send({ do: "release" });
    expect(await old.receive("released")).toBe(false);
    next.send({ do: "write", id: "run-1", text: "newer", fence: nextFence });
    expect(await next.receive("outcome")).toBe("committed");
    next.send({ do: "release" });
    expect(await next.receive("released")).toBe(true);
  });
});

const KEY = "cordum:wf:run:lock:hot";
