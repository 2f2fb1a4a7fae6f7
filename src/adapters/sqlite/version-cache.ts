import { ByRecord } from "./by-record.ts";
import type { Statement } from "./database.ts";

/**
 * A number that a table of the database has for each record (0 where it has none), asked for more often than SQLite should be.
 *
 * 1. Nobody else writes into the tables: what was written is told here, and known until it is forgotten with all the rest.
 * 2. What is not known was written before that. So its id is not beyond the largest of that time; whose id is beyond has
 *    nothing there, and need not be looked for. New records mostly are.
 */
export class VersionCache {
  readonly #numbers = new ByRecord<number>();
  /** No id that was written before is larger. */
  readonly #bounds = new Map<string, string>();
  readonly #selectLargest: Statement;
  readonly #select: Statement;
  readonly #max: number;

  constructor(largest: Statement, number: Statement, max = KNOWN_MAX) {
    this.#selectLargest = largest;
    this.#select = number;
    this.#max = max;
  }

  of(table: string, id: string): number {
    const known = this.#numbers.get(table, id);
    if (known !== undefined) return known;
    if (id > this.#boundOf(table) && isPlain(id)) return 0;
    return (this.#select.get(table, id) as { number: number } | undefined)?.number ?? 0;
  }

  /** It stands in the table. */
  put(table: string, id: string, number: number): void {
    if (this.#numbers.size >= this.#max) {
      this.#numbers.clear();
      this.#bounds.clear();
    }
    this.#numbers.set(table, id, number);
  }

  #boundOf(table: string): string {
    let bound = this.#bounds.get(table);
    if (bound === undefined) {
      bound = (this.#selectLargest.get(table) as { id: string | null }).id ?? "";
      this.#bounds.set(table, bound);
    }
    return bound;
  }
}

/** SQLite orders by bytes and we by halves of characters: the two agree on whoever has only plain ones. */
const isPlain = (id: string): boolean => /^[ -~]*$/.test(id);

const KNOWN_MAX = 20_000;
