/** Comparison of the simulated and the live rows. */
import { figureAt, type Outcome, type Summary } from "./experiment.ts";
import type { LiveFigures, LiveOutcome, LiveRow } from "./live.ts";
import { formatNumber, formatShort } from "./report/format.ts";
import type { Cell, Column, Grid } from "./report/tables.ts";
import { rounded } from "./statistics.ts";

/** The deviation of the live figure in percent of the simulated one; null where a figure is missing. */
export function errorPct(simulated: number | null, live: number | null): number | null {
  if (simulated === null || live === null || simulated === 0) return null;
  return rounded(100 * (live / simulated - 1));
}

export function liveRowOf(live: LiveOutcome, { key }: Summary): LiveRow | null {
  const name = JSON.stringify(key);
  return live.rows.find((row) => JSON.stringify(row.key) === name) ?? null;
}

/** null for an unfinished row. */
export function finishedFigure({ isFinished, figures }: LiveFigures, path: string): number | null {
  return isFinished ? figureAt(figures, path) : null;
}

/** Three columns per figure: simulated, live, and the error of the simulation. */
export function liveGrid({ rows }: Outcome, live: LiveOutcome): Grid {
  const used = live.compared.filter(({ path }) => rows.some(({ figures }) => figureAt(figures, path) !== null));
  const keys = [...new Set(rows.flatMap(({ key }) => Object.keys(key)))];
  const shown = rows.filter((row) => liveRowOf(live, row) !== null);
  return {
    title: "simulated and live figures",
    headers: [...keys.map((key) => (key === "policy" ? "row" : key)), ...used.flatMap(headersOf)],
    lines: shown.map((row) => [
      ...keys.map((key, at) => keyCell(row, live, key, at === keys.length - 1)),
      ...used.flatMap((column) => cellsOf(row, live, column)),
    ]),
    keys: keys.length,
    bestOf: "column",
  };
}

/** The conditions of the live run and the inputs of the simulation. */
export function liveFacts(live: LiveOutcome): readonly (readonly [name: string, text: string])[] {
  const { on, processes, pingMs, busPingMs, secondsMax, times, cores, load } = live;
  const busPing = busPingMs === null ? "" : `, bus round trip ${formatShort(busPingMs)} ms`;
  return [
    ["live target", `${on}, ${processes} ${processes === 1 ? "process" : "processes"}`],
    ["ping", `store round trip ${formatShort(pingMs)} ms${busPing}`],
    ["simulated with", simulatedWith(live)],
    ["machine", `${cores} ${cores === 1 ? "core" : "cores"}, load ${formatShort(load)} before the run`],
    ["time limit", `${secondsMax} s per row`],
    ["runs per row", times === 1 ? "1" : `${times}, the median run is shown`],
  ];
}

function simulatedWith({ latencyMs, calibratedBy, stepMs, nakLookMs }: LiveOutcome): string {
  if (latencyMs === null) return "the network of the model, which live clients add to every call";
  const source = calibratedBy === null ? "half of the store round trip" : `calibrated with ${calibratedBy}`;
  const step = stepMs > 0 ? `; ${formatShort(stepMs)} ms of thread time per message, response or timer` : "";
  const nak = nakLookMs > 0 ? `; one redelivery timer of ${formatShort(nakLookMs)} ms, restarted by every nak` : "";
  return `${formatShort(latencyMs)} ms one-way latency, ${source}${step}${nak}`;
}

/** The median of several runs of a row by one figure. Unfinished runs sort last. */
export function medianRun(runs: readonly LiveFigures[], path: string): LiveFigures | undefined {
  const duration = (run: LiveFigures): number => finishedFigure(run, path) ?? Number.MAX_VALUE;
  return runs.toSorted((a, b) => duration(a) - duration(b))[Math.floor((runs.length - 1) / 2)];
}

