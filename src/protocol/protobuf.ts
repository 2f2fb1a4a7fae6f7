import { fromBase64, toBase64 } from "./base64.ts";
import { MalformedError, Reader, Writer } from "./bytes.ts";
import { type CompiledField, mapField, type PlainMessage, repeatedField, singleField } from "./fields.ts";
import { camelCase, EXTENSIONS_FROM, type Field, type Schema } from "./schema.ts";
import { type ValueCodec, valueCodec } from "./values.ts";

/**
 * proto3 codecs, compiled from the tables of `schema.ts` into closures.
 *
 * 1. A message is a plain object with camel-case keys. Absent fields are absent properties. A property that is present is
 *    written even if it equals the proto3 default, so presence is preserved; empty lists and maps are the exception. A
 *    canonical codec leaves out defaults, as other implementations do, except those of extensions.
 * 2. Unknown fields and unknown enum values are kept as raw bytes in `unknown` and written back unchanged.
 * 3. Fields are written in the order of the schema, map entries in the order of their keys.
 * 4. Malformed input throws a `MalformedError` and nothing else.
 */
export interface MessageCodec {
  encode(message: object): Uint8Array;
  decode(bytes: Uint8Array): PlainMessage;
}

/** The fields that are decoded per message; all others stay raw. */
export type Named = Readonly<Record<string, readonly string[]>>;

export const DEPTH_MAX = 16;

export interface CompileOptions {
  /** Messages that are not listed are decoded completely. */
  readonly named?: Named;
  readonly isCanonical?: boolean;
}

export function compile(schema: Schema, name: string, bytesMax: number, options: CompileOptions = {}): MessageCodec {
  const codec = new Compiler(schema, options).message(name);
  const writer = new Writer();
  return {
    encode(message) {
      writer.pos = 0;
      codec.write(writer, message as PlainMessage);
      if (writer.pos > bytesMax) throw tooLarge(writer.pos, bytesMax);
      return writer.finish();
    },
    decode(bytes) {
      if (bytes.length > bytesMax) throw tooLarge(bytes.length, bytesMax);
      const message: PlainMessage = {};
      codec.read(new Reader(bytes), message, 1);
      return message;
    },
  };
}

class Compiler {
  readonly #schema: Schema;
  readonly #named: Named;
  readonly #isCanonical: boolean;
  readonly #done = new Map<string, CompiledMessage>();

  constructor(schema: Schema, { named = {}, isCanonical = false }: CompileOptions) {
    this.#schema = schema;
    this.#named = named;
    this.#isCanonical = isCanonical;
  }

  message(name: string): CompiledMessage {
    const known = this.#done.get(name);
    if (known) return known;
    const all = this.#schema.messages[name];
    if (all === undefined) throw new Error(`no message \`${name}\` in the schema`);
    const only = this.#named[name];
    const message = new CompiledMessage(name);
    // Registered before its fields, because a message can contain itself.
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
      case "single": {
        const omitsDefault = this.#isCanonical && field.number < EXTENSIONS_FROM && !field.keepsDefault;
        return singleField(field.number, key, value, label, otherOneofKeys(field, siblings), omitsDefault);
      }
      case "repeated":
        return repeatedField(field.number, key, value, label);
      case "map":
        return mapField(field.number, key, value, label);
      default:
        throw new Error(`unknown shape ${field.shape satisfies never}`);
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
        // proto3: a repeated occurrence of a message field is merged into the first.
        const target = (before as PlainMessage | undefined) ?? {};
        codec.read(reader, target, depth + 1);
        reader.leave(outer);
        return target;
      },
    };
  }
}

/** Field numbers below this use an array, larger ones a map. */
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
    // First, so that a property overrides an older raw value.
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

  /** Reads up to `reader.end`. */
  read(reader: Reader, message: PlainMessage, depth: number): void {
    if (depth > DEPTH_MAX) throw new MalformedError(`messages nested deeper than ${DEPTH_MAX}`);
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
        if (number === 0) throw new MalformedError(`${this.#name} with field number 0`);
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
  // A copy, so that it does not keep a large input alive.
  message.unknown = new RawFields(Buffer.concat(parts));
}

/** Serializes to base64 in JSON: the outbox stores packets as JSON. */
class RawFields extends Uint8Array {
  toJSON(): string {
    return toBase64(this);
  }
}

function rawOf(unknown: unknown, name: string): Uint8Array {
  if (unknown instanceof Uint8Array) return unknown;
  if (typeof unknown === "string") return fromBase64(unknown);
  throw new MalformedError(`\`unknown\` of ${name} must be bytes or base64`);
}

const tooLarge = (bytes: number, max: number): MalformedError =>
  new MalformedError(`message of ${bytes} bytes exceeds the limit of ${max}`);

/** The other fields of the same oneof. */
const otherOneofKeys = (field: Field, siblings: readonly Field[]): string[] =>
  siblings
    .filter((other) => field.oneof !== undefined && other.oneof === field.oneof && other !== field)
    .map((other) => camelCase(other.name));
