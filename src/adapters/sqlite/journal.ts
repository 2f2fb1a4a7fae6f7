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

/**
 * Write-ahead journal: the entries that were committed since the last checkpoint.
 *
 * 1. `sync` resolves when all appended entries are on disk. Entries that are appended during a write go into the next write
 *    together.
 * 2. Every entry carries an epoch. The tables store the oldest epoch that they do not have. A checkpoint stores the next
 *    epoch in its transaction, which invalidates the older entries without deleting them.
 * 3. The file has two halves. During a checkpoint of one epoch, the entries of the next epoch go into the other half. They
 *    are written only after all entries of the older epoch are on disk, so the file never has a gap.
 * 4. Reading stops at the first entry that is incomplete, damaged or of another epoch. A torn entry was never reported as
 *    synced.
 * 5. The file has its full size from the start, so a write does not have to sync a new file size.
 */
export class Journal {
  readonly #fd: number;
  readonly #write: WriteDurably;
  #epoch: number;
  /** Offset of the current half, and of the next entry. */
  #start = 0;
  #end = 0;
  /** Appended and not yet passed to a write. */
  #pending: Run[] = [];
  #writing: Promise<void> | null = null;
  #nextWrite: Promise<void> | null = null;
  /** The file may have entries of the current epoch. Initially true: of an earlier process. */
  #isUsed = true;
  /** A write failed since the last reset, so the content of the file is unknown from there on. */
  #isBroken = false;
  #resets = 0;

