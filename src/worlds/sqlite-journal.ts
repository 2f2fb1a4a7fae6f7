import {
  closeSync,
  constants,
  existsSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { crc32 } from "node:zlib";
import { syncPath } from "./sync-path.ts";

/**
 * The journal of a data directory: what was committed and is not in the tables yet.
 *
 * 1. An entry is a text. `safe` resolves when all entries so far are on disk; what comes while the disk is busy goes there
 *    together, in one write. Unless it is next to nothing, the thread does not wait for the disk.
 * 2. Entries belong to an epoch, a number that the tables know. Once the tables have taken in all of them, they name the next
 *    epoch in the same transaction, and the journal starts again at its beginning: what is left of earlier epochs means
 *    nothing any more.
 * 3. Reading ends at the first entry that is not whole or of another epoch. What was cut off was never called safe.
 * 4. The file has its full size from the start, so that a write has no growth of the file to write down. What does not fit
 *    goes into the tables.
 */
export class Journal {
  readonly #fd: number;
  readonly #toDisk: WriteDurably;
  #epoch: number;
  /** Where the next entry goes. */
  #end = 0;
  /** Not handed to the file yet, and where that begins. */
  #pending: Buffer[] = [];
  #pendingAt = 0;
  #writing: Promise<void> | null = null;
  #following: Promise<void> | null = null;
  /** Something of this epoch may be in the file; from an earlier boot, at first. */
  #isUsed = true;
  /** A write failed in this epoch: nobody knows what the file has behind it. */
  #isBroken = false;

  constructor(file: string, epoch: number, write: WriteDurably = writeDurably) {
    this.#fd = openWhole(file);
    this.#epoch = epoch;
    this.#toDisk = write;
  }

  get isUsed(): boolean {
    return this.#isUsed;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** False when there is no room for it. */
  append(text: string): boolean {
    const entry = encode(text, this.#epoch);
    if (this.#end + entry.length > JOURNAL_BYTES) return false;
    this.#isUsed = true;
    this.#pending.push(entry);
    this.#end += entry.length;
    return true;
  }

  /** Rejects when the disk refused. */
  safe(): Promise<void> {
    if (this.#isBroken) return Promise.reject(new Error(BROKEN));
    if (this.#pending.length === 0) return this.#following ?? this.#writing ?? NOTHING_TO_DO;
    if (this.#writing === null) return this.#write();
    // Writes follow one another: a late one must not land on what was written after a restart.
    this.#following ??= this.#writing
      .catch(() => {})
      .then(() => {
        this.#following = null;
        return this.#write();
      });
    return this.#following;
  }

  /** The tables have everything, and know this epoch. */
  restart(epoch: number): void {
    this.#epoch = epoch;
    this.#end = 0;
    this.#pending = [];
    this.#pendingAt = 0;
    this.#isUsed = false;
    this.#isBroken = false;
  }

  async close(): Promise<void> {
    await this.#following?.catch(() => {});
    await this.#writing?.catch(() => {});
    closeSync(this.#fd);
  }

  #write(): Promise<void> {
    if (this.#isBroken) return Promise.reject(new Error(BROKEN));
    if (this.#pending.length === 0) return NOTHING_TO_DO;
    const bytes = this.#pending.length === 1 ? this.#pending[0]! : Buffer.concat(this.#pending);
    const [at, epoch] = [this.#pendingAt, this.#epoch];
    this.#pending = [];
    this.#pendingAt += bytes.length;
    const writing = this.#toDisk(this.#fd, bytes, at).then(
      () => {
        this.#writing = null;
      },
      (error: unknown) => {
        this.#writing = null;
        if (epoch === this.#epoch) this.#isBroken = true;
        throw error;
      },
    );
    this.#writing = writing;
    return writing;
  }
}

/** The entries of an epoch, in order; none when there is no such file. */
export function readJournal(file: string, epoch: number): string[] {
  return existsSync(file) ? [...entriesIn(readFileSync(file), epoch)] : [];
}

function* entriesIn(bytes: Buffer, epoch: number): Generator<string> {
  for (let at = 0; at + HEAD_BYTES <= bytes.length; ) {
    const end = at + HEAD_BYTES + bytes.readUInt32LE(at);
    const isOurs = end <= bytes.length && bytes.readUIntLE(at + 8, 6) === epoch;
    if (!isOurs || bytes.readUInt32LE(at + 4) !== crc32(bytes.subarray(at + 8, end))) return;
    yield bytes.toString("utf8", at + HEAD_BYTES, end);
    at = end;
  }
}

/** Length of the text, checksum of all that follows, epoch, text. */
function encode(text: string, epoch: number): Buffer {
  const length = Buffer.byteLength(text);
  const entry = Buffer.allocUnsafe(HEAD_BYTES + length);
  entry.writeUInt32LE(length, 0);
  entry.writeUIntLE(epoch, 8, 6);
  entry.write(text, HEAD_BYTES);
  entry.writeUInt32LE(crc32(entry.subarray(8)), 4);
  return entry;
}

export type WriteDurably = (fd: number, bytes: Buffer, at: number) => Promise<void>;

export async function writeDurably(fd: number, bytes: Buffer, at: number): Promise<void> {
  writeWhole(fd, bytes, at);
  if (bytes.length <= SMALL_BYTES) {
    // Hardly anybody else is here: asking another thread to wait takes longer than waiting.
    fdatasyncSync(fd);
    return;
  }
  await new Promise<void>((resolve, reject) => {
    fdatasync(fd, (error) => (error ? reject(error) : resolve()));
  });
}

function openWhole(file: string): number {
  const fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  const { size } = fstatSync(fd);
  if (size < JOURNAL_BYTES) {
    writeWhole(fd, Buffer.alloc(JOURNAL_BYTES - size), size);
    fsyncSync(fd);
    syncPath(dirname(file));
  }
  return fd;
}

function writeWhole(fd: number, bytes: Buffer, at: number): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done, at + done);
}

const BROKEN = "the journal could not be written";
const NOTHING_TO_DO = Promise.resolve();
const SMALL_BYTES = 8_192;
const HEAD_BYTES = 14;
const JOURNAL_BYTES = 4 * 1_024 * 1_024;
