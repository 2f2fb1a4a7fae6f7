import { readFileSync } from "node:fs";
import { crc32 } from "node:zlib";
import { writeNewFile } from "./files.ts";
import { DamageError } from "./integrity/checksum.ts";
import type { JournalMark } from "./manifest.ts";

// The journal file: a page with the id of the directory, then two halves of entries. Numbers are little-endian.
//
// Entry: length of the text (4 bytes), CRC-32 of the rest (4), epoch (6), start of its write (4), end of the previous epoch (4),
// text in UTF-8. The last two are offsets in the file: everything before them was synced before the entry was written.

/** Creates the file at its full size, or replaces it. */
export function createJournalFile(file: string, directory: string): void {
  const bytes = Buffer.alloc(FILE_BYTES);
  headOf(directory).copy(bytes);
  writeNewFile(file, bytes);
}

function headOf(directory: string): Buffer {
  const head = Buffer.alloc(PAGE_BYTES);
  head.write(MAGIC, 0, "latin1");
  head.write(directory, MAGIC.length, "hex");
  head.writeUInt32LE(crc32(head.subarray(0, PAGE_BYTES - 4)), PAGE_BYTES - 4);
  return head;
}

/** Writes an entry into the image of a half. Returns its end there, or null when the half has no room for it. */
export function encodeEntry(
  half: Buffer,
  start: number,
  pieces: readonly string[],
  { epoch, writeStart, previousEnd }: Pick<Entry, "epoch" | "writeStart" | "previousEnd">,
): number | null {
  let sizeMax = HEAD_BYTES;
  for (const piece of pieces) sizeMax += piece.length * UTF8_BYTES_MAX;
  // `write` cuts a text at the end of the buffer.
  if (start + sizeMax > half.length && start + HEAD_BYTES + bytesOf(pieces) > half.length) return null;
  let end = start + HEAD_BYTES;
  for (const piece of pieces) end += half.write(piece, end);
  half.writeUInt32LE(end - start - HEAD_BYTES, start);
  half.writeUIntLE(epoch, start + EPOCH_AT, 6);
  half.writeUInt32LE(writeStart, start + 14);
  half.writeUInt32LE(previousEnd, start + 18);
  half.writeUInt32LE(crc32(half.subarray(start + 8, end)), start + 4);
  return end;
}

function bytesOf(pieces: readonly string[]): number {
  let bytes = 0;
  for (const piece of pieces) bytes += Buffer.byteLength(piece);
  return bytes;
}

export interface Entry {
  readonly epoch: number;
  /** Position in the file. */
  readonly start: number;
  readonly end: number;
  readonly writeStart: number;
  readonly previousEnd: number;
  readonly text: string;
}

export interface JournalContents {
  /** Entries of the epoch and of the next one up to the first damage or the torn tail, in order. */
  readonly entries: readonly Entry[];
  /** Null when everything that was synced is there. */
  readonly damage: JournalDamage | null;
  /** Every valid entry from the epoch on, also behind damage. */
  readonly valid: readonly Entry[];
}

export interface JournalDamage {
  readonly what: string;
  readonly offset: number;
  /** Records named in the damaged bytes, as far as they are legible. */
  readonly records: readonly string[];
}

/**
 * The entries of an epoch and of the next one. Safe while a process writes, if the mark was read before.
 *
 * 1. An invalid entry at an offset that was synced is damage. The mark, later entries and the next epoch state what was synced.
 * 2. Any other invalid entry is a torn tail: it was never acknowledged.
 */
export function readJournal(bytes: Buffer, epoch: number, mark: JournalMark): JournalContents {
  const valid = HALVES.flatMap((start) => validEntries(bytes, start, epoch)).sort(
    (a, b) => a.epoch - b.epoch || a.start - b.start,
  );
  const newest = valid.at(-1);
  if (newest !== undefined && newest.epoch > epoch + 1) {
    const what = `has entries of epoch ${newest.epoch}, cordum.db ends at epoch ${epoch}: cordum.db or its WAL lost commits`;
    return { entries: [], damage: { what, offset: newest.start, records: recordsIn(newest.text) }, valid };
  }
  const entries: Entry[] = [];
  for (const one of [epoch, epoch + 1]) {
    const sequence = contiguous(valid.filter((entry) => entry.epoch === one));
    entries.push(...sequence);
    const damage = damageIn(bytes, one, sequence, valid, mark);
    if (damage !== null) return { entries, damage, valid };
  }
  return { entries, damage: null, valid };
}

/** The entries from the start of a half to the first gap. */
function contiguous(entries: readonly Entry[]): Entry[] {
  const sequence: Entry[] = [];
  let at = entries[0] === undefined ? 0 : halfOf(entries[0].start);
  for (const entry of entries) {
    if (entry.start !== at) break;
    sequence.push(entry);
    at = entry.end;
  }
  return sequence;
}

