import { applyPatch, diff, type Patch } from "../ports/record-patch.ts";
import type { Put } from "../ports/store.ts";

/**
 * Records as text: a JSON document, followed by one line for each later delta (`ports/record-patch.ts`).
 *
 * 1. A text that starts with a line break is a delta and is appended to the stored text. Any other text replaces it. JSON
 *    contains no raw line breaks.
 * 2. Every `WHOLE_EVERY`th version is written whole, which bounds the number of deltas.
 */
export function encodeValue({ table, id, value, before, expect }: Put): string {
  if (expect !== null && expect > 0 && (expect + 1) % WHOLE_EVERY !== 0) {
    const patch = diff(before, value);
    if (patch !== null) return `\n${JSON.stringify(patch)}`;
  }
  return encodeJson(value, `${table} \`${id}\``);
}

export function encodeJson(value: unknown, what: string): string {
  const json: string | undefined = JSON.stringify(value);
  if (json === undefined) throw new Error(`${what} is not a JSON document`);
  return json;
}

export const isDelta = (text: string): boolean => text.charCodeAt(0) === LINE_BREAK;

export function decodeValue(text: string): unknown {
  if (!text.includes("\n")) return JSON.parse(text);
  const [whole = "", ...patches] = text.split("\n");
  let value: unknown = JSON.parse(whole);
  if (typeof value !== "object" || value === null) throw new Error("the base of a patch is not an object");
  for (const patch of patches) value = applyPatch(value, readPatch(patch));
  return value;
}

function readPatch(text: string): Patch {
  const patch = JSON.parse(text) as Patch;
  for (const part in patch) {
    if (!PATCH_PARTS.includes(part)) throw new Error(`a patch has the unknown part \`${part}\``);
  }
  return patch;
}

const PATCH_PARTS: readonly string[] = ["s", "d", "p", "i"] satisfies (keyof Patch)[];

const LINE_BREAK = 10;
const WHOLE_EVERY = 8;
