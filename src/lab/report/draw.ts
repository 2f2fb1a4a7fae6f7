/** Draws a chart as SVG elements. Line names are printed at the line ends; there is no legend. */
import type { Band, Chart, DistributionChart, Histogram, HistogramChart, Line, LineChart } from "./chart.ts";
import { formatShort } from "./format.ts";
import { axisTitle, isDrawable, type Scale, scaleFor } from "./scale.ts";
import {
  BOLD,
  colorOf,
  type Drawing,
  element,
  type Font,
  fitted,
  PLAIN,
  path,
  SMALL_BOLD,
  text,
  textWidth,
} from "./svg.ts";

export function drawChart(chart: Chart): Drawing {
  switch (chart.kind) {
    case "lines":
      return drawLines(chart);
    case "distribution":
      return drawLines(cumulative(chart));
    case "histograms":
      return drawHistograms(chart);
    default:
      return chart satisfies never;
  }
}

const WIDTH = 860;

/** Dimensions of line charts. */
const LINES = {
  height: 420,
  leftMin: 84,
  top: 36,
  bottom: 360,
  namesMax: 280,
  /** Longer names use the small font. */
  nameLengthMax: 20,
  nearPx: 24,
  nameGap: BOLD.sizePx + 4,
} as const;

function drawLines(chart: LineChart): Drawing {
  const { x, y, bands = [] } = chart;
  const { height, top, bottom } = LINES;
  const lines = chart.lines.map((line) => drawable(line, chart));
  const font = lines.some(({ name }) => name.length > LINES.nameLengthMax) ? SMALL_BOLD : BOLD;
  const namesWidth = Math.min(LINES.namesMax, Math.max(48, ...lines.map(({ name }) => textWidth(name, font))) + 24);
  const right = WIDTH - namesWidth;
  const xs = lines
    .flatMap(({ points }) => points.map(([at]) => at))
    .concat(bands.flatMap(({ from, to }) => [from, to]));
  const ys = lines.flatMap(({ points, spread = [] }) => [
    ...points.map(([, value]) => value),
    ...spread.flatMap(([, low, high]) => [low, high]),
  ]);
  const up = scaleFor(y, ys, { fromPx: bottom, toPx: top });
  const left = Math.max(LINES.leftMin, ...up.ticks.map((tick) => textWidth(tick.text) + 16));
  const across = scaleFor(x, xs, { fromPx: left, toPx: right });
  const parts = [
    ...bands.map((band) => drawBand(band, across, { top, bottom, right })),
    ...drawAxes(across, up, { left, right }),
    text(axisTitle(y), { x: 12, y: 20, class: "t" }),
    text(axisTitle(x), { x: (left + right) / 2, y: height - 12, anchor: "middle" }),
    ...lines.flatMap(({ spread = [] }, index) => drawSpread(spread, across, up, index)),
    ...lines.flatMap(({ points }, index) => drawLine(points, across, up, index)),
    ...drawNames(lines, { across, up, width: namesWidth, font }),
  ];
  return { width: WIDTH, height, label: `${chart.title}. ${chart.caption}`, parts };
}

/** Steps from 0 to 100 %: for each value, the share of values up to it. */
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

const POINTS_MAX = 400;

function drawBand(
  { from, to, label }: Band,
  across: Scale,
  { top, bottom, right }: { readonly top: number; readonly bottom: number; readonly right: number },
): string {
  const [left, end] = [across.toPx(from), across.toPx(to)];
  const rect = element("rect", { x: left, y: top, width: Math.max(1, end - left), height: bottom - top, class: "b" });
  return `${rect}${text(fitted(label, right - left - 8), { x: left + 6, y: top + PLAIN.sizePx + 3 })}`;
}

function drawable({ name, points, spread }: Line, { x, y }: LineChart): Line {
  const fits = (at: number, ...values: number[]) => isDrawable(x, at) && values.every((value) => isDrawable(y, value));
  const kept = points.filter(([at, value]) => fits(at, value));
  return spread === undefined
    ? { name, points: kept }
    : { name, points: kept, spread: spread.filter(([at, low, high]) => fits(at, low, high)) };
}

