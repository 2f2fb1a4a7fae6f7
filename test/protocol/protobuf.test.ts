import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MalformedError, Reader, Writer } from "../../src/protocol/bytes.ts";
import { compile } from "../../src/protocol/protobuf.ts";
import { CAP, camelCase, type Field, type Schema } from "../../src/protocol/schema.ts";
import { messageNames, messageOf } from "./arbitraries.ts";
import { peerDecode, peerEncode } from "./peer.ts";

const BYTES_MAX = 1_000_000;
const codecs = new Map(messageNames.map((name) => [name, compile(CAP, name, BYTES_MAX)]));

describe.each(messageNames)("%s", (name) => {
  const codec = codecs.get(name)!;

  it("survives encoding and decoding", () => {
    fc.assert(
      fc.property(messageOf(name), (message) => {
        expect(codec.decode(codec.encode(message))).toEqual(message);
      }),
    );
  });

  it("is decoded equally by a third-party implementation", () => {
    fc.assert(
      fc.property(messageOf(name), (message) => {
        expect(peerDecode(name, codec.encode(message))).toEqual(asPeer(name, withoutDefaults(name, message)));
      }),
    );
  });

  it("decodes messages of a third-party implementation", () => {
    fc.assert(
      fc.property(messageOf(name), (message) => {
        expect(codec.decode(peerEncode(name, asPeer(name, message)))).toEqual(withoutDefaults(name, message));
      }),
    );
  });

  it("decodes or rejects random and damaged bytes", () => {
    const damaged = fc
      .tuple(messageOf(name), fc.nat(), fc.nat({ max: 255 }), fc.nat())
      .map(([message, at, byte, length]) => {
        const bytes = Buffer.from(codec.encode(message));
        if (bytes.length > 0) bytes[at % bytes.length] = byte;
        return length % 3 === 0 ? bytes.subarray(0, length % (bytes.length + 1)) : bytes;
      });
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), damaged), (bytes) =>
        decodesOrRejects(codec.decode, bytes),
      ),
      { numRuns: 1_000 },
    );
  });
});

describe("unknown fields", () => {
  const older: Schema = {
    enums: { JobPriority: { 1: "interactive" } },
    messages: { ...CAP.messages, JobRequest: CAP.messages.JobRequest.filter(({ number }) => number % 2 === 1) },
  };

  it("are kept by an older version and written again", () => {
    const current = codecs.get("JobRequest")!;
    const old = compile({ ...CAP, messages: older.messages }, "JobRequest", BYTES_MAX);
    fc.assert(
      fc.property(messageOf("JobRequest"), (message) => {
        const forwarded = old.encode(old.decode(current.encode(message)));
        expect(current.decode(forwarded)).toEqual(message);
      }),
    );
  });

  it("include unknown enum values; a value set later overrides them", () => {
    const current = codecs.get("JobRequest")!;
    const old = compile(
      { ...CAP, enums: { ...CAP.enums, JobPriority: { 1: "interactive" } } },
      "JobRequest",
      BYTES_MAX,
    );
    const read = old.decode(current.encode({ jobId: "j", priority: "critical" }));
    expect(read).toMatchObject({ jobId: "j" });
    expect([...(read.unknown ?? [])]).toEqual([0x18, 3]);
    // The outbox stores packets as JSON.
    expect(old.encode(JSON.parse(JSON.stringify(read)))).toEqual(old.encode(read));
    expect(current.decode(old.encode(read))).toEqual({ jobId: "j", priority: "critical" });
    expect(current.decode(old.encode({ ...read, priority: "interactive" }))).toEqual({
      jobId: "j",
      priority: "interactive",
    });
  });

  it("must be bytes when encoded", () => {
    const { encode } = codecs.get("JobCancel")!;
    expect(() => encode({ jobId: "j", unknown: { 0: 1 } })).toThrow(MalformedError);
  });
});

