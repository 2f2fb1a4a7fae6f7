import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { SignedCodec } from "../../../src/adapters/node/packet-signatures.ts";
import type { Delivery } from "../../../src/ports/bus.ts";
import { encodeFrame } from "../../../src/protocol/frame.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { HEARTBEAT, SUBMIT } from "../../../src/protocol/subjects.ts";
import { counting } from "../../../src/sim/adapters/counting.ts";
import { signer, submitBytes } from "../../adapters/node/signers.ts";
import { peerEncode } from "../../protocol/peer.ts";
import { startNats } from "../../servers/start.ts";
import { ACK, NAK, Recorder, submit, TERM } from "./bus.subject.ts";
import { NatsBench, type NatsSpace } from "./nats-harness.ts";

// Signature verification on NATS.
let bench: NatsBench;
let space: NatsSpace;
const [control, ann] = [signer(), signer()];

beforeAll(async () => {
  bench = await NatsBench.open(await startNats());
});
afterEach(() => space?.close());
afterAll(() => bench?.close());

async function enter(mode: "off" | "warn" | "enforce") {
  const { log, metrics, counters } = counting();
  const keys = {
    key: control.privateKey,
    ours: [control.publicKey],
    senders: () => new Map([["ann", [ann.publicKey]]]),
  };
  const bus = await space.enter({ codec: new SignedCodec({ mode, ...keys, log, metrics }) });
  return { bus, failures: () => counters.get("cordum_bus_signature_failures_total") ?? 0 };
}

const summary = ({ id, content }: Delivery) => {
  const signedBy =
    content.kind === "packet"
      ? `by ${content.packet.origin?.kind === "arrived" && content.packet.origin.signedBy}`
      : "";
  return `${id} ${content.kind} ${content.kind === "refused" ? content.code : signedBy}`.trim();
};

it("verifies each packet of a frame on its own bytes", async () => {
  space = bench.space();
  const { bus, failures } = await enter("enforce");
  const seen = new Recorder<Delivery>();
  await bus.consume(SUBMIT, "g", async (delivery) => {
    seen.add(delivery);
    return delivery.content.kind === "packet" ? ACK : TERM;
  });
  const [signed, unsigned] = [ann.sign(submitBytes("ann", "a", "acme")), submitBytes("ann", "b", "acme")];
  const changed = Uint8Array.from(signed);
  changed.set(Buffer.from("axme"), Buffer.from(signed).indexOf("acme"));
  const frame = encodeFrame([
    { id: "signed", bytes: signed },
    { id: "unsigned", bytes: unsigned },
    { id: "changed", bytes: changed },
    { id: "nonsense", bytes: Buffer.from("nonsense") },
  ]);
  await space.inject(SUBMIT, frame);
  await bus.publish(submit("own"));
  await seen.count(5);
  expect(seen.seen.map(summary)).toEqual([
    "signed packet by ann",
    "unsigned refused SIGNATURE_MISSING",
    "changed refused SIGNATURE_INVALID",
    "nonsense undecodable",
    "own packet by null",
  ]);
  const bytes = seen.seen.map(({ content }) => (content.kind === "packet" ? content.packet.origin : content));
  expect(bytes.slice(0, 3)).toMatchObject([signed, unsigned, changed].map((one) => ({ bytes: Buffer.from(one) })));
  expect(failures()).toBe(2);
  await space.untilEmpty();
});

it("counts a redelivered packet once", async () => {
  space = bench.space();
  const { bus, failures } = await enter("warn");
  const seen = new Recorder<Delivery>();
  await bus.consume(SUBMIT, "g", async (delivery) => {
    seen.add(delivery);
    return delivery.attempt < 3 ? NAK : ACK;
  });
  await space.inject(SUBMIT, submitBytes("ann", "a", "acme"));
  await seen.count(3);
  expect(seen.seen.map(({ content }) => content.kind)).toEqual(["packet", "packet", "packet"]);
  expect(failures()).toBe(1);
});

it("drops and counts refused broadcasts, and delivers the next valid one", async () => {
  space = bench.space();
  const { bus, failures } = await enter("enforce");
  const received = new Recorder<Packet>();
  await bus.subscribe(HEARTBEAT, (packet) => received.add(packet));
  const beat = (senderId: string, workerId: string) => peerEncode("BusPacket", { senderId, heartbeat: { workerId } });
  await space.inject(HEARTBEAT, beat("ann", "unsigned"));
  await space.inject(HEARTBEAT, ann.sign(beat("eve", "unknown sender")));
  await space.inject(HEARTBEAT, ann.sign(beat("ann", "good")));
  await received.count(1);
  expect(received.seen[0]?.body).toMatchObject({ workerId: "good" });
  expect(failures()).toBe(2);
});
