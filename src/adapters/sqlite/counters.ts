import type { CounterName } from "../../core/model/table.ts";
import type { Database } from "./database.ts";
import type { JournalStep, Participant } from "./participant.ts";
import { COUNTER, DELETE_COUNTER, type WriteBatch } from "./write-batch.ts";

/**
 * The counters. The data directory has one process, so they are read from memory; a hot one is written once for many
 * commits. A counter at zero does not exist. Totals are counters of a group that no record can name.
 */
export class Counters implements Participant {
  readonly #groups = new Map<string, Map<string, Cell>>();
  /** By this batch. */
  #touched: Cell[] = [];
  /** Not as in the tables. */
  #unfolded = new Set<Cell>();
  /** On their way into the tables. */
  #aside: ReadonlySet<Cell> = NO_CELLS;
  readonly fill = 0;
  #turn = 0;

  constructor(db: Database) {
    const rows = db.prepare("select grp, name, value from counters order by grp, name").all() as CounterRow[];
    for (const { grp, name, value } of rows) {
      const cell = this.#cell({ group: grp, name });
      cell.value = value;
      cell.kept = value;
    }
  }

  value(counter: CounterName): number {
    return this.#groups.get(counter.group)?.get(counter.name)?.value ?? 0;
  }

  add(counter: CounterName, delta: number): void {
    const cell = this.#cell(counter);
    cell.value += delta;
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

  /** Of more than `limit` counters, each call shows the next ones: none is always left out. */
  group(group: string, limit: number): ReadonlyMap<string, number> {
    const cells = [...(this.#groups.get(group)?.values() ?? [])].filter((cell) => cell.value !== 0);
    const from = cells.length > limit ? this.#turn++ * limit : 0;
    const shown = Math.min(limit, cells.length);
    return new Map(
      Array.from({ length: shown }, (_, at) => {
        const cell = cells[(from + at) % cells.length]!;
        return [cell.name, cell.value];
      }),
    );
  }

  tell(pieces: string[]): void {
    for (const { group, name, value, kept } of this.#touched) {
      if (value !== kept) pieces.push(",", JSON.stringify(["count", group, name, value]));
    }
  }

  recover([word, ...rest]: JournalStep): void {
    if (word !== "count") return;
    const [group, name, value] = rest as [string, string, number];
    this.add({ group, name }, value - this.value({ group, name }));
  }

  handOver(batch: WriteBatch): void {
    for (const cell of this.#touched) this.#unfolded.add(cell);
    for (const { group, name, value } of this.#unfolded) {
      if (value === 0) batch.add(DELETE_COUNTER, group, name);
      else batch.add(COUNTER, group, name, value);
    }
  }

  setAside(): void {
    this.#aside = this.#unfolded;
    this.#unfolded = new Set();
  }

  kept(): void {
    this.#end((cell) => {
      if (cell.value !== cell.kept) this.#unfolded.add(cell);
      cell.kept = cell.value;
    });
  }

  /** A counter at zero is forgotten here, and not before: the tables had to be told. */
  folded(): void {
    for (const cell of this.#aside) {
      if (cell.value !== 0 || this.#unfolded.has(cell)) continue;
      const cells = this.#groups.get(cell.group);
      cells?.delete(cell.name);
      if (cells?.size === 0) this.#groups.delete(cell.group);
    }
    this.#aside = NO_CELLS;
  }

  undone(): void {
    this.#end((cell) => {
      cell.value = cell.kept;
    });
  }

  #end(agree: (cell: Cell) => void): void {
    for (const cell of this.#touched) {
      agree(cell);
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
      cell = { group, name, value: 0, kept: 0, isTouched: false };
      cells.set(name, cell);
    }
    return cell;
  }
}

interface Cell {
  readonly group: string;
  readonly name: string;
  value: number;
  /** As it was before this batch. */
  kept: number;
  isTouched: boolean;
}

const NO_CELLS: ReadonlySet<Cell> = new Set();

/** The names of groups are single lines. */
const TOTALS = "\ntotals";

interface CounterRow {
  readonly grp: string;
  readonly name: string;
  readonly value: number;
}