/** (1) */
function damageIn(
  bytes: Buffer,
  epoch: number,
  sequence: readonly Entry[],
  valid: readonly Entry[],
  mark: JournalMark,
): JournalDamage | null {
  const synced = valid.map((entry) => {
    if (entry.epoch === epoch) return entry.writeStart;
    return entry.epoch === epoch + 1 ? entry.previousEnd : 0;
  });
  if (mark.epoch === epoch) synced.push(mark.end);
  if (mark.epoch === epoch + 1) synced.push(mark.previousEnd);
  const required = Math.max(0, ...synced);
  if (required === 0) return null;
  const offset = sequence.at(-1)?.end ?? halfOf(required - 1);
  if (offset >= required) return null;
  const next = valid.find((entry) => entry.epoch === epoch && entry.start > offset);
  const text = bytes.toString("utf8", offset, Math.min(next?.start ?? required, offset + LEGIBLE_BYTES_MAX));
  const behind = valid.filter((entry) => entry.epoch >= epoch && entry.start > offset).length;
  const what = `entry does not match its checksum, ${behind} valid entries behind it`;
  return { what, offset, records: recordsIn(text) };
}

/** All valid entries of a half from an epoch on. Behind an invalid one the search continues at every offset. */
function validEntries(bytes: Buffer, start: number, epoch: number): Entry[] {
  const half = bytes.subarray(0, start + HALF_BYTES);
  const entries: Entry[] = [];
  const take = (at: number): boolean => {
    const entry = entryAt(half, at);
    if (entry === null || entry.epoch < epoch) return false;
    entries.push(entry);
    return true;
  };
  let at = start;
  while (take(at)) at = entries.at(-1)!.end;
  const found = entries.at(-1)?.epoch;
  // The first entry may be the damaged one, so its epoch is not known.
  const epochs = found === undefined ? [epoch, epoch + 1] : [found];
  for (const one of epochs) {
    for (let from = at; ; ) {
      const head = half.indexOf(epochBytes(one), from + EPOCH_AT);
      if (head < 0) break;
      from = take(head - EPOCH_AT) ? entries.at(-1)!.end : head - EPOCH_AT + 1;
    }
  }
  return entries;
}

function epochBytes(epoch: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUIntLE(epoch, 0, 6);
  return bytes;
}

function entryAt(half: Buffer, start: number): Entry | null {
  if (start + HEAD_BYTES > half.length) return null;
  const end = start + HEAD_BYTES + half.readUInt32LE(start);
  if (end > half.length || half.readUInt32LE(start + 4) !== crc32(half.subarray(start + 8, end))) return null;
  return {
    epoch: half.readUIntLE(start + EPOCH_AT, 6),
    start,
    end,
    writeStart: half.readUInt32LE(start + 14),
    previousEnd: half.readUInt32LE(start + 18),
    text: half.toString("utf8", start + HEAD_BYTES, end),
  };
}

const recordsIn = (text: string): string[] => {
  const found = [...text.matchAll(/\["(?:row|more)","([^"]{1,64})","([^"]{1,256})"/g)];
  return [...new Set(found.map(([, table, id]) => `${table} \`${id}\``))];
};

const LEGIBLE_BYTES_MAX = 256 * 1_024;

/** The bytes of a journal. Throws unless the file is complete and belongs to the directory. */
export function readJournalFile(file: string, directory: string): Buffer {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw new DamageError(`\`${file}\` cannot be read: ${(error as Error).message}`, error);
  }
  if (bytes.length !== FILE_BYTES) {
    throw new DamageError(`\`${file}\` has ${bytes.length} bytes instead of ${FILE_BYTES}`);
  }
  if (!bytes.subarray(0, PAGE_BYTES).equals(headOf(directory))) {
    throw new DamageError(`the first page of \`${file}\` is damaged or belongs to another data directory`);
  }
  return bytes;
}

/** A journal at its full size, with zeros for missing bytes. */
export const paddedJournal = (bytes: Buffer): Buffer =>
  Buffer.concat([bytes.subarray(0, FILE_BYTES), Buffer.alloc(Math.max(0, FILE_BYTES - bytes.length))]);

/** The entries of a journal of schema 3: no page in front, and a shorter head. Reading stops at the first invalid entry. */
export function readJournal3(file: string, epoch: number): string[] {
  const bytes = readFileSync(file);
  return [epoch, epoch + 1].flatMap((one) =>
    [0, HALF_BYTES].flatMap((start) => [...entries3(bytes.subarray(start, start + HALF_BYTES), one)]),
  );
}

function* entries3(bytes: Buffer, epoch: number): Generator<string> {
  const headBytes = 14;
  for (let at = 0; at + headBytes <= bytes.length; ) {
    const end = at + headBytes + bytes.readUInt32LE(at);
    const isOfEpoch = end <= bytes.length && bytes.readUIntLE(at + EPOCH_AT, 6) === epoch;
    if (!isOfEpoch || bytes.readUInt32LE(at + 4) !== crc32(bytes.subarray(at + 8, end))) return;
    yield bytes.toString("utf8", at + headBytes, end);
    at = end;
  }
}

const MAGIC = "cordum journal 4\n";
const PAGE_BYTES = 4_096;
export const HALF_BYTES = 4 * 1_024 * 1_024;
export const HALVES = [PAGE_BYTES, PAGE_BYTES + HALF_BYTES] as const;
const FILE_BYTES = PAGE_BYTES + 2 * HALF_BYTES;
const halfOf = (offset: number): number => (offset < HALVES[1] ? HALVES[0] : HALVES[1]);
const HEAD_BYTES = 22;
const EPOCH_AT = 8;
/** Per UTF-16 code unit. */
const UTF8_BYTES_MAX = 3;