describe("proto3 rules", () => {
  const { decode, encode } = codecs.get("JobRequest")!;
  const concat = (...parts: Uint8Array[]) => Buffer.concat(parts);

  it("the last value of a field wins", () => {
    expect(decode(concat(encode({ topic: "a" }), encode({ topic: "b" })))).toEqual({ topic: "b" });
  });

  it("repeated occurrences of a message field are merged", () => {
    const twice = concat(encode({ budget: { deadlineMs: 5 } }), encode({ budget: { maxInputTokens: 7 } }));
    expect(decode(twice)).toEqual({ budget: { deadlineMs: 5, maxInputTokens: 7 } });
  });

  it("a later oneof member replaces an earlier one", () => {
    const packet = codecs.get("BusPacket")!;
    const twice = concat(packet.encode({ jobCancel: { jobId: "a" } }), packet.encode({ alert: { code: "b" } }));
    expect(packet.decode(twice)).toEqual({ alert: { code: "b" } });
  });

  it("enum number 0 unsets the field", () => {
    expect(decode(concat(encode({ priority: "batch" }), Uint8Array.of(0x18, 0)))).toEqual({});
  });

  it("repeated numbers are decoded packed and unpacked", () => {
    const handshake = codecs.get("Handshake")!;
    expect(handshake.decode(Uint8Array.of(0x18, 1, 0x18, 2, 0x1a, 2, 3, 4))).toEqual({
      supportedVersions: [1, 2, 3, 4],
    });
  });

  it("a map entry without key or value has the defaults", () => {
    expect(decode(Uint8Array.of(0x7a, 0))).toEqual({ labels: { "": "" } });
  });

  it("explicit defaults are distinct from absent fields", () => {
    const heartbeat = codecs.get("Heartbeat")!;
    expect(heartbeat.decode(heartbeat.encode({ activeJobs: 0, pool: "" }))).toEqual({ activeJobs: 0, pool: "" });
  });
});

describe("malformed input is rejected", () => {
  const { decode } = codecs.get("BusPacket")!;
  const recursive: Schema = {
    enums: {},
    messages: {
      Node: [{ name: "next", number: 1, type: { kind: "message", of: "Node" }, shape: "single" } satisfies Field],
    },
  };

  it.each([
    ["truncated string", [0x0a, 5, 0x61], /unexpected end/],
    ["truncated number", [0x20, 0x80], /unexpected end/],
    ["truncated tag", [0x80], /unexpected end/],
    ["truncated message", [0x52, 10, 0x0a, 1, 0x61], /unexpected end/],
    ["a string longer than its message", [0x52, 3, 0x0a, 5, 0x61, 0x61, 0x61, 0x61, 0x61], /unexpected end/],
    ["a varint of eleven bytes", [0x20, ...new Array(10).fill(0x80), 1], /longer than ten bytes/],
    ["field number 0", [0x00, 1], /number 0/],
    ["a group", [0xf3, 0x01, 0xf4, 0x01], /wire type 3/],
    ["a wrong wire type", [0x08, 1], /`trace_id` of BusPacket has wire type 0/],
    ["invalid UTF-8", [0x0a, 2, 0xc3, 0x28], /invalid UTF-8/],
    ["an overlong UTF-8 sequence", [0x0a, 2, 0xc0, 0x80], /invalid UTF-8/],
  ])("%s", (_, bytes, reason) => {
    expect(() => decode(Uint8Array.from(bytes as number[]))).toThrow(reason);
    expect(() => decode(Uint8Array.from(bytes as number[]))).toThrow(MalformedError);
  });

  it("too deeply nested, too large", () => {
    const node = compile(recursive, "Node", 100);
    let deep = new Uint8Array(0);
    for (let depth = 0; depth < 20; depth++) deep = Uint8Array.of(0x0a, deep.length, ...deep);
    expect(() => node.decode(deep)).toThrow(/nested deeper than/);
    expect(() => node.decode(new Uint8Array(101))).toThrow(/exceeds the limit/);
    const small = compile(CAP, "JobCancel", 100);
    expect(() => small.encode({ reason: "x".repeat(101) })).toThrow(/exceeds the limit/);
    expect(small.decode(small.encode({ reason: "x" }))).toEqual({ reason: "x" });
  });

  it("values of the wrong type are not encoded", () => {
    const { encode } = codecs.get("JobRequest")!;
    for (const wrong of [
      { jobId: 1 },
      { attempt: 1.5 },
      { attempt: 2 ** 31 },
      { deadlineMs: 0.5 },
      { budget: { deadlineMs: 2n ** 63n } },
      { priority: "urgent" },
      { labels: "x" },
      { labels: { a: 1 } },
      { meta: 5 },
      { meta: { requires: "x" } },
      { contextHints: { allowRetrieval: 1 } },
      { input: () => 1 },
    ]) {
      expect(() => encode(wrong), JSON.stringify(wrong, bigintAsText)).toThrow(MalformedError);
    }
  });
});

