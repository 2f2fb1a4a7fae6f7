/** Linear and logarithmic scales with ticks on round numbers. */
import type { Axis } from "./chart.ts";
import { formatMs, formatShort } from "./format.ts";

export interface Scale {
  readonly ticks: readonly { readonly at: number; readonly text: string }[];
  /** The upper end. */
  readonly high: number;
  /** Values outside of the scale are clamped. */
  toPx(value: number): number;
}

export interface Span {
  readonly fromPx: number;
  readonly toPx: number;
}

/** A linear scale starts at 0. */
export function scaleFor(axis: Axis, values: readonly number[], span: Span): Scale {
  const [low, high, marks] = axis.isLog ? logRange(values) : linearRange(values, axis.unit === "ms");
  const format = formatFor(axis, marks);
  const project = axis.isLog ? Math.log : (value: number) => value;
  return {
    ticks: marks.map((at) => ({ at, text: at === 0 ? "0" : format(at) })),
    high,
    toPx(value) {
      const inside = Math.min(Math.max(value, low), high);
      const share = (project(inside) - project(low)) / (project(high) - project(low));
      return span.fromPx + share * (span.toPx - span.fromPx);
    },
  };
}

export function isDrawable(axis: Axis, value: number): boolean {
  return Number.isFinite(value) && (axis.isLog !== true || value >= LEAST);
}

export function axisTitle({ label, unit }: Axis): string {
  return unit === "" || unit === "ms" || unit === "%" ? label : `${label} (${unit})`;
}

/** A linear time axis has one unit for all ticks, chosen by the tick distance: 120 s and 140 s, not 2 min and 2.33 min. */
function formatFor({ unit, isLog }: Axis, marks: readonly number[]): (value: number) => string {
  if (unit === "%") return (value) => `${formatShort(value)} %`;
  if (unit !== "ms") return formatShort;
  if (isLog === true) return formatMs;
  const [stepMs = 0, highMs = 0] = [marks[1], marks.at(-1)];
  if (stepMs >= 3_600_000) return (ms) => `${formatShort(ms / 3_600_000)} h`;
  if (stepMs >= 60_000) return (ms) => `${formatShort(ms / 60_000)} min`;
  return highMs >= 1_000 ? (ms) => `${formatShort(ms / 1_000)} s` : (ms) => `${formatShort(ms)} ms`;
}

type Range = readonly [low: number, high: number, marks: readonly number[]];

function linearRange(values: readonly number[], isTime: boolean): Range {
  const most = Math.max(0, ...values);
  const high = most < LEAST ? 1 : most;
  const rough = high / TICKS_MAX;
  const size = 10 ** Math.floor(Math.log10(rough));
  const round = ([1, 2, 5, 10].find((factor) => factor * size >= rough) ?? 10) * size;
  const step = (isTime ? TIME_STEPS_MS.find((stepMs) => stepMs >= rough) : undefined) ?? round;
  const count = Math.ceil(high / step - 1e-9);
  return [0, count * step, Array.from({ length: count + 1 }, (_, index) => index * step)];
}

function logRange(values: readonly number[]): Range {
  const positive = values.filter((value) => value >= LEAST);
  const [least, most] = positive.length === 0 ? [1, 10] : [Math.min(...positive), Math.max(...positive)];
  // The range is at least a factor of two, so that close values stay close.
  const fine = logMarks(least, Math.max(most, least * 2), [1, 2, 5]);
  const [low, high] = [fine[0]!, fine.at(-1)!];
  const coarse = logMarks(low, high, [1]).filter((mark) => mark >= low && mark <= high);
  const marks = fine.length <= TICKS_MAX + 2 ? fine : coarse;
  const every = Math.ceil(marks.length / (TICKS_MAX + 2));
  return [low, high, marks.filter((_, index) => index % every === 0)];
}

/** From the last round number at or below `least` to the first at or above `most`. */
function logMarks(least: number, most: number, factors: readonly number[]): readonly number[] {
  const marks: number[] = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power += 1) {
    for (const factor of factors) marks.push(power < 0 ? factor / 10 ** -power : factor * 10 ** power);
  }
  const first = Math.max(
    0,
    marks.findLastIndex((mark) => mark <= least * (1 + 1e-9)),
  );
  const last = marks.findIndex((mark) => mark >= most * (1 - 1e-9));
  return marks.slice(first, last === -1 ? undefined : last + 1);
}

const TICKS_MAX = 7;
/** Figures are rounded to thousandths. */
const LEAST = 1e-3;
const TIME_STEPS_MS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 20, 30].map((seconds) => seconds * 1_000),
  ...[1, 2, 5, 10, 20, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 6, 12, 24].map((hours) => hours * 3_600_000),
];
