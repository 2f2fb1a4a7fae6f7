import { type Patch, patched, patchOf } from "../ports/patch.ts";
import type { Put } from "../ports/store.ts";

/**
 * Records as text: a document, and behind it, a line each, what was changed since (see `ports/patch.ts`).
 *
 * 1. A text that begins with a line break goes behind what is there; any other takes its place. JSON has no line breaks.
 * 2. Every so many versions the whole is written: so a record is never more than a few lines, however often it changes.
 */
export function textOf({ table, id, value, before, expect }: Put): string {
  if (expect !== null && expect > 0 && (expect + 1) % WHOLE_EVERY !== 0) {
    const patch = patchOf(before, value);
    if (patch !== null) return `\n${JSON.stringify(patch)}`;
  }
  return jsonOf(value, `${table} \`${id}\``);
}

export function jsonOf(value: unknown, what: string): string {
  const json: string | undefined = JSON.stringify(value);
  if (json === undefined) throw new Error(`${what} is not a JSON document`);
  return json;
}

/** Whether the text goes behind what is there. */
export const isMore = (text: string): boolean => text.charCodeAt(0) === LINE_BREAK;

export function valueIn(text: string): unknown {
  if (!text.includes("\n")) return JSON.parse(text);
  const [whole = "", ...patches] = text.split("\n");
  let value: unknown = JSON.parse(whole);
  for (const patch of patches) value = patched(value, JSON.parse(patch) as Patch);
  return value;
}

const LINE_BREAK = 10;
const WHOLE_EVERY = 8;