describe("64-bit integers", () => {
  it("are exact", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
        const writer = new Writer();
        writer.int64(value);
        expect(BigInt(new Reader(writer.finish()).int64())).toBe(value);
      }),
    );
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        const writer = new Writer();
        writer.int64(value);
        expect(new Reader(writer.finish()).int64()).toBe(value);
      }),
    );
  });
});

/** The reference implementation does not distinguish explicit defaults from absent fields. */
function withoutDefaults(name: string, message: Record<string, unknown>): Record<string, unknown> {
  const fields = (CAP.messages as Record<string, readonly Field[]>)[name]!;
  const out: Record<string, unknown> = {};
  for (const { name: snake, shape, type } of fields) {
    const key = camelCase(snake);
    const value = message[key];
    if (type.kind === "message" && value !== undefined) {
      out[key] = withoutDefaults(type.of, value as Record<string, unknown>);
    } else if (shape !== "single" || type.kind !== "scalar" || !isDefault(value)) {
      if (value !== undefined) out[key] = value;
    }
  }
  return out;
}

const isDefault = (value: unknown): boolean =>
  value === "" || Object.is(value, 0) || value === false || (value instanceof Uint8Array && value.length === 0);

/** Converts enums, timestamps and JSON to the representation of the reference implementation. */
function asPeer(name: string, message: Record<string, unknown>): Record<string, unknown> {
  const fields = (CAP.messages as Record<string, readonly Field[]>)[name]!;
  const out: Record<string, unknown> = {};
  for (const field of fields) {
    const value = message[camelCase(field.name)];
    if (value !== undefined) out[camelCase(field.name)] = peerValue(field, value);
  }
  return out;
}

function peerValue({ type }: Field, value: unknown): unknown {
  switch (type.kind) {
    case "message":
      return asPeer(type.of, value as Record<string, unknown>);
    case "enum": {
      const table = (CAP.enums as Record<string, Record<number, string>>)[type.of]!;
      return Number(Object.keys(table).find((number) => table[Number(number)] === value));
    }
    case "json":
      return Buffer.from(JSON.stringify(value));
    case "timestamp": {
      const seconds = Math.floor((value as number) / 1_000);
      const nanos = ((value as number) - seconds * 1_000) * 1_000_000;
      return { ...(seconds !== 0 && { seconds: String(seconds) }), ...(nanos !== 0 && { nanos }) };
    }
    case "scalar":
      if (type.scalar === "int64") return String(value);
      return type.scalar === "bytes" ? Buffer.from(value as Uint8Array) : value;
    default:
      throw new Error(`unknown type ${type satisfies never}`);
  }
}

function decodesOrRejects(decode: (bytes: Uint8Array) => unknown, bytes: Uint8Array): void {
  try {
    decode(bytes);
  } catch (error) {
    expect(error).toBeInstanceOf(MalformedError);
    expect((error as Error).message).not.toBe("");
  }
}

const bigintAsText = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);
