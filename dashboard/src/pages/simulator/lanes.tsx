/** The entries around the cursor: one lane per process, from left to right by entry. */
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Simulation } from "../../../../src/client/schema.ts";
import { describe, type Entry, entryOf, isAbout, KINDS, kindOf, lanesOf, type Span, spansOf } from "./history.ts";

interface LanesProps {
  readonly of: Simulation;
  readonly at: number;
  readonly onSelect: (at: number) => void;
}

export function Lanes({ of: { trace, violations }, at, onSelect }: LanesProps) {
  const box = useRef<HTMLDivElement>(null);
  const columns = useColumns(box);
  useClicks(box, onSelect);
  const lanes = useMemo(() => lanesOf(trace), [trace]);
  const spans = useMemo(() => spansOf(trace), [trace]);
  const broken = useMemo(() => new Set(violations.map((violation) => entryOf(trace, violation))), [trace, violations]);
  // The cursor is at two thirds: what led to it is more than what follows.
  const first = Math.max(0, Math.min(at - Math.round(columns * 0.66), trace.length - columns));
  const scale = new Scale(lanes, first, columns);
  const shown = trace.slice(first, first + columns).map((entry, offset) => ({ entry, index: first + offset }));
  const { width, height } = scale;
  const current = trace[at];
  return (
    <div class="lanes" ref={box} role="img" aria-label="timeline; the table below has the same events">
      <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true">
        <Frame scale={scale} trace={trace} />
        <Spans of={spans} scale={scale} />
        {shown.map(({ entry, index }) => (
          <Mark key={index} {...{ entry, index, scale }} isRelated={isRelated(entry, current)} />
        ))}
        {shown
          .filter(({ index }) => broken.has(index))
          .map(({ index }) => (
            <line key={index} class="broken" x1={scale.x(index)} x2={scale.x(index)} y1={TOP_PX - 4} y2={height} />
          ))}
        <rect
          class="cursor"
          x={scale.x(at) - STEP_PX / 2}
          y={TOP_PX - 4}
          width={STEP_PX}
          height={height - TOP_PX + 4}
          rx={3}
        />
      </svg>
    </div>
  );
}

class Scale {
  readonly lanes: readonly string[];
  readonly first: number;
  readonly columns: number;

  constructor(lanes: readonly string[], first: number, columns: number) {
    this.lanes = lanes;
    this.first = first;
    this.columns = columns;
  }

  get width(): number {
    return LABEL_PX + this.columns * STEP_PX;
  }

  get height(): number {
    return TOP_PX + this.lanes.length * LANE_PX + 4;
  }

  x(index: number): number {
    return LABEL_PX + (index - this.first + 0.5) * STEP_PX;
  }

  y(lane: string): number {
    return TOP_PX + (this.lanes.indexOf(lane) + 0.5) * LANE_PX;
  }
}

/** The lanes with their names, and times. */
function Frame({ scale, trace }: { readonly scale: Scale; readonly trace: readonly Entry[] }) {
  const ticks = Array.from({ length: Math.ceil(scale.columns / TICK_EVERY) }, (_, at) => scale.first + at * TICK_EVERY);
  return (
    <>
      {scale.lanes.map((lane) => (
        <g key={lane}>
          <line class="lane" x1={LABEL_PX} x2={scale.width} y1={scale.y(lane)} y2={scale.y(lane)} />
          <text class="lane-name" x={LABEL_PX - 10} y={scale.y(lane) + 4}>
            {lane}
          </text>
        </g>
      ))}
      {ticks.map((index) => (
        <text key={index} class="tick" x={scale.x(index)} y={12}>
          {secondsText(trace[index])}
        </text>
      ))}
    </>
  );
}

const secondsText = (entry: Entry | undefined): string =>
  entry === undefined ? "" : `${(entry.at_ms / 1_000).toFixed(2)} s`;

/** When a process was down, paused or cut off. */
function Spans({ of, scale }: { readonly of: readonly Span[]; readonly scale: Scale }) {
  const { first, columns, width } = scale;
  return (
    <>
      {of
        .filter(({ from, to }) => to >= first && from < first + columns)
        .map(({ lane, condition, detail, from, to }) => {
          const [left, right] = [Math.max(LABEL_PX, scale.x(from)), Math.min(width, scale.x(to))];
          return (
            <g key={`${lane} ${condition} ${detail} ${from}`} class={`span ${condition}`}>
              <rect x={left} y={scale.y(lane) - 9} width={Math.max(2, right - left)} height={18} rx={3} />
              {right - left > 60 && (
                <text x={left + 6} y={scale.y(lane) - 11}>
                  {detail === "" ? condition : `no ${detail}`}
                </text>
              )}
            </g>
          );
        })}
    </>
  );
}

interface MarkProps {
  readonly entry: Entry;
  readonly index: number;
  readonly scale: Scale;
  readonly isRelated: boolean;
}

/** The shape says the same as the colour. */
function Mark({ entry, index, scale, isRelated }: MarkProps) {
  const kind = kindOf(entry);
  const [x, y] = [scale.x(index), scale.y(entry.source)];
  return (
    <g class={`mark ${KINDS[kind].tone}${isRelated ? " related" : ""}`} data-at={index}>
      <title>{describe(entry)}</title>
      {kind === "message" && <circle cx={x} cy={y} r={4.5} />}
      {kind === "lock" && <rect x={x - 4.5} y={y - 4.5} width={9} height={9} />}
      {kind === "fault" && <path d={`M${x - 5} ${y - 5} l10 10 m0 -10 l-10 10`} />}
      {kind === "worker" && <path d={`M${x} ${y - 6} l6 10 h-12 z`} />}
      {kind === "record" && <path d={`M${x} ${y - 6} l6 6 l-6 6 l-6 -6 z`} />}
    </g>
  );
}

function isRelated(entry: Entry, current: Entry | undefined): boolean {
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

/** For the mouse only: the table and the slider do the same by keyboard. */
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
const STEP_PX = 18;
const LANE_PX = 34;
const LABEL_PX = 96;
const TOP_PX = 22;
const TICK_EVERY = 7;