export function liveFindings(outcome: Outcome, live: LiveOutcome): readonly string[] {
  const findings: string[] = [];
  const unfinished = live.rows.filter(({ isFinished }) => !isFinished).map(({ key }) => nameOf(key));
  if (unfinished.length > 0) {
    findings.push(`Unfinished live rows after ${live.secondsMax} s: ${unfinished.join(", ")}.`);
  }
  if (live.load > live.cores) {
    findings.push(
      `The machine was busy before the run: load ${formatShort(live.load)} on ${live.cores} cores. The simulation does not ` +
        "model waits for a core. Run it again on an idle machine.",
    );
  }
  return [...findings, ...orderFindings(outcome, live)];
}

/** How many pairs of rows have the simulated order. */
function orderFindings({ rows }: Outcome, live: LiveOutcome): readonly string[] {
  const [column] = live.compared;
  if (column === undefined) return [];
  const { path } = column;
  const both = rows.flatMap((row) => {
    const liveRow = liveRowOf(live, row);
    const [simulated, seen] = [figureAt(row.figures, path), liveRow && finishedFigure(liveRow, path)];
    if (simulated === null || seen === null) return [];
    const { min, max } = row.spread ?? { min: row.figures, max: row.figures };
    const range = { least: figureAt(min, path) ?? simulated, most: figureAt(max, path) ?? simulated };
    return [{ name: nameOf(row.key), simulated, ...range, live: seen }];
  });
  const pairs = both.flatMap((a, at) =>
    both.slice(at + 1).map((b) => (a.simulated < b.simulated ? { less: a, more: b } : { less: b, more: a })),
  );
  // Pairs that are close, or whose seeds overlap, have no predicted order.
  const ordered = pairs.filter(({ less, more }) => less.simulated * APART < more.simulated && less.most < more.least);
  if (ordered.length === 0) return [];
  const wrong = ordered.filter(({ less, more }) => less.live >= more.live);
  const exceptions = wrong.map(({ less, more }) => `${less.name} before ${more.name}`).join(", ");
  return [
    `Order by “${column.header}”: live agrees for ${ordered.length - wrong.length} of ${ordered.length} pairs of rows that ` +
      `differ by ${Math.round(100 * (APART - 1))} % or more in the simulation` +
      `${wrong.length === 0 ? "" : `; exceptions: ${exceptions}`}.`,
  ];
}

/** The live rows as an outcome, for the charts. */
export function liveAsOutcome(outcome: Outcome, { rows }: LiveOutcome): Outcome {
  const summaries = rows.map(({ key, figures, series = {} }) => ({ key, figures, spread: null, series }));
  const { live: _, ...rest } = outcome;
  return { ...rest, seeds: 1, rows: summaries };
}

const APART = 1.25;

function headersOf({ header, unit }: Column): readonly string[] {
  const name = unit === "" ? header : `${header} (${unit})`;
  return [name, "live", "error (%)"];
}

function keyCell(row: Summary, live: LiveOutcome, key: string, isLast: boolean): Cell {
  const isUnfinished = isLast && liveRowOf(live, row)?.isFinished === false;
  return cell(`${row.key[key] ?? "–"}${isUnfinished ? " (unfinished)" : ""}`);
}

function cellsOf(row: Summary, live: LiveOutcome, { path }: Column): readonly Cell[] {
  const found = liveRowOf(live, row);
  const simulated = figureAt(row.figures, path);
  const seen = found === null ? null : finishedFigure(found, path);
  const error = errorPct(simulated, seen);
  const signed = error === null ? "–" : `${error >= 0 ? "+" : "−"}${formatNumber(Math.abs(error), 0)}`;
  const text = (value: number | null): string => (value === null ? "–" : formatNumber(value));
  return [cell(text(simulated)), cell(text(seen)), cell(signed)];
}

const cell = (text: string): Cell => ({ text, spread: "", isBest: false });
const nameOf = (key: Summary["key"]): string => Object.values(key).join(" ");
