import { fromBase64, toBase64 } from "./base64.ts";
import { MalformedError, Reader, Writer } from "./bytes.ts";
import { type CompiledField, mapField, type PlainMessage, repeatedField, singleField } from "./fields.ts";
import { camelCase, type Field, type Schema } from "./schema.ts";
import { type ValueCodec, valueCodec } from "./values.ts";

/**
 * proto3, driven by the tables of `schema.ts`: each message is compiled once into closures.
 *
 * 1. In memory a message is a plain object with camel-case keys; a field that is absent on the wire is absent there.
 *    A property that is there is written, even if it holds proto3's default, so that what was said can be told from
 *    what was not. Empty lists and maps cannot be told from absent ones.
 * 2. Fields that are not known, and values of enums that are not known, are kept as raw bytes under `unknown` and are
 *    written again unchanged.
 * 3. Malformed input ends in a `MalformedError`; nothing else is thrown, and nothing is read past the end.
 */
export interface MessageCodec {
  encode(message: object): Uint8Array;
  decode(bytes: Uint8Array): PlainMessage;
}

/** Which fields of a message are read into properties; the others stay raw, as if they were not known. */
export type Named = Readonly<Record<string, readonly string[]>>;

export const DEPTH_MAX = 16;

/** `named` narrows the messages that it lists; the others are read whole. */
export function compile(schema: Schema, name: string, bytesMax: number, named: Named = {}): MessageCodec {
  const codec = new Compiler(schema, named).message(name);
  const writer = new Writer();
  return {
    encode(message) {
      writer.pos = 0;
      codec.write(writer, message as PlainMessage);
      if (writer.pos > bytesMax) throw new MalformedError(`${writer.pos} bytes are more than the limit of ${bytesMax}`);
      return writer.finish();
    },
    decode(bytes) {
      if (bytes.length > bytesMax) {
        throw new MalformedError(`${bytes.length} bytes are more than the limit of ${bytesMax}`);
      }
      const message: PlainMessage = {};
      codec.read(new Reader(bytes), message, 1);
      return message;
    },
  };
}

class Compiler {
  readonly #schema: Schema;
  readonly #named: Named;
  readonly #done = new Map<string, CompiledMessage>();

  constructor(schema: Schema, named: Named) {
    this.#schema = schema;
    this.#named = named;
  }

  message(name: string): CompiledMessage {
    const known = this.#done.get(name);
    if (known) return known;
    const all = this.#schema.messages[name];
    if (all === undefined) throw new Error(`no message \`${name}\` in the schema`);
    const only = this.#named[name];
    const message = new CompiledMessage(name);
    // Registered before its fields, so that a message may contain itself.
    this.#done.set(name, message);
    message.fields = all
      .filter((field) => only === undefined || only.includes(field.name))
      .map((field) => this.#field(name, field, all));
    message.index();
    return message;
  }

  #field(message: string, field: Field, siblings: readonly Field[]): CompiledField {
    const value = this.#value(message, field);
    const key = camelCase(field.name);
    const label = `\`${field.name}\` of ${message}`;
    switch (field.shape) {
      case "single":
        return singleField(field.number, key, value, label, rivals(field, siblings));
      case "repeated":
        return repeatedField(field.number, key, value, label);
      case "map":
        return mapField(field.number, key, value, label);
      default:
        throw new Error(`no shape ${field.shape satisfies never}`);
    }
  }

  #value(message: string, { name, type, shape }: Field): ValueCodec {
    const label = `\`${name}\` of ${message}`;
    if (type.kind !== "message") {
      if (type.kind === "enum" && shape !== "single") throw new Error(`${label}: only single enums are supported`);
      return valueCodec(this.#schema, type, label);
    }
    const codec = this.message(type.of);
    return {
      wire: 2,
      write(writer, value) {
        if (typeof value !== "object" || value === null) throw new MalformedError(`${label} must be an object`);
        const start = writer.open();
        codec.write(writer, value as PlainMessage);
        writer.close(start);
      },
      read(reader, depth, before) {
        const outer = reader.enter();
        // The same message again continues the first one: that is proto3's rule.
        const target = (before as PlainMessage | undefined) ?? {};
        codec.read(reader, target, depth + 1);
        reader.leave(outer);
        return target;
      },
    };
  }
}

/** Larger field numbers are looked up in a map. */
const TABLE_SIZE = 32;

class CompiledMessage {
  fields: readonly CompiledField[] = [];
  readonly #name: string;
  readonly #small: (CompiledField | undefined)[] = new Array(TABLE_SIZE).fill(undefined);
  readonly #large = new Map<number, CompiledField>();

  constructor(name: string) {
    this.#name = name;
  }

  index(): void {
    for (const field of this.fields) {
      if (field.number < TABLE_SIZE) this.#small[field.number] = field;
      else this.#large.set(field.number, field);
    }
  }

  write(writer: Writer, message: PlainMessage): void {
    // First, so that a property set since then wins over an older value that was kept raw.
    const unknown = message.unknown;
    if (unknown !== undefined) {
      writer.raw(rawOf(unknown, this.#name));
    }
    const fields = this.fields;
    for (let index = 0; index < fields.length; index++) {
      const field = fields[index]!;
      const value = message[field.key];
      if (value !== undefined) field.write(writer, value);
    }
  }

  /** Reads up to the reader's end. */
  read(reader: Reader, message: PlainMessage, depth: number): void {
    if (depth > DEPTH_MAX) throw new MalformedError(`more than ${DEPTH_MAX} messages inside each other`);
    let unknown: Uint8Array[] | null = null;
    while (reader.pos < reader.end) {
      const start = reader.pos;
      const tag = reader.uint32();
      const number = tag >>> 3;
      const wire = tag & 7;
      const field = number < TABLE_SIZE ? this.#small[number] : this.#large.get(number);
      if (field !== undefined) {
        if (field.read(reader, wire, message, depth)) continue;
      } else {
        if (number === 0) throw new MalformedError(`${this.#name} has a field with the number 0`);
        reader.skip(wire);
      }
      unknown ??= [];
      unknown.push(reader.buf.subarray(start, reader.pos));
    }
    if (unknown !== null) keepUnknown(message, unknown);
  }
}

function keepUnknown(message: PlainMessage, parts: Uint8Array[]): void {
  if (message.unknown !== undefined) parts.unshift(message.unknown);
  // A plain copy: the input may be large, and is not kept alive by it.
  message.unknown = new RawFields(Buffer.concat(parts));
}

/** Bytes that survive JSON: packets stand in outboxes between decoding and encoding. */
class RawFields extends Uint8Array {
  toJSON(): string {
    return toBase64(this);
  }
}

function rawOf(unknown: unknown, name: string): Uint8Array {
  if (unknown instanceof Uint8Array) return unknown;
  if (typeof unknown === "string") return fromBase64(unknown);
  throw new MalformedError(`\`unknown\` of ${name} must be bytes, or base64 where it came through JSON`);
}

const rivals = (field: Field, siblings: readonly Field[]): string[] =>
  siblings
    .filter((other) => field.oneof !== undefined && other.oneof === field.oneof && other !== field)
    .map((other) => camelCase(other.name));
