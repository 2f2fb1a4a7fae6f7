import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../src/core/model/dead-letter.ts";
import { retryAfter } from "../../src/core/retry/intent.ts";
import { deliverTo, type MessageHandler } from "../../src/engine/delivery/deliver-message.ts";
import { handleSubmission } from "../../src/engine/delivery/handle-submission.ts";
import { composeEngine, type Engine } from "../../src/engine/engine.ts";
import { redriveDeadLetter } from "../../src/engine/maintenance/redrive.ts";
import type { Content } from "../../src/ports/bus.ts";
import { fromBase64 } from "../../src/protocol/base64.ts";
import { decodePacket, encodePacket } from "../../src/protocol/codec.ts";
import type { Packet } from "../../src/protocol/packet.ts";
import { RESULT, SUBMIT } from "../../src/protocol/subjects.ts";
import { signer, submitBytes } from "../adapters/node/signers.ts";
import { Harness } from "./harness.ts";

const ann = signer();
const senders = { ann: { keyFile: "", tenants: ["acme"] } };

/** Content as a bus with signature checks delivers it. */
function deliveredContent(bytes: Uint8Array, signedBy: string | null): Content {
  return { kind: "packet", packet: { ...decodePacket(bytes), origin: { kind: "arrived", bytes, signedBy } } };
}

const messageHandler = (handle: MessageHandler["handle"]): MessageHandler => ({
  name: "test",
  about: () => "",
  handle,
});
const NOOP_HANDLER = messageHandler(async () => {});

function once(harness: Harness, engine: Engine, content: Content, at: MessageHandler, subject = RESULT) {
  return harness.run(deliverTo(engine, at)({ id: "m1", subject, attempt: 1, content }));
}

async function deadLetterOn(harness: Harness, engine: Engine, subject: string) {
  const deadLetter = (await harness.run(engine.world.store.load(DEAD_LETTERS, `${subject}/m1`)))?.value;
  if (deadLetter?.source.kind !== "message") throw new Error("no dead letter of a message");
  return { ...deadLetter, bytes: [...fromBase64(deadLetter.source.base64)] };
}

/** Records the packets sent on `subject` from now on. */
async function recordPackets(harness: Harness, engine: Engine, subject: string): Promise<Packet[]> {
  const seen: Packet[] = [];
  await harness.run(
    engine.world.bus.consume(subject, "watch", async ({ content }) => {
      if (content.kind === "packet") seen.push(content.packet);
      return { kind: "ack" };
    }),
  );
  return seen;
}

/** Not in canonical encoding: an over-long varint and an unknown field. */
const unusual = Buffer.concat([submitBytes("ann", "j", "acme"), Buffer.from([0x20, 0x81, 0x00, 0xa2, 0x06, 1, 9])]);

describe("a refused packet", () => {
  test.each(["SIGNATURE_MISSING", "SIGNATURE_INVALID"] as const)(
    "%s: becomes a dead letter at once, with its bytes",
    async (code) => {
      const harness = new Harness();
      const engine = harness.engine("c");
      const content: Content = { kind: "refused", bytes: unusual, code, error: "because" };
      let isHandled = false;
      const watching = messageHandler(async () => {
        isHandled = true;
      });
      expect(await once(harness, engine, content, watching)).toEqual({ kind: "term" });
      const deadLetter = await deadLetterOn(harness, engine, RESULT);
      expect(deadLetter).toMatchObject({ reason: "permanent", org: "*", error: { code, message: "because" } });
      expect(deadLetter.bytes).toEqual([...unusual]);
      expect(isHandled).toBe(false);
    },
  );

  test("is published again unchanged when its dead letter is redriven", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    await once(
      harness,
      engine,
      { kind: "refused", bytes: unusual, code: "SIGNATURE_INVALID", error: "x" },
      NOOP_HANDLER,
    );
    const seen = await recordPackets(harness, engine, RESULT);
    const request = { org: "*", id: `${RESULT}/m1`, by: "alice" };
    expect(await harness.run(redriveDeadLetter(engine, request))).toMatchObject({ kind: "sent_again" });
    await harness.pass(1_000);
    expect(seen.map((packet) => [...encodePacket(packet)])).toEqual([[...unusual]]);
  });
});

describe("a packet signed by a third party", () => {
  const bytes = ann.sign(unusual);

  test("is parked and redelivered with the original bytes and signature", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const later = messageHandler(() => Promise.reject(retryAfter("later", 30_000)));
    expect(await once(harness, engine, deliveredContent(bytes, "ann"), later)).toEqual({ kind: "ack" });
    const seen = await recordPackets(harness, harness.engine("d"), RESULT);
    await harness.pass(31_000);
    expect(seen.map((packet) => [...encodePacket(packet)])).toEqual([[...bytes]]);
    // The signature is verified again on redelivery; the stored record is not trusted.
    expect(seen[0]?.origin?.kind).toBe("kept");
  });

  test("is republished with the original bytes while the store is unavailable", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    const unavailable = () => Promise.reject(Object.assign(new Error("gone"), { code: "STORE_UNAVAILABLE" }));
    const disconnected: Engine = composeEngine({
      ...engine,
      world: { ...engine.world, store: new Proxy(engine.world.store, { get: () => unavailable }) },
    });
    const seen = await recordPackets(harness, engine, RESULT);
    const handler = deliverTo(disconnected, messageHandler(unavailable));
    const content = deliveredContent(bytes, "ann");
    const { deliverMax } = engine.settings.current.bus;
    await harness.run(handler({ id: "m1", subject: RESULT, attempt: deliverMax - 1, content }));
    await harness.pass(1_000);
    expect(seen.map((packet) => [...encodePacket(packet)])).toEqual([[...bytes]]);
  });

  test("keeps its original bytes in the dead letter", async () => {
    const harness = new Harness({ senders });
    const engine = harness.engine("c");
    const other = ann.sign(submitBytes("ann", "j2", "birch"));
    const submits: MessageHandler = { ...NOOP_HANDLER, handle: (packet) => handleSubmission(engine, packet) };
    expect(await once(harness, engine, deliveredContent(other, "ann"), submits, SUBMIT)).toEqual({ kind: "term" });
    const deadLetter = await deadLetterOn(harness, engine, SUBMIT);
    expect(deadLetter.bytes).toEqual([...other]);
    expect(deadLetter).toMatchObject({
      org: "*",
      error: { message: expect.stringContaining("`cap.senders.ann.tenants`") },
    });
  });

  test("may submit for the tenants of its sender; the same packet without a signature may not", async () => {
    const harness = new Harness({ senders });
    const { engine } = await harness.control("c1");
    const submits: MessageHandler = { ...NOOP_HANDLER, handle: (packet) => handleSubmission(engine, packet) };
    const { blobs, clock } = engine.world;
    await harness.run(blobs.put("ctx:acme~signed", new TextEncoder().encode("1"), clock.now() + 1e9));
    const signed = ann.sign(submitBytes("ann", "acme~signed", "acme"));
    expect(await once(harness, engine, deliveredContent(signed, "ann"), submits, SUBMIT)).toEqual({ kind: "ack" });
    expect(await harness.job("acme~signed")).toMatchObject({ org: "acme", submittedBy: "bus:ann" });
    const unsigned = submitBytes("ann", "acme~unsigned", "acme");
    expect(await once(harness, engine, deliveredContent(unsigned, null), submits, SUBMIT)).toEqual({ kind: "term" });
    await expect(harness.job("acme~unsigned")).rejects.toThrow("no job");
  });
});
