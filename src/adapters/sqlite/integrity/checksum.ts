import { crc32 } from "node:zlib";
import type { SqlValue } from "../database.ts";

/**
 * Checksums of stored rows. They are part of the stored format: they change only with a new schema version.
 *
 * `rowSum` covers the columns of a row; short texts are faster in JavaScript than through `zlib`. `textSum` covers a record's
 * text: the sum of the CRC-32 of its lines, so that SQL can add the sum of an appended delta without reading the text.
 *
 * A function without references to anything outside itself: the verification thread runs its source text.
 */
export function checksums(crc: (text: string | Uint8Array) => number): Checksums {
  const table = new Int32Array(256);
  for (let at = 0; at < 256; at++) {
    let sum = at;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? 0xedb88320 ^ (sum >>> 1) : sum >>> 1;
    table[at] = sum;
  }
  const rowSum = (...columns: readonly SqlValue[]): number => {
    let sum = -1;
    for (const column of columns) {
      const text = column === null ? "\n" : typeof column === "string" ? column : String(column);
      for (let at = 0; at < text.length; at++) {
        let unit = text.charCodeAt(at);
        if (unit >= 0xd800 && unit <= 0xdfff) unit = 0xfffd; // UTF-8 has no lone surrogates: SQLite replaces them.
        sum = table[(sum ^ unit) & 255]! ^ (sum >>> 8);
        if (unit > 255) sum = table[(sum ^ (unit >>> 8)) & 255]! ^ (sum >>> 8);
      }
      sum = table[(sum ^ 255) & 255]! ^ (sum >>> 8);
    }
    return ~sum >>> 0;
  };
  const textSum = (text: string): number => {
    if (!text.includes("\n")) return crc(text);
    let sum = 0;
    for (const line of text.split("\n")) if (line !== "") sum += crc(line);
    return sum;
  };
  return { rowSum, textSum, bytesSum: crc };
}

export interface Checksums {
  rowSum(...columns: readonly SqlValue[]): number;
  textSum(text: string): number;
  bytesSum(bytes: string | Uint8Array): number;
}

export const { rowSum, textSum, bytesSum } = checksums(crc32);

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
