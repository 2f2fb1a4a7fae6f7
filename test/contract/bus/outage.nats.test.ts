import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { NatsBus } from "../../../src/adapters/nats/bus.ts";
import { isUnavailable } from "../../../src/adapters/nats/errors.ts";
import type { Delivery } from "../../../src/ports/bus.ts";
import { HEARTBEAT, SUBMIT, workSubject } from "../../../src/protocol/subjects.ts";
import { startNats } from "../../servers/start.ts";
import { ACK, gate, names, Recorder, request, submit } from "./bus.subject.ts";
import { NatsBench, type NatsSpace } from "./nats-harness.ts";

// Crashes, stalls and data loss of the server: calls fail in bounded time, confirmed messages survive, and the bus recovers.
let bench: NatsBench;
let space: NatsSpace;

beforeEach(async () => {
  bench = await NatsBench.open(await startNats());
  space = bench.space();
});
afterEach(async () => {
  bench.server.resume();
  await space.close();
  await bench.close();
});

const ECHO = workSubject("outage.echo");

describe("while the server is down", () => {
  it("durable calls reject at once as unavailable, and recover automatically", async () => {
    const bus = await space.enter();
    const seen = new Recorder<Delivery>();
    const received = new Recorder<unknown>();
    await bus.consume(SUBMIT, "g", async (delivery) => {
      seen.add(delivery);
      return ACK;
    });
    await bus.serve(ECHO, (packet) => received.add(packet));
    await bus.publish(submit("before"));
    await seen.count(1);

    const lost = space.log.next("nats_connection_lost");
    await bench.server.kill();
    await lost;
    const failures = await Promise.all([
      bus.publish(submit("during")).catch((error: unknown) => error),
      bus.dispatch(ECHO, request("during")).catch((error: unknown) => error),
      bus.consume(SUBMIT, "h", async () => ACK).catch((error: unknown) => error),
    ]);
    expect(failures.map(isUnavailable)).toEqual([true, true, true]);
    bus.broadcast(HEARTBEAT, request("dropped"));

    const reconnected = space.log.next("nats_connected");
    await bench.server.restart();
    await reconnected;
    await bus.publish(submit("after"));
    await seen.count(2);
    expect(seen.seen.map(({ id }) => id)).toEqual(["before", "after"]);
    expect(await bus.dispatch(ECHO, request("after"))).toBe("sent");
    await received.count(1);
  });

  it("publishes and dispatches in flight reject; stored messages are delivered", async () => {
    const bus = await space.enter();
    const seen = new Recorder<Delivery>();
    await bus.consume(SUBMIT, "g", async (delivery) => {
      seen.add(delivery);
      return ACK;
    });
    await bench.server.pause();
    const outcomes = Promise.all([
      ...names("job", 300).map((id) => bus.publish(submit(id)).catch((error: unknown) => error)),
      bus.dispatch(ECHO, request("job")).catch((error: unknown) => error),
    ]);
    await bench.server.kill();
    expect((await outcomes).every(isUnavailable)).toBe(true);
    const reconnected = space.log.next("nats_connected");
    await bench.server.restart();
    await reconnected;
    // The outcome of each publish is unknown, so the caller retries.
    await Promise.all(names("job", 300).map((id) => bus.publish(submit(id))));
    await seen.until((all) => new Set(all.map(({ id }) => id)).size === 300);
  });

  it("confirmed messages are delivered despite crashes of the server and failing handlers", async () => {
    const buses = [await space.enter({ ackWaitMs: 2_000 }), await space.enter({ ackWaitMs: 2_000 })];
    const [publisher] = buses;
    const confirmed = new Set<string>();
    const done = new Recorder<string>();
    for (const bus of buses) {
      await bus.consume(SUBMIT, "g", async ({ id, attempt }) => {
        if (attempt === 1 && Number(id.slice(-2)) % 10 === 0) return { kind: "nakDelay", delayMs: 20 };
        done.add(id);
        return ACK;
      });
    }
    for (let crash = 0; crash < 3; crash++) {
      const wave = names(`wave-${crash}`, 2_000);
      const sent = Promise.all(
        wave.map(async (id) => {
          // Spread over many ticks, before and after the crash.
          if (Number(id.slice(-4)) % 50 === 49) await bench.raw.flush().catch(() => undefined);
          await publisher!.publish(submit(id)).then(
            () => confirmed.add(id),
            (error: unknown) => expect(isUnavailable(error)).toBe(true),
          );
        }),
      );
      const reconnected = space.log.next("nats_connected");
      await done.until((seen) => seen.length > 100 * (crash + 1));
      await bench.server.restart();
      await Promise.all([sent, reconnected]);
    }
    const isAllDone = (seen: readonly string[]) => {
      const ids = new Set(seen);
      return [...confirmed].every((id) => ids.has(id));
    };
    await done.until(isAllDone);
    expect(confirmed.size).toBeGreaterThan(300);
  });

  it("the stream is created again on a server that lost its data", async () => {
    const bus = await space.enter();
    const seen = new Recorder<Delivery>();
    await bus.consume(SUBMIT, "g", async (delivery) => {
      seen.add(delivery);
      return ACK;
    });
    const reconnected = space.log.next("nats_connected");
    await bench.server.kill();
    await rm(join(bench.server.dir, "jetstream"), { recursive: true });
    await bench.server.restart();
    await reconnected;
    await publishEventually(bus, "job-1");
    await seen.count(1);
  });

  it("`stop` does not wait for the server", async () => {
    const bus = await space.enter();
    const stop = await bus.consume(SUBMIT, "g", async () => ACK);
    const unsubscribe = await bus.subscribe(HEARTBEAT, () => undefined);
    const lost = space.log.next("nats_connection_lost");
    await bench.server.kill();
    await lost;
    await Promise.all([stop(), unsubscribe()]);
    await space.close();
    await bench.server.restart();
  });
});

