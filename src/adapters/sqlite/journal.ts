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
 *    epoch in the same transaction: what is left of earlier epochs means nothing any more.
 * 3. The file has two halves. While the tables take in an epoch, the next one begins in the other half; none of it is written
 *    before the one before it is on disk, so that the file never has what follows without what it follows.
 * 4. Reading ends at the first entry that is not whole or of another epoch. What was cut off was never called safe.
 * 5. The file has its full size from the start, so that a write has no growth of the file to write down. What does not fit
 *    goes into the tables.
 */
export class Journal {
  readonly #fd: number;
  readonly #toDisk: WriteDurably;
  #epoch: number;
  /** Where the half begins, and where the next entry goes. */
  #start = 0;
  #end = 0;
  /** Not handed to the file yet. */
  #pending: Run[] = [];
  #writing: Promise<void> | null = null;
  #following: Promise<void> | null = null;
  /** Something of this epoch may be in the file; from an earlier boot, at first. */
  #isUsed = true;
  /** A write failed since the tables last had everything: nobody knows what the file has behind it. */
  #isBroken = false;
  /** How often the tables had everything. */
  #restarts = 0;

  /** `epoch` is the last one that the file may have something of. */
  constructor(file: string, epoch: number, write: WriteDurably = durableWriter()) {
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

  /** Adds an entry, in pieces. False when there is no room for it. */
  append(pieces: readonly string[]): boolean {
    const entry = encode(pieces, this.#epoch);
    if (this.#end + entry.length > this.#start + HALF_BYTES) return false;
    this.#isUsed = true;
    const last = this.#pending.at(-1);
    if (last !== undefined && last.end === this.#end) {
      last.entries.push(entry);
      last.end += entry.length;
    } else {
      this.#pending.push({ at: this.#end, end: this.#end + entry.length, entries: [entry] });
    }
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

  /** The tables are about to take in everything so far, and will know this epoch then. */
  begin(epoch: number): void {
    this.#epoch = epoch;
    this.#start = HALF_BYTES - this.#start;
    this.#end = this.#start;
  }

  /** The tables have everything, and know this epoch. */
  restart(epoch: number): void {
    this.#epoch = epoch;
    this.#end = this.#start;
    this.#pending = [];
    this.#isUsed = false;
    this.#isBroken = false;
    this.#restarts += 1;
  }

  async close(): Promise<void> {
    await this.#following?.catch(() => {});
    await this.#writing?.catch(() => {});
    closeSync(this.#fd);
  }

  #write(): Promise<void> {
    if (this.#isBroken) return Promise.reject(new Error(BROKEN));
    if (this.#pending.length === 0) return NOTHING_TO_DO;
    const [runs, restarts] = [this.#pending, this.#restarts];
    this.#pending = [];
    const writing = this.#writeRuns(runs).then(
      () => {
        this.#writing = null;
      },
      (error: unknown) => {
        this.#writing = null;
        if (restarts === this.#restarts) this.#isBroken = true;
        throw error;
      },
    );
    this.#writing = writing;
    return writing;
  }

  /** (3) */
  #writeRuns([first, ...others]: readonly Run[]): Promise<void> {
    const { at, entries } = first!;
    const written = this.#toDisk(this.#fd, entries.length === 1 ? entries[0]! : Buffer.concat(entries), at);
    return others.length === 0 ? written : written.then(() => this.#writeRuns(others));
  }
}

/** Entries that stand one behind the other. */
interface Run {
  readonly at: number;
  end: number;
  readonly entries: Buffer[];
}

/**
 * The entries of an epoch and of the next one, in order; none when there is no such file. The next one is looked at first:
 * if there is something of it, the one before it was whole by then, also while somebody writes.
 */
export function readJournal(file: string, epoch: number): string[] {
  const next = entriesOf(file, epoch + 1);
  return [...entriesOf(file, epoch), ...next];
}

function entriesOf(file: string, epoch: number): string[] {
  if (!existsSync(file)) return [];
  const bytes = readFileSync(file);
  return [0, HALF_BYTES].flatMap((start) => [...entriesIn(bytes.subarray(start, start + HALF_BYTES), epoch)]);
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
function encode(pieces: readonly string[], epoch: number): Buffer {
  let sizeMax = HEAD_BYTES;
  for (const piece of pieces) sizeMax += piece.length * UTF8_MAX;
  const room = sizeMax <= SCRATCH.length ? SCRATCH : Buffer.allocUnsafe(sizeMax);
  let size = HEAD_BYTES;
  for (const piece of pieces) size += room.write(piece, size);
  // What was room for the largest text is used again; what is kept has its own size.
  const entry = Buffer.allocUnsafe(size);
  room.copy(entry, 0, 0, size);
  entry.writeUInt32LE(size - HEAD_BYTES, 0);
  entry.writeUIntLE(epoch, 8, 6);
  entry.writeUInt32LE(crc32(entry.subarray(8)), 4);
  return entry;
}

const SCRATCH = Buffer.allocUnsafe(1_024 * 1_024);
/** Bytes for each half of a character, at most. */
const UTF8_MAX = 3;

export type WriteDurably = (fd: number, bytes: Buffer, at: number) => Promise<void>;

/**
 * Asking another thread to wait for the disk takes about as long as a good disk takes, and what comes meanwhile would have
 * waited for it anyway. So a disk that is quick is waited for here, and a slow one is left to another thread.
 *
 * How quick it is can only be told here: what comes back from another thread waits until this one has time for it. So after a
 * few slow writes in a row (one or two are no news: the tables were written at the same time) a number of them is left to the
 * other thread, and then one is tried here again; twice that number after each trial that was slow, too.
 */
export function durableWriter(disk: Disk = DISK): WriteDurably {
  let [asideLeft, asideNext, slowInRow] = [0, ASIDE_MIN, 0];
  return async (fd, bytes, at) => {
    writeWhole(fd, bytes, at);
    if (bytes.length > SMALL_BYTES && (asideLeft > 0 || bytes.length > QUICK_BYTES_MAX)) {
      asideLeft = Math.max(0, asideLeft - 1);
      await disk.syncAside(fd);
      return;
    }
    const startMs = disk.nowMs();
    disk.sync(fd);
    slowInRow = disk.nowMs() - startMs <= QUICK_MS ? 0 : slowInRow + 1;
    if (slowInRow === 0) {
      asideNext = ASIDE_MIN;
    } else if (slowInRow >= SLOW_MIN) {
      asideLeft = asideNext;
      asideNext = Math.min(2 * asideNext, ASIDE_MAX);
    }
  };
}

export interface Disk {
  sync(fd: number): void;
  syncAside(fd: number): Promise<void>;
  nowMs(): number;
}

const DISK: Disk = { sync: fdatasyncSync, syncAside, nowMs: () => performance.now() };

function syncAside(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fdatasync(fd, (error) => (error ? reject(error) : resolve()));
  });
}

const QUICK_MS = 1;
/** In a row, before the disk is taken for slow. */
const SLOW_MIN = 4;
const ASIDE_MIN = 16;
const ASIDE_MAX = 4_096;
const QUICK_BYTES_MAX = 256 * 1_024;

function openWhole(file: string): number {
  const fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  const { size } = fstatSync(fd);
  if (size < 2 * HALF_BYTES) {
    writeWhole(fd, Buffer.alloc(2 * HALF_BYTES - size), size);
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
const SMALL_BYTES = 4_096;
const HEAD_BYTES = 14;
const HALF_BYTES = 4 * 1_024 * 1_024;
