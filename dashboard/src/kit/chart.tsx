/** A line chart with a table of the same values. The plotting library is loaded with the first chart. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Tone } from "./badge.tsx";

export interface Series {
  readonly label: string;
  readonly values: readonly (number | null)[];
  readonly tone: Tone | "main";
  /** Bars instead of a line. */
  readonly isBars?: boolean;
  readonly isDashed?: boolean;
}

export interface Band {
  readonly from: number;
  readonly to: number;
  readonly label: string;
}

export interface ChartProps {
  readonly title: string;
  readonly unit: string;
  /** Milliseconds since the epoch with `isTime`, else plain numbers. */
  readonly x: readonly number[];
  readonly xLabel: string;
  readonly isTime?: boolean;
  readonly series: readonly Series[];
  readonly heightPx?: number;
  /** Charts that are compared share it; the largest value by default. */
  readonly yMax?: number;
  readonly isLogX?: boolean;
  /** Marked intervals of the x axis. */
  readonly bands?: readonly Band[];
  /** The table leaves out rows without any value but zero. */
  readonly isSparse?: boolean;
  /** Values are drawn on a logarithmic scale, from 0.01 on. */
  readonly isLogarithmic?: boolean;
  readonly formatX?: (x: number) => string;
  readonly format?: (value: number) => string;
}

export interface Plot {
  update(props: ChartProps): void;
  close(): void;
}

export function Chart(props: ChartProps) {
  const isTable = useSignal(false);
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">
          {props.title} <span class="soft">({props.unit})</span>
        </span>
        <Legend series={props.series} />
        <button
          type="button"
          class="button small ghost"
          aria-pressed={isTable.value}
          onClick={() => {
            isTable.value = !isTable.value;
          }}
        >
          {isTable.value ? "Chart" : "Table"}
        </button>
      </figcaption>
      {props.bands !== undefined && props.bands.length > 0 && (
        <p class="soft">shaded: {props.bands.map(({ label }) => label).join(", ")}</p>
      )}
      {isTable.value ? <ValueTable {...props} /> : <Canvas {...props} />}
    </figure>
  );
}

function Legend({ series }: { readonly series: readonly Series[] }) {
  return (
    <ul class="legend">
      {series.map(({ label, tone, isDashed }) => (
        <li key={label}>
          <span class={`swatch ${tone}${isDashed === true ? " dashed" : ""}`} aria-hidden="true" />
          {label}
        </li>
      ))}
    </ul>
  );
}

function Canvas(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    let isClosed = false;
    void import("./chart-plot.ts").then(({ openPlot }) => {
      if (!isClosed && box.current !== null) plot.current = openPlot(box.current, latest.current);
    });
    return () => {
      isClosed = true;
      plot.current?.close();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.update(props));
  const height = `${props.heightPx ?? HEIGHT_PX}px`;
  return (
    <div
      class="plot"
      role="img"
      aria-label={`${props.title}, as a chart; the button “Table” shows the values`}
      ref={(element) => {
        box.current = element;
        element?.style.setProperty("height", height);
      }}
    />
  );
}

function ValueTable({ title, x, xLabel, series, formatX = String, format = String, isSparse }: ChartProps) {
  const isShown = (at: number) => isSparse !== true || series.some(({ values }) => (values[at] ?? 0) !== 0);
  const rows = x
    .map((_, at) => at)
    .filter(isShown)
    .slice(-ROWS_MAX);
  return (
    <div class="value-table" tabIndex={0} role="region" aria-label={`${title}, values`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{xLabel}</th>
            {series.map(({ label }) => (
              <th key={label} scope="col" class="end">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.toReversed().map((at) => (
            <tr key={at}>
              <th scope="row">{formatX(x[at] ?? 0)}</th>
              {series.map(({ label, values }) => (
                <td key={label} class="end">
                  {values[at] === null || values[at] === undefined ? "–" : format(values[at])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const HEIGHT_PX = 200;
const ROWS_MAX = 500;
