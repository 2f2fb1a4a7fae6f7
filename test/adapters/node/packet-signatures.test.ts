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

const [control, ann, bob] = [signer(), signer(), signer()];

function codecWith(options: Partial<SignatureOptions> = {}) {
  const counts = counting();
  const senders = new Map([
    ["ann", [ann.publicKey]],
    ["bob", [bob.publicKey]],
  ]);
  const codec = new SignedCodec({
    mode: "enforce",
    key: control.privateKey,
    ours: [control.publicKey],
    senders: () => senders,
    log: counts.log,
    metrics: counts.metrics,
    ...options,
  });
  return {
    codec,
    senders,
    ...counts,
    decode: (bytes: Uint8Array, isFirst = true) => codec.decode(bytes, SUBMIT, isFirst),
  };
}

const failures = ({ counters }: ReturnType<typeof codecWith>) =>
  counters.get("cordum_bus_signature_failures_total") ?? 0;
const MISSING = expect.objectContaining({ name: "SignatureError", code: "SIGNATURE_MISSING" });
const INVALID = expect.objectContaining({ name: "SignatureError", code: "SIGNATURE_INVALID" });

const request: Packet = {
  traceId: "t",
  senderId: "control-1",
  createdAtMs: 1,
  body: { kind: "job_request", jobId: "j", topic: "t" },
};

describe("a packet signed by a sender", () => {
  const bytes = ann.sign(submitBytes("ann", "j", "acme"));

  test("is attributed to the sender", () => {
    const one = codecWith();
    const packet = one.decode(bytes);
    expect(packet).toMatchObject({ senderId: "ann", origin: { kind: "arrived", signedBy: "ann" } });
    expect(packet.body).toMatchObject({ kind: "job_request", jobId: "j", tenantId: "acme" });
    expect(failures(one)).toBe(0);
  });

  test("is rejected if any byte was changed", () => {
    const { decode } = codecWith();
    for (let at = 0; at < bytes.length; at++) {
      const changed = Uint8Array.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      // A change can also make the packet undecodable.
      expect(() => decode(changed), `byte ${at}`).toThrow(
        expect.objectContaining({ name: expect.stringMatching(/^(Signature|Malformed)Error$/) }),
      );
    }
    const changed = Uint8Array.from(bytes);
    changed.set(Buffer.from("axme"), Buffer.from(bytes).indexOf("acme"));
    expect(() => decode(changed)).toThrow(INVALID);
  });

  test("is verified as received, with unknown fields and non-canonical encodings", () => {
    const { decode } = codecWith();
    const later = Buffer.from([0xa2, 0x06, 3, 9, 8, 7]);
    const version = Buffer.from([0x20, 0x81, 0x00]); // 1, as an overlong varint.
    const unusual = Buffer.concat([later, submitBytes("ann", "j", "acme"), version, later]);
    const signature = fieldOf(sign("sha256", unusual, { key: ann.privateKey, dsaEncoding: "der" }));
    for (const at of [0, later.length, unusual.length - later.length, unusual.length]) {
      const whole = Buffer.concat([unusual.subarray(0, at), signature, unusual.subarray(at)]);
      expect(decode(whole).origin).toMatchObject({ signedBy: "ann" });
      // Verification of a re-encoding would have rejected it.
      expect([...encodePacket(decodePacket(whole))]).not.toEqual([...whole]);
      expect(() => decode(encodePacket(decodePacket(whole)))).toThrow(INVALID);
      // Forwarding keeps the original bytes.
      expect([...encodePacket(decode(whole))]).toEqual([...whole]);
    }
  });

  test("is rejected under the id of another or an unknown sender", () => {
    const { decode } = codecWith();
    expect(() => decode(ann.sign(submitBytes("bob", "j", "acme")))).toThrow(INVALID);
    expect(() => decode(ann.sign(submitBytes("eve", "j", "acme")))).toThrow(/unknown sender `eve`/);
    expect(() => decode(signer().sign(submitBytes("ann", "j", "acme")))).toThrow(INVALID);
    expect(() => decode(control.sign(submitBytes("ann", "j", "acme")))).toThrow(INVALID);
    expect(() => decode(bob.sign(submitBytes("control-1", "j", "acme")))).toThrow(INVALID);
  });

  test("verifies with either key during a rotation, and with none after the sender was removed", () => {
    const one = codecWith();
    const next = signer();
    one.senders.set("ann", [next.publicKey, ann.publicKey]);
    expect(one.decode(next.sign(submitBytes("ann", "j", "acme"))).origin).toMatchObject({ signedBy: "ann" });
    expect(one.decode(bytes).origin).toMatchObject({ signedBy: "ann" });
    one.senders.delete("ann");
    expect(() => one.decode(bytes)).toThrow(INVALID);
  });

  test("is rejected with a signature that is not ASN.1 DER", () => {
    const { decode } = codecWith();
    const plain = submitBytes("ann", "j", "acme");
    const raw = sign("sha256", plain, { key: ann.privateKey, dsaEncoding: "ieee-p1363" });
    for (const signature of [raw, Buffer.from("nonsense"), Buffer.alloc(70)]) {
      expect(() => decode(Buffer.concat([plain, fieldOf(signature)]))).toThrow(INVALID);
    }
    expect(() => decode(Buffer.concat([plain, Buffer.from([0x70, 1])]))).toThrow(INVALID);
  });
});

