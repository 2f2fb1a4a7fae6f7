import type { Band, Line, LineChart } from "./picture.ts";
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

/** Lines over two axes; each line's name stands at its end, so that no legend has to be matched. */
export function drawLines(picture: LineChart): Drawing {
  const { x, y, bands = [] } = picture;
  const lines = picture.lines.map((line) => drawable(line, picture));
  // Policies spelled out are long; rather small than cut.
  const font = lines.some(({ name }) => name.length > NAME_LETTERS_MAX) ? SMALL_BOLD : BOLD;
  const namesWidth = Math.min(NAMES_PX_MAX, Math.max(48, ...lines.map(({ name }) => textWidth(name, font))) + 24);
  const right = WIDTH - namesWidth;
  const xs = lines
    .flatMap(({ points }) => points.map(([at]) => at))
    .concat(bands.flatMap(({ from, to }) => [from, to]));
  const ys = lines.flatMap(({ points, spread = [] }) => [
    ...points.map(([, value]) => value),
    ...spread.flatMap(([, low, high]) => [low, high]),
  ]);
  const up = scaleFor(y, ys, { fromPx: BOTTOM, toPx: TOP });
  const left = Math.max(LEFT_MIN, ...up.ticks.map((tick) => textWidth(tick.text) + 16));
  const across = scaleFor(x, xs, { fromPx: left, toPx: right });
  const parts = [
    ...bands.map((band) => drawBand(band, across, { top: TOP, bottom: BOTTOM, right })),
    ...drawAxes(across, up, { left, right }),
    text(axisTitle(y), { x: 12, y: 20, class: "t" }),
    text(axisTitle(x), { x: (left + right) / 2, y: HEIGHT - 12, anchor: "middle" }),
    ...lines.flatMap(({ spread = [] }, index) => drawSpread(spread, across, up, index)),
    ...lines.flatMap(({ points }, index) => drawLine(points, across, up, index)),
    ...drawNames(lines, { across, up, width: namesWidth, font }),
  ];
  return { width: WIDTH, height: HEIGHT, label: `${picture.title}. ${picture.caption}`, parts };
}

export function drawBand(
  { from, to, label }: Band,
  across: Scale,
  { top, bottom, right }: { readonly top: number; readonly bottom: number; readonly right: number },
): string {
  const [left, end] = [across.toPx(from), across.toPx(to)];
  const rect = element("rect", { x: left, y: top, width: Math.max(1, end - left), height: bottom - top, class: "b" });
  return `${rect}${text(fitted(label, right - left - 8), { x: left + 6, y: top + PLAIN.sizePx + 3 })}`;
}

const WIDTH = 860;
const HEIGHT = 420;
const LEFT_MIN = 84;
const TOP = 36;
const BOTTOM = HEIGHT - 60;
const NAMES_PX_MAX = 280;
const NAME_LETTERS_MAX = 20;
const NEAR_PX = 24;
const NAME_GAP_PX = BOLD.sizePx + 4;

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
  const foot = across.ticks.flatMap((tick) => {
    const at = across.toPx(tick.at);
    return [
      element("line", { x1: at, y1: BOTTOM, x2: at, y2: BOTTOM + 5, class: "a" }),
      text(tick.text, { x: at, y: BOTTOM + 21, anchor: "middle" }),
    ];
  });
  return [...grid, element("line", { x1: left, y1: BOTTOM, x2: right, y2: BOTTOM, class: "a" }), ...foot];
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
  const there = spread.map(([at, , high]) => [across.toPx(at), up.toPx(high)] as const);
  const back = spread.map(([at, low]) => [across.toPx(at), up.toPx(low)] as const).reverse();
  return [element("path", { d: `${path([...there, ...back])}Z`, class: `h f${colorOf(index)}` })];
}

/** Each at the height of its line's end, pushed apart where they would cover each other. */
function drawNames(
  lines: readonly Line[],
  { across, up, width, font }: { across: Scale; up: Scale; width: number; font: Font },
): string[] {
  const ends = lines.flatMap(({ name, points }, index) => {
    const end = points.at(-1);
    return end === undefined ? [] : [{ name, index, x: across.toPx(end[0]), y: up.toPx(end[1]) }];
  });
  const left = WIDTH - width;
  const heights = pushedApart(ends.map(({ y }) => y));
  return ends.flatMap(({ name, index, x, y }, order) => {
    const height = heights[order]!;
    const color = colorOf(index);
    // A curve that ends early has a name in the margin all the same, with a dash of its color; a line to it would cross
    // the other curves.
    const isNear = left - x <= NEAR_PX;
    const from: readonly [number, number] = isNear ? [x, y] : [left + 2, height];
    return [
      element("path", { d: path([from, [left + 12, height]]), class: `l s${color}`, opacity: isNear ? 0.5 : 1 }),
      text(fitted(name, width - 22, font), { x: left + 18, y: height + 4, class: `${font.class} f${color}` }),
    ];
  });
}

/** The same heights, in their order, at least a line of text apart and inside the chart. */
function pushedApart(heights: readonly number[]): readonly number[] {
  const order = heights.map((_, index) => index).sort((a, b) => heights[a]! - heights[b]!);
  const placed = [...heights];
  let above = TOP - NAME_GAP_PX;
  for (const index of order) {
    placed[index] = Math.max(placed[index]!, above + NAME_GAP_PX);
    above = placed[index]!;
  }
  let below = BOTTOM + NAME_GAP_PX;
  for (const index of order.toReversed()) {
    placed[index] = Math.min(placed[index]!, below - NAME_GAP_PX);
    below = placed[index]!;
  }
  return placed;
}
