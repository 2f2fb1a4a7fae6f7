import { describe, expect, it, vi } from "vitest";
import type { Settlement } from "../../src/core/retry/bus-action.ts";
import type { Delivery, Message } from "../../src/ports/bus.ts";
import { type LockLease, WAITER_LEASE_MS } from "../../src/ports/locks.ts";
import type { NetFaults } from "../../src/sim/adapters/net.ts";
import { NO_NET_FAULTS } from "../../src/sim/faults.ts";
import { type Bench, openBench } from "./harness.ts";
import { NOTES, note } from "./note-table.ts";

/** The effects of injected faults, which the contract suites do not cover. */

describe("simulated store", () => {
  it("rejects a commit before the write", async () => {
    const bench = openBench({ faults: withStore({ errorBeforeRate: 1 }) });
    const { store } = bench.enter("p").world;
    await expect(bench.run(store.commit(note("a", 1)))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(bench.net.store.load(NOTES, "a")).toBeNull();
  });

  it("rejects a commit after the write", async () => {
    const bench = openBench({ faults: withStore({ errorAfterRate: 1 }) });
    const { store } = bench.enter("p").world;
    await expect(bench.run(store.commit(note("a", 1)))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(bench.net.store.load(NOTES, "a")?.value).toEqual({ value: 1 });
  });

  it("rejects a commit of a partitioned process after the timeout, without the write", async () => {
    const bench = openBench();
    const { process, world } = bench.enter("p");
    process.cut("store");
    await expect(bench.run(world.store.commit(note("a", 1)))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(bench.net.timeline.nowMs).toBeGreaterThanOrEqual(NO_NET_FAULTS.store.timeoutMs);
    expect(bench.net.store.load(NOTES, "a")).toBeNull();
  });
});

describe("copy of a simulated store", () => {
  it("has all records without the claims and is independent of the original", () => {
    const [first, second] = [openBench().net.store, openBench().net.store];
    const to = { lists: [{ name: "l", score: 1 }], queue: { name: "q", score: 1 }, counters: [COUNTER], dueMs: 5 };
    const written = note("a", 1);
    first.commit({ ...written, puts: written.puts.map((put) => ({ ...put, to })), sends: [MESSAGE] });
    first.commit({ ...note("b", 1), guards: [{ kind: "fence", table: NOTES.name, id: "b", fence: 7 }] });
    const claim = { queue: "q", limit: 9, nowMs: 0, leaseMs: 100 };
    const due = { nowMs: 0, untilMs: 10, leaseMs: 100, limit: 9 };
    expect([first.take(NOTES, claim).length, first.due(due).length]).toEqual([1, 1]);
    second.copyFrom(first);
    expect([first.take(NOTES, claim).length, first.due(due).length]).toEqual([0, 0]);
    expect([second.take(NOTES, claim).length, second.due(due).length]).toEqual([1, 1]);
    expect(second.list(NOTES, { index: "l", limit: 9 }).items).toEqual([{ id: "a", version: 1, value: { value: 1 } }]);
    expect([second.count(COUNTER.group, COUNTER.name), second.fenceOf(NOTES.name, "b")]).toEqual([1, 7]);
    expect(second.unsent(10, 9)).toEqual([MESSAGE]);
    second.commit(note("a", 2, 1));
    expect([first, second].map((store) => store.load(NOTES, "a")?.value.value)).toEqual([1, 2]);
  });
});

describe("simulated bus", () => {
  it("redelivers after the ack wait when the ack is lost and counts the deliveries", async () => {
    const bench = openBench({ faults: withBus({ ackLossRate: 1 }), bus: { ...BUS, ackWaitMs: 1_000 } });
    const seen = await consume(bench, "p", () => ACK);
    await publish(bench, "m");
    await bench.pass(900);
    expect(attempts(seen)).toEqual([1]);
    await bench.pass(2_000);
    expect(attempts(seen)).toEqual([1, 2, 3]);
    bench.net.faults = NO_NET_FAULTS;
    await bench.pass(10_000);
    expect([...bench.net.bus.open()]).toEqual([]);
  });

  it("L3: drops a message after a nak of the last delivery and records it as exhausted", async () => {
    const bench = openBench({ bus: { ...BUS, deliverMax: 3 } });
    const seen = await consume(bench, "p", () => ({ kind: "nak" }));
    await publish(bench, "m");
    await bench.pass(60_000);
    expect(attempts(seen)).toEqual([1, 2, 3]);
    expect(bench.net.bus.exhausted.map(({ id }) => id)).toEqual(["m"]);
    expect([...bench.net.bus.open()]).toEqual([]);
  });

  it("does not redeliver while the handler runs in a live process", async () => {
    const bench = openBench({ bus: { ...BUS, ackWaitMs: 1_000 } });
    const seen = await consume(bench, "p", () => new Promise(() => undefined));
    await publish(bench, "m");
    await bench.pass(30_000);
    expect(attempts(seen)).toEqual([1]);
  });

  it("redelivers from a paused process, which handles its delivery after the resume", async () => {
    const bench = openBench({ bus: { ...BUS, ackWaitMs: 1_000 } });
    const paused = bench.enter("paused");
    const first: Delivery[] = [];
    await bench.run(
      paused.world.bus.consume("sys.job.submit", "g", async (delivery) => {
        first.push(delivery);
        return ACK;
      }),
    );
    paused.process.pause();
    await publish(bench, "m");
    await bench.pass(10);
    const second = await consume(bench, "running", () => ACK);
    await bench.pass(1_500);
    expect([first, attempts(second)]).toEqual([[], [2]]);
    paused.process.resume();
    await bench.pass(10);
    expect(attempts(first)).toEqual([1]);
  });

  it("stores a message whose publish failed after the write", async () => {
    const bench = openBench({ faults: withBus({ errorAfterRate: 1 }) });
    const seen = await consume(bench, "p", () => ACK);
    await expect(publish(bench, "m")).rejects.toMatchObject({ code: "BUS_UNAVAILABLE" });
    await bench.pass(100);
    expect(attempts(seen)).toEqual([1]);
  });

  it("duplicates stream messages and loses broadcasts and dispatches", async () => {
    const bench = openBench({ faults: withBus({ duplicateRate: 1, broadcastLossRate: 1, dispatchLossRate: 1 }) });
    const seen = await consume(bench, "p", () => ACK);
    const { bus } = bench.enter("q").world;
    const received: unknown[] = [];
    await bench.run(bus.subscribe("sys.heartbeat", (packet) => received.push(packet)));
    await bench.run(bus.serve("job.echo", (packet) => received.push(packet)));
    await publish(bench, "m");
    bus.broadcast("sys.heartbeat", MESSAGE.packet);
    expect(await bench.run(bus.dispatch("job.echo", MESSAGE.packet))).toBe("sent");
    await bench.pass(1_000);
    expect([seen.length, received.length]).toEqual([2, 0]);
  });
});

describe("simulated locks", () => {
  it("L14: a holder that is paused beyond its TTL loses the lock and has a stale fence", async () => {
    const bench = openBench();
    const [paused, other] = [bench.enter("paused"), bench.enter("other")];
    const old = await hold(bench, paused.world.locks.acquire(REQUEST));
    paused.process.pause();
    await bench.pass(REQUEST.ttlMs + 10);
    const fresh = await hold(bench, other.world.locks.acquire(REQUEST));
    expect(fresh.fence).toBeGreaterThan(old.fence);
    expect(old.signal.aborted).toBe(false);
    paused.process.resume();
    await bench.pass(1);
    expect(old.signal.aborted).toBe(true);
    expect(await bench.run(old.release())).toBe(false);
    expect(fresh.signal.aborted).toBe(false);
  });

  it("releases a lock whose acquisition failed after the write", async () => {
    const bench = openBench({ faults: withStore({ errorAfterRate: 1 }) });
    const { locks } = bench.enter("p").world;
    await expect(bench.run(locks.acquire(REQUEST))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await bench.pass(100);
    expect(bench.net.locks.list(1)).toEqual([]);
  });

  it("acquires again when a late reply may be stale", async () => {
    const bench = openBench();
    const [late, other] = [bench.enter("late"), bench.enter("other")];
    const acquired = late.world.locks.acquire(REQUEST);
    late.process.pause();
    await bench.pass(REQUEST.ttlMs * 2);
    const between = await hold(bench, other.world.locks.acquire(REQUEST));
    late.process.resume();
    expect(await bench.run(acquired)).toMatchObject({ kind: "busy", holder: "test" });
    expect(between.signal.aborted).toBe(false);
    await bench.run(between.release());

    const again = late.world.locks.acquire(REQUEST);
    late.process.pause();
    await bench.pass(REQUEST.ttlMs * 2);
    late.process.resume();
    const lease = await hold(bench, again);
    // The other holder had fence 2, the stale reply 3.
    expect(lease.fence).toBe(4);
    expect(lease.signal.aborted).toBe(false);
  });

  it("confirms a hand-over only when the notification is old", async () => {
    const bench = openBench();
    const [here, there] = [bench.enter("here"), bench.enter("there")];
    const calls = [vi.spyOn(bench.net.locks, "renew"), vi.spyOn(bench.net.locks, "acquire")];
    const request = { ...REQUEST, ttlMs: 60_000, waitMs: 60_000 };
    for (const pausedMs of [0, WAITER_LEASE_MS * 0.9]) {
      const first = await hold(bench, here.world.locks.acquire(request));
      const waiting = there.world.locks.acquire(request);
      await bench.pass(10);
      for (const spy of calls) spy.mockClear();
      there.process.pause();
      await bench.run(first.release());
      await bench.pass(pausedMs);
      there.process.resume();
      const next = await hold(bench, waiting);
      expect(calls.some((spy) => spy.mock.calls.length > 0)).toBe(pausedMs > 0);
      await bench.run(next.release());
    }
  });
});

const COUNTER = { group: "g", name: "n" };
const ACK: Settlement = { kind: "ack" };
const BUS = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 8 };
const REQUEST = { key: "k", org: "default", ttlMs: 1_500, waitMs: 0, owner: "test" };
const MESSAGE: Message = {
  id: "m",
  subject: "sys.job.submit",
  packet: { traceId: "t", senderId: "s", createdAtMs: 0, body: { kind: "heartbeat", workerId: "w" } },
};

const withStore = (faults: Partial<NetFaults["store"]>): NetFaults => ({
  ...NO_NET_FAULTS,
  store: { ...NO_NET_FAULTS.store, ...faults },
});
const withBus = (faults: Partial<NetFaults["bus"]>): NetFaults => ({
  ...NO_NET_FAULTS,
  bus: { ...NO_NET_FAULTS.bus, ...faults },
});
const attempts = (seen: readonly Delivery[]): number[] => seen.map(({ attempt }) => attempt);

function publish(bench: Bench, id: string): Promise<void> {
  return bench.run(bench.enter(`publisher of ${id}`).world.bus.publish({ ...MESSAGE, id }));
}

async function consume(
  bench: Bench,
  name: string,
  answer: () => Settlement | Promise<Settlement>,
): Promise<readonly Delivery[]> {
  const seen: Delivery[] = [];
  const handler = async (delivery: Delivery): Promise<Settlement> => {
    seen.push(delivery);
    return answer();
  };
  await bench.run(bench.enter(name).world.bus.consume(MESSAGE.subject, "g", handler));
  return seen;
}

async function hold(bench: Bench, acquiring: ReturnType<typeof acquireOf>): Promise<LockLease> {
  const acquired = await bench.run(acquiring);
  if (acquired.kind === "busy") throw new Error(`busy: held by ${acquired.holder}`);
  return acquired.lease;
}

const acquireOf = (bench: Bench) => bench.enter("p").world.locks.acquire(REQUEST);
