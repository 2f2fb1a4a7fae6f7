/**
 * One HTML page with everything on it, and the files that go with it.
 *
 * 1. Self-contained: no script, nothing loaded from anywhere, light and dark by the reader's own setting.
 * 2. Enough to repeat it: the command, the seeds, the versions and every param with its default. No wall time, so the
 *    same command makes the same page.
 */
import { outcomeDocument } from "../document.ts";
import type { Experiment, Figures, Outcome } from "../experiment.ts";
import { liveAsOutcome, liveFacts, liveFindings } from "../live-compare.ts";
import { flagOf, type Param, type ParamValue, valueText } from "../params.ts";
import { drawChart } from "./chart.ts";
import { formatNumber } from "./numbers.ts";
import { PAGE_STYLE } from "./page-style.ts";
import type { Chart } from "./picture.ts";
import { escaped, svgFile, svgInline } from "./svg.ts";
import { type Cell, type Grid, gridsOf } from "./tables.ts";

export interface Provenance {
  /** Name → version: of this program, and of what it ran on. */
  readonly versions: Readonly<Record<string, string>>;
}

export interface ReportFile {
  readonly name: string;
  readonly text: string;
}

export function reportFiles(one: Experiment, outcome: Outcome, from: Provenance): readonly ReportFile[] {
  const pictures = picturesOf(one, outcome);
  return [
    { name: `${one.name}.html`, text: reportPage(one, outcome, from) },
    { name: `${one.name}.json`, text: `${JSON.stringify(outcomeDocument(outcome), null, 2)}\n` },
    ...pictures.map((picture) => ({
      name: `${one.name}-${picture.name}.svg`,
      text: svgFile(drawChart(picture)),
    })),
  ];
}

export function reportPage(one: Experiment, outcome: Outcome, { versions }: Provenance): string {
  const title = `cordum lab ${one.name}`;
  const conclusions = [...one.findings(outcome), ...(outcome.live ? liveFindings(outcome, outcome.live) : [])];
  const body = [
    `<h1>${escaped(title)}</h1>`,
    `<p class="story">${escaped(one.description)}</p>`,
    ...picturesOf(one, outcome).map(figure),
    ...(conclusions.length === 0 ? [] : ["<h2>What it says</h2>", list(conclusions)]),
    "<h2>Figures</h2>",
    `<p>${escaped(figuresNote(outcome))}</p>`,
    ...gridsOf(one.tables, outcome).map(gridTable),
    everyFigure(outcome),
    "<h2>How it was made</h2>",
    `<p>Repeat it with <code>${escaped(commandFor(one, outcome))}</code></p>`,
    factsTable(outcome, versions),
    ...(outcome.live ? [wordsTable("Live", liveFacts(outcome.live))] : []),
    paramsTable(one, outcome),
  ];
  return [
    "<!doctype html>",
    '<html lang="en">',
    "<head>",
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    `<title>${escaped(title)}</title>`,
    `<style>\n${PAGE_STYLE}\n</style>`,
    "</head>",
    "<body>",
    "<main>",
    ...body,
    "</main>",
    "</body>",
    "</html>",
    "",
  ].join("\n");
}

/** The command that gives this outcome again; what is as always is left out. */
export function commandFor(one: Experiment, { seed, seeds, params, live }: Outcome): string {
  const decided: readonly string[] = live ? (one.live?.measuredParams ?? []) : [];
  const flags = Object.entries(one.params).flatMap(([name, param]) => {
    if (decided.includes(name)) return [];
    const value = params[name] ?? param.default;
    if (valueText(value) === valueText(param.default)) return [];
    const texts = param.kind === "rows" ? (value as readonly string[]) : [valueText(value)];
    return texts.flatMap((text) => [flagOf(name, param), text]);
  });
  // Which servers it was is nobody's business but of who has them.
  const besides = live
    ? ["--live", "--processes", live.processes, "--live-seconds", live.secondsMax, "--live-times", live.times]
    : [];
  return ["cordum lab", one.name, "--seed", seed, "--seeds", seeds, ...flags, ...besides].join(" ");
}

/** Those of live come after those of the simulation that they are to be held against. */
function picturesOf(one: Experiment, outcome: Outcome): readonly Chart[] {
  const simulated = one.charts(outcome);
  if (outcome.live === undefined) return simulated;
  const live = one.charts(liveAsOutcome(outcome, outcome.live));
  return [...simulated, ...live.map((one) => ({ ...one, name: `live-${one.name}`, title: `Live: ${one.title}` }))];
}

function figure(picture: Chart): string {
  return [
    "<figure>",
    `<h2>${escaped(picture.title)}</h2>`,
    `<figcaption>${escaped(picture.caption)}</figcaption>`,
    `<div class="scroll">${svgInline(drawChart(picture))}</div>`,
    "</figure>",
  ].join("\n");
}

