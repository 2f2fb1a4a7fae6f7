/**
 * The entries around the cursor: one lane per process, from left to right by entry. Only what is in the window is drawn, and of
 * messages and lock holds a bounded number.
 */
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Simulation } from "../../../../src/client/schema.ts";
import { counted } from "../../kit/numbers.ts";
import { Arrows, Bars } from "./flow-marks.tsx";
import { type Arrow, arrowsOf, barsOf, nearest } from "./flows.ts";
import {
  conditionText,
  describe,
  type Entry,
  entryOf,
  isAbout,
  KINDS,
  kindOf,
  lanesOf,
  type Span,
  spansOf,
} from "./history.ts";
import { LABEL_PX, ROW_PX, Scale, STEP_PX, TOP_PX } from "./scale.ts";
import { WindowTables } from "./window-tables.tsx";

interface LanesProps {
  readonly of: Simulation;
  readonly at: number;
  /** The entries that led to the violation. */
  readonly led: ReadonlySet<number>;
  readonly onSelect: (at: number) => void;
}

export function Lanes({ of, at, led, onSelect }: LanesProps) {
  const { trace } = of;
  const box = useRef<HTMLDivElement>(null);
  const columns = useColumns(box);
  useClicks(box, onSelect);
  const { spans, arrows, bars, broken, lanes, rows } = useMemo(() => placed(of), [of]);
  // The cursor is at two thirds: what led to it is more than what follows.
  const first = Math.max(0, Math.min(at - Math.round(columns * 0.66), trace.length - columns));
  const window = { first, columns, at };
  const drawn = {
    spans: nearest(spans, window, SPANS_MAX),
    arrows: nearest(arrows, window, ARROWS_MAX),
    bars: nearest(bars, window, BARS_MAX),
  };
  const left = nearest(arrows, window, Number.POSITIVE_INFINITY).length - drawn.arrows.length;
  const scale = new Scale(lanes, rows, first, columns);
  const shown = trace.slice(first, first + columns).map((entry, offset) => ({ entry, index: first + offset }));
  const { width, height } = scale;
  const current = trace[at];
  const isStrong = ({ message: { entry, id, subject } }: Arrow) =>
    entry === at || (entry !== null && led.has(entry)) || (id !== "" && isRelated({ subject: id || subject }, current));
  return (
    <>
      <div class="lanes" ref={box} role="img" aria-label="timeline; the tables below have the same">
        <svg width={LABEL_PX + width} height={height} aria-hidden="true">
          <Labels scale={scale} />
          {/* A nested picture clips what reaches beyond the window. */}
          <svg class="plot" x={LABEL_PX} width={width} height={height} aria-hidden="true">
            <Frame scale={scale} trace={trace} />
            <Spans of={drawn.spans} scale={scale} />
            <Bars of={drawn.bars.filter(({ row }) => row < rows)} scale={scale} at={at} />
            <Arrows of={drawn.arrows} {...{ scale, isStrong }} />
            {shown.map(({ entry, index }) => (
              <Mark
                key={index}
                {...{ entry, index, scale }}
                isRelated={isRelated(entry, current)}
                hasLed={led.has(index)}
              />
            ))}
            <Broken of={broken} scale={scale} />
            <rect
              class="cursor"
              x={scale.x(at) - STEP_PX / 2}
              y={TOP_PX - 4}
              width={STEP_PX}
              height={height - TOP_PX + 4}
              rx={3}
            />
          </svg>
        </svg>
      </div>
      {left > 0 && <p class="soft">{counted(left, "more message")} of this window not drawn.</p>}
      <WindowTables trace={trace} {...drawn} />
    </>
  );
}

function placed(of: Simulation) {
  const { trace, violations, messages } = of;
  const bars = barsOf(of);
  return {
    spans: spansOf(trace),
    arrows: arrowsOf(of),
    bars,
    broken: new Set(violations.map((violation) => entryOf(trace, violation))),
    lanes: lanesOf(trace, messages),
    rows: Math.min(ROWS_MAX, 1 + Math.max(-1, ...bars.map(({ row }) => row))),
  };
}

function Labels({ scale }: { readonly scale: Scale }) {
  return (
    <>
      {scale.lanes.map((lane) => (
        <text key={lane} class="lane-name" x={LABEL_PX - 10} y={scale.y(lane) + 4}>
          {lane}
        </text>
      ))}
      {scale.rows > 0 && (
        <text class="lane-name" x={LABEL_PX - 10} y={scale.rowY(0) + ROW_PX - 6}>
          locks held
        </text>
      )}
    </>
  );
}

/** The lines of the lanes, and times. */
function Frame({ scale, trace }: { readonly scale: Scale; readonly trace: readonly Entry[] }) {
  const ticks = Array.from({ length: Math.ceil(scale.columns / TICK_EVERY) }, (_, at) => scale.first + at * TICK_EVERY);
  return (
    <>
      {scale.lanes.map((lane) => (
        <line key={lane} class="lane" x1={0} x2={scale.width} y1={scale.y(lane)} y2={scale.y(lane)} />
      ))}
      {ticks.map((index, at) => (
        <text key={index} class={at === 0 ? "tick first" : "tick"} x={at === 0 ? 2 : scale.x(index)} y={12}>
          {secondsText(trace[index])}
        </text>
      ))}
    </>
  );
}