describe("an unsigned packet", () => {
  const bytes = submitBytes("ann", "j", "acme");
  const heartbeat = peerEncode("BusPacket", { heartbeat: { workerId: "w" } });

  test("is rejected in mode enforce, and counted once over all redeliveries", () => {
    const one = codecWith();
    expect(() => one.decode(bytes)).toThrow(MISSING);
    expect(() => one.decode(bytes, false)).toThrow(MISSING);
    expect(() => one.decode(heartbeat)).toThrow(MISSING);
    expect(failures(one)).toBe(2);
    expect(one.events.get("bus_signature_missing")).toBe(2);
  });

  test("is accepted as unsigned in mode warn, and counted", () => {
    const one = codecWith({ mode: "warn" });
    for (const sent of [bytes, bytes, bob.sign(bytes)]) {
      expect(one.decode(sent).origin).toMatchObject({ kind: "arrived", signedBy: null });
    }
    expect(one.decode(ann.sign(bytes)).origin).toMatchObject({ signedBy: "ann" });
    expect(failures(one)).toBe(3);
    // One log line per reason.
    expect([...one.events]).toEqual([
      ["bus_signature_missing", 1],
      ["bus_signature_invalid", 1],
    ]);
  });

  test("is not verified in mode off", () => {
    const one = codecWith({ mode: "off" });
    expect(one.decode(bob.sign(bytes)).origin).toMatchObject({ signedBy: null });
    expect(failures(one)).toBe(0);
  });

  test.each(["off", "warn", "enforce"] as const)("that cannot be decoded throws MalformedError in mode %s", (mode) => {
    expect(() => codecWith({ mode }).decode(Buffer.from("nonsense"))).toThrow(MalformedError);
  });
});

describe("encode", () => {
  test("signs packets created here; third parties and control plane processes can verify them", () => {
    const one = codecWith();
    const bytes = one.codec.encode(request);
    expect(peerDecode("BusPacket", bytes)).toMatchObject({ senderId: "control-1", signature: expect.any(Buffer) });
    expect(one.decode(bytes).origin).toMatchObject({ kind: "arrived", signedBy: null });
    expect(failures(one)).toBe(0);
    expect([...one.codec.encode(one.decode(bytes))]).toEqual([...bytes]);
  });

  test("does not sign forwarded packets", () => {
    for (const mode of ["off", "warn"] as const) {
      const { decode, codec } = codecWith({ mode });
      for (const bytes of [submitBytes("ann", "j", "acme"), ann.sign(submitBytes("ann", "j", "acme"))]) {
        expect([...codec.encode(decode(bytes))]).toEqual([...bytes]);
      }
    }
  });

  test("does not sign without a key", () => {
    expect([...codecWith({ key: null }).codec.encode(request)]).toEqual([...encodePacket(request)]);
  });
});
