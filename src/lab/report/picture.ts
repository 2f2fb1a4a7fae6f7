/** What a report shows, as data: experiments say what is on a picture, the charts beside this file draw it. */

export type Chart = LineChart | HistogramChart | DistributionChart;

interface Captioned {
  /** The file: `<experiment>-<name>.svg`. */
  readonly name: string;
  readonly title: string;
  /** One sentence that somebody understands who has never heard of jitter. */
  readonly caption: string;
}

/** Anything over anything; lag over time is one of these, with a band for the outage. */
export interface LineChart extends Captioned {
  readonly kind: "lines";
  readonly x: Axis;
  readonly y: Axis;
  readonly lines: readonly Line[];
  readonly bands?: readonly Band[];
}

/** Small multiples, one below the other on one scale: arrivals per bin. */
export interface HistogramChart extends Captioned {
  readonly kind: "waves";
  readonly binMs: number;
  /** What is counted: `calls`. */
  readonly what: string;
  /** What comes later than the next round number is cut off, and an arrow says so. */
  readonly untilMs: number;
  readonly histograms: readonly Histogram[];
  readonly bands?: readonly Band[];
}

/** Which share was done within how long. */
export interface DistributionChart extends Captioned {
  readonly kind: "distribution";
  readonly x: Axis;
  /** What the shares are of: `clients`. */
  readonly of: string;
  readonly samples: readonly { readonly name: string; readonly values: readonly number[] }[];
}

export interface Axis {
  readonly label: string;
  /** `ms` is written as people say it (`2 s`, `5 min`); others stand behind the label. */
  readonly unit: string;
  /** On a logarithmic axis whatever is not above 0 is left out. */
  readonly isLog?: boolean;
}

export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  /** The spread over seeds, drawn as a shade: from the left to the right. */
  readonly spread?: readonly (readonly [x: number, low: number, high: number])[];
}

export interface Histogram {
  readonly name: string;
  readonly counts: readonly number[];
  /** The figures that go with it, in a few words. */
  readonly note: string;
  /** What the name stands for, for somebody who has never heard of it. */
  readonly description?: string;
}

/** A stretch of the x axis in which something was so: an outage. */
export interface Band {
  readonly from: number;
  readonly to: number;
  readonly label: string;
}
