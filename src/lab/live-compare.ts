/** Simulated and live, side by side. */
import { figureAt, type Outcome, type Summary } from "./experiment.ts";
import type { LiveFigures, LiveOutcome, LiveRow } from "./live.ts";
import { formatNumber, formatShort } from "./report/numbers.ts";
import type { Cell, Column, Grid } from "./report/tables.ts";
import { rounded } from "./statistics.ts";

/** How far live is from the prediction, in percent of it; null where one of them has no figure. */
export function errorPct(simulated: number | null, live: number | null): number | null {
  if (simulated === null || live === null || simulated === 0) return null;
  return rounded(100 * (live / simulated - 1));
}

export function liveRowOf(live: LiveOutcome, { key }: Summary): LiveRow | null {
  const name = JSON.stringify(key);
  return live.rows.find((row) => JSON.stringify(row.key) === name) ?? null;
}

/** Three cells for each figure: simulated, live, and by how much live is off. */
export function liveGrid({ rows }: Outcome, live: LiveOutcome): Grid {
  const used = live.compared.filter(({ path }) => rows.some(({ figures }) => figureAt(figures, path) !== null));
  const keys = [...new Set(rows.flatMap(({ key }) => Object.keys(key)))];
  const shown = rows.filter((row) => liveRowOf(live, row) !== null);
  return {
    title: "simulated and live, side by side",
    headers: [...keys.map((key) => (key === "policy" ? "row" : key)), ...used.flatMap(headersOf)],
    lines: shown.map((row) => [
      ...keys.map((key, at) => keyCell(row, live, key, at === keys.length - 1)),
      ...used.flatMap((column) => cellsOf(row, live, column)),
    ]),
    keys: keys.length,
    bestOf: "column",
  };
}

/** On what it was run, and how the simulation was told of it. */
export function liveFacts(live: LiveOutcome): readonly (readonly [name: string, text: string])[] {
  const { on, processes, pingMs, busPingMs, secondsMax, times, cores, load } = live;
  const pings = busPingMs === null ? "" : `, to the bus ${formatShort(busPingMs)} ms`;
  return [
    ["live on", `${on}, ${processes} ${processes === 1 ? "process" : "processes"}`],
    ["ping", `${formatShort(pingMs)} ms to the store and back${pings}`],
    ["simulated with", simulatedWith(live)],
    ["this machine", `${cores} ${cores === 1 ? "core" : "cores"}, load ${formatShort(load)} before`],
    ["time limit", `${secondsMax} s a row`],
    ["each row", times === 1 ? "run once" : `run ${times} times; the middle one is shown`],
  ];
}

function simulatedWith({ latencyMs, calibratedBy: tunedBy, stepMs, nakLookMs }: LiveOutcome): string {
  if (latencyMs === null) return "the network of the model, which live is waited for as well";
  const why = tunedBy === null ? "half of that ping" : `with which ${tunedBy} take as long as they took here`;
  const work = `; ${formatShort(stepMs)} ms for each message, answer or timer that a process is busy with, as it was with those`;
  const look = `; a broker that gives back retries when it was handed none for ${formatShort(nakLookMs)} ms, as this one does`;
  return `${formatShort(latencyMs)} ms one way, ${why}${stepMs > 0 ? work : ""}${nakLookMs > 0 ? look : ""}`;
}

/** Of several runs of one row the one in the middle, by one figure; those that were not finished are the slowest. */
export function medianRun(runs: readonly LiveFigures[], path: string): LiveFigures | undefined {
  const slowness = ({ isFinished, figures }: LiveFigures): number =>
    (isFinished ? figureAt(figures, path) : null) ?? Number.MAX_VALUE;
  return runs.toSorted((a, b) => slowness(a) - slowness(b))[Math.floor((runs.length - 1) / 2)];
}

