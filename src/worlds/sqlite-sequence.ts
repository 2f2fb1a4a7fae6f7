import type { Log } from "../ports/log.ts";
import type { Database, Statement } from "./sqlite.ts";
import type { Writer } from "./sqlite-writer.ts";

/**
 * Numbers that only grow, also across restarts and crashes, without a write for each: they are reserved in blocks, the
 * next one while half of the last is left. A crash skips the rest of a block.
 */
export class Sequence {
  readonly #name: string;
  readonly #writer: Writer;
  readonly #log: Log;
  readonly #reserve: Statement;
  #next: number;
  #end: number;
  #isReserving = false;

  constructor(db: Database, writer: Writer, log: Log, name: string) {
    this.#name = name;
    this.#writer = writer;
    this.#log = log;
    this.#reserve = db.prepare(
      "insert into sequences (name, next) values (?, ?) on conflict do update set next = next + ? returning next",
    );
    this.#end = this.#reserveBlock();
    this.#next = this.#end - BLOCK;
  }

  /** Throws when the numbers have run out because the disk has refused all along. */
  next(): number {
    if (this.#next === this.#end) throw new Error(`no number of \`${this.#name}\` could be reserved: see the log`);
    const number = this.#next++;
    if (this.#end - this.#next < BLOCK / 2 && !this.#isReserving) this.#reserveMore();
    return number;
  }

  #reserveMore(): void {
    this.#isReserving = true;
    this.#writer
      .change(() => this.#reserveBlock())
      .then(
        (end) => {
          this.#isReserving = false;
          // Blocks follow one another: nobody else reserves in this directory.
          this.#end = end;
        },
        (error: unknown) => {
          this.#isReserving = false;
          this.#log.write("error", "store.reserve_failed", { name: this.#name, error: String(error) });
        },
      );
  }

  /** The end of the new block. Numbers begin with 1. */
  #reserveBlock(): number {
    return (this.#reserve.get(this.#name, BLOCK + 1, BLOCK) as { next: number }).next;
  }
}

/** More than can be asked for while a transaction is under way. */
const BLOCK = 100_000;
