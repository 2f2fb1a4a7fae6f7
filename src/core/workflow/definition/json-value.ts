/**
 * From what an expression gives to plain JSON.
 *
 * 1. Whole numbers become numbers; beyond 2^53, where a number would be another one, they become text. Times, durations
 *    and bytes (base64) become text.
 * 2. What JSON has no word for (a type, infinity) is an error, never silently something else.
 * 3. The size is bounded, and counted together for all parts of one template: what is in it twice counts twice.
 */
import { Duration, UnsignedInt } from "@marcbachmann/cel-js/evaluator";

export const VALUE_LIMITS = { size: 8 * 1024 * 1024, depth: 64 } as const;

/** What may still be put out; a value costs about its length as JSON. */
export class Room {
  #left: number = VALUE_LIMITS.size;

  take(size: number): void {
    this.#left -= size;
    if (this.#left < 0) throw new Error(`the result is larger than ${VALUE_LIMITS.size} characters of JSON`);
  }
}

/** Throws in words when the value is none. */
export function toJson(value: unknown, room: Room, depth = 0): unknown {
  if (depth > VALUE_LIMITS.depth) throw new Error(`the result is nested more than ${VALUE_LIMITS.depth} deep`);
  switch (typeof value) {
    case "string":
      room.take(value.length + 2);
      return value;
    case "number":
      room.take(8);
      if (!Number.isFinite(value)) throw new Error(`the result has \`${value}\` in it, which is no number in JSON`);
      return value;
    case "boolean":
      room.take(5);
      return value;
    case "bigint":
      room.take(8);
      return wholeNumber(value);
    case "object":
      return value === null ? null : fromObject(value, room, depth);
    default:
      throw new Error(`the result has a ${typeof value} in it, which JSON cannot say`);
  }
}

function fromObject(value: object, room: Room, depth: number): unknown {
  room.take(2);
  if (Array.isArray(value)) return value.map((entry) => entryOf(entry, room, depth));
  if (value instanceof Set) return [...value].map((entry) => entryOf(entry, room, depth));
  if (isTime(value)) return value.toISOString();
  if (value instanceof Duration) return String(value);
  if (value instanceof UnsignedInt) return wholeNumber(value.value);
  if (value instanceof Uint8Array) return base64Of(value, room);
  const entries = value instanceof Map ? [...value] : isPlain(value) ? Object.entries(value) : null;
  if (entries === null) throw new Error("the result has a type in it, which JSON cannot say");
  return Object.fromEntries(
    entries.map(([key, entry]: readonly [unknown, unknown]) => {
      const name = String(key);
      room.take(name.length + 3);
      return [name, entryOf(entry, room, depth)];
    }),
  );
}

function entryOf(entry: unknown, room: Room, depth: number): unknown {
  room.take(1);
  return toJson(entry, room, depth + 1);
}

function wholeNumber(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

function base64Of(bytes: Uint8Array, room: Room): string {
  room.take(bytes.length * 2);
  return Buffer.from(bytes).toString("base64");
}

/** Nothing of JSON has functions. */
function isTime(value: object): value is { toISOString(): string } {
  return "toISOString" in value && typeof value.toISOString === "function";
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