/** What to make of it, in sentences. */
export function liveFindings({ rows }: Outcome, live: LiveOutcome): readonly string[] {
  const [column] = live.compared;
  const said: string[] = [];
  const late = live.rows.filter(({ isFinished }) => !isFinished).map(({ key }) => nameOf(key));
  if (late.length > 0) said.push(`Live, not finished within ${live.secondsMax} s: ${late.join(", ")}.`);
  if (live.load > live.cores) {
    said.push(
      `The machine was busy with other things (load ${formatShort(live.load)} on ${live.cores} cores): whoever is woken waits for ` +
        "a core, which the simulation knows nothing of. Run it again when it is quiet.",
    );
  }
  if (column === undefined) return said;
  const both = rows.flatMap((row) => {
    const liveRow = liveRowOf(live, row);
    const [simulated, seen] = [figureAt(row.figures, column.path), liveRow && figureOf(liveRow, column)];
    if (simulated === null || seen === null) return [];
    const { min, max } = row.spread ?? { min: row.figures, max: row.figures };
    const range = { least: figureAt(min, column.path) ?? simulated, most: figureAt(max, column.path) ?? simulated };
    return [{ name: nameOf(row.key), simulated, ...range, live: seen }];
  });
  const pairs = both.flatMap((a, at) => both.slice(at + 1).map((b) => (a.simulated < b.simulated ? [a, b] : [b, a])));
  // Rows that are predicted to be about the same, or to overlap by chance, may come in any order.
  const apart = pairs.filter(([less, more]) => less!.simulated * APART < more!.simulated && less!.most < more!.least);
  const wrong = apart.filter(([less, more]) => less!.live >= more!.live);
  if (apart.length > 0) {
    const what = `of ${apart.length} pairs of rows that the simulation sets ${Math.round(100 * (APART - 1))} % or more apart`;
    const rest = wrong.map(([less, more]) => `${less!.name} before ${more!.name}`).join(", ");
    said.push(
      `By “${column.header}”, ${apart.length - wrong.length} ${what} come in that order live` +
        `${wrong.length === 0 ? "" : `; not so: ${rest}`}.`,
    );
  }
  return said;
}

/** Live as an outcome of its own, for whatever draws outcomes. */
export function liveAsOutcome(outcome: Outcome, { rows }: LiveOutcome): Outcome {
  const summaries = rows.map(({ key, figures, series = {} }) => ({ key, figures, spread: null, series }));
  const { live: _, ...rest } = outcome;
  return { ...rest, seeds: 1, rows: summaries };
}

const APART = 1.25;

/** What an unfinished row has measured is of what it came to see, not of what it would have taken. */
export function figureOf({ isFinished, figures }: LiveRow, { path }: Column): number | null {
  return isFinished ? figureAt(figures, path) : null;
}

function headersOf({ header, unit }: Column): readonly string[] {
  const name = unit === "" ? header : `${header} (${unit})`;
  return [name, "live", "error (%)"];
}

function keyCell(row: Summary, live: LiveOutcome, key: string, isLast: boolean): Cell {
  const isLate = isLast && liveRowOf(live, row)?.isFinished === false;
  return cell(`${row.key[key] ?? "–"}${isLate ? " (not finished)" : ""}`);
}

function cellsOf(row: Summary, live: LiveOutcome, column: Column): readonly Cell[] {
  const found = liveRowOf(live, row);
  const simulated = figureAt(row.figures, column.path);
  const seen = found === null ? null : figureOf(found, column);
  const error = errorPct(simulated, seen);
  const signed = error === null ? "–" : `${error >= 0 ? "+" : "−"}${formatNumber(Math.abs(error), 0)}`;
  return [
    cell(simulated === null ? "–" : formatNumber(simulated)),
    cell(seen === null ? "–" : formatNumber(seen)),
    cell(signed),
  ];
}

const cell = (text: string): Cell => ({ text, spread: "", isBest: false });
const nameOf = (key: Summary["key"]): string => Object.values(key).join(" ");
