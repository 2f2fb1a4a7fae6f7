import type { Log } from "../../ports/log.ts";
import type { Database, Statement } from "./database.ts";
import type { GroupCommit } from "./group-commit.ts";
import { checkSum, rowSum } from "./integrity/checksum.ts";

/**
 * Numbers that only grow, across restarts and crashes. They are reserved in blocks, so most cost no write: the next block
 * is reserved when half of the current one is used. A restart skips the rest of a block.
 */
export class Sequence {
  readonly #name: string;
  readonly #writer: GroupCommit;
  readonly #rows: SequenceRows;
  readonly #log: Log;
  #next: number;
  #end: number;
  #isReserving = false;

  private constructor(writer: GroupCommit, rows: SequenceRows, log: Log, name: string, end: number) {
    this.#name = name;
    this.#writer = writer;
    this.#rows = rows;
    this.#log = log;
    this.#end = end;
    this.#next = end - BLOCK;
  }

  static async open(writer: GroupCommit, rows: SequenceRows, log: Log, name: string): Promise<Sequence> {
    const end = await writer.write("tables", () => rows.reserve(name, BLOCK));
    return new Sequence(writer, rows, log, name, end);
  }

  /** Throws when all reserved numbers are used because the disk keeps failing. */
  next(): number {
    if (this.#next === this.#end) throw new Error(`no number of \`${this.#name}\` could be reserved: see the log`);
    const number = this.#next++;
    if (this.#end - this.#next < BLOCK / 2 && !this.#isReserving) void this.#reserveMore();
    return number;
  }

  async #reserveMore(): Promise<void> {
    this.#isReserving = true;
    try {
      // Blocks are contiguous: this object is the only one that reserves them.
      this.#end = await this.#writer.write("tables", () => this.#rows.reserve(this.#name, BLOCK));
    } catch (error) {
      this.#log.write("error", "store.reserve_failed", { name: this.#name, error: String(error) });
    } finally {
      this.#isReserving = false;
    }
  }
}

/** More numbers than are used during one write. */
const BLOCK = 100_000;

/** The SQL of sequences. Runs inside the caller's transaction. */
export class SequenceRows {
  readonly #select: Statement;
  readonly #put: Statement;

  constructor(db: Database) {
    this.#select = db.prepare("select next, sum from sequences where name = ?");
    this.#put = db.prepare("insert or replace into sequences (name, next, sum) values (?, ?, ?)");
  }

  /** Returns the exclusive end of a new block, which follows the previous block. The first number is 1. */
  reserve(name: string, block: number): number {
    return this.#set(name, (this.#next(name) ?? 1) + block);
  }

  /** Raises a number to `least` and returns it. */
  raise(name: string, least: number): number {
    return this.#set(name, Math.max(this.#next(name) ?? least, least));
  }

  #next(name: string): number | null {
    const row = this.#select.get(name) as { next: number; sum: number | null } | undefined;
    if (row === undefined) return null;
    checkSum(row.sum, () => rowSum(name, row.next), "sequence", name);
    return row.next;
  }

  #set(name: string, next: number): number {
    this.#put.run(name, next, rowSum(name, next));
    return next;
  }
}
