import { MalformedError, type Reader, type WireType, type Writer } from "./bytes.ts";
import type { FieldType, ScalarType, Schema } from "./schema.ts";

/** Writes and reads a value of a type, without its tag. */
export interface ValueCodec {
  readonly wire: WireType;
  /** Default of an absent map value. */
  readonly empty?: unknown;
  write(writer: Writer, value: unknown): void;
  /** `before` is the current value of the field. Returns undefined to keep the value raw, `UNSPECIFIED` to unset it. */
  read(reader: Reader, depth: number, before: unknown): unknown;
}

/** Enum number 0. */
export const UNSPECIFIED = Symbol("unspecified");

export function valueCodec(schema: Schema, type: Exclude<FieldType, { kind: "message" }>, label: string): ValueCodec {
  switch (type.kind) {
    case "scalar":
      return SCALARS[type.scalar](label);
    case "timestamp":
      return timestampCodec(label);
    case "json":
      return jsonCodec(label);
    case "enum":
      return enumCodec(schema, type.of, label, type.isOpen ?? false);
    default:
      throw new Error(`unknown type ${type satisfies never}`);
  }
}

const SCALARS: Readonly<Record<ScalarType, (label: string) => ValueCodec>> = {
  string: (label) => ({
    wire: 2,
    empty: "",
    write(writer, value) {
      if (typeof value !== "string") throw new MalformedError(`${label} must be a string`);
      writer.string(value);
    },
    read: (reader) => reader.string(),
  }),
  bytes: (label) => ({
    wire: 2,
    empty: new Uint8Array(0),
    write(writer, value) {
      if (!(value instanceof Uint8Array)) throw new MalformedError(`${label} must be bytes`);
      writer.bytes(value);
    },
    read: (reader) => reader.bytes(),
  }),
  bool: (label) => ({
    wire: 0,
    empty: false,
    write(writer, value) {
      if (typeof value !== "boolean") throw new MalformedError(`${label} must be a boolean`);
      writer.uint32(value ? 1 : 0);
    },
    read: (reader) => reader.bool(),
  }),
  int32: (label) => ({
    wire: 0,
    empty: 0,
    write(writer, value) {
      if (typeof value !== "number" || (value | 0) !== value) {
        throw new MalformedError(`${label} must be a 32-bit integer, not \`${String(value)}\``);
      }
      writer.int64(value);
    },
    read: (reader) => reader.uint32() | 0,
  }),
  int64: (label) => ({
    wire: 0,
    empty: 0,
    write(writer, value) {
      const isWhole = typeof value === "bigint" ? BigInt.asIntN(64, value) === value : Number.isSafeInteger(value);
      if (!isWhole) throw new MalformedError(`${label} must be a 64-bit integer, not \`${String(value)}\``);
      writer.int64(value as number | bigint);
    },
    read: (reader) => reader.int64(),
  }),
  float: (label) => ({
    wire: 5,
    empty: 0,
    write(writer, value) {
      if (typeof value !== "number") throw new MalformedError(`${label} must be a number`);
      writer.float(value);
    },
    read: (reader) => reader.float(),
  }),
  double: (label) => ({
    wire: 1,
    empty: 0,
    write(writer, value) {
      if (typeof value !== "number") throw new MalformedError(`${label} must be a number`);
      writer.double(value);
    },
    read: (reader) => reader.double(),
  }),
};

const NANOS_PER_MS = 1_000_000;

function timestampCodec(label: string): ValueCodec {
  return {
    wire: 2,
    write(writer, value) {
      if (!Number.isSafeInteger(value)) throw new MalformedError(`${label} must be an integer of milliseconds`);
      const ms = value as number;
      const seconds = Math.floor(ms / 1_000);
      const nanos = (ms - seconds * 1_000) * NANOS_PER_MS;
      const start = writer.open();
      if (seconds !== 0) {
        writer.uint32(0x08);
        writer.int64(seconds);
      }
      if (nanos !== 0) {
        writer.uint32(0x10);
        writer.uint32(nanos);
      }
      writer.close(start);
    },
    read(reader) {
      const outer = reader.enter();
      let seconds: number | bigint = 0;
      let nanos = 0;
      while (reader.pos < reader.end) {
        const tag = reader.uint32();
        if (tag === 0x08) seconds = reader.int64();
        else if (tag === 0x10) nanos = reader.uint32() | 0;
        else reader.skip(tag & 7);
      }
      reader.leave(outer);
      const ms = Number(seconds) * 1_000 + Math.floor(nanos / NANOS_PER_MS);
      if (!Number.isSafeInteger(ms)) throw new MalformedError(`${label} is out of range`);
      return ms;
    },
  };
}

function jsonCodec(label: string): ValueCodec {
  return {
    wire: 2,
    write(writer, value) {
      const text = JSON.stringify(value);
      if (text === undefined) throw new MalformedError(`${label} must be a JSON value`);
      writer.string(text);
    },
    read(reader) {
      const text = reader.string();
      try {
        return JSON.parse(text) as unknown;
      } catch {
        throw new MalformedError(`${label} is not valid JSON`);
      }
    },
  };
}

function enumCodec(schema: Schema, name: string, label: string, isOpen: boolean): ValueCodec {
  const table = schema.enums[name];
  if (table === undefined) throw new Error(`no enum \`${name}\` in the schema`);
  const names = new Map(Object.entries(table).map(([number, value]) => [Number(number), value]));
  const numbers = new Map([...names].map(([number, value]) => [value, number]));
  return {
    wire: 0,
    write(writer, value) {
      const number = isOpen && typeof value === "number" ? value >>> 0 : numbers.get(value as string);
      if (number === undefined) throw new MalformedError(`${label} has no value \`${String(value)}\``);
      writer.uint32(number);
    },
    read(reader) {
      const number = reader.uint32() | 0;
      return number === 0 ? UNSPECIFIED : (names.get(number) ?? (isOpen && number > 0 ? number : undefined));
    },
  };
}
