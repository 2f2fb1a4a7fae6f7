import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { PARKED_GROUP, RETRY_STATES } from "../../../src/core/model/parked-message.ts";
import { OVERDUE_MS_MAX, type RetryState } from "../../../src/core/retry/budget.ts";
import type { Settlement } from "../../../src/core/retry/bus-action.ts";
import { permanent, retryAfter } from "../../../src/core/retry/intent.ts";
import { deliverTo } from "../../../src/engine/delivery/deliver-message.ts";
import { redeliveryId } from "../../../src/engine/delivery/park-message.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { withLock } from "../../../src/engine/with-lock.ts";
import type { Content } from "../../../src/ports/bus.ts";
import { fromBase64 } from "../../../src/protocol/base64.ts";
import { decodePacket } from "../../../src/protocol/codec.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { Harness } from "../harness.ts";

const packet: Packet = {
  traceId: "t",
  senderId: "s",
  createdAtMs: 1,
  body: { kind: "job_result", jobId: "j", status: "succeeded", workerId: "w", output: { a: [1, "ü"] } },
};

function messageHandler(handle: () => Promise<void>, about = "") {
  return { name: "test", about: () => about, handle };
}

async function once(
  harness: Harness,
  engine: Engine,
  fails: () => Promise<void>,
  attempt = 1,
  content?: Content,
): Promise<Settlement> {
  const handler = deliverTo(engine, messageHandler(fails));
  return harness.run(handler({ id: "m1", subject: RESULT, attempt, content: content ?? { kind: "packet", packet } }));
}

const deadLetters = (harness: Harness, engine: Engine) =>
  harness.run(engine.world.store.load(DEAD_LETTERS, `${RESULT}/m1`));

