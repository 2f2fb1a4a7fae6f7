/** Charts as data. Experiments describe them, `draw.ts` draws them. */

export type Chart = LineChart | HistogramChart | DistributionChart;

interface Captioned {
  /** The file: `<experiment>-<name>.svg`. */
  readonly name: string;
  readonly title: string;
  /** What is shown and how to read it. */
  readonly caption: string;
}

export interface LineChart extends Captioned {
  readonly kind: "lines";
  readonly x: Axis;
  readonly y: Axis;
  readonly lines: readonly Line[];
  readonly bands?: readonly Band[];
}

/** Events per bin over time: one histogram per row, stacked, on the same scales. */
export interface HistogramChart extends Captioned {
  readonly kind: "histograms";
  readonly binMs: number;
  /** What is counted: `calls`. */
  readonly what: string;
  /** The time axis ends at the next tick; an arrow marks a histogram that continues. */
  readonly untilMs: number;
  readonly histograms: readonly Histogram[];
  readonly bands?: readonly Band[];
}

/** Cumulative distribution of durations. */
export interface DistributionChart extends Captioned {
  readonly kind: "distribution";
  readonly x: Axis;
  /** What the shares are of: `clients`. */
  readonly of: string;
  readonly samples: readonly { readonly name: string; readonly values: readonly number[] }[];
}

export interface Axis {
  readonly label: string;
  /** `ms` is scaled to `s`, `min` or `h`; other units are appended to the label. */
  readonly unit: string;
  /** A logarithmic axis omits values that are not above 0. */
  readonly isLog?: boolean;
}

export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  /** Minimum and maximum over the seeds, drawn as a shaded area; sorted by x. */
  readonly spread?: readonly (readonly [x: number, low: number, high: number])[];
}

export interface Histogram {
  readonly name: string;
  readonly counts: readonly number[];
  /** The main figures of the row. */
  readonly note: string;
  /** What the row's name means. */
  readonly description?: string;
}

/** A marked interval of the x axis, such as an outage. */
export interface Band {
  readonly from: number;
  readonly to: number;
  readonly label: string;
}
