/** From figures to pixels: linear or logarithmic, with ticks on round numbers. */
import { formatMs, formatShort } from "./numbers.ts";
import type { Axis } from "./picture.ts";

export interface Scale {
  readonly ticks: readonly { readonly at: number; readonly text: string }[];
  /** Where it ends. */
  readonly high: number;
  /** Whatever lies outside is pulled to the edge. */
  toPx(value: number): number;
}

export interface Span {
  readonly fromPx: number;
  readonly toPx: number;
}

/** A linear scale begins at 0: heights that do not would lie. */
export function scaleFor(axis: Axis, values: readonly number[], span: Span, ticksMax = 7): Scale {
  const [low, high, marks] = axis.isLog
    ? logRange(values, ticksMax)
    : linearRange(values, ticksMax, axis.unit === "ms");
  const write = writerFor(axis, marks);
  const bent = axis.isLog ? Math.log : (value: number) => value;
  return {
    ticks: marks.map((at) => ({ at, text: at === 0 ? "0" : write(at) })),
    high,
    toPx(value) {
      const inside = Math.min(Math.max(value, low), high);
      return span.fromPx + ((bent(inside) - bent(low)) / (bent(high) - bent(low))) * (span.toPx - span.fromPx);
    },
  };
}

/** On a logarithmic axis there is no place for what is not above 0. */
export function isDrawable(axis: Axis, value: number): boolean {
  return Number.isFinite(value) && (axis.isLog !== true || value >= LEAST);
}

export function axisTitle({ label, unit }: Axis): string {
  return unit === "" || unit === "ms" || unit === "%" ? label : `${label} (${unit})`;
}

/** On a linear axis all times are of one unit, that of the steps: 140 s beside 120 s, not 2.33 min beside 2 min. */
function writerFor({ unit, isLog }: Axis, marks: readonly number[]): (value: number) => string {
  if (unit === "%") return (value) => `${formatShort(value)} %`;
  if (unit !== "ms") return formatShort;
  if (isLog === true) return formatMs;
  const [stepMs = 0, highMs = 0] = [marks[1], marks.at(-1)];
  if (stepMs >= 3_600_000) return (ms) => `${formatShort(ms / 3_600_000)} h`;
  if (stepMs >= 60_000) return (ms) => `${formatShort(ms / 60_000)} min`;
  return highMs >= 1_000 ? (ms) => `${formatShort(ms / 1_000)} s` : (ms) => `${formatShort(ms)} ms`;
}

/** Less than this is nothing: figures are rounded to thousandths. */
const LEAST = 1e-3;

/** Steps that people count time in; shorter ones are decimal. */
const TIME_STEPS_MS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 20, 30].map((seconds) => seconds * 1_000),
  ...[1, 2, 5, 10, 20, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 6, 12, 24].map((hours) => hours * 3_600_000),
];

type Range = readonly [low: number, high: number, marks: readonly number[]];

function linearRange(values: readonly number[], ticksMax: number, isTime: boolean): Range {
  const most = Math.max(0, ...values);
  const high = most < LEAST ? 1 : most;
  const rough = high / ticksMax;
  const size = 10 ** Math.floor(Math.log10(rough));
  const round = ([1, 2, 5, 10].find((factor) => factor * size >= rough) ?? 10) * size;
  const step = (isTime ? TIME_STEPS_MS.find((stepMs) => stepMs >= rough) : undefined) ?? round;
  const count = Math.ceil(high / step - 1e-9);
  return [0, count * step, Array.from({ length: count + 1 }, (_, index) => index * step)];
}

function logRange(values: readonly number[], ticksMax: number): Range {
  const above = values.filter((value) => value >= LEAST);
  const [least, most] = above.length === 0 ? [1, 10] : [Math.min(...above), Math.max(...above)];
  // Twice the least at least, else neighbours would look worlds apart.
  const fine = logMarks(least, Math.max(most, least * 2), [1, 2, 5]);
  const [low, high] = [fine[0]!, fine.at(-1)!];
  const coarse = logMarks(low, high, [1]).filter((mark) => mark >= low && mark <= high);
  const marks = fine.length <= ticksMax + 2 ? fine : coarse;
  const every = Math.ceil(marks.length / (ticksMax + 2));
  return [low, high, marks.filter((_, index) => index % every === 0)];
}

/** From the last round number at or below the least to the first at or above the most. */
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
