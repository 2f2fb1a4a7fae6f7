import { crc32 } from "node:zlib";
import type { SqlValue } from "../database.ts";

/**
 * Checksum of the columns of a row. Every step is a bijection of the sum, so one changed column always changes it. Short texts are
 * faster in JavaScript than through `zlib`.
 *
 * Checksums are part of the stored format: they change only with a new schema version.
 */
export function rowSum(...columns: readonly SqlValue[]): number {
  let sum = ROW_START;
  for (const column of columns) sum = addColumn(sum, column);
  return sum >>> 0;
}

/** The state of `rowSum` after another column. For rows that are summed often: without an array of their columns. */
export function addColumn(sum: number, column: SqlValue): number {
  if (typeof column === "string") return endColumn(addText(sum, column), COLUMN_END);
  if (column === null) return endColumn(sum, NULL_END);
  if (typeof column === "number" && Number.isSafeInteger(column)) {
    const low = Math.imul(sum ^ column, FNV_PRIME);
    return endColumn(Math.imul(low ^ Math.floor(column / 2 ** 32), FNV_PRIME), COLUMN_END);
  }
  return endColumn(addText(sum, String(column)), COLUMN_END);
}

function addText(before: number, text: string): number {
  let sum = before;
  for (let at = 0; at < text.length; at++) {
    let unit = text.charCodeAt(at);
    if ((unit & 0xf800) === 0xd800) unit = 0xfffd; // UTF-8 has no lone surrogates: SQLite replaces them.
    sum = Math.imul(sum ^ unit, FNV_PRIME);
  }
  return sum;
}

function endColumn(sum: number, end: number): number {
  const ended = Math.imul(sum ^ end, FNV_PRIME);
  return ended ^ (ended >>> 15);
}

/** The FNV-1a offset basis. */
export const ROW_START = 0x811c9dc5;
const FNV_PRIME = 0x01000193;
const COLUMN_END = 0x10000;
const NULL_END = 0x20000;

/**
 * Checksum of a record's text: the sum of the CRC-32 of its lines, so that SQL can add that of an appended delta without reading
 * the text.
 */
export function textSum(text: string): number {
  let end = text.indexOf("\n");
  if (end < 0) return crc32(text);
  let sum = 0;
  for (let start = 0; start < text.length; start = end + 1, end = text.indexOf("\n", start)) {
    if (end < 0) end = text.length;
    if (end > start) sum += crc32(text.slice(start, end));
  }
  return sum;
}

export const bytesSum = (bytes: string | Uint8Array): number => crc32(bytes);

/** Stored data is missing or differs from what was written. Never retried. */
export class DamageError extends Error {
  override readonly name = "DamageError";
  readonly code = "STORE_DAMAGED";

  constructor(what: string, cause?: unknown) {
    super(`damaged data: ${what}; stop the process and run \`cordum repair\``, { cause });
  }
}

/** Throws unless the sums agree. Null: the row was written before schema 4. */
export function checkSum(stored: number | null, computed: () => number, table: string, id: string): void {
  if (stored !== null && stored !== computed()) {
    throw new DamageError(`${table} \`${id}\` in cordum.db does not match its checksum`);
  }
}