function drawAxes(across: Scale, up: Scale, { left, right }: { left: number; right: number }): string[] {
  const grid = up.ticks.flatMap((tick) => {
    const at = up.toPx(tick.at);
    return [
      element("line", { x1: left, y1: at, x2: right, y2: at, class: "g" }),
      text(tick.text, { x: left - 8, y: at + 4, anchor: "end" }),
    ];
  });
  const axis = element("line", { x1: left, y1: LINES.bottom, x2: right, y2: LINES.bottom, class: "a" });
  return [...grid, axis, ...drawTicks(across, LINES.bottom, 5, 21)];
}

/** The ticks of a horizontal axis and their labels below it. */
function drawTicks(across: Scale, bottom: number, length: number, textBelow: number): string[] {
  return across.ticks.flatMap((tick) => {
    const at = across.toPx(tick.at);
    return [
      element("line", { x1: at, y1: bottom, x2: at, y2: bottom + length, class: "a" }),
      text(tick.text, { x: at, y: bottom + textBelow, anchor: "middle" }),
    ];
  });
}

function drawLine(points: Line["points"], across: Scale, up: Scale, index: number): string[] {
  const placed = points.map(([at, value]) => [across.toPx(at), up.toPx(value)] as const);
  const [first] = placed;
  if (first === undefined) return [];
  if (placed.length === 1) {
    return [element("circle", { cx: first[0], cy: first[1], r: 4, class: `f${colorOf(index)}` })];
  }
  return [element("path", { d: path(placed), class: `l s${colorOf(index)}` })];
}

function drawSpread(spread: NonNullable<Line["spread"]>, across: Scale, up: Scale, index: number): string[] {
  if (spread.length < 2) return [];
  const highs = spread.map(([at, , high]) => [across.toPx(at), up.toPx(high)] as const);
  const lows = spread.map(([at, low]) => [across.toPx(at), up.toPx(low)] as const).reverse();
  return [element("path", { d: `${path([...highs, ...lows])}Z`, class: `h f${colorOf(index)}` })];
}

/** Each name at the height of its line's end, moved apart where names would overlap. */
function drawNames(
  lines: readonly Line[],
  { across, up, width, font }: { across: Scale; up: Scale; width: number; font: Font },
): string[] {
  const ends = lines.flatMap(({ name, points }, index) => {
    const end = points.at(-1);
    return end === undefined ? [] : [{ name, index, x: across.toPx(end[0]), y: up.toPx(end[1]) }];
  });
  const left = WIDTH - width;
  const heights = separated(ends.map(({ y }) => y));
  return ends.flatMap(({ name, index, x, y }, order) => {
    const height = heights[order]!;
    const color = colorOf(index);
    // A line that ends early gets a colored dash instead of a connector, which would cross other lines.
    const isNear = left - x <= LINES.nearPx;
    const from: readonly [number, number] = isNear ? [x, y] : [left + 2, height];
    return [
      element("path", { d: path([from, [left + 12, height]]), class: `l s${color}`, opacity: isNear ? 0.5 : 1 }),
      text(fitted(name, width - 22, font), { x: left + 18, y: height + 4, class: `${font.class} f${color}` }),
    ];
  });
}

/** The heights at least one line of text apart, within the chart. */
function separated(heights: readonly number[]): readonly number[] {
  const order = heights.map((_, index) => index).sort((a, b) => heights[a]! - heights[b]!);
  const placed = [...heights];
  let above = LINES.top - LINES.nameGap;
  for (const index of order) {
    placed[index] = Math.max(placed[index]!, above + LINES.nameGap);
    above = placed[index]!;
  }
  let below = LINES.bottom + LINES.nameGap;
  for (const index of order.toReversed()) {
    placed[index] = Math.min(placed[index]!, below - LINES.nameGap);
    below = placed[index]!;
  }
  return placed;
}

