import { closeSync, fdatasync, fdatasyncSync, openSync } from "node:fs";
import { writeFully } from "./files.ts";
import { encodeEntry, HALF_BYTES, HALVES } from "./journal-file.ts";
import type { Manifest } from "./manifest.ts";

/**
 * Write-ahead journal: the entries that were committed since the last checkpoint.
 *
 * 1. `sync` resolves when all appended entries are on disk. Entries that are appended during a write go into the next write
 *    together.
 * 2. Every entry carries an epoch. The tables store the oldest epoch that they do not have. A checkpoint stores the next
 *    epoch in its transaction, which invalidates the older entries without deleting them.
 * 3. The file has two halves. During a checkpoint of one epoch, the entries of the next epoch go into the other half. They
 *    are written only after all entries of the older epoch are on disk, so the file never has a gap.
 * 4. Every entry states what was synced before its write, and the manifest what was synced after it. So recovery can tell a
 *    torn entry, which was never reported as synced, from a damaged one.
 * 5. The file has its full size from the start, so a write does not have to sync a new file size.
 */
export class Journal {
  readonly #fd: number;
  readonly #manifest: Manifest;
  readonly #write: WriteDurably;
  #epoch: number;
  /** Offset of the current half, and of the next entry. */
  #start: number = HALVES[0];
  #end: number = HALVES[0];
  /** End of the previous epoch in the other half; 0 when the tables have it. */
  #previousEnd = 0;
  /** The bytes of the current half up to `#end`, and of the other one. Writes take their bytes from here, without a copy. */
  #image: Buffer = Buffer.allocUnsafe(HALF_BYTES);
  #otherImage: Buffer = Buffer.allocUnsafe(HALF_BYTES);
  /** Appended and not yet passed to a write. */
  #pending: Run[] = [];
  /** Passed to the current write. */
  #written: readonly Run[] = [];
  #writing: Promise<void> | null = null;
  #nextWrite: Promise<void> | null = null;
  /** The file may have entries of the current epoch. Initially true: of an earlier process. */
  #isUsed = true;
  /** A write failed since the last reset, so the content of the file is unknown from there on. */
  #isBroken = false;
  #resets = 0;

  /** `epoch` is the latest one that the file may contain. */
  constructor(file: string, epoch: number, manifest: Manifest, write: WriteDurably = durableWriter()) {
    this.#fd = openSync(file, "r+");
    this.#epoch = epoch;
    this.#manifest = manifest;
    this.#write = write;
  }

  get isUsed(): boolean {
    return this.#isUsed;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Id of the data directory. */
  get directory(): string {
    return this.#manifest.directory;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** Appends one entry, given as pieces of its text. False when the half has no room for it. */
  append(pieces: readonly string[]): boolean {
    const last = this.#pending.at(-1);
    const run = last?.epoch === this.#epoch && last.end === this.#end ? last : null;
    const [epoch, start, previousEnd] = [this.#epoch, this.#end, this.#previousEnd];
    const place = { epoch, writeStart: run?.start ?? start, previousEnd };
    const imageEnd = encodeEntry(this.#image, start - this.#start, pieces, place);
    if (imageEnd === null) return false;
    this.#isUsed = true;
    this.#end = this.#start + imageEnd;
    if (run !== null) run.end = this.#end;
    else this.#pending.push({ epoch, image: this.#image, halfStart: this.#start, start, end: this.#end, previousEnd });
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
    this.#previousEnd = this.#end;
    this.#start = this.#start === HALVES[0] ? HALVES[1] : HALVES[0];
    this.#end = this.#start;
    [this.#image, this.#otherImage] = [this.#reusable(this.#otherImage), this.#image];
  }

  /** The checkpoint since the last `switchHalf` is in the tables. */
  onCheckpoint(): void {
    this.#manifest.putTables(this.#epoch);
  }

  /** The tables have all entries and store `epoch`. */
  reset(epoch: number): void {
    this.#epoch = epoch;
    this.#end = this.#start;
    this.#previousEnd = 0;
    this.#pending = [];
    this.#image = this.#reusable(this.#image);
    this.#isUsed = false;
    this.#isBroken = false;
    this.#resets += 1;
    this.#manifest.putTables(epoch);
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
    this.#written = runs;
    const ended = () => {
      this.#writing = null;
      this.#written = [];
    };
    const writing = this.#writeRuns(runs).then(ended, (error: unknown) => {
      ended();
      if (resets === this.#resets) this.#isBroken = true;
      throw error;
    });
    this.#writing = writing;
    return writing;
  }

  /** A write may be so late that its image would be overwritten: then another one takes its place. */
  #reusable(image: Buffer): Buffer {
    const isInUse = [...this.#pending, ...this.#written].some((run) => run.image === image);
    return isInUse ? Buffer.allocUnsafe(HALF_BYTES) : image;
  }

  /** (3) */
  #writeRuns([first, ...others]: readonly Run[]): Promise<void> {
    const { epoch, image, halfStart, start, end, previousEnd } = first!;
    const written = this.#write(this.#fd, image.subarray(start - halfStart, end - halfStart), start);
    return written.then(() => {
      this.#manifest.putJournal(epoch, end, previousEnd);
      return others.length === 0 ? undefined : this.#writeRuns(others);
    });
  }
}

/** Adjacent entries of one epoch. */
interface Run {
  readonly epoch: number;
  readonly image: Buffer;
  /** Offset of the first byte of the image. */
  readonly halfStart: number;
  readonly start: number;
  end: number;
  readonly previousEnd: number;
}

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

const BROKEN = "the journal could not be written";
const DONE = Promise.resolve();