function figuresNote({ seed, seeds, centre }: Outcome): string {
  if (seeds === 1) return `One history, of seed ${seed}. The best is set in bold.`;
  return (
    `Each figure is the ${centre} of ${seeds} histories (seeds ${seed} to ${seed + seeds - 1}), with the least and the ` +
    `most in small print. The best is set in bold. The pictures of waves and waits show seed ${seed}.`
  );
}

function gridTable({ title, headers, lines, keys, bestOf }: Grid): string {
  const head = headers.map((header) => `<th scope="col">${escaped(header)}</th>`).join("");
  const rows = lines.map((line) => `<tr>${line.map((cell, column) => tableCell(cell, column < keys)).join("")}</tr>`);
  const caption = `${title}; bold: best of its ${bestOf}`;
  return table(caption, head, rows);
}

function tableCell({ text, spread, isBest }: Cell, isKey: boolean): string {
  if (isKey) return `<th scope="row">${escaped(text)}</th>`;
  const figure = isBest ? `<b>${escaped(text)}</b>` : escaped(text);
  return `<td>${figure}${spread === "" ? "" : ` <small>${escaped(spread)}</small>`}</td>`;
}

/** All that was measured, for whoever wants to check. */
function everyFigure({ rows }: Outcome): string {
  const keys = [...new Set(rows.flatMap(({ key }) => Object.keys(key)))];
  const flat = rows.map(({ figures }) => new Map(flattened(figures)));
  const names = [...new Set(flat.flatMap((figures) => [...figures.keys()]))];
  const head = [...keys, ...names].map((name) => `<th scope="col">${escaped(name)}</th>`).join("");
  const lines = rows.map(({ key }, index) => {
    const cells = keys.map((name) => `<th scope="row">${escaped(String(key[name] ?? "–"))}</th>`);
    const values = names.map((name) => flat[index]?.get(name) ?? null);
    return `<tr>${cells.join("")}${values.map((value) => `<td>${value === null ? "–" : formatNumber(value)}</td>`).join("")}</tr>`;
  });
  return `<details><summary>Everything that was measured</summary>\n${table("", head, lines)}\n</details>`;
}

function flattened(figures: Figures, before = ""): [string, number | null][] {
  return Object.entries(figures).flatMap(([name, value]): [string, number | null][] =>
    value === null || typeof value === "number" ? [[`${before}${name}`, value]] : flattened(value, `${before}${name}.`),
  );
}

function factsTable({ experiment, seed, seeds, centre }: Outcome, versions: Provenance["versions"]): string {
  const facts: [string, string][] = [
    ["experiment", experiment],
    ["seeds", seeds === 1 ? String(seed) : `${seed} to ${seed + seeds - 1} (${centre} of ${seeds})`],
    ...Object.entries(versions),
  ];
  return wordsTable("Seeds and versions", facts);
}

function wordsTable(caption: string, facts: readonly (readonly [name: string, value: string])[]): string {
  const rows = facts.map(
    ([name, value]) => `<tr><th scope="row">${escaped(name)}</th><td class="words">${escaped(value)}</td></tr>`,
  );
  return table(caption, "", rows);
}

function paramsTable({ params }: Experiment, outcome: Outcome): string {
  const rows = Object.entries(params).map(([name, param]) => {
    const value = outcome.params[name] ?? param.default;
    const cells = [withUnit(param, value), withUnit(param, param.default), param.help];
    const rest = cells.map((cell) => `<td class="words">${escaped(cell)}</td>`).join("");
    return `<tr><th scope="row"><code>${escaped(flagOf(name, param))}</code></th>${rest}</tr>`;
  });
  const head = ["param", "here", "default", "what it is"].map((name) => `<th scope="col">${name}</th>`).join("");
  return table("Every parameter", head, rows);
}

function withUnit(param: Param, value: ParamValue): string {
  const unit = "unit" in param && param.unit !== "" ? ` ${param.unit}` : "";
  return `${valueText(value).replaceAll(",", ", ")}${unit}`;
}

function table(caption: string, head: string, rows: readonly string[]): string {
  const parts = [
    caption === "" ? "" : `<caption>${escaped(caption)}</caption>`,
    head === "" ? "" : `<thead><tr>${head}</tr></thead>`,
    `<tbody>\n${rows.join("\n")}\n</tbody>`,
  ].filter((part) => part !== "");
  return `<div class="scroll"><table>\n${parts.join("\n")}\n</table></div>`;
}

function list(items: readonly string[]): string {
  return `<ul>\n${items.map((item) => `<li>${escaped(item)}</li>`).join("\n")}\n</ul>`;
}