/** Dimensions of histogram charts. */
const STRIPS = {
  leftMin: 56,
  right: WIDTH - 36,
  top: 36,
  height: 104,
  line: 17,
  /** Height of the bars; name and note are above them. */
  plot: 68,
  columnsMax: 760,
} as const;

function drawHistograms(chart: HistogramChart): Drawing {
  const { histograms, binMs, bands = [], what } = chart;
  const { right } = STRIPS;
  const top = bands.length === 0 ? STRIPS.top : STRIPS.top + STRIPS.line;
  const strip = histograms.some(({ description }) => description) ? STRIPS.height + STRIPS.line : STRIPS.height;
  const bottom = top + histograms.length * strip;
  const height = bottom + 46;
  const peak = Math.max(1, ...histograms.flatMap(({ counts }) => counts));
  const left = Math.max(STRIPS.leftMin, textWidth(formatShort(peak)) + 16);
  const across = scaleFor({ label: "time", unit: "ms" }, [chart.untilMs], { fromPx: left, toPx: right });
  const strips = histograms.flatMap((histogram, index) => {
    const foot = top + (index + 1) * strip - 8;
    return drawStrip(histogram, { binMs, peak, index, left, foot, across });
  });
  const parts = [
    text(`${what} per ${formatShort(binMs)} ms`, { x: 12, y: 20 }),
    ...bands.map((band) => drawBand(band, across, { top: STRIPS.top - 8, bottom: bottom - 8, right })),
    ...strips,
    ...drawTicks(across, bottom - 8, 5, 21),
    text("time since the start", { x: (left + right) / 2, y: height - 12, anchor: "middle" }),
  ];
  return { width: WIDTH, height, label: `${chart.title}. ${chart.caption}`, parts };
}

interface StripPlace {
  readonly binMs: number;
  readonly peak: number;
  readonly index: number;
  readonly left: number;
  readonly foot: number;
  readonly across: Scale;
}

function drawStrip({ name, counts, note, description = "" }: Histogram, place: StripPlace): string[] {
  const { binMs, peak, index, left, foot, across } = place;
  const { right, line } = STRIPS;
  const color = colorOf(index);
  const top = foot - STRIPS.plot;
  const head = top - (description === "" ? 9 : 9 + line);
  const nameWidth = textWidth(name, BOLD) + 16;
  return [
    element("line", { x1: left, y1: top, x2: right, y2: top, class: "g" }),
    text(formatShort(peak), { x: left - 8, y: top + 4, anchor: "end" }),
    text("0", { x: left - 8, y: foot + 4, anchor: "end" }),
    element("path", { d: outline(counts, place), class: `f${color}` }),
    element("line", { x1: left, y1: foot, x2: right, y2: foot, class: "a" }),
    text(fitted(name, right - left, BOLD), { x: left, y: head, class: `n f${color}` }),
    text(fitted(note, right - left - nameWidth), { x: right, y: head, anchor: "end" }),
    ...(description === "" ? [] : [text(fitted(description, right - left), { x: left, y: head + line })]),
    ...(counts.length * binMs > across.high ? [text("→", { x: right + 10, y: foot + 4, class: `n f${color}` })] : []),
  ];
}

/** The bars of one strip as one path. Bins that share a pixel show their maximum. */
function outline(counts: readonly number[], { binMs, across, peak, foot }: StripPlace): string {
  const bins = Math.ceil(across.high / binMs);
  const every = Math.max(1, Math.ceil(bins / STRIPS.columnsMax));
  const points: [number, number][] = [[across.toPx(0), foot]];
  for (let bin = 0; bin < Math.min(bins, counts.length); bin += every) {
    const high = foot - (STRIPS.plot * Math.max(...counts.slice(bin, bin + every))) / peak;
    points.push([across.toPx(bin * binMs), high], [across.toPx((bin + every) * binMs), high]);
  }
  points.push([points.at(-1)![0], foot]);
  return `${path(points)}Z`;
}
