import type { Statement } from "./database.ts";

/**
 * Cache of one number per record (a version or a fence) in a SQLite table, 0 for a missing row. Every write
 * to the table must be passed to `put`.
 *
 * 1. The first lookup in a table stores the largest id of that table as its bound. A row that is written later is in the
 *    cache until the cache is cleared, bounds included.
 * 2. So an id above the bound that is not cached has no row, and needs no query. New ids mostly are above it.
 */
export class VersionCache {
  readonly #numbers = new RecordMap<number>();
  readonly #bounds = new Map<string, string>();
  readonly #selectLargest: Statement;
  readonly #select: Pick<Statement, "get">;
  readonly #sizeMax: number;

  constructor(selectLargest: Statement, select: Pick<Statement, "get">, sizeMax = SIZE_MAX) {
    this.#selectLargest = selectLargest;
    this.#select = select;
    this.#sizeMax = sizeMax;
  }

  get(table: string, id: string): number {
    const cached = this.#numbers.get(table, id);
    if (cached !== undefined) return cached;
    if (id > this.#boundOf(table) && isAscii(id)) return 0;
    return (this.#select.get(table, id) as { number: number } | undefined)?.number ?? 0;
  }

  /** The table now has this number. */
  put(table: string, id: string, number: number): void {
    if (this.#numbers.size >= this.#sizeMax) {
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

/** SQLite compares UTF-8 bytes, JavaScript UTF-16 code units. Both orders agree for printable ASCII. */
const isAscii = (id: string): boolean => /^[ -~]*$/.test(id);

const SIZE_MAX = 20_000;

/** Map with the key (table, id). Two levels are cheaper than a concatenated key: the id strings have a cached hash. */
export class RecordMap<T> {
  readonly #tables = new Map<string, Map<string, T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(table: string, id: string): T | undefined {
    return this.#tables.get(table)?.get(id);
  }

  set(table: string, id: string, value: T): void {
    let ids = this.#tables.get(table);
    if (ids === undefined) {
      ids = new Map();
      this.#tables.set(table, ids);
    }
    const sizeBefore = ids.size;
    ids.set(id, value);
    this.#size += ids.size - sizeBefore;
  }

  setOrDelete(table: string, id: string, value: T | undefined): void {
    if (value !== undefined) this.set(table, id, value);
    else if (this.#tables.get(table)?.delete(id)) this.#size -= 1;
  }

  *values(): Generator<T> {
    for (const ids of this.#tables.values()) yield* ids.values();
  }

  clear(): void {
    this.#tables.clear();
    this.#size = 0;
  }
}
