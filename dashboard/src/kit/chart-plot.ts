/** uPlot with the colours of the theme. A chunk of its own. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Band, ChartProps, Plot, Series } from "./chart.tsx";

export function openPlot(box: HTMLElement, props: ChartProps): Plot {
  let latest = props;
  let plot = draw(box, () => latest);
  const redraw = () => {
    plot.destroy();
    plot = draw(box, () => latest);
  };
  const resize = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: box.clientHeight }));
  resize.observe(box);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", redraw);
  const theme = new MutationObserver(redraw);
  theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return {
    update(next) {
      const isSame =
        next.series.length === latest.series.length &&
        next.series.every(({ label }, at) => label === latest.series[at]?.label);
      latest = next;
      if (isSame) plot.setData(dataOf(next));
      else redraw();
    },
    close() {
      resize.disconnect();
      theme.disconnect();
      scheme.removeEventListener("change", redraw);
      plot.destroy();
    },
  };
}

function dataOf({ x, isTime, series, isLogarithmic }: ChartProps): uPlot.AlignedData {
  const xs = isTime === true ? x.map((ms) => ms / 1_000) : [...x];
  const shown = (value: number | null) =>
    isLogarithmic === true && value !== null ? Math.max(LOGARITHMIC_MIN, value) : value;
  return [xs, ...series.map(({ values }) => values.map(shown))];
}

function shade(plot: uPlot, bands: readonly Band[], fill: string): void {
  const { left, top, width, height } = plot.bbox;
  // uPlot remembers the colour that it has set: a changed one would be that of the labels.
  plot.ctx.save();
  plot.ctx.fillStyle = fill;
  for (const { from, to } of bands) {
    const at = (x: number) => Math.min(left + width, Math.max(left, plot.valToPos(x, "x", true)));
    plot.ctx.fillRect(at(from), top, at(to) - at(from), height);
  }
  plot.ctx.restore();
}

const rangeOf = (max: number): [number, number] => [0, max > 0 ? max * 1.1 : 1];

function draw(box: HTMLElement, current: () => ChartProps): uPlot {
  const props = current();
  const styles = getComputedStyle(box);
  const color = (name: string) => styles.getPropertyValue(`--${name}`).trim();
  const format = props.format ?? String;
  // A logarithmic axis has values without a label, which are null.
  const labelOf = (value: number | null) => (value === null ? "" : format(value));
  const gridOf: uPlot.Axis.Filter = (_, splits) => (props.isLogarithmic === true ? splits.map(powerOfTen) : splits);
  const axis = {
    stroke: color("text-soft"),
    font: `11px ${styles.fontFamily}`,
    grid: { stroke: color("line"), width: 1 },
    ticks: { show: false },
  };
  return new uPlot(
    {
      width: box.clientWidth || 600,
      height: box.clientHeight || 200,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: {
        x: { time: props.isTime === true, ...(props.isLogX === true ? { distr: 3 as const } : {}) },
        y: props.isLogarithmic === true ? LOGARITHMIC : { range: (_, __, max) => rangeOf(current().yMax ?? max) },
      },
      hooks: { drawClear: [(plot) => shade(plot, props.bands ?? [], color("line"))] },
      axes: [
        { ...axis, size: 30, grid: { show: false }, ...xValues(props) },
        { ...axis, size: 52, values: (_, splits) => splits.map(labelOf), grid: { ...axis.grid, filter: gridOf } },
      ],
      series: [{}, ...props.series.map((series) => seriesOf(series, color))],
    },
    dataOf(props),
    box,
  );
}

const powerOfTen = (value: number): number | null => (Number.isInteger(Math.log10(value)) ? value : null);

const LOGARITHMIC_MIN = 0.01;
const LOGARITHMIC: uPlot.Scale = {
  distr: 3,
  range: (_, min, max) => [Math.min(0.1, min), Math.max(10, max) * 2],
};

function xValues({ formatX, isTime }: ChartProps): Pick<uPlot.Axis, "values"> {
  if (formatX === undefined) return {};
  // On logarithmic axes only some ticks have a label.
  const text = (x: number | null) => (x === null ? "" : formatX(isTime === true ? x * 1_000 : x));
  return { values: (_, splits) => splits.map(text) };
}

function seriesOf({ label, tone, isBars, isDashed }: Series, color: (name: string) => string): uPlot.Series {
  const stroke = color(tone === "main" ? "accent" : tone);
  return {
    label,
    stroke,
    width: 1.5,
    points: { show: false },
    spanGaps: true,
    ...(isDashed === true ? { dash: [5, 4] } : {}),
    ...(isBars === true && uPlot.paths.bars !== undefined
      ? { fill: stroke, width: 0, paths: uPlot.paths.bars({ size: [0.8, 40] }) }
      : {}),
  };
}
