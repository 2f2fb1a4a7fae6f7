import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../src/core/model/dead-letter.ts";
import { retryAfter } from "../../src/core/retry/intent.ts";
import { deliver, type Station } from "../../src/engine/delivery/deliver-message.ts";
import { schedule } from "../../src/engine/delivery/handle-submission.ts";
import type { Flow } from "../../src/engine/engine.ts";
import { retryLetter } from "../../src/engine/maintenance/redrive.ts";
import type { Content } from "../../src/ports/bus.ts";
import { fromBase64 } from "../../src/protocol/base64.ts";
import { decodePacket, encodePacket } from "../../src/protocol/codec.ts";
import type { Packet } from "../../src/protocol/packet.ts";
import { RESULT, SUBMIT } from "../../src/protocol/subjects.ts";
import { signer, submitBytes } from "../adapters/node/signers.ts";
import { Plant } from "./harness.ts";

const ann = signer();
const senders = { ann: { keyFile: "", tenants: ["acme"] } };

/** As a bus with signatures delivers it. */
function arrived(bytes: Uint8Array, signedBy: string | null): Content {
  return { kind: "packet", packet: { ...decodePacket(bytes), origin: { kind: "arrived", bytes, signedBy } } };
}

const station = (handle: Station["handle"]): Station => ({ name: "test", about: () => "", handle });
const FINE = station(async () => {});

function once(plant: Plant, flow: Flow, content: Content, at: Station, subject = RESULT) {
  return plant.run(deliver(flow, at)({ id: "m1", subject, attempt: 1, content }));
}

async function letterOn(plant: Plant, flow: Flow, subject: string) {
  const letter = (await plant.run(flow.world.store.load(DEAD_LETTERS, `${subject}/m1`)))?.value;
  if (letter?.source.kind !== "message") throw new Error("there is no letter of a message");
  return { ...letter, bytes: [...fromBase64(letter.source.base64)] };
}

/** What is sent on a subject from now on. */
async function watched(plant: Plant, flow: Flow, subject: string): Promise<Packet[]> {
  const seen: Packet[] = [];
  await plant.run(
    flow.world.bus.consume(subject, "watch", async ({ content }) => {
      if (content.kind === "packet") seen.push(content.packet);
      return { kind: "ack" };
    }),
  );
  return seen;
}

/** Encoded anew it would be other bytes: a number in more of them than needed, a field of a later version. */
const unusual = Buffer.concat([submitBytes("ann", "j", "acme"), Buffer.from([0x20, 0x81, 0x00, 0xa2, 0x06, 1, 9])]);

describe("a packet that is refused", () => {
  test.each(["SIGNATURE_MISSING", "SIGNATURE_INVALID"] as const)(
    "%s: to the dead letters at once, with its bytes",
    async (code) => {
      const plant = new Plant();
      const flow = plant.flow("c");
      const content: Content = { kind: "refused", bytes: unusual, code, error: "because" };
      let isHandled = false;
      const watching = station(async () => {
        isHandled = true;
      });
      expect(await once(plant, flow, content, watching)).toEqual({ kind: "term" });
      const letter = await letterOn(plant, flow, RESULT);
      expect(letter).toMatchObject({ reason: "permanent", org: "*", error: { code, message: "because" } });
      expect(letter.bytes).toEqual([...unusual]);
      expect(isHandled).toBe(false);
    },
  );

  test("is sent again as it came, once its sender is known", async () => {
    const plant = new Plant();
    const flow = plant.flow("c");
    await once(plant, flow, { kind: "refused", bytes: unusual, code: "SIGNATURE_INVALID", error: "x" }, FINE);
    const seen = await watched(plant, flow, RESULT);
    const wish = { org: "*", id: `${RESULT}/m1`, by: "alice" };
    expect(await plant.run(retryLetter(flow, wish))).toMatchObject({ kind: "sent_again" });
    await plant.pass(1_000);
    expect(seen.map((packet) => [...encodePacket(packet)])).toEqual([[...unusual]]);
  });
});

describe("a packet that others have signed", () => {
  const bytes = ann.sign(unusual);

  test("is parked and comes back as it came: its sender's signature is still right", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const later = station(() => Promise.reject(retryAfter("later", 30_000)));
    expect(await once(plant, flow, arrived(bytes, "ann"), later)).toEqual({ kind: "ack" });
    const seen = await watched(plant, plant.flow("d"), RESULT);
    await plant.pass(31_000);
    expect(seen.map((packet) => [...encodePacket(packet)])).toEqual([[...bytes]]);
    // Who signed it is looked at anew: what a record says of it counts for nothing.
    expect(seen[0]?.origin?.kind).toBe("kept");
  });

  test("goes back to the broker as it came, while the store is away", async () => {
    const plant = new Plant();
    const flow = plant.flow("c");
    const away = () => Promise.reject(Object.assign(new Error("gone"), { code: "STORE_UNAVAILABLE" }));
    const cut: Flow = { ...flow, world: { ...flow.world, store: new Proxy(flow.world.store, { get: () => away }) } };
    const seen = await watched(plant, flow, RESULT);
    const handler = deliver(cut, station(away));
    const content = arrived(bytes, "ann");
    const { deliverMax } = flow.settings.current.bus;
    await plant.run(handler({ id: "m1", subject: RESULT, attempt: deliverMax - 1, content }));
    await plant.pass(1_000);
    expect(seen.map((packet) => [...encodePacket(packet)])).toEqual([[...bytes]]);
  });

  test("ends among the dead letters as it came", async () => {
    const plant = new Plant({ senders });
    const flow = plant.flow("c");
    const other = ann.sign(submitBytes("ann", "j2", "birch"));
    const submits: Station = { ...FINE, handle: schedule };
    expect(await once(plant, flow, arrived(other, "ann"), submits, SUBMIT)).toEqual({ kind: "term" });
    const letter = await letterOn(plant, flow, SUBMIT);
    expect(letter.bytes).toEqual([...other]);
    expect(letter).toMatchObject({
      org: "*",
      error: { message: expect.stringContaining("`cap.senders.ann.tenants`") },
    });
  });

  test("submits for the tenants of its sender; the same words without a signature do not", async () => {
    const plant = new Plant({ senders });
    const { flow } = await plant.control("c1");
    const submits: Station = { ...FINE, handle: schedule };
    const signed = ann.sign(submitBytes("ann", "signed", "acme"));
    expect(await once(plant, flow, arrived(signed, "ann"), submits, SUBMIT)).toEqual({ kind: "ack" });
    expect(await plant.job("signed")).toMatchObject({ org: "acme", submittedBy: "bus:ann" });
    const unsigned = submitBytes("ann", "unsigned", "acme");
    expect(await once(plant, flow, arrived(unsigned, null), submits, SUBMIT)).toEqual({ kind: "term" });
    await expect(plant.job("unsigned")).rejects.toThrow("no job");
  });
});
