import type { Database, Statement } from "./database.ts";

/** Numbers that were given away in blocks. All calls run inside a transaction. */
export class Sequences {
  readonly #reserve: Statement;

  constructor(db: Database) {
    this.#reserve = db.prepare(
      "insert into sequences (name, next) values (?, ?) on conflict do update set next = next + ? returning next",
    );
  }

  /** The end of the new block, which follows the last one. Numbers begin with 1. */
  reserve(name: string, block: number): number {
    return (this.#reserve.get(name, block + 1, block) as { next: number }).next;
  }
}