const secondsText = (entry: Entry | undefined): string =>
  entry === undefined ? "" : `${(entry.at_ms / 1_000).toFixed(2)} s`;

/** When a process was down, paused or cut off, or its clock wrong. */
function Spans({ of, scale }: { readonly of: readonly Span[]; readonly scale: Scale }) {
  return (
    <>
      {of.map((span) => {
        const { lane, condition, detail, from, to } = span;
        const [left, right] = [Math.max(0, scale.x(from)), Math.min(scale.width, scale.x(to))];
        const text = conditionText(span);
        // A label ends before the next span of its lane.
        const next = of.find((other) => other.lane === lane && other !== span && other.from >= from);
        const room = Math.min(right, next === undefined ? right : scale.x(next.from)) - left;
        // Below the lane: a process with a wrong clock may be paused as well.
        const [top, tall, textY] = condition === "clock" ? [10, 4, 25] : [-9, 18, -11];
        return (
          <g key={`${lane} ${condition} ${detail} ${from}`} class={`span ${condition}`}>
            <title>{`${lane}: ${text}`}</title>
            <rect x={left} y={scale.y(lane) + top} width={Math.max(2, right - left)} height={tall} rx={3} />
            {room > text.length * LETTER_PX && (
              <text x={left + 6} y={scale.y(lane) + textY}>
                {text}
              </text>
            )}
          </g>
        );
      })}
    </>
  );
}

/** The violations in the window. */
function Broken({ of, scale }: { readonly of: ReadonlySet<number>; readonly scale: Scale }) {
  const { first, columns, height } = scale;
  return (
    <>
      {[...of]
        .filter((index) => index >= first && index < first + columns)
        .map((index) => (
          <line key={index} class="broken" x1={scale.x(index)} x2={scale.x(index)} y1={TOP_PX - 4} y2={height} />
        ))}
    </>
  );
}

interface MarkProps {
  readonly entry: Entry;
  readonly index: number;
  readonly scale: Scale;
  readonly isRelated: boolean;
  readonly hasLed: boolean;
}

/** The shape says the same as the colour. */
function Mark({ entry, index, scale, isRelated, hasLed }: MarkProps) {
  const kind = kindOf(entry);
  const [x, y] = [scale.x(index), scale.y(entry.source)];
  return (
    <g class={`mark ${KINDS[kind].tone}${isRelated ? " related" : ""}`} data-at={index}>
      <title>{describe(entry)}</title>
      {hasLed && <circle class="led" cx={x} cy={y} r={9} />}
      {kind === "message" && <circle cx={x} cy={y} r={4.5} />}
      {kind === "lock" && <rect x={x - 4.5} y={y - 4.5} width={9} height={9} />}
      {kind === "fault" && <path d={`M${x - 5} ${y - 5} l10 10 m0 -10 l-10 10`} />}
      {kind === "worker" && <path d={`M${x} ${y - 6} l6 10 h-12 z`} />}
      {kind === "record" && <path d={`M${x} ${y - 6} l6 6 l-6 6 l-6 -6 z`} />}
    </g>
  );
}

function isRelated(entry: Pick<Entry, "subject">, current: Entry | undefined): boolean {
  if (current === undefined || current.subject === "" || entry.subject === "") return false;
  const id = current.subject.split(/[:@]/).find((part) => /\d/.test(part)) ?? current.subject;
  return isAbout(entry, id);
}

/** As many entries as the width shows. */
function useColumns(box: RefObject<HTMLElement | null>): number {
  const columns = useSignal(COLUMNS_DEFAULT);
  useLayoutEffect(() => {
    const measure = () => {
      const width = box.current?.clientWidth ?? 0;
      if (width > 0) columns.value = Math.max(COLUMNS_MIN, Math.floor((width - LABEL_PX) / STEP_PX));
    };
    measure();
    const observer = new ResizeObserver(measure);
    if (box.current !== null) observer.observe(box.current);
    return () => observer.disconnect();
  }, [box, columns]);
  return columns.value;
}

/** For the mouse only: the tables and the slider do the same by keyboard. */
function useClicks(box: RefObject<HTMLElement | null>, onSelect: (at: number) => void): void {
  useEffect(() => {
    const element = box.current;
    const select = (event: Event) => {
      const mark = (event.target as Element).closest("[data-at]");
      if (mark !== null) onSelect(Number(mark.getAttribute("data-at")));
    };
    element?.addEventListener("click", select);
    return () => element?.removeEventListener("click", select);
  }, [box, onSelect]);
}

const COLUMNS_DEFAULT = 56;
const COLUMNS_MIN = 10;
const TICK_EVERY = 7;
const ARROWS_MAX = 120;
const BARS_MAX = 60;
const SPANS_MAX = 60;
/** Rows of lock holds. */
const ROWS_MAX = 6;
/** The mean width of a letter. */
const LETTER_PX = 6;
