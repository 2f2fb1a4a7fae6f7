/** The charts of a report in the form of the kit: one x axis for all series. */
import type { LabChart } from "../../../../src/client/schema.ts";

export interface Plotted {
  readonly x: readonly number[];
  readonly values: readonly (readonly (number | null)[])[];
}

/** Lines: all x values of all series. */
export function lineData({ series }: Pick<LabChart, "series">): Plotted {
  const x = [...new Set(series.flatMap(({ points }) => points.map(([at = 0]) => at)))].sort((a, b) => a - b);
  const values = series.map(({ points }) => {
    const known = new Map(points.map(([at = 0, value = 0]) => [at, value]));
    return x.map((at) => known.get(at) ?? null);
  });
  return { x, values };
}

/** Bars: every bin from 0 to the end, also those without a bar. */
export function barData({ series, bin, until }: Pick<LabChart, "series" | "bin" | "until">): Plotted {
  const width = bin ?? 1;
  const bins = Math.max(1, Math.ceil((until ?? 0) / width));
  const x = Array.from({ length: bins }, (_, at) => at * width);
  const values = series.map(({ points }) => {
    const counts = new Array<number>(bins).fill(0);
    for (const [at = 0, count = 0] of points) {
      const index = Math.round(at / width);
      if (index < bins) counts[index] = count;
    }
    return counts;
  });
  return { x, values };
}

/** The largest bar of all series: their plots share the scale. */
export const peakOf = ({ values }: Plotted): number =>
  values.flat().reduce<number>((most, value) => Math.max(most, value ?? 0), 1);