describe("a stalled server", () => {
  it("makes publish and dispatch reject in bounded time", async () => {
    const bus = await space.enter({ timeoutMs: 300 });
    await bench.server.pause();
    const outcomes = await Promise.all([
      bus.publish(submit("job-1")).catch((error: unknown) => error),
      bus.dispatch(ECHO, request("job-1")).catch((error: unknown) => error),
    ]);
    expect(outcomes.map(isUnavailable)).toEqual([true, true]);
    bench.server.resume();
    await bus.publish(submit("job-2"));
  });
});

describe("external changes of the stream", () => {
  it("a deleted consumer is created again", async () => {
    const bus = await space.enter();
    const seen = new Recorder<Delivery>();
    await bus.consume(SUBMIT, "g", async (delivery) => {
      seen.add(delivery);
      return ACK;
    });
    await bus.publish(submit("job-1"));
    await seen.count(1);
    const restored = space.log.next("bus_consumer_restored");
    await bench.manager.consumers.delete(space.stream, "g_sys_job_submit");
    await restored;
    await bus.publish(submit("job-2"));
    await seen.count(2);
  });

  it("a deleted stream rejects messages until its consumers have created it again", async () => {
    const bus = await space.enter();
    const seen = new Recorder<Delivery>();
    await bus.consume(SUBMIT, "g", async (delivery) => {
      seen.add(delivery);
      return ACK;
    });
    const restored = space.log.next("bus_consumer_restored");
    await bench.manager.streams.delete(space.stream);
    await restored;
    await publishEventually(bus, "job-1");
    await seen.count(1);
  });
});

describe("closing", () => {
  it("waits for handlers and pending publishes", async () => {
    const bus = await space.enter();
    const release = gate();
    const order = new Recorder<string>();
    await bus.consume(SUBMIT, "g", async () => {
      order.add("started");
      await release.passed;
      order.add("done");
      return ACK;
    });
    await bus.publish(submit("job-1"));
    await order.count(1);
    const closed = bus.close().then(() => order.add("closed"));
    release.open();
    await closed;
    expect(order.seen).toEqual(["started", "done", "closed"]);
    // The settlement was applied: the stream is empty.
    await space.enter();
    await space.untilEmpty();
  });

  it("counts undecodable packets of core NATS", async () => {
    const bus = await space.enter();
    const received = new Recorder<unknown>();
    await bus.subscribe(HEARTBEAT, (packet) => received.add(packet));
    const logged = space.log.next("bus_packet_unreadable");
    await space.inject(HEARTBEAT, Uint8Array.of(0xff));
    await logged;
    await space.inject(HEARTBEAT, Uint8Array.of(0xff, 1));
    bus.broadcast(HEARTBEAT, request("fine"));
    await received.count(1);
    expect(bus.unreadable).toBe(2);
  });
});

/** Retries until the stream confirms. A new stream confirms no message before its consumers exist, so it is delivered. */
async function publishEventually(bus: NatsBus, id: string): Promise<void> {
  for (;;) {
    const failure: unknown = await bus.publish(submit(id)).then(
      () => null,
      (error: unknown) => error,
    );
    if (failure === null) return;
    expect(isUnavailable(failure)).toBe(true);
  }
}
