import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { retryAfter, toWire } from "../../src/core/retry/intent.ts";
import { MalformedError } from "../../src/protocol/bytes.ts";
import { decodePacket, encodePacket, PROTOCOL_VERSION } from "../../src/protocol/codec.ts";
import { decodeFrame, encodeFrame, FRAME_ITEMS_MAX, isFrame } from "../../src/protocol/frame.ts";
import type { Packet } from "../../src/protocol/packet.ts";
import { usageIn } from "../../src/protocol/usage.ts";
import { packet as anyPacket } from "./arbitraries.ts";
import { peerDecode, peerEncode } from "./peer.ts";
import { protoText } from "./proto-text.ts";

const request = (): Packet => ({
  traceId: "t-1",
  senderId: "control-1",
  createdAtMs: 1_700_000_000_123,
  body: { kind: "job_request", jobId: "j-1", topic: "demo.echo", priority: "batch", input: { a: [1, null] } },
});

describe("packets", () => {
  it("survive encoding and decoding", () => {
    fc.assert(
      fc.property(anyPacket, (packet) => {
        expect(decodePacket(encodePacket(packet))).toEqual(packet);
      }),
    );
  });

  it("carry the fields that third-party workers require, under CAP's names and numbers", () => {
    expect(peerDecode("BusPacket", encodePacket(request()))).toEqual({
      traceId: "t-1",
      senderId: "control-1",
      createdAt: { seconds: "1700000000", nanos: 123_000_000 },
      protocolVersion: PROTOCOL_VERSION,
      jobRequest: { jobId: "j-1", topic: "demo.echo", priority: 2, input: Buffer.from('{"a":[1,null]}') },
    });
  });

  it("of third-party workers are decoded, also without a trace id", () => {
    const bytes = peerEncode("BusPacket", {
      senderId: "w-1",
      jobResult: { jobId: "j-1", status: 10, workerId: "w-1", executionMs: 12, errorCodeEnum: 1_234 },
    });
    const packet = decodePacket(bytes);
    expect(packet).toMatchObject({ traceId: "", senderId: "w-1", createdAtMs: 0 });
    expect(packet.body).toMatchObject({ kind: "job_result", status: "failed_retryable", executionMs: 12 });
    // Unnamed fields survive forwarding.
    expect(peerDecode("BusPacket", encodePacket(packet)).jobResult).toMatchObject({ errorCodeEnum: 1_234 });
  });

  it("keep fields that `Packet` does not name", () => {
    const message = {
      traceId: "t",
      senderId: "s",
      createdAt: { seconds: "5" },
      protocolVersion: 1,
      signature: Buffer.from([1, 2, 3]),
      authToken: "secret",
      jobRequest: {
        jobId: "j",
        topic: "x",
        adapterId: "a",
        budget: { deadlineMs: "9007199254740993" },
        meta: { actorType: 1, packId: "p", capability: "c" },
        compensation: { topic: "undo", meta: { packId: "q" } },
      },
    };
    const forwarded = encodePacket(decodePacket(peerEncode("BusPacket", message)));
    expect(peerDecode("BusPacket", forwarded)).toEqual(message);
  });

  it("carry the retry intent of an error; errors of third parties are read by shape", () => {
    const error = toWire(retryAfter(new Error("busy"), 500, "lock_busy"));
    const body = { kind: "job_result", jobId: "j", status: "failed", workerId: "w", error } as const;
    expect(decodePacket(encodePacket({ ...request(), body })).body).toEqual(body);
    const strange = { jobId: "j", status: 6, workerId: "w", error: Buffer.from('"boo"'), retryClass: "of_tomorrow" };
    const read = decodePacket(peerEncode("BusPacket", { jobResult: strange })).body;
    expect(read).toMatchObject({ kind: "job_result", error: { message: "boo" } });
    expect(read).not.toHaveProperty("retryClass");
  });

  it.each([
    ["no payload", {}, /without a known payload/],
    ["a progress without a job", { jobProgress: { percent: 5 } }, /`jobId`/],
    ["a cancel without a job", { jobCancel: { reason: "r" } }, /`jobId`/],
    ["a request without a job", { jobRequest: { topic: "x" } }, /`jobId`/],
    ["a request without a topic", { jobRequest: { jobId: "j" } }, /`topic`/],
    ["a result without a job", { jobResult: { status: 5, workerId: "w" } }, /`jobId`/],
    ["a result without a worker", { jobResult: { jobId: "j", status: 5 } }, /`workerId`/],
    ["a result without a status", { jobResult: { jobId: "j", workerId: "w" } }, /without `status`/],
    ["a result of status 0", { jobResult: { jobId: "j", workerId: "w", status: 0 } }, /without `status`/],
    ["a result of an unknown status", { jobResult: { jobId: "j", workerId: "w", status: 99 } }, /without `status`/],
    ["a result that is pending", { jobResult: { jobId: "j", workerId: "w", status: 1 } }, /`pending`/],
    ["a result that is running", { jobResult: { jobId: "j", workerId: "w", status: 4 } }, /`running`/],
    [
      "a duration beyond 2^53",
      { jobResult: { jobId: "j", workerId: "w", status: 5, executionMs: "9007199254740993" } },
      /out of range/,
    ],
    ["an output that is not JSON", { jobResult: { jobId: "j", output: Buffer.from("{") } }, /not valid JSON/],
    ["a heartbeat without a worker", { heartbeat: { pool: "p" } }, /`workerId`/],
    ["a handshake without a component", { handshake: { role: 3 } }, /`componentId`/],
    ["a handshake without a role", { handshake: { componentId: "c" } }, /role/],
    [
      "a date out of range",
      { createdAt: { seconds: "9223372036854775807" }, heartbeat: { workerId: "w" } },
      /`created_at` of BusPacket is out of range/,
    ],
  ])("with %s are rejected", (_, message, reason) => {
    expect(() => decodePacket(peerEncode("BusPacket", message))).toThrow(reason);
  });

  it("with a handshake of any CAP role are decoded", () => {
    const roles = [1, 2, 3, 4, 5].map((role) => {
      const { body } = decodePacket(peerEncode("BusPacket", { handshake: { componentId: "c", role } }));
      return body.kind === "handshake" && body.role;
    });
    expect(roles).toEqual(["gateway", "scheduler", "worker", "orchestrator", "controller"]);
  });

  it("are decoded or rejected with a MalformedError, for any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        try {
          decodePacket(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedError);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("frames", () => {
  const item = fc.record({
    id: fc.string({ minLength: 1, unit: "grapheme" }),
    bytes: fc.uint8Array({ maxLength: 300 }),
  });

  it("survive encoding and decoding", () => {
    fc.assert(
      fc.property(fc.array(item, { minLength: 1, maxLength: FRAME_ITEMS_MAX }), (items) => {
        const frame = encodeFrame(items);
        expect(isFrame(frame)).toBe(true);
        expect(decodeFrame(frame).map(({ id, bytes }) => ({ id, bytes: Uint8Array.from(bytes) }))).toEqual(items);
      }),
      { numRuns: 50 },
    );
  });

  it("are distinguishable from packets", () => {
    fc.assert(
      fc.property(anyPacket, fc.array(item, { minLength: 1, maxLength: 5 }), (packet, items) => {
        const bytes = encodePacket(packet);
        expect(isFrame(bytes)).toBe(false);
        expect(() => decodeFrame(bytes)).toThrow("not a frame");
        const frame = encodeFrame([...items, { id: "packet", bytes }]);
        expect(isFrame(frame)).toBe(true);
        expect(() => decodePacket(frame)).toThrow(MalformedError);
      }),
    );
    expect(isFrame(new Uint8Array(0))).toBe(false);
  });

  it("with a missing or additional byte are rejected as a whole", () => {
    const frame = encodeFrame(["a", "b", "c"].map((id) => ({ id, bytes: encodePacket(request()) })));
    for (let length = 0; length < frame.length; length++) {
      expect(() => decodeFrame(frame.subarray(0, length)), String(length)).toThrow(MalformedError);
    }
    expect(() => decodeFrame(Buffer.concat([frame, Uint8Array.of(0)]))).toThrow(/trailing bytes/);
  });

  it("with an unknown version, no packets or too many packets are rejected", () => {
    expect(() => decodeFrame(Uint8Array.of(7, 2, 1, 1, 97, 0))).toThrow(/version 2/);
    expect(() => decodeFrame(Uint8Array.of(7, 1, 0))).toThrow(/0 packets/);
    expect(() => decodeFrame(Uint8Array.of(7, 1, 1, 0, 0))).toThrow(/without an id/);
    expect(() => encodeFrame([])).toThrow(MalformedError);
    const many = Array.from({ length: FRAME_ITEMS_MAX + 1 }, (_, index) => ({
      id: `${index}`,
      bytes: new Uint8Array(0),
    }));
    expect(() => encodeFrame(many)).toThrow(MalformedError);
  });

  it("with a damaged packet keep the other packets intact", () => {
    const good = encodePacket(request());
    const [first, second] = decodeFrame(
      encodeFrame([
        { id: "a", bytes: Uint8Array.of(0xff) },
        { id: "b", bytes: good },
      ]),
    );
    expect(() => decodePacket(first!.bytes)).toThrow(MalformedError);
    expect(decodePacket(second!.bytes)).toEqual(request());
  });
});

it("docs/cap.proto matches the schema", async () => {
  await expect(protoText()).toMatchFileSnapshot("../../docs/cap.proto");
});

it("a usage report beyond what sums hold exactly is cut off", () => {
  const report = {
    total_tokens: 1e300,
    inputTokens: -1,
    output_tokens: Number.NaN,
    cost_usd: Number.POSITIVE_INFINITY,
  };
  expect(usageIn(report)).toEqual({ totalTokens: 1e10, costUsd: 1e6 });
});
