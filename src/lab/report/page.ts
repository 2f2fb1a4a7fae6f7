/**
 * The files of a report: an HTML page, the JSON document and the charts.
 *
 * The page is self-contained: no script and no external resource. It contains the command, the seeds, the versions and every
 * parameter, and no wall time, so the same command gives the same page.
 */
import { outcomeDocument } from "../document.ts";
import type { Experiment, Figures, Outcome } from "../experiment.ts";
import { liveAsOutcome, liveFacts, liveFindings } from "../live-compare.ts";
import { flagOf, type Param, type ParamValue, valueText } from "../params.ts";
import type { Chart } from "./chart.ts";
import { drawChart } from "./draw.ts";
import { formatNumber } from "./format.ts";
import { htmlFigure, htmlList, htmlPage, htmlTable } from "./html.ts";
import { escaped, svgFile } from "./svg.ts";
import { type Cell, type Grid, gridsOf } from "./tables.ts";

export interface Provenance {
  /** Name → version of this program and its runtime. */
  readonly versions: Readonly<Record<string, string>>;
}

export interface ReportFile {
  readonly name: string;
  readonly text: string;
}

export function reportFiles(one: Experiment, outcome: Outcome, from: Provenance): readonly ReportFile[] {
  const charts = chartsOf(one, outcome);
  return [
    { name: `${one.name}.html`, text: reportPage(one, outcome, from) },
    { name: `${one.name}.json`, text: `${JSON.stringify(outcomeDocument(outcome), null, 2)}\n` },
    ...charts.map((chart) => ({
      name: `${one.name}-${chart.name}.svg`,
      text: svgFile(drawChart(chart)),
    })),
  ];
}

export function reportPage(one: Experiment, outcome: Outcome, { versions }: Provenance): string {
  const title = `cordum lab ${one.name}`;
  const findings = [...one.findings(outcome), ...(outcome.live ? liveFindings(outcome, outcome.live) : [])];
  const body = [
    `<h1>${escaped(title)}</h1>`,
    `<p class="description">${escaped(one.description)}</p>`,
    ...chartsOf(one, outcome).map(htmlFigure),
    ...(findings.length === 0 ? [] : ["<h2>Findings</h2>", htmlList(findings)]),
    "<h2>Figures</h2>",
    `<p>${escaped(figuresNote(outcome))}</p>`,
    ...gridsOf(one.tables, outcome).map(gridTable),
    allFigures(outcome),
    "<h2>Reproduction</h2>",
    `<p>Command: <code>${escaped(commandFor(one, outcome))}</code></p>`,
    factsTable(outcome, versions),
    ...(outcome.live ? [factTable("Live run", liveFacts(outcome.live))] : []),
    paramsTable(one, outcome),
  ];
  return htmlPage(title, body);
}

/** The command that reproduces this outcome, without flags that have their default. */
export function commandFor(one: Experiment, { seed, seeds, params, live }: Outcome): string {
  const measured: readonly string[] = live ? (one.live?.measuredParams ?? []) : [];
  const flags = Object.entries(one.params).flatMap(([name, param]) => {
    if (measured.includes(name)) return [];
    const value = params[name] ?? param.default;
    if (valueText(value) === valueText(param.default)) return [];
    const texts = param.kind === "rows" ? (value as readonly string[]) : [valueText(value)];
    return texts.flatMap((text) => [flagOf(name, param), text]);
  });
  // The server URLs are omitted: they can contain credentials.
  const liveFlags = live
    ? ["--live", "--processes", live.processes, "--live-seconds", live.secondsMax, "--live-times", live.times]
    : [];
  return ["cordum lab", one.name, "--seed", seed, "--seeds", seeds, ...flags, ...liveFlags].join(" ");
}

/** The simulated charts, then the live ones. */
function chartsOf(one: Experiment, outcome: Outcome): readonly Chart[] {
  const simulated = one.charts(outcome);
  if (outcome.live === undefined) return simulated;
  const live = one.charts(liveAsOutcome(outcome, outcome.live));
  return [...simulated, ...live.map((one) => ({ ...one, name: `live-${one.name}`, title: `Live: ${one.title}` }))];
}

