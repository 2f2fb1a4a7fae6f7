import { MalformedError, type Reader, type WireType, type Writer } from "./bytes.ts";
import { UNSPECIFIED, type ValueCodec } from "./values.ts";

/** Writes and reads a field of a message, by its shape: single, repeated or map. */
export interface CompiledField {
  readonly number: number;
  readonly key: string;
  write(writer: Writer, value: unknown): void;
  /** Returns false if the value is kept raw. */
  read(reader: Reader, wire: number, message: PlainMessage, depth: number): boolean;
}

export type PlainMessage = Record<string, unknown> & { unknown?: Uint8Array };

export function singleField(
  number: number,
  key: string,
  value: ValueCodec,
  label: string,
  others: readonly string[],
  omitsDefault: boolean,
): CompiledField {
  const tag = (number << 3) | value.wire;
  return {
    number,
    key,
    write(writer, one) {
      if (omitsDefault && isDefault(one, value.empty)) return;
      writer.uint32(tag);
      value.write(writer, one);
    },
    read(reader, wire, message, depth) {
      if (wire !== value.wire) throw wrongWire(label, wire, value.wire);
      const one = value.read(reader, depth, message[key]);
      if (one === undefined) return false;
      for (const other of others) if (message[other] !== undefined) delete message[other];
      if (one === UNSPECIFIED) delete message[key];
      else message[key] = one;
      return true;
    },
  };
}

/** Messages and enums have no default: `empty` is undefined. */
function isDefault(value: unknown, empty: unknown): boolean {
  return Object.is(value, empty) || (value instanceof Uint8Array && value.length === 0);
}

export function repeatedField(number: number, key: string, value: ValueCodec, label: string): CompiledField {
  const isPackable = value.wire !== 2;
  const tag = (number << 3) | (isPackable ? 2 : value.wire);
  return {
    number,
    key,
    write(writer, list) {
      if (!Array.isArray(list)) throw new MalformedError(`${label} must be a list`);
      if (list.length === 0) return;
      if (!isPackable) {
        for (const one of list) {
          writer.uint32(tag);
          value.write(writer, one);
        }
        return;
      }
      writer.uint32(tag);
      const start = writer.open();
      for (const one of list) value.write(writer, one);
      writer.close(start);
    },
    read(reader, wire, message, depth) {
      message[key] ??= [];
      const list = message[key] as unknown[];
      if (wire === value.wire) {
        list.push(value.read(reader, depth, undefined));
        return true;
      }
      if (!isPackable || wire !== 2) throw wrongWire(label, wire, value.wire);
      const outer = reader.enter();
      while (reader.pos < reader.end) list.push(value.read(reader, depth, undefined));
      reader.leave(outer);
      return true;
    },
  };
}

/** A map is a repeated message of key 1 and value 2, ordered by key. */
export function mapField(number: number, key: string, value: ValueCodec, label: string): CompiledField {
  const tag = (number << 3) | 2;
  const valueTag = (2 << 3) | value.wire;
  return {
    number,
    key,
    write(writer, map) {
      if (typeof map !== "object" || map === null) throw new MalformedError(`${label} must be an object`);
      for (const name of sortedKeys(map)) {
        writer.uint32(tag);
        const start = writer.open();
        writer.uint32(0x0a);
        writer.string(name);
        writer.uint32(valueTag);
        value.write(writer, (map as Record<string, unknown>)[name]);
        writer.close(start);
      }
    },
    read(reader, wire, message, depth) {
      if (wire !== 2) throw wrongWire(label, wire, 2);
      message[key] ??= {};
      const outer = reader.enter();
      let name = "";
      let one: unknown;
      while (reader.pos < reader.end) {
        const inner = reader.uint32();
        if (inner === 0x0a) name = reader.string();
        else if (inner === valueTag) one = value.read(reader, depth, undefined);
        else reader.skip(inner & 7);
      }
      reader.leave(outer);
      setOwn(message[key] as Record<string, unknown>, name, one ?? value.empty);
      return true;
    },
  };
}

/** In the order of the UTF-8 bytes, as deterministic encoders write them. Most maps are in order already. */
function sortedKeys(map: object): readonly string[] {
  const names = Object.keys(map);
  for (let at = 1; at < names.length; at++) {
    // Surrogates order differently in UTF-16 and in UTF-8.
    if (names[at - 1]! >= names[at]! || SURROGATE.test(names[at - 1]!)) return names.sort(byBytes);
  }
  return names;
}

const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
const SURROGATE = /[\ud800-\udfff]/;

function setOwn(target: Record<string, unknown>, name: string, value: unknown): void {
  // An assignment to `__proto__` would set the prototype.
  if (name !== "__proto__") target[name] = value;
  else Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}

function wrongWire(label: string, wire: number, expected: WireType): MalformedError {
  return new MalformedError(`${label} has wire type ${wire}, expected ${expected}`);
}
