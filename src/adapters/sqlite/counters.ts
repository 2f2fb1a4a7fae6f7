import type { CounterName } from "../../core/model/table.ts";
import { COUNTER, DELETE_COUNTER, type WriteBatch } from "./checkpoint.ts";
import type { Participant } from "./commit-executor.ts";
import type { Database } from "./database.ts";
import { checkSum, rowSum } from "./integrity/checksum.ts";
import type { JournalStep } from "./rows.ts";

/**
 * All counters, in memory. A checkpoint writes those that changed. A counter at zero has no row. Totals are counters in
 * a group that records cannot name.
 */
export class Counters implements Participant {
  readonly #groups = new Map<string, Map<string, Cell>>();
  /** Changed by the current batch. */
  #touched: Cell[] = [];
  /** Changed since the last checkpoint. */
  #dirty = new Set<Cell>();
  /** In the running checkpoint. */
  #frozen: ReadonlySet<Cell> = NO_CELLS;
  /** Counters do not trigger a checkpoint: their number is bounded by their names. */
  readonly fill = 0;
  #page = 0;

  constructor(db: Database) {
    const rows = db.prepare("select grp, name, value, sum from counters order by grp, name").all() as CounterRow[];
    for (const { grp, name, value, sum } of rows) {
      checkSum(sum, () => rowSum(grp, name, value), "counter", `${grp} ${name}`);
      const cell = this.#cell({ group: grp, name });
      cell.value = value;
      cell.committed = value;
    }
  }

  value(counter: CounterName): number {
    return this.#groups.get(counter.group)?.get(counter.name)?.value ?? 0;
  }

  add(counter: CounterName, delta: number): void {
    const cell = this.#cell(counter);
    cell.value = Math.max(-VALUE_MAX, Math.min(VALUE_MAX, cell.value + delta));
    if (cell.isTouched) return;
    cell.isTouched = true;
    this.#touched.push(cell);
  }

  total(name: string): number {
    return this.value({ group: TOTALS, name });
  }

  addTotal(name: string, delta: number): void {
    this.add({ group: TOTALS, name }, delta);
  }

  /** The non-zero counters of a group. With more than `limit` of them, successive calls return successive pages. */
  group(group: string, limit: number): ReadonlyMap<string, number> {
    const cells = [...(this.#groups.get(group)?.values() ?? [])].filter((cell) => cell.value !== 0);
    const from = cells.length > limit ? this.#page++ * limit : 0;
    const length = Math.min(limit, cells.length);
    return new Map(
      Array.from({ length }, (_, at) => {
        const cell = cells[(from + at) % cells.length]!;
        return [cell.name, cell.value];
      }),
    );
  }

  encodeChanges(pieces: string[]): void {
    for (const { group, name, value, committed } of this.#touched) {
      if (value !== committed) pieces.push(",", JSON.stringify(["count", group, name, value]));
    }
  }

  replay([word, ...rest]: JournalStep): void {
    if (word !== "count") return;
    const [group, name, value] = rest as [string, string, number];
    this.add({ group, name }, value - this.value({ group, name }));
  }

  collect(batch: WriteBatch): void {
    for (const cell of this.#touched) this.#dirty.add(cell);
    for (const { group, name, value } of this.#dirty) {
      if (value === 0) batch.add(DELETE_COUNTER, group, name);
      else batch.add(COUNTER, group, name, value, rowSum(group, name, value));
    }
  }

  freeze(): void {
    this.#frozen = this.#dirty;
    this.#dirty = new Set();
  }

  /** Removes counters at zero, once their row is deleted. */
  dropFrozen(): void {
    for (const cell of this.#frozen) {
      if (cell.value !== 0 || this.#dirty.has(cell)) continue;
      const cells = this.#groups.get(cell.group);
      cells?.delete(cell.name);
      if (cells?.size === 0) this.#groups.delete(cell.group);
    }
    this.#frozen = NO_CELLS;
  }

  onCommit(): void {
    for (const cell of this.#touched) {
      if (cell.value !== cell.committed) this.#dirty.add(cell);
      cell.committed = cell.value;
      cell.isTouched = false;
    }
    if (this.#touched.length > 0) this.#touched = [];
  }

  onRollback(): void {
    for (const cell of this.#touched) {
      cell.value = cell.committed;
      cell.isTouched = false;
    }
    if (this.#touched.length > 0) this.#touched = [];
  }

  #cell({ group, name }: CounterName): Cell {
    let cells = this.#groups.get(group);
    if (!cells) {
      cells = new Map();
      this.#groups.set(group, cells);
    }
    let cell = cells.get(name);
    if (!cell) {
      cell = { group, name, value: 0, committed: 0, isTouched: false };
      cells.set(name, cell);
    }
    return cell;
  }
}

interface Cell {
  readonly group: string;
  readonly name: string;
  value: number;
  /** The value before the current batch. */
  committed: number;
  isTouched: boolean;
}

const NO_CELLS: ReadonlySet<Cell> = new Set();

/** A larger integer cannot be read back: the database would not open again. */
const VALUE_MAX = Number.MAX_SAFE_INTEGER;

/** Names of groups contain no line break. */
const TOTALS = "\ntotals";

interface CounterRow {
  readonly grp: string;
  readonly name: string;
  readonly value: number;
  readonly sum: number | null;
}
