/** A picture as a drawing. Lines with their names at their ends; waves as small multiples on one scale. */
import { drawLines } from "./chart-lines.ts";
import { drawWaves } from "./chart-waves.ts";
import type { Chart, DistributionChart, LineChart } from "./picture.ts";
import type { Drawing } from "./svg.ts";

export function drawChart(picture: Chart): Drawing {
  switch (picture.kind) {
    case "lines":
      return drawLines(picture);
    case "distribution":
      return drawLines(cumulative(picture));
    case "waves":
      return drawWaves(picture);
    default:
      return picture satisfies never;
  }
}

/** More points than this nobody can see. */
const POINTS_MAX = 400;

/** Steps from 0 to 100 %: at each value, the share of values up to it. */
function cumulative({ samples, x, of, ...captions }: DistributionChart): LineChart {
  const lines = samples.map(({ name, values }) => {
    const sorted = values.toSorted((a, b) => a - b);
    const every = Math.max(1, Math.ceil(sorted.length / POINTS_MAX));
    const shown = sorted.map((value, index) => [value, index] as const);
    const points = shown
      .filter(([, index]) => index % every === 0 || index === sorted.length - 1)
      .flatMap(([value, index]): [number, number][] => [
        [value, (100 * index) / sorted.length],
        [value, (100 * (index + 1)) / sorted.length],
      ]);
    return { name, points };
  });
  return { ...captions, kind: "lines", x, y: { label: `share of ${of}`, unit: "%" }, lines };
}
