import { sign } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type SignatureOptions, SignedCodec } from "../../../src/adapters/node/packet-signatures.ts";
import { MalformedError } from "../../../src/protocol/bytes.ts";
import { decodePacket, encodePacket } from "../../../src/protocol/codec.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { SUBMIT } from "../../../src/protocol/subjects.ts";
import { counting } from "../../../src/sim/adapters/counting.ts";
import { peerDecode, peerEncode } from "../../protocol/peer.ts";
import { fieldOf, signer, submitBytes } from "./signers.ts";

const [house, ann, bob] = [signer(), signer(), signer()];

function form(options: Partial<SignatureOptions> = {}) {
  const told = counting();
  const senders = new Map([
    ["ann", [ann.publicKey]],
    ["bob", [bob.publicKey]],
  ]);
  const signed = new SignedCodec({
    mode: "enforce",
    key: house.privateKey,
    ours: [house.publicKey],
    senders: () => senders,
    log: told.log,
    metrics: told.metrics,
    ...options,
  });
  return {
    signed,
    senders,
    ...told,
    decode: (bytes: Uint8Array, isFirst = true) => signed.decode(bytes, SUBMIT, isFirst),
  };
}

const failures = ({ counters }: ReturnType<typeof form>) => counters.get("cordum_bus_signature_failures_total") ?? 0;
const MISSING = expect.objectContaining({ name: "SignatureError", code: "SIGNATURE_MISSING" });
const INVALID = expect.objectContaining({ name: "SignatureError", code: "SIGNATURE_INVALID" });

const request: Packet = {
  traceId: "t",
  senderId: "control-1",
  createdAtMs: 1,
  body: { kind: "job_request", jobId: "j", topic: "t" },
};

describe("a packet that somebody else has signed", () => {
  const bytes = ann.sign(submitBytes("ann", "j", "acme"));

  test("is known to be the sender's", () => {
    const one = form();
    const packet = one.decode(bytes);
    expect(packet).toMatchObject({ senderId: "ann", origin: { kind: "arrived", signedBy: "ann" } });
    expect(packet.body).toMatchObject({ kind: "job_request", jobId: "j", tenantId: "acme" });
    expect(failures(one)).toBe(0);
  });

  test("is refused when any byte of it was changed, wherever that is", () => {
    const { decode } = form();
    for (let at = 0; at < bytes.length; at++) {
      const changed = Uint8Array.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      // What cannot be read at all is another matter: that may be damage on the way, and is tried again.
      expect(() => decode(changed), `byte ${at}`).toThrow(
        expect.objectContaining({ name: expect.stringMatching(/^(Signature|Malformed)Error$/) }),
      );
    }
    const changed = Uint8Array.from(bytes);
    changed.set(Buffer.from("axme"), Buffer.from(bytes).indexOf("acme"));
    expect(() => decode(changed)).toThrow(INVALID);
  });

  test("is verified as it arrived: fields that nobody here knows, in an order that nobody here writes", () => {
    const { decode } = form();
    const later = Buffer.from([0xa2, 0x06, 3, 9, 8, 7]);
    const version = Buffer.from([0x20, 0x81, 0x00]); // 1, in more bytes than needed.
    const unusual = Buffer.concat([later, submitBytes("ann", "j", "acme"), version, later]);
    const signature = fieldOf(sign("sha256", unusual, { key: ann.privateKey, dsaEncoding: "der" }));
    for (const at of [0, later.length, unusual.length - later.length, unusual.length]) {
      const whole = Buffer.concat([unusual.subarray(0, at), signature, unusual.subarray(at)]);
      expect(decode(whole).origin).toMatchObject({ signedBy: "ann" });
      // Who verified an encoding of what was read would have refused it.
      expect([...encodePacket(decodePacket(whole))]).not.toEqual([...whole]);
      expect(() => decode(encodePacket(decodePacket(whole)))).toThrow(INVALID);
      // What goes on is what came.
      expect([...encodePacket(decode(whole))]).toEqual([...whole]);
    }
  });

  test("is refused under another's name, and under a name that nobody knows", () => {
    const { decode } = form();
    expect(() => decode(ann.sign(submitBytes("bob", "j", "acme")))).toThrow(INVALID);
    expect(() => decode(ann.sign(submitBytes("eve", "j", "acme")))).toThrow(/sender `eve` is not known/);
    expect(() => decode(signer().sign(submitBytes("ann", "j", "acme")))).toThrow(INVALID);
    expect(() => decode(house.sign(submitBytes("ann", "j", "acme")))).toThrow(INVALID);
    expect(() => decode(bob.sign(submitBytes("control-1", "j", "acme")))).toThrow(INVALID);
  });

  test("is known by either key while one is changed, and by none once the sender is listed no more", () => {
    const one = form();
    const next = signer();
    one.senders.set("ann", [next.publicKey, ann.publicKey]);
    expect(one.decode(next.sign(submitBytes("ann", "j", "acme"))).origin).toMatchObject({ signedBy: "ann" });
    expect(one.decode(bytes).origin).toMatchObject({ signedBy: "ann" });
    one.senders.delete("ann");
    expect(() => one.decode(bytes)).toThrow(INVALID);
  });

  test("is refused with a signature in another form than ASN.1, and with nonsense", () => {
    const { decode } = form();
    const plain = submitBytes("ann", "j", "acme");
    const raw = sign("sha256", plain, { key: ann.privateKey, dsaEncoding: "ieee-p1363" });
    for (const signature of [raw, Buffer.from("nonsense"), Buffer.alloc(70)]) {
      expect(() => decode(Buffer.concat([plain, fieldOf(signature)]))).toThrow(INVALID);
    }
    expect(() => decode(Buffer.concat([plain, Buffer.from([0x70, 1])]))).toThrow(INVALID);
  });
});

