import type { Database, SqlValue, Statement } from "./sqlite.ts";

/**
 * Rows gathered and written by few statements. A statement of sixteen rows costs a third of sixteen statements, because
 * most of a small insert is the way into SQLite and back.
 */
export class BulkInsert {
  readonly #width: number;
  readonly #steps: readonly { readonly rows: number; readonly statement: Statement }[];
  #values: SqlValue[] = [];

  /** `into` is the statement up to `values`, `tail` what comes after the rows. */
  constructor(db: Database, into: string, width: number, tail = "") {
    const row = `(${Array(width).fill("?").join(",")})`;
    this.#width = width;
    this.#steps = ROWS_PER_STATEMENT.map((rows) => ({
      rows,
      statement: db.prepare(`${into} values ${Array(rows).fill(row).join(",")} ${tail}`),
    }));
  }

  add(...row: SqlValue[]): void {
    for (const value of row) this.#values.push(value);
  }

  flush(): void {
    const values = this.#values;
    if (values.length === 0) return;
    this.#values = [];
    let at = 0;
    for (const { rows, statement } of this.#steps) {
      const size = rows * this.#width;
      for (; at + size <= values.length; at += size) statement.run(...values.slice(at, at + size));
    }
  }

  clear(): void {
    this.#values = [];
  }
}

const ROWS_PER_STATEMENT = [16, 4, 1];
