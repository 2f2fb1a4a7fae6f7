/** Places of the timeline in pixels. */
export class Scale {
  readonly lanes: readonly string[];
  /** Rows for lock holds below the lanes. */
  readonly rows: number;
  readonly first: number;
  readonly columns: number;

  constructor(lanes: readonly string[], rows: number, first: number, columns: number) {
    this.lanes = lanes;
    this.rows = rows;
    this.first = first;
    this.columns = columns;
  }

  get width(): number {
    return this.columns * STEP_PX;
  }

  get height(): number {
    return this.#rowsTop + this.rows * ROW_PX + 4;
  }

  /** Of an entry, or between two. */
  x(place: number): number {
    return (place - this.first + 0.5) * STEP_PX;
  }

  y(lane: string): number {
    return TOP_PX + (this.lanes.indexOf(lane) + 0.5) * LANE_PX;
  }

  /** The top of a row. */
  rowY(row: number): number {
    return this.#rowsTop + row * ROW_PX;
  }

  get #rowsTop(): number {
    return TOP_PX + this.lanes.length * LANE_PX;
  }
}

export const STEP_PX = 18;
export const LABEL_PX = 96;
export const TOP_PX = 22;
export const ROW_PX = 20;
const LANE_PX = 38;
