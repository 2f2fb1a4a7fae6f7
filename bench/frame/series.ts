import { type Spread, spreadOf } from "./figures.ts";

/** Measured figures by cell and round. */
export class Series {
  readonly #cells: Cell[] = [];

  add(name: string, inFlight: number | null, figures: Readonly<Record<string, number>>): void {
    const cell = this.#find(name, inFlight) ?? this.#open(name, inFlight);
    for (const [key, value] of Object.entries(figures)) {
      const values = cell.figures.get(key) ?? [];
      values.push(value);
      cell.figures.set(key, values);
    }
  }

  /** One value per round; empty when the cell was not measured. */
  values(name: string, inFlight: number | null, key: string): readonly number[] {
    return this.#find(name, inFlight)?.figures.get(key) ?? [];
  }

  median(name: string, inFlight: number | null, key: string): number {
    return spreadOf(this.values(name, inFlight, key)).median;
  }

  /** Ratios of two cells, round by round: measurements close in time share the state of the machine. */
  compare(key: string, as: string, from: CellName, to: CellName): void {
    const cell = this.#find(from.name, from.inFlight);
    const others = this.values(to.name, to.inFlight, key);
    const ratios = this.values(from.name, from.inFlight, key).map(
      (value, round) => value / (others[round] ?? Number.NaN),
    );
    cell?.figures.set(as, ratios);
  }

  cells(): readonly Cell[] {
    return this.#cells;
  }

  #find(name: string, inFlight: number | null): Cell | undefined {
    return this.#cells.find((cell) => cell.name === name && cell.inFlight === inFlight);
  }

  #open(name: string, inFlight: number | null): Cell {
    const cell: Cell = { name, inFlight, figures: new Map() };
    this.#cells.push(cell);
    return cell;
  }
}

export interface CellName {
  readonly name: string;
  readonly inFlight: number | null;
}

export interface Cell extends CellName {
  readonly figures: Map<string, number[]>;
}

export function spreadsOf(cell: Cell): ReadonlyMap<string, Spread> {
  return new Map([...cell.figures].map(([key, values]) => [key, spreadOf(values)]));
}