describe("settlement of a delivery", () => {
  test("acks when the handler succeeds", async () => {
    const harness = new Harness();
    expect(await once(harness, harness.engine("c"), async () => {})).toEqual({ kind: "ack" });
  });

  test("L1: never acks a failed message unless it is parked, whatever is thrown", async () => {
    const thrown = fc.oneof(
      fc.string(),
      fc.constant(undefined),
      fc.constant(null),
      fc.object(),
      fc.string().map((text) => new Error(text)),
    );
    await fc.assert(
      fc.asyncProperty(thrown, async (what) => {
        const harness = new Harness();
        const engine = harness.engine("c");
        const settlement = await once(harness, engine, () => Promise.reject(what));
        if (settlement.kind === "ack") {
          expect((await harness.run(engine.world.store.counts(PARKED_GROUP, 9))).size).toBe(1);
        } else expect(["nak", "nakDelay"]).toContain(settlement.kind);
      }),
      { numRuns: 50 },
    );
  });

  test("leaves short delays to the broker, unchanged", async () => {
    const harness = new Harness();
    const fails = () => Promise.reject(new Error("outer", { cause: retryAfter("busy", 1_234, "lock_busy") }));
    expect(await once(harness, harness.engine("c"), fails)).toEqual({ kind: "nakDelay", delayMs: 1_234 });
    const now = () => Promise.reject(retryAfter("busy", 0, "lock_busy"));
    expect(await once(harness, harness.engine("d"), now)).toEqual({ kind: "nak" });
  });

  test("L5: parks a message with a long delay and redelivers it when due", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    expect(await once(harness, engine, () => Promise.reject(retryAfter("later", 30_000)))).toEqual({ kind: "ack" });
    const redelivered: [number, Packet][] = [];
    const other = harness.engine("d");
    await harness.run(
      other.world.bus.consume(RESULT, "watch", async (delivery) => {
        if (delivery.content.kind === "packet") redelivered.push([other.world.clock.now(), delivery.content.packet]);
        return { kind: "ack" };
      }),
    );
    const dueMs = engine.world.clock.now() + 30_000;
    await harness.pass(29_900);
    expect(redelivered).toEqual([]);
    await harness.pass(1_000);
    expect(redelivered.length).toBe(1);
    expect(redelivered[0]?.[0]).toBeGreaterThanOrEqual(dueMs - 10);
    expect(redelivered[0]?.[1]).toEqual(packet);
  });

  test("L5: redelivers parked messages with the spread of their retry policy, not in waves", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const times: number[] = [];
    await harness.run(
      engine.world.bus.consume(RESULT, "watch", async () => {
        times.push(engine.world.clock.now());
        return { kind: "ack" };
      }),
    );
    const { random } = engine.world;
    const count = 2_000;
    const handlers = Array.from({ length: count }, (_, index) => {
      const delayMs = 10_000 + random.next() * 20_000;
      const handler = deliverTo(
        engine,
        messageHandler(() => Promise.reject(retryAfter("later", delayMs)), `r${index}`),
      );
      return handler({ id: `m${index}`, subject: RESULT, attempt: 1, content: { kind: "packet", packet } });
    });
    await harness.run(Promise.all(handlers));
    await harness.pass(40_000);
    expect(times.length).toBe(count);
    const bins = new Map<number, number>();
    for (const at of times) bins.set(Math.floor(at / 250), (bins.get(Math.floor(at / 250)) ?? 0) + 1);
    const mean = count / (20_000 / 250);
    expect(Math.max(...bins.values()) / mean).toBeLessThan(2); // Releasing due messages once a second gives 4 or more.
  });

  test("permanent error: stores a dead letter with the payload, then terms", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    expect(await once(harness, engine, () => Promise.reject(permanent(new Error("never"))))).toEqual({ kind: "term" });
    const deadLetter = await deadLetters(harness, engine);
    expect(deadLetter?.value).toMatchObject({ reason: "permanent", error: { message: "never" } });
    const { source } = deadLetter?.value ?? {};
    expect(source?.kind === "message" && decodePacket(fromBase64(source.base64))).toEqual(packet);
  });

  test("undecodable: three retries, then a dead letter with the raw bytes, then term", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    const content: Content = { kind: "undecodable", bytes: new Uint8Array([255, 0, 7]), error: "not a packet" };
    for (const attempt of [1, 2, 3]) {
      expect(await once(harness, engine, async () => {}, attempt, content)).toEqual({
        kind: "nakDelay",
        delayMs: 5_000,
      });
    }
    expect(await deadLetters(harness, engine)).toBeNull();
    expect(await once(harness, engine, async () => {}, 4, content)).toEqual({ kind: "term" });
    const { source, org } = (await deadLetters(harness, engine))?.value ?? {};
    expect(source?.kind === "message" && [...fromBase64(source.base64)]).toEqual([255, 0, 7]);
    expect(org).toBe("*"); // The tenant of an undecodable message is unknown.
  });

  test("L3: an exhausted retry budget ends in a dead letter before the broker's delivery limit", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    const kinds: string[] = [];
    for (let attempt = 1; attempt <= 8; attempt++)
      kinds.push((await once(harness, engine, () => Promise.reject("x"), attempt)).kind);
    expect(kinds.at(-1)).toBe("term");
    expect(kinds.slice(0, -1)).not.toContain("term");
    expect((await deadLetters(harness, engine))?.value.reason).toBe("budget");
  });

  test("L4: lock_busy retries do not use up the budget of other classes", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    for (let attempt = 1; attempt <= 45; attempt++) {
      const settlement = await once(
        harness,
        engine,
        () => Promise.reject(retryAfter("busy", 500, "lock_busy")),
        attempt,
      );
      expect(settlement).toEqual({ kind: "nakDelay", delayMs: 500 });
    }
    expect((await once(harness, engine, () => Promise.reject("x"), 46)).kind).not.toBe("term");
  });

  test("downtime of the control plane does not exhaust the lock_busy budget", async () => {
    const harness = new Harness();
    const busy = () => Promise.reject(retryAfter("busy", 500, "lock_busy"));
    expect((await once(harness, harness.engine("a"), busy, 1)).kind).toBe("nakDelay");
    await harness.pass(40 * 60_000);
    const engine = harness.engine("b");
    let attempt = 2;
    expect((await once(harness, engine, busy, attempt)).kind).toBe("nakDelay");
    const restartedMs = harness.sim.net.timeline.nowMs;
    // Deliveries without a pause exhaust it.
    for (let kind = ""; kind !== "term"; attempt += 1) {
      await harness.pass(500);
      ({ kind } = await once(harness, engine, busy, (attempt % 50) + 2));
    }
    const retriedMs = harness.sim.net.timeline.nowMs - restartedMs;
    expect(retriedMs).toBeGreaterThan(600_000 - OVERDUE_MS_MAX - 5_000);
    expect(retriedMs).toBeLessThan(600_000);
    expect((await deadLetters(harness, engine))?.value.reason).toBe("budget");
  });

  test("passes the retry state to the handler across processes and clears it after success", async () => {
    const harness = new Harness();
    const states: RetryState[] = [];
    const deliver = (name: string, id: string, attempt: number, fails: boolean) => {
      const handle = async (_packet: Packet, retryState: RetryState) => {
        states.push(retryState);
        if (fails) throw retryAfter("busy", 100, "lock_busy");
      };
      const handler = deliverTo(harness.engine(name), { name: "test", about: () => "", handle });
      return harness.run(handler({ id, subject: RESULT, attempt, content: { kind: "packet", packet } }));
    };
    await deliver("a", "m1", 1, true);
    await deliver("b", "m1", 2, true);
    // A redelivery after parking restarts the broker's count but not the retry state.
    await deliver("c", redeliveryId("m1", 5), 1, false);
    expect(states.map(({ lock_busy }) => lock_busy?.count)).toEqual([undefined, 1, 2]);
    expect(new Set(states.slice(1).map(({ lock_busy }) => lock_busy?.sinceMs)).size).toBe(1);
    expect(harness.sim.net.store.load(RETRY_STATES, "m1")).toBeNull();
    await deliver("a", "m1", 3, false);
    expect(states.at(-1)).toEqual({});
  });

  test("does not term a message whose dead letter cannot be written", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    const failing = new Proxy(engine.world.store, {
      get: (target, name) =>
        name === "commit"
          ? () => Promise.reject(Object.assign(new Error("disk full"), { code: "STORE_UNAVAILABLE" }))
          : Reflect.get(target, name).bind(target),
    });
    const broken: Engine = composeEngine({ ...engine, world: { ...engine.world, store: failing } });
    expect((await once(harness, broken, () => Promise.reject(permanent("never")))).kind).toBe("nakDelay");
    const content: Content = { kind: "undecodable", bytes: new Uint8Array(1), error: "x" };
    expect((await once(harness, broken, async () => {}, 9, content)).kind).toBe("nakDelay");
    expect((await once(harness, broken, () => Promise.reject(retryAfter("later", 30_000)))).kind).toBe("nakDelay");
  });

  test("L3: republishes a message before the broker's delivery limit while the store is unavailable", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    const unavailable = () => Promise.reject(Object.assign(new Error("gone"), { code: "STORE_UNAVAILABLE" }));
    const store = new Proxy(engine.world.store, { get: () => unavailable });
    const disconnected: Engine = composeEngine({ ...engine, world: { ...engine.world, store } });
    const redelivered: string[] = [];
    await harness.run(
      engine.world.bus.consume(RESULT, "watch", async (delivery) => {
        redelivered.push(delivery.id);
        return { kind: "ack" };
      }),
    );
    expect((await once(harness, disconnected, unavailable, 45)).kind).toBe("nakDelay");
    expect(redelivered).toEqual([]);
    expect(await once(harness, disconnected, unavailable, 95)).toEqual({ kind: "ack" });
    await harness.pass(1_000);
    expect(redelivered.length).toBe(1);
    expect(redelivered[0]).toMatch(/^m1~~back/);
  });

  test("L16: an unavailable store has its own retry class and uses up no budget", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    const unavailable = () => Promise.reject(Object.assign(new Error("gone"), { code: "STORE_UNAVAILABLE" }));
    for (let attempt = 1; attempt <= 20; attempt++) {
      const settlement = await once(harness, engine, unavailable, attempt);
      expect(["nakDelay", "ack"]).toContain(settlement.kind); // ack: parked.
    }
    expect(await deadLetters(harness, engine)).toBeNull();
  });
});

