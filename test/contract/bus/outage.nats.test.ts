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

/** A server that dies, stands still, forgets: nothing hangs, nothing that was confirmed is lost, all goes on by itself. */
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

describe("while the server is away", () => {
  it("everything durable fails at once as unavailable, and works again afterwards by itself", async () => {
    const bus = await space.enter();
    const seen = new Recorder<Delivery>();
    const heard = new Recorder<unknown>();
    await bus.consume(SUBMIT, "g", async (delivery) => {
      seen.add(delivery);
      return ACK;
    });
    await bus.serve(ECHO, (packet) => heard.add(packet));
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
    bus.broadcast(HEARTBEAT, request("nobody hears this"));

    const back = space.log.next("nats_connected");
    await bench.server.restart();
    await back;
    await bus.publish(submit("after"));
    await seen.count(2);
    expect(seen.seen.map(({ id }) => id)).toEqual(["before", "after"]);
    expect(await bus.dispatch(ECHO, request("after"))).toBe("sent");
    await heard.count(1);
  });

  it("publishes and dispatches on their way fail; what was stored is delivered", async () => {
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
    const back = space.log.next("nats_connected");
    await bench.server.restart();
    await back;
    // Nobody knows which of them arrived: the caller tries again, and each id is there at last.
    await Promise.all(names("job", 300).map((id) => bus.publish(submit(id))));
    await seen.until((all) => new Set(all.map(({ id }) => id)).size === 300);
  });

  it("what was confirmed is delivered, through deaths of the server and failing handlers", async () => {
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
    for (let death = 0; death < 3; death++) {
      const waves = names(`wave-${death}`, 2_000);
      const sent = Promise.all(
        waves.map(async (id) => {
          // Spread over many ticks, and so over the death of the server.
          if (Number(id.slice(-4)) % 50 === 49) await bench.raw.flush().catch(() => undefined);
          await publisher!.publish(submit(id)).then(
            () => confirmed.add(id),
            (error: unknown) => expect(isUnavailable(error)).toBe(true),
          );
        }),
      );
      const back = space.log.next("nats_connected");
      await done.until((seen) => seen.length > 100 * (death + 1));
      await bench.server.restart();
      await Promise.all([sent, back]);
    }
    const isAllDone = (seen: readonly string[]) => {
      const ids = new Set(seen);
      return [...confirmed].every((id) => ids.has(id));
    };
    await done.until(isAllDone);
    expect(confirmed.size).toBeGreaterThan(300);
  });

  it("a server that comes back without its data gets the stream again, and goes on", async () => {
    const bus = await space.enter();
    const seen = new Recorder<Delivery>();
    await bus.consume(SUBMIT, "g", async (delivery) => {
      seen.add(delivery);
      return ACK;
    });
    const back = space.log.next("nats_connected");
    await bench.server.kill();
    await rm(join(bench.server.dir, "jetstream"), { recursive: true });
    await bench.server.restart();
    await back;
    await publishAtLast(bus, "job-1");
    await seen.count(1);
  });

  it("a member that stops does not wait for it", async () => {
    const bus = await space.enter();
    const stop = await bus.consume(SUBMIT, "g", async () => ACK);
    const endListening = await bus.subscribe(HEARTBEAT, () => undefined);
    const lost = space.log.next("nats_connection_lost");
    await bench.server.kill();
    await lost;
    await Promise.all([stop(), endListening()]);
    await space.close();
    await bench.server.restart();
  });
});

describe("a server that stands still", () => {
  it("makes publish and dispatch fail in bounded time", async () => {
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

describe("what others do to the stream", () => {
  it("a consumer deleted behind our back is made again", async () => {
    const bus = await space.enter();
    const seen = new Recorder<Delivery>();
    await bus.consume(SUBMIT, "g", async (delivery) => {
      seen.add(delivery);
      return ACK;
    });
    await bus.publish(submit("job-1"));
    await seen.count(1);
    const back = space.log.next("bus_consumer_restored");
    await bench.manager.consumers.delete(space.stream, "g_sys_job_submit");
    await back;
    await bus.publish(submit("job-2"));
    await seen.count(2);
  });

  it("a stream deleted behind our back refuses, is made again by its readers, and goes on", async () => {
    const bus = await space.enter();
    const seen = new Recorder<Delivery>();
    await bus.consume(SUBMIT, "g", async (delivery) => {
      seen.add(delivery);
      return ACK;
    });
    const back = space.log.next("bus_consumer_restored");
    await bench.manager.streams.delete(space.stream);
    await back;
    await publishAtLast(bus, "job-1");
    await seen.count(1);
  });
});

describe("closing", () => {
  it("waits for handlers and for what is on its way", async () => {
    const bus = await space.enter();
    const doors = gate();
    const order = new Recorder<string>();
    await bus.consume(SUBMIT, "g", async () => {
      order.add("begun");
      await doors.passed;
      order.add("done");
      return ACK;
    });
    await bus.publish(submit("job-1"));
    await order.count(1);
    const closed = bus.close().then(() => order.add("closed"));
    doors.open();
    await closed;
    expect(order.seen).toEqual(["begun", "done", "closed"]);
    // The answer counted: the next process finds nothing.
    await space.enter();
    await space.untilEmpty();
  });

  it("counts what came outside the stream and could not be read", async () => {
    const bus = await space.enter();
    const heard = new Recorder<unknown>();
    await bus.subscribe(HEARTBEAT, (packet) => heard.add(packet));
    const logged = space.log.next("bus_packet_unreadable");
    await space.inject(HEARTBEAT, Uint8Array.of(0xff));
    await logged;
    await space.inject(HEARTBEAT, Uint8Array.of(0xff, 1));
    bus.broadcast(HEARTBEAT, request("fine"));
    await heard.count(1);
    expect(bus.unreadable).toBe(2);
  });
});

/**
 * Tries until the stream takes it. What is confirmed is delivered: never does a stream that is made anew take a message
 * before its reader is there.
 */
async function publishAtLast(bus: NatsBus, id: string): Promise<void> {
  for (;;) {
    const failure: unknown = await bus.publish(submit(id)).then(
      () => null,
      (error: unknown) => error,
    );
    if (failure === null) return;
    expect(isUnavailable(failure)).toBe(true);
  }
}