export function figuresNote({ seed, seeds, centre }: Outcome): string {
  if (seeds === 1) return `One run with seed ${seed}. The best figures are bold.`;
  return (
    `Each figure is the ${centre} of ${seeds} seeds (${seed} to ${seed + seeds - 1}), with minimum and maximum in small ` +
    `print. The best figures are bold. Charts of arrivals and waits show seed ${seed}.`
  );
}

function gridTable({ title, headers, lines, keys, bestOf }: Grid): string {
  const head = headers.map((header) => `<th scope="col">${escaped(header)}</th>`).join("");
  const rows = lines.map((line) => `<tr>${line.map((cell, column) => tableCell(cell, column < keys)).join("")}</tr>`);
  const caption = `${title}; bold: best of its ${bestOf}`;
  return htmlTable(caption, head, rows);
}

function tableCell({ text, spread, isBest }: Cell, isKey: boolean): string {
  if (isKey) return `<th scope="row">${escaped(text)}</th>`;
  const figure = isBest ? `<b>${escaped(text)}</b>` : escaped(text);
  return `<td>${figure}${spread === "" ? "" : ` <small>${escaped(spread)}</small>`}</td>`;
}

function allFigures({ rows }: Outcome): string {
  const keys = [...new Set(rows.flatMap(({ key }) => Object.keys(key)))];
  const flat = rows.map(({ figures }) => new Map(flattened(figures)));
  const names = [...new Set(flat.flatMap((figures) => [...figures.keys()]))];
  const head = [...keys, ...names].map((name) => `<th scope="col">${escaped(name)}</th>`).join("");
  const lines = rows.map(({ key }, index) => {
    const cells = keys.map((name) => `<th scope="row">${escaped(String(key[name] ?? "–"))}</th>`);
    const values = names.map((name) => flat[index]?.get(name) ?? null);
    return `<tr>${cells.join("")}${values.map((value) => `<td>${value === null ? "–" : formatNumber(value)}</td>`).join("")}</tr>`;
  });
  return `<details><summary>All figures</summary>\n${htmlTable("", head, lines)}\n</details>`;
}

function flattened(figures: Figures, prefix = ""): [string, number | null][] {
  return Object.entries(figures).flatMap(([name, value]): [string, number | null][] =>
    value === null || typeof value === "number" ? [[`${prefix}${name}`, value]] : flattened(value, `${prefix}${name}.`),
  );
}

function factsTable({ experiment, seed, seeds, centre }: Outcome, versions: Provenance["versions"]): string {
  const facts: [string, string][] = [
    ["experiment", experiment],
    ["seeds", seeds === 1 ? String(seed) : `${seed} to ${seed + seeds - 1} (${centre} of ${seeds})`],
    ...Object.entries(versions),
  ];
  return factTable("Seeds and versions", facts);
}

function factTable(caption: string, facts: readonly (readonly [name: string, value: string])[]): string {
  const rows = facts.map(
    ([name, value]) => `<tr><th scope="row">${escaped(name)}</th><td class="text">${escaped(value)}</td></tr>`,
  );
  return htmlTable(caption, "", rows);
}

function paramsTable({ params }: Experiment, outcome: Outcome): string {
  const rows = Object.entries(params).map(([name, param]) => {
    const value = outcome.params[name] ?? param.default;
    const cells = [withUnit(param, value), withUnit(param, param.default), param.help];
    const rest = cells.map((cell) => `<td class="text">${escaped(cell)}</td>`).join("");
    return `<tr><th scope="row"><code>${escaped(flagOf(name, param))}</code></th>${rest}</tr>`;
  });
  const head = ["parameter", "value", "default", "description"].map((name) => `<th scope="col">${name}</th>`).join("");
  return htmlTable("Parameters", head, rows);
}

function withUnit(param: Param, value: ParamValue): string {
  const unit = "unit" in param && param.unit !== "" ? ` ${param.unit}` : "";
  return `${valueText(value).replaceAll(",", ", ")}${unit}`;
}
