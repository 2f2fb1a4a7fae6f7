import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { isUnavailable } from "../../../src/adapters/nats/errors.ts";
import type { Settlement } from "../../../src/core/retry/bus-action.ts";
import type { Delivery } from "../../../src/ports/bus.ts";
import { encodePacket } from "../../../src/protocol/codec.ts";
import { encodeFrame } from "../../../src/protocol/frame.ts";
import { DLQ, RESULT, SUBMIT } from "../../../src/protocol/subjects.ts";
import { startNats } from "../../servers/start.ts";
import { ACK, gate, NAK, names, Recorder, request, result, submit, TERM } from "./bus.subject.ts";
import { NatsBench, type NatsSpace } from "./nats-harness.ts";

// Frames on JetStream.
let bench: NatsBench;
let space: NatsSpace;

beforeAll(async () => {
  bench = await NatsBench.open(await startNats());
});
afterEach(() => space?.close());
afterAll(() => bench?.close());

const GROUP = "frames";

describe("publishing", () => {
  it("sends the publishes of one tick in one message, up to 256 packets", async () => {
    space = bench.space();
    const bus = await space.enter();
    await bus.consume(SUBMIT, GROUP, async () => ACK);
    await Promise.all(names("job", 1_000).map((id) => bus.publish(submit(id))));
    expect((await space.state()).lastSeq).toBe(4);
  });

  it("splits batches that exceed the size of a message", async () => {
    space = bench.space();
    const bus = await space.enter();
    const seen = new Seen();
    await bus.consume(RESULT, GROUP, seen.handler());
    const large = (id: string) => ({ ...result(id), body: { ...result(id).body, output: "x".repeat(200_000) } });
    const ids = names("res", 9);
    await Promise.all(ids.map((id) => bus.publish({ id, subject: RESULT, packet: large(id) as never })));
    await seen.count(ids.length);
    expect(seen.ids()).toEqual(ids);
    expect((await space.state()).lastSeq).toBe(5);
  });

  it("rejects a packet that exceeds the size of a message", async () => {
    space = bench.space();
    const bus = await space.enter();
    const packet = { ...request("j"), body: { ...request("j").body, input: "x".repeat(1_100_000) } } as never;
    await expect(bus.publish({ id: "j", subject: SUBMIT, packet })).rejects.toMatchObject({ code: "BUS_REFUSED" });
    await expect(bus.publish({ ...submit("j"), subject: "sys.heartbeat" })).rejects.toThrow(/not a durable subject/);
  });

  it("does not frame dead letters, which third parties read", async () => {
    space = bench.space();
    const bus = await space.enter();
    const watched = new Recorder<Uint8Array>();
    bench.raw.subscribe(space.subject(DLQ), { callback: (_, message) => watched.add(message.data) });
    await bench.raw.flush();
    const ids = names("dead", 10);
    await Promise.all(ids.map((id) => bus.publish({ id, subject: DLQ, packet: result(id) })));
    await watched.count(10);
    expect(watched.seen.map((bytes) => [...bytes])).toEqual(ids.map((id) => [...encodePacket(result(id))]));
  });

  it("does not store messages without consumers", async () => {
    space = bench.space();
    const bus = await space.enter();
    await bus.publish({ id: "dead-1", subject: DLQ, packet: result("dead-1") });
    expect(await space.state()).toEqual({ messages: 0, lastSeq: 1 });
  });

  it("supports ids that are invalid in headers", async () => {
    space = bench.space();
    const bus = await space.enter();
    const seen = new Seen((delivery) => (delivery.attempt === 1 ? NAK : ACK));
    await bus.consume(SUBMIT, GROUP, seen.handler());
    const ids = [" ", "a\r\nb: c", "ü/ö", "x".repeat(300), "%zz"];
    for (const id of ids) await bus.publish({ ...submit("job"), id });
    await Promise.all(ids.map((id) => bus.publish({ ...submit("job"), id: `${id}!` })));
    await seen.count(20);
    expect(seen.ids()).toEqual([...ids, ...ids, ...ids.map((id) => `${id}!`), ...ids.map((id) => `${id}!`)].sort());
  });

  it("deduplicates messages of different processes", async () => {
    space = bench.space();
    const [bus, other] = [await space.enter(), await space.enter()];
    const seen = new Seen();
    await bus.consume(SUBMIT, GROUP, seen.handler());
    await bus.publish(submit("job-1"));
    await other.publish(submit("job-1"));
    await other.publish(submit("job-2"));
    await seen.count(2);
    expect(seen.ids()).toEqual(["job-1", "job-2"]);
  });
});

