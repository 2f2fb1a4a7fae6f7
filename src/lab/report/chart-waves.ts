import { drawBand } from "./chart-lines.ts";
import { formatShort } from "./numbers.ts";
import type { Histogram, HistogramChart } from "./picture.ts";
import { type Scale, scaleFor } from "./scale.ts";
import { BOLD, colorOf, type Drawing, element, fitted, path, text, textWidth } from "./svg.ts";

/** One strip for each wave, all on the same two scales: the eye compares heights, and sees who comes back together. */
export function drawWaves(picture: HistogramChart): Drawing {
  const { histograms: waves, binMs, bands = [], what } = picture;
  // What a band is called stands above the strips, what a wave is for lay people below its name.
  const top = bands.length === 0 ? TOP : TOP + LINE;
  const strip = waves.some(({ description: says }) => says) ? STRIP + LINE : STRIP;
  const bottom = top + waves.length * strip;
  const height = bottom + 46;
  const peak = Math.max(1, ...waves.flatMap(({ counts }) => counts));
  const left = Math.max(LEFT_MIN, textWidth(formatShort(peak)) + 16);
  const across = scaleFor({ label: "time", unit: "ms" }, [picture.untilMs], { fromPx: left, toPx: RIGHT });
  const strips = waves.flatMap((wave, index) => {
    const foot = top + (index + 1) * strip - 8;
    return drawStrip(wave, { binMs, peak, index, left, foot, across });
  });
  const feet = across.ticks.flatMap(({ at, text: words }) => {
    const x = across.toPx(at);
    return [
      element("line", { x1: x, y1: bottom - 8, x2: x, y2: bottom - 3, class: "a" }),
      text(words, { x, y: bottom + 13, anchor: "middle" }),
    ];
  });
  const parts = [
    text(`${what} in each ${formatShort(binMs)} ms`, { x: 12, y: 20 }),
    ...bands.map((band) => drawBand(band, across, { top: TOP - 8, bottom: bottom - 8, right: RIGHT })),
    ...strips,
    ...feet,
    text("time since the start", { x: (left + RIGHT) / 2, y: height - 12, anchor: "middle" }),
  ];
  return { width: WIDTH, height, label: `${picture.title}. ${picture.caption}`, parts };
}

const WIDTH = 860;
const LEFT_MIN = 56;
const RIGHT = WIDTH - 36;
const TOP = 36;
const STRIP = 104;
const LINE = 17;
/** The name and the note stand above the bars. */
const PLOT = 68;
/** More columns than pixels are of no use. */
const COLUMNS_MAX = 760;

interface Place {
  readonly binMs: number;
  readonly peak: number;
  readonly index: number;
  readonly left: number;
  readonly foot: number;
  readonly across: Scale;
}

function drawStrip(wave: Histogram, place: Place): string[] {
  const { binMs, peak, index, left, foot, across } = place;
  const color = colorOf(index);
  const words = wave.description ?? "";
  const head = foot - PLOT - (words === "" ? 9 : 9 + LINE);
  const top = foot - PLOT;
  const nameWidth = textWidth(wave.name, BOLD) + 16;
  return [
    element("line", { x1: left, y1: top, x2: RIGHT, y2: top, class: "g" }),
    text(formatShort(peak), { x: left - 8, y: top + 4, anchor: "end" }),
    text("0", { x: left - 8, y: foot + 4, anchor: "end" }),
    element("path", { d: outline(wave.counts, place), class: `f${color}` }),
    element("line", { x1: left, y1: foot, x2: RIGHT, y2: foot, class: "a" }),
    text(fitted(wave.name, RIGHT - left, BOLD), { x: left, y: head, class: `n f${color}` }),
    text(fitted(wave.note, RIGHT - left - nameWidth), { x: RIGHT, y: head, anchor: "end" }),
    ...(words === "" ? [] : [text(fitted(words, RIGHT - left), { x: left, y: head + LINE })]),
    ...(wave.counts.length * binMs > across.high
      ? [text("→", { x: RIGHT + 10, y: foot + 4, class: `n f${color}` })]
      : []),
  ];
}

/** The bars of one strip as one shape. Bins that would share a pixel show the highest of them. */
function outline(counts: readonly number[], { binMs, across, peak, foot }: Place): string {
  const bins = Math.ceil(across.high / binMs);
  const every = Math.max(1, Math.ceil(bins / COLUMNS_MAX));
  const points: [number, number][] = [[across.toPx(0), foot]];
  for (let bin = 0; bin < Math.min(bins, counts.length); bin += every) {
    const high = foot - (PLOT * Math.max(...counts.slice(bin, bin + every))) / peak;
    points.push([across.toPx(bin * binMs), high], [across.toPx((bin + every) * binMs), high]);
  }
  points.push([points.at(-1)![0], foot]);
  return `${path(points)}Z`;
}