  /** `epoch` is the latest one that the file may contain. */
  constructor(file: string, epoch: number, write: WriteDurably = durableWriter()) {
    this.#fd = openAtFullSize(file);
    this.#epoch = epoch;
    this.#write = write;
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

  /** Appends one entry, given as pieces of its text. False when the half has no room for it. */
  append(pieces: readonly string[]): boolean {
    const entry = encodeEntry(pieces, this.#epoch);
    if (this.#end + entry.length > this.#start + HALF_BYTES) return false;
    this.#isUsed = true;
    const last = this.#pending.at(-1);
    if (last !== undefined && last.end === this.#end) {
      last.entries.push(entry);
      last.end += entry.length;
    } else {
      this.#pending.push({ start: this.#end, end: this.#end + entry.length, entries: [entry] });
    }
    this.#end += entry.length;
    return true;
  }

  /** Rejects when a write failed. */
  sync(): Promise<void> {
    if (this.#isBroken) return Promise.reject(new Error(BROKEN));
    if (this.#pending.length === 0) return this.#nextWrite ?? this.#writing ?? DONE;
    if (this.#writing === null) return this.#writePending();
    // Writes are sequential: a late one must not overwrite entries that were written after a reset.
    this.#nextWrite ??= this.#writing
      .catch(() => {})
      .then(() => {
        this.#nextWrite = null;
        return this.#writePending();
      });
    return this.#nextWrite;
  }

  /** A checkpoint of all entries so far has started; it will store `epoch`. */
  switchHalf(epoch: number): void {
    this.#epoch = epoch;
    this.#start = HALF_BYTES - this.#start;
    this.#end = this.#start;
  }

  /** The tables have all entries and store `epoch`. */
  reset(epoch: number): void {
    this.#epoch = epoch;
    this.#end = this.#start;
    this.#pending = [];
    this.#isUsed = false;
    this.#isBroken = false;
    this.#resets += 1;
  }

  async close(): Promise<void> {
    await this.#nextWrite?.catch(() => {});
    await this.#writing?.catch(() => {});
    closeSync(this.#fd);
  }

  #writePending(): Promise<void> {
    if (this.#isBroken) return Promise.reject(new Error(BROKEN));
    if (this.#pending.length === 0) return DONE;
    const [runs, resets] = [this.#pending, this.#resets];
    this.#pending = [];
    const writing = this.#writeRuns(runs).then(
      () => {
        this.#writing = null;
      },
      (error: unknown) => {
        this.#writing = null;
        if (resets === this.#resets) this.#isBroken = true;
        throw error;
      },
    );
    this.#writing = writing;
    return writing;
  }

  /** (3) */
  #writeRuns([first, ...others]: readonly Run[]): Promise<void> {
    const { start, entries } = first!;
    const written = this.#write(this.#fd, entries.length === 1 ? entries[0]! : Buffer.concat(entries), start);
    return others.length === 0 ? written : written.then(() => this.#writeRuns(others));
  }
}

/** Adjacent entries. */
interface Run {
  readonly start: number;
  end: number;
  readonly entries: Buffer[];
}

/**
 * The entries of an epoch and of the next one, in order. Safe while a process writes: the next epoch is read first, and
 * its entries imply that the older epoch is complete (3).
 */
export function readJournal(file: string, epoch: number): string[] {
  const next = readEpoch(file, epoch + 1);
  return [...readEpoch(file, epoch), ...next];
}

function readEpoch(file: string, epoch: number): string[] {
  if (!existsSync(file)) return [];
  const bytes = readFileSync(file);
  return [0, HALF_BYTES].flatMap((start) => [...decodeEntries(bytes.subarray(start, start + HALF_BYTES), epoch)]);
}

/** Entry: length of the text (4 bytes), CRC-32 of the rest (4), epoch (6), text in UTF-8. Numbers are little-endian. */
function encodeEntry(pieces: readonly string[], epoch: number): Buffer {
  let sizeMax = HEAD_BYTES;
  for (const piece of pieces) sizeMax += piece.length * UTF8_BYTES_MAX;
  const buffer = sizeMax <= SCRATCH.length ? SCRATCH : Buffer.allocUnsafe(sizeMax);
  let size = HEAD_BYTES;
  for (const piece of pieces) size += buffer.write(piece, size);
  // Copied to its exact size: the scratch buffer is reused.
  const entry = Buffer.allocUnsafe(size);
  buffer.copy(entry, 0, 0, size);
  entry.writeUInt32LE(size - HEAD_BYTES, 0);
  entry.writeUIntLE(epoch, 8, 6);
  entry.writeUInt32LE(crc32(entry.subarray(8)), 4);
  return entry;
}

function* decodeEntries(bytes: Buffer, epoch: number): Generator<string> {
  for (let at = 0; at + HEAD_BYTES <= bytes.length; ) {
    const end = at + HEAD_BYTES + bytes.readUInt32LE(at);
    const isOfEpoch = end <= bytes.length && bytes.readUIntLE(at + 8, 6) === epoch;
    if (!isOfEpoch || bytes.readUInt32LE(at + 4) !== crc32(bytes.subarray(at + 8, end))) return;
    yield bytes.toString("utf8", at + HEAD_BYTES, end);
    at = end;
  }
}

const HEAD_BYTES = 14;
const HALF_BYTES = 4 * 1_024 * 1_024;
const SCRATCH = Buffer.allocUnsafe(1_024 * 1_024);
/** Per UTF-16 code unit. */
const UTF8_BYTES_MAX = 3;

/** Resolves when the bytes are on disk. */
export type WriteDurably = (fd: number, bytes: Buffer, position: number) => Promise<void>;

/**
 * Syncs in this thread on a fast disk, in the thread pool on a slow one: a hop to the pool takes about as long as a fast sync.
 *
 * Only a sync in this thread measures the disk; the pool's callback may be delayed by other work. After `SLOW_SYNCS_MIN` slow syncs
 * in a row (fewer are common during a checkpoint), a number of syncs go to the pool before the next one is tried here.
 * That number doubles with each slow trial.
 */
export function durableWriter(disk: Disk = DISK): WriteDurably {
  let [poolSyncsLeft, poolSyncsNext, slowInRow] = [0, POOL_SYNCS_MIN, 0];
  return async (fd, bytes, position) => {
    writeFully(fd, bytes, position);
    if (bytes.length > SMALL_BYTES && (poolSyncsLeft > 0 || bytes.length > INLINE_BYTES_MAX)) {
      poolSyncsLeft = Math.max(0, poolSyncsLeft - 1);
      await disk.syncInPool(fd);
      return;
    }
    const startMs = disk.nowMs();
    disk.sync(fd);
    slowInRow = disk.nowMs() - startMs <= FAST_SYNC_MS ? 0 : slowInRow + 1;
    if (slowInRow === 0) {
      poolSyncsNext = POOL_SYNCS_MIN;
    } else if (slowInRow >= SLOW_SYNCS_MIN) {
      poolSyncsLeft = poolSyncsNext;
      poolSyncsNext = Math.min(2 * poolSyncsNext, POOL_SYNCS_MAX);
    }
  };
}

export interface Disk {
  sync(fd: number): void;
  syncInPool(fd: number): Promise<void>;
  nowMs(): number;
}

const DISK: Disk = { sync: fdatasyncSync, syncInPool, nowMs: () => performance.now() };

function syncInPool(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fdatasync(fd, (error) => (error ? reject(error) : resolve()));
  });
}

const FAST_SYNC_MS = 1;
const SLOW_SYNCS_MIN = 4;
const POOL_SYNCS_MIN = 16;
const POOL_SYNCS_MAX = 4_096;
/** Writes up to this size always sync in this thread. */
const SMALL_BYTES = 4_096;
/** Writes above this size never do. */
const INLINE_BYTES_MAX = 256 * 1_024;

function openAtFullSize(file: string): number {
  const fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  const { size } = fstatSync(fd);
  if (size < 2 * HALF_BYTES) {
    writeFully(fd, Buffer.alloc(2 * HALF_BYTES - size), size);
    fsyncSync(fd);
    syncPath(dirname(file));
  }
  return fd;
}

function writeFully(fd: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done, position + done);
}

/** Syncs a file, or the entries of a directory: a new file is durable once its directory is synced. */
export function syncPath(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

const BROKEN = "the journal could not be written";
const DONE = Promise.resolve();