describe("a frame", () => {
  it("with a damaged packet delivers the others, and that packet as undecodable", async () => {
    space = bench.space();
    const bus = await space.enter();
    const seen = new Seen(({ content }) => (content.kind === "packet" ? ACK : TERM));
    await bus.consume(SUBMIT, GROUP, seen.handler());
    const bad = Uint8Array.of(0xff, 0xff);
    await space.inject(
      SUBMIT,
      encodeFrame([
        { id: "a", bytes: encodePacket(request("a")) },
        { id: "b", bytes: bad },
        { id: "c", bytes: encodePacket(request("c")) },
      ]),
    );
    await seen.count(3);
    expect(seen.seen.map(({ id, content }) => `${id} ${content.kind}`)).toEqual([
      "a packet",
      "b undecodable",
      "c packet",
    ]);
    expect(seen.seen[1]?.content).toMatchObject({ kind: "undecodable", bytes: Buffer.from(bad) });
    await space.untilEmpty();
  });

  it("that is damaged is delivered once, as undecodable", async () => {
    space = bench.space();
    const bus = await space.enter();
    const seen = new Seen(({ attempt }) => (attempt < 2 ? NAK : TERM));
    await bus.consume(SUBMIT, GROUP, seen.handler());
    const frame = encodeFrame([{ id: "a", bytes: encodePacket(request("a")) }]);
    await space.inject(SUBMIT, frame.subarray(0, frame.length - 1));
    await seen.count(2);
    for (const { content } of seen.seen) {
      expect(content).toMatchObject({ kind: "undecodable", bytes: Buffer.from(frame.subarray(0, frame.length - 1)) });
    }
    await space.untilEmpty();
  });

  it("is acknowledged once its failed packets are published again, in any order of settlements", async () => {
    space = bench.space();
    const bus = await space.enter();
    const release = gate();
    const seen = new Seen(async ({ id, attempt }) => {
      if (id === "job-0000") await release.passed;
      return attempt === 1 && Number(id.slice(-1)) % 2 === 1 ? NAK : ACK;
    });
    await bus.consume(SUBMIT, GROUP, seen.handler());
    await Promise.all(names("job", 10).map((id) => bus.publish(submit(id))));
    // The slow packet does not delay the redelivery of failed packets.
    await seen.count(15);
    await space.untilLeft(1);
    release.open();
    await space.untilEmpty();
    expect((await space.state()).lastSeq).toBe(1 + 5);
  });

  it("is redelivered as a whole if a failed packet cannot be published again", async () => {
    space = bench.space();
    // Capacity for one message: the frame.
    const bus = await space.enter({ streamMessagesMax: 1 });
    const seen = new Seen(({ id, attempt }) => (id === "job-0001" && attempt === 1 ? NAK : ACK));
    await bus.consume(SUBMIT, GROUP, seen.handler());
    await Promise.all(names("job", 3).map((id) => bus.publish(submit(id))));
    await seen.count(6);
    expect(seen.seen.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 2, 2, 2]);
    expect(space.log.events()).toContain("bus_frame_redelivered");
    await space.untilEmpty();
  });

  it("of a member that stops is split: started packets finish, the others are redelivered", async () => {
    space = bench.space();
    const bus = await space.enter({ inFlightMax: 4 });
    const release = gate();
    const first = new Seen(async () => {
      await release.passed;
      return ACK;
    });
    const stop = await bus.consume(SUBMIT, GROUP, first.handler());
    const ids = names("job", 10);
    await Promise.all(ids.map((id) => bus.publish(submit(id))));
    await first.count(4);
    const stopped = stop();
    const second = new Seen();
    await bus.consume(SUBMIT, GROUP, second.handler());
    await second.count(6);
    release.open();
    await stopped;
    expect([...first.ids(), ...second.ids()].sort()).toEqual(ids);
    // They had not reached a handler before.
    expect(new Set(second.seen.map(({ attempt }) => attempt))).toEqual(new Set([1]));
    await space.untilEmpty();
  });
});

describe("a full stream", () => {
  it("rejects new messages, keeps stored ones, and accepts new ones once there is capacity", async () => {
    space = bench.space();
    const bus = await space.enter({ streamMessagesMax: 2 });
    const idle = await bus.consume(SUBMIT, GROUP, async () => ACK);
    await idle();
    await bus.publish(submit("job-1"));
    await bus.publish(submit("job-2"));
    const error: unknown = await bus.publish(submit("job-3")).catch((thrown: unknown) => thrown);
    expect(isUnavailable(error)).toBe(true);
    expect(String(error)).toMatch(/full/);
    const seen = new Seen();
    await bus.consume(SUBMIT, GROUP, seen.handler());
    await space.untilEmpty();
    await bus.publish(submit("job-3"));
    await seen.count(3);
    expect(seen.ids()).toEqual(["job-1", "job-2", "job-3"]);
  });
});

class Seen extends Recorder<Delivery> {
  readonly #answer: (delivery: Delivery) => Settlement | Promise<Settlement>;

  constructor(answer: (delivery: Delivery) => Settlement | Promise<Settlement> = () => ACK) {
    super();
    this.#answer = answer;
  }

  handler() {
    return async (delivery: Delivery): Promise<Settlement> => {
      this.add(delivery);
      return this.#answer(delivery);
    };
  }

  ids(): string[] {
    return this.seen.map(({ id }) => id).sort();
  }
}
