import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { crc32 } from "node:zlib";
import { writeNewFile } from "./files.ts";
import { DamageError } from "./integrity/checksum.ts";

/**
 * What is known to be on disk: written after each commit, read at the start. A file of the data directory that has less than
 * the manifest says is damaged.
 *
 * 1. The manifest is written after the commit it describes, so it never says too much.
 * 2. It is not synced: after a power cut it may say too little. The journal entries then state what was synced before them.
 * 3. It is one write within one sector: a power cut does not tear it.
 */
export class Manifest {
  /** Id of the data directory, in hex. */
  readonly directory: string;
  readonly #fd: number;
  readonly #bytes: Buffer;

  private constructor(fd: number, bytes: Buffer) {
    this.#fd = fd;
    this.#bytes = bytes;
    this.directory = decode(bytes).directory;
  }

  /** Creates the file, or replaces it. */
  static create(file: string, directory: string): void {
    const bytes = Buffer.alloc(SIZE);
    bytes.write(MAGIC, 0, "latin1");
    bytes.write(directory, ID_AT, "hex");
    seal(bytes);
    writeNewFile(file, bytes);
  }

  static open(file: string): Manifest {
    const bytes = readBytes(file);
    return new Manifest(openSync(file, "r+"), bytes);
  }

  static read(file: string): ManifestState {
    return decode(readBytes(file));
  }

  /** The tables store `epoch`. */
  putTables(epoch: number): void {
    this.#bytes.writeUIntLE(epoch, TABLES_AT, 6);
    this.#write();
  }

  /** The entries of `epoch` are on disk up to the offset `end`, those of the previous epoch up to `previousEnd`. */
  putJournal(epoch: number, end: number, previousEnd: number): void {
    this.#bytes.writeUIntLE(epoch, EPOCH_AT, 6);
    this.#bytes.writeUInt32LE(end, END_AT);
    this.#bytes.writeUInt32LE(previousEnd, PREVIOUS_AT);
    this.#write();
  }

  close(): void {
    closeSync(this.#fd);
  }

  #write(): void {
    seal(this.#bytes);
    try {
      writeSync(this.#fd, this.#bytes, 0, SIZE, 0);
    } catch {
      // (1) still holds: the commit is on disk, and an older manifest detects less.
    }
  }
}

export interface ManifestState {
  /** Id of the data directory, in hex. */
  readonly directory: string;
  /** Epoch that the tables store at least. */
  readonly tables: number;
  readonly journal: JournalMark;
}

/** What the journal has at least. Offsets are positions in the file; 0 for nothing. */
export interface JournalMark {
  readonly epoch: number;
  readonly end: number;
  readonly previousEnd: number;
}

function readBytes(file: string): Buffer {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw new DamageError(`\`${file}\` cannot be read: ${(error as Error).message}`, error);
  }
  const isWhole = bytes.length === SIZE && bytes.toString("latin1", 0, MAGIC.length) === MAGIC;
  if (!isWhole || bytes.readUInt32LE(CRC_AT) !== crc32(bytes.subarray(0, CRC_AT))) {
    throw new DamageError(`\`${file}\` does not match its checksum`);
  }
  return bytes;
}

function decode(bytes: Buffer): ManifestState {
  return {
    directory: bytes.toString("hex", ID_AT, ID_AT + 16),
    tables: bytes.readUIntLE(TABLES_AT, 6),
    journal: {
      epoch: bytes.readUIntLE(EPOCH_AT, 6),
      end: bytes.readUInt32LE(END_AT),
      previousEnd: bytes.readUInt32LE(PREVIOUS_AT),
    },
  };
}

const seal = (bytes: Buffer): void => {
  bytes.writeUInt32LE(crc32(bytes.subarray(0, CRC_AT)), CRC_AT);
};

const MAGIC = "cordum\n1";
const ID_AT = 8;
const TABLES_AT = 24;
const EPOCH_AT = 30;
const END_AT = 36;
const PREVIOUS_AT = 40;
const CRC_AT = 60;
const SIZE = 64;
