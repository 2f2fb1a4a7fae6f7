/**
 * A map from records, by table and id. A level for the tables costs less than a text made of both: ids are looked up as
 * they are, with the hash that they carry already.
 */
export class ByRecord<T> {
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
    const before = ids.size;
    ids.set(id, value);
    this.#size += ids.size - before;
  }

  /** Undefined removes it. */
  put(table: string, id: string, value: T | undefined): void {
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