describe("a packet that nobody has signed", () => {
  const bytes = submitBytes("ann", "j", "acme");
  const heartbeat = peerEncode("BusPacket", { heartbeat: { workerId: "w" } });

  test("is refused where signatures are enforced, and counted once however often it comes", () => {
    const one = form();
    expect(() => one.decode(bytes)).toThrow(MISSING);
    expect(() => one.decode(bytes, false)).toThrow(MISSING);
    expect(() => one.decode(heartbeat)).toThrow(MISSING);
    expect(failures(one)).toBe(2);
    expect(one.events.get("bus_signature_missing")).toBe(2);
  });

  test("is taken as unsigned where they are only looked at, and counted all the same", () => {
    const one = form({ mode: "warn" });
    for (const sent of [bytes, bytes, bob.sign(bytes)]) {
      expect(one.decode(sent).origin).toMatchObject({ kind: "arrived", signedBy: null });
    }
    expect(one.decode(ann.sign(bytes)).origin).toMatchObject({ signedBy: "ann" });
    expect(failures(one)).toBe(3);
    // A crowd of them does not fill the log.
    expect([...one.events]).toEqual([
      ["bus_signature_missing", 1],
      ["bus_signature_invalid", 1],
    ]);
  });

  test("is not looked at otherwise", () => {
    const one = form({ mode: "off" });
    expect(one.decode(bob.sign(bytes)).origin).toMatchObject({ signedBy: null });
    expect(failures(one)).toBe(0);
  });

  test.each(["off", "warn", "enforce"] as const)("nor can be read is still that: %s", (mode) => {
    expect(() => form({ mode }).decode(Buffer.from("nonsense"))).toThrow(MalformedError);
  });
});

describe("what is sent", () => {
  test("is signed if it was made here, for others to verify and for our own processes", () => {
    const one = form();
    const bytes = one.signed.encode(request);
    expect(peerDecode("BusPacket", bytes)).toMatchObject({ senderId: "control-1", signature: expect.any(Buffer) });
    expect(one.decode(bytes).origin).toMatchObject({ kind: "arrived", signedBy: null });
    expect(failures(one)).toBe(0);
    expect([...one.signed.encode(one.decode(bytes))]).toEqual([...bytes]);
  });

  test("never carries our signature on the words of others", () => {
    for (const mode of ["off", "warn"] as const) {
      const { decode, signed } = form({ mode });
      for (const bytes of [submitBytes("ann", "j", "acme"), ann.sign(submitBytes("ann", "j", "acme"))]) {
        expect([...signed.encode(decode(bytes))]).toEqual([...bytes]);
      }
    }
  });

  test("is not signed without a key", () => {
    expect([...form({ key: null }).signed.encode(request)]).toEqual([...encodePacket(request)]);
  });
});
