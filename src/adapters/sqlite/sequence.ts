import type { Log } from "../../ports/log.ts";
import type { Writer } from "./writer.ts";

/**
 * Numbers that only grow, also across restarts and crashes, without a write for each: they are reserved in blocks, the
 * next one while half of the last is left. A crash skips the rest of a block.
 */
export class Sequence {
  readonly #name: string;
  readonly #writer: Writer;
  readonly #log: Log;
  #next: number;
  #end: number;
  #isReserving = false;

  private constructor(writer: Writer, log: Log, name: string, end: number) {
    this.#name = name;
    this.#writer = writer;
    this.#log = log;
    this.#end = end;
    this.#next = end - BLOCK;
  }

  static async open(writer: Writer, log: Log, name: string): Promise<Sequence> {
    return new Sequence(writer, log, name, await writer.change("reserve", name, BLOCK));
  }

  /** Throws when the numbers have run out because the disk has refused all along. */
  next(): number {
    if (this.#next === this.#end) throw new Error(`no number of \`${this.#name}\` could be reserved: see the log`);
    const number = this.#next++;
    if (this.#end - this.#next < BLOCK / 2 && !this.#isReserving) void this.#reserveMore();
    return number;
  }

  async #reserveMore(): Promise<void> {
    this.#isReserving = true;
    try {
      // Blocks follow one another: nobody else reserves in this directory.
      this.#end = await this.#writer.change("reserve", this.#name, BLOCK);
    } catch (error) {
      this.#log.write("error", "store.reserve_failed", { name: this.#name, error: String(error) });
    } finally {
      this.#isReserving = false;
    }
  }
}

/** More than can be asked for while a transaction is under way. */
const BLOCK = 100_000;
