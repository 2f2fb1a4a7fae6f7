/**
 * A report as data, for programs that draw it themselves. Charts have two forms: bars over time, and lines.
 *
 * 1. The size is bounded: at most `POINTS_MAX` points per series, whatever the parameters.
 */
import type { Experiment, Outcome } from "../experiment.ts";
import { maxOf } from "../statistics.ts";
import type { Axis, Band, Chart, DistributionChart, HistogramChart, LineChart } from "./chart.ts";
import { commandFor, figuresNote } from "./page.ts";
import { type Grid, gridsOf } from "./tables.ts";

export interface ReportData {
  readonly experiment: string;
  readonly description: string;
  /** Reproduces the figures. */
  readonly command: string;
  readonly note: string;
  readonly findings: readonly string[];
  readonly charts: readonly ChartData[];
  readonly tables: readonly TableData[];
}

export interface ChartData {
  readonly name: string;
  readonly title: string;
  readonly caption: string;
  readonly x: AxisData;
  readonly y: AxisData;
  /** Bars of this width, one plot per series; null: lines, one plot. */
  readonly bin: number | null;
  /** Where the time axis of bars ends. */
  readonly until: number | null;
  readonly series: readonly SeriesData[];
  readonly bands: readonly Band[];
}

interface AxisData {
  readonly label: string;
  readonly unit: string;
  readonly is_log: boolean;
}

interface SeriesData {
  readonly name: string;
  readonly note: string;
  readonly description: string;
  /** Bars of height 0 are left out. */
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface TableData {
  readonly title: string;
  readonly headers: readonly string[];
  /** The first of each row are its name. */
  readonly key_columns: number;
  readonly best_of: "column" | "line";
  readonly rows: readonly (readonly { readonly text: string; readonly spread: string; readonly is_best: boolean }[])[];
}

export function reportData(one: Experiment, outcome: Outcome): ReportData {
  return {
    experiment: one.name,
    description: one.description,
    command: commandFor(one, outcome),
    note: figuresNote(outcome),
    findings: one.findings(outcome),
    charts: one.charts(outcome).map(chartData),
    tables: gridsOf(one.tables, outcome).map(tableData),
  };
}

function tableData({ title, headers, lines, keys, bestOf }: Grid): TableData {
  const rows = lines.map((line) => line.map(({ text, spread, isBest }) => ({ text, spread, is_best: isBest })));
  return { title, headers, key_columns: keys, best_of: bestOf, rows };
}

function chartData(chart: Chart): ChartData {
  switch (chart.kind) {
    case "lines":
      return lines(chart);
    case "histograms":
      return bars(chart);
    case "distribution":
      return shares(chart);
    default:
      return chart satisfies never;
  }
}

const axis = ({ label, unit, isLog = false }: Axis): AxisData => ({ label, unit, is_log: isLog });

function lines({ name, title, caption, x, y, lines: all, bands = [] }: LineChart): ChartData {
  const series = all.map((line) => ({
    ...{ name: line.name, note: "", description: "" },
    points: line.points.slice(0, POINTS_MAX),
  }));
  return { name, title, caption, x: axis(x), y: axis(y), bin: null, until: null, series, bands };
}

/** Narrow bins of a long history are merged. */
function bars({ name, title, caption, binMs, what, untilMs, histograms, bands = [] }: HistogramChart): ChartData {
  const shown = Math.ceil(untilMs / binMs);
  const merged = Math.max(1, Math.ceil(shown / POINTS_MAX));
  const bin = binMs * merged;
  const series = histograms.map(({ name: of, counts, note, description = "" }) => {
    const sums: number[] = [];
    for (const [at, count] of counts.slice(0, shown).entries()) {
      const into = Math.floor(at / merged);
      sums[into] = (sums[into] ?? 0) + count;
    }
    const points = sums.map((count, at) => [at * bin, count] as const).filter(([, count]) => count > 0);
    return { name: of, note, description, points };
  });
  const x = { label: "time", unit: "ms", is_log: false };
  const y = { label: what, unit: "", is_log: false };
  return { name, title, caption, x, y, bin, until: untilMs, series, bands };
}

/** The share of the samples up to each of `GRID_POINTS` values. */
function shares({ name, title, caption, x, of, samples }: DistributionChart): ChartData {
  const isLog = x.isLog === true;
  const all = samples.flatMap(({ values }) => values).filter((value) => !isLog || value > 0);
  const [least, most] = [all.reduce((min, value) => Math.min(min, value), Number.POSITIVE_INFINITY), maxOf(all)];
  const between = (share: number) => (isLog ? least * (most / least) ** share : least + (most - least) * share);
  const grid = all.length === 0 ? [] : Array.from({ length: GRID_POINTS }, (_, at) => between(at / (GRID_POINTS - 1)));
  const series = samples.map(({ name: of, values }) => {
    const upTo = (limit: number) => values.filter((value) => value <= limit * (1 + 1e-9)).length;
    const points = values.length === 0 ? [] : grid.map((at) => [at, (100 * upTo(at)) / values.length] as const);
    return { name: of, note: "", description: "", points };
  });
  const y = { label: `share of the ${of}`, unit: "%", is_log: false };
  return { name, title, caption, x: axis(x), y, bin: null, until: null, series, bands: [] };
}

const POINTS_MAX = 1_200;
const GRID_POINTS = 120;
