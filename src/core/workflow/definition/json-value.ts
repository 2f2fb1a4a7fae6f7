/**
 * Converts CEL values to plain JSON.
 *
 * 1. Integers become numbers, or strings beyond 2^53. Timestamps, durations and bytes (base64) become strings.
 * 2. Values without a JSON form (types, infinity) are errors.
 * 3. The size is bounded per template; repeated values count each time.
 */
import { Duration, UnsignedInt } from "@marcbachmann/cel-js/evaluator";
import type { OutputSize } from "./plan.ts";

export const VALUE_LIMITS = { size: 8 * 1024 * 1024, depth: 64 } as const;

/** The output size so far; a value costs about its JSON length. */
export class OutputBudget implements OutputSize {
  bytes = 0;
  itemBytes = 0;

  charge(size: number): void {
    this.bytes += size;
    if (this.bytes > VALUE_LIMITS.size) throw new Error(`the result exceeds ${VALUE_LIMITS.size} characters of JSON`);
  }
}

/** Throws a readable error for values without a JSON form. */
export function toJson(value: unknown, budget: OutputBudget, depth = 0): unknown {
  if (depth > VALUE_LIMITS.depth) throw new Error(`the result is nested more than ${VALUE_LIMITS.depth} deep`);
  switch (typeof value) {
    case "string":
      budget.charge(value.length + 2);
      return value;
    case "number":
      budget.charge(8);
      if (!Number.isFinite(value)) throw new Error(`the result contains \`${value}\`, which is not a JSON number`);
      return value;
    case "boolean":
      budget.charge(5);
      return value;
    case "bigint":
      budget.charge(8);
      return wholeNumber(value);
    case "object":
      return value === null ? null : fromObject(value, budget, depth);
    default:
      throw new Error(`the result contains a ${typeof value}, which is not a JSON value`);
  }
}

function fromObject(value: object, room: OutputBudget, depth: number): unknown {
  room.charge(2);
  if (Array.isArray(value)) return value.map((entry) => entryOf(entry, room, depth));
  if (value instanceof Set) return [...value].map((entry) => entryOf(entry, room, depth));
  if (isTime(value)) return value.toISOString();
  if (value instanceof Duration) return String(value);
  if (value instanceof UnsignedInt) return wholeNumber(value.value);
  if (value instanceof Uint8Array) return base64Of(value, room);
  const entries = value instanceof Map ? [...value] : isPlain(value) ? Object.entries(value) : null;
  if (entries === null) throw new Error("the result contains a type, which is not a JSON value");
  return Object.fromEntries(
    entries.map(([key, entry]: readonly [unknown, unknown]) => {
      const name = String(key);
      room.charge(name.length + 3);
      return [name, entryOf(entry, room, depth)];
    }),
  );
}

function entryOf(entry: unknown, room: OutputBudget, depth: number): unknown {
  room.charge(1);
  return toJson(entry, room, depth + 1);
}

function wholeNumber(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

function base64Of(bytes: Uint8Array, room: OutputBudget): string {
  room.charge(bytes.length * 2);
  return Buffer.from(bytes).toString("base64");
}

/** JSON values have no functions. */
function isTime(value: object): value is { toISOString(): string } {
  return "toISOString" in value && typeof value.toISOString === "function";
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