describe("work under a lock", () => {
  const request = { key: "k", org: "o", ttlMs: 30_000, waitMs: 0, path: "job" };

  test("a busy lock fails with lock_busy and a delay within the policy bounds", async () => {
    const harness = new Harness();
    const [first, second] = [harness.engine("a"), harness.engine("b")];
    const held = harness.run(first.world.locks.acquire({ ...request, owner: "a" }));
    expect((await held).kind).toBe("held");
    const delays = new Set<number>();
    for (let tries = 0; tries < 20; tries++) {
      const error = await harness.run(
        withLock(second, request, async () => {}).then(
          () => null,
          (thrown: unknown) => thrown,
        ),
      );
      const { retryDelayMs, retryClass, message } = error as {
        retryDelayMs: number;
        retryClass: string;
        message: string;
      };
      expect(retryClass).toBe("lock_busy");
      expect(message).toContain("held by a");
      expect(retryDelayMs).toBeGreaterThanOrEqual(350);
      expect(retryDelayMs).toBeLessThanOrEqual(650);
      delays.add(retryDelayMs);
    }
    expect(delays.size).toBeGreaterThan(10);
  });

  test("L17: releases the lock when the work fails", async () => {
    const harness = new Harness();
    const engine = harness.engine("a");
    await expect(harness.run(withLock(engine, request, () => Promise.reject(new Error("hung up"))))).rejects.toThrow(
      "hung up",
    );
    await harness.pass(10);
    expect(await harness.run(withLock(engine, request, async (lease) => lease.fence))).toBeGreaterThan(1);
  });
});
