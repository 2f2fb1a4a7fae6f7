import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MalformedError } from "../../src/protocol/bytes.ts";
import { decodePacket, encodePacket, PACKET_BYTES_MAX } from "../../src/protocol/codec.ts";
import { cutSignature, withSignature } from "../../src/protocol/signature.ts";
import { packet as anyPacket } from "./arbitraries.ts";
import { peerDecode, peerEncode } from "./peer.ts";

const bytes = (...parts: (number | readonly number[] | Uint8Array)[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === "number" ? [part] : [...part])));

/** Encoded fields: string 1, string 2, number 4, and an unknown field. */
const TRACE = bytes(0x0a, 2, 0x74, 0x31);
const SENDER = bytes(0x12, 1, 0x77);
const VERSION = bytes(0x20, 1);
const LATER = bytes(0xa2, 0x06, 3, 9, 8, 7);
const SIGNATURE = bytes(0x72, 3, 1, 2, 3);

const cut = (input: Uint8Array) => {
  const { signed, signature } = cutSignature(input);
  return { signed: [...signed], signature: signature && [...signature] };
};

describe("the signature of a packet", () => {
  const rest = [...TRACE, ...SENDER, ...VERSION, ...LATER];

  it.each([
    ["first", bytes(SIGNATURE, TRACE, SENDER, VERSION, LATER)],
    ["in the middle", bytes(TRACE, SENDER, SIGNATURE, VERSION, LATER)],
    ["last", bytes(TRACE, SENDER, VERSION, LATER, SIGNATURE)],
    ["with an overlong tag and length", bytes(TRACE, 0xf2, 0x00, 0x83, 0x00, 1, 2, 3, SENDER, VERSION, LATER)],
  ])("is removed at any position: %s", (_, input) => {
    expect(cut(input)).toEqual({ signed: rest, signature: [1, 2, 3] });
  });

  it("if absent, leaves the same bytes", () => {
    const input = bytes(rest);
    expect(cutSignature(input).signed).toBe(input);
    expect(cutSignature(input).signature).toBeNull();
    expect(cut(bytes())).toEqual({ signed: [], signature: null });
  });

  it("is removed at all positions, and the last one counts", () => {
    expect(cut(bytes(0x72, 1, 9, TRACE, SENDER, 0x72, 1, 8, VERSION, LATER, SIGNATURE))).toEqual({
      signed: rest,
      signature: [1, 2, 3],
    });
    expect(cut(bytes(TRACE, SIGNATURE, 0x72, 0))).toEqual({ signed: [...TRACE], signature: null });
  });

  it("is removed if it is empty or the only field", () => {
    expect(cut(bytes(TRACE, 0x72, 0))).toEqual({ signed: [...TRACE], signature: null });
    expect(cut(SIGNATURE)).toEqual({ signed: [], signature: [1, 2, 3] });
  });

  it("is not field 14 of a nested message", () => {
    const heartbeat = peerEncode("BusPacket", { senderId: "w", heartbeat: { workerId: "w", memoryLoad: 0.5 } });
    expect(cut(heartbeat)).toEqual({ signed: [...heartbeat], signature: null });
  });

  it.each([
    ["with another wire type", bytes(TRACE, 0x70, 1)],
    ["that is truncated", bytes(TRACE, 0x72, 4, 1, 2, 3)],
    ["without a length", bytes(TRACE, 0x72)],
    ["after a truncated field", bytes(0x0a, 9, SIGNATURE)],
    ["after a group", bytes(0x0b, 0x0c, SIGNATURE)],
    ["after field 0", bytes(0x02, 1, 1, SIGNATURE)],
    ["in a packet that is too large", new Uint8Array(PACKET_BYTES_MAX + 1)],
  ])("%s is malformed", (_, input) => {
    expect(() => cutSignature(input)).toThrow(MalformedError);
  });

  it("is cut or rejected for any bytes, without changing the input", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (input) => {
        const before = [...input];
        try {
          const { signed, signature } = cutSignature(input);
          expect(signed.length + (signature?.length ?? 0)).toBeLessThanOrEqual(input.length);
          expect(cutSignature(signed).signature).toBeNull();
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedError);
        }
        expect([...input]).toEqual(before);
      }),
      { numRuns: 2_000 },
    );
  });

  it("survives adding and cutting, is decoded by a third party, and does not change the packet", () => {
    fc.assert(
      fc.property(anyPacket, fc.uint8Array({ minLength: 1, maxLength: 72 }), (packet, signature) => {
        const plain = cutSignature(encodePacket(packet)).signed;
        const signed = withSignature(plain, signature);
        expect(cut(signed)).toEqual({ signed: [...plain], signature: [...signature] });
        expect(peerDecode("BusPacket", signed).signature).toEqual(Buffer.from(signature));
        expect(decodePacket(signed).body).toEqual(decodePacket(plain).body);
      }),
    );
  });

  it("of an impossible length is rejected", () => {
    for (const length of [0, 128]) expect(() => withSignature(TRACE, new Uint8Array(length))).toThrow(MalformedError);
  });
});
