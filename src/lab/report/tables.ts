/** Result tables: specification, cells, and rendering for terminals. `page.ts` renders the same cells as HTML. */
import { figureAt, type Outcome, type Summary } from "../experiment.ts";
import { liveGrid } from "../live-compare.ts";
import { formatNumber } from "./format.ts";

export type TableSpec = RowsSpec | PivotSpec;

/** One line per row. */
export interface RowsSpec {
  readonly kind: "rows";
  readonly title: string;
  readonly keys: readonly KeyColumn[];
  readonly columns: readonly Column[];
  /** The best value is marked among rows with the same value of this key. */
  readonly groupBy?: string;
  readonly where?: (row: Summary) => boolean;
}

/** One figure over two keys: a line per value of `down`, a column per value of `across`. */
export interface PivotSpec {
  readonly kind: "pivot";
  readonly title: string;
  readonly down: KeyColumn;
  readonly across: string;
  readonly column: Column;
  readonly where?: (row: Summary) => boolean;
}

export interface KeyColumn {
  readonly key: string;
  readonly header: string;
}

export interface Column {
  /** The figure: `wait_ms.p95`. */
  readonly path: string;
  readonly header: string;
  readonly unit: string;
  /** null: no value is better than another. */
  readonly best: "least" | "most" | null;
}

export const column = (path: string, header: string, unit = "", best: Column["best"] = null): Column => ({
  ...{ path, header, unit, best },
});

export interface Grid {
  readonly title: string;
  readonly headers: readonly string[];
  readonly lines: readonly (readonly Cell[])[];
  /** The number of key cells in a line. */
  readonly keys: number;
  readonly bestOf: "column" | "line";
}

export interface Cell {
  readonly text: string;
  /** `min–max` over the seeds; empty with one seed. */
  readonly spread: string;
  readonly isBest: boolean;
}

/** Empty tables are omitted. */
export function gridsOf(specs: readonly TableSpec[], outcome: Outcome): readonly Grid[] {
  const simulated = specs.map((spec) => {
    const rows = outcome.rows.filter((row) => spec.where?.(row) ?? true);
    return spec.kind === "rows" ? rowsGrid(spec, rows) : pivotGrid(spec, rows);
  });
  const live = outcome.live === undefined ? [] : [liveGrid(outcome, outcome.live)];
  return [...simulated, ...live].filter(({ lines }) => lines.length > 0);
}

function rowsGrid(spec: RowsSpec, rows: readonly Summary[]): Grid {
  const { groupBy } = spec;
  const used = spec.columns.filter(({ path }) => rows.some(({ figures }) => figureAt(figures, path) !== null));
  const peersOf = (row: Summary) =>
    groupBy === undefined ? rows : rows.filter(({ key }) => key[groupBy] === row.key[groupBy]);
  return {
    title: spec.title,
    headers: [...spec.keys.map(({ header }) => header), ...used.map(headerOf)],
    lines: rows.map((row) => [
      ...spec.keys.map(({ key }) => keyCell(row.key[key])),
      ...used.map((one) => figureCell(row, one, peersOf(row))),
    ]),
    keys: spec.keys.length,
    bestOf: "column",
  };
}

function pivotGrid({ title, down, across, column }: PivotSpec, rows: readonly Summary[]): Grid {
  const valuesOf = (key: string) => [...new Set(rows.map((row) => row.key[key]))];
  const columns = valuesOf(across);
  const lines = valuesOf(down.key).map((value) => {
    const peers = rows.filter(({ key }) => key[down.key] === value);
    const cells = columns.map((name) => {
      const row = peers.find(({ key }) => key[across] === name);
      return row === undefined ? keyCell(undefined) : figureCell(row, column, peers);
    });
    return [keyCell(value), ...cells];
  });
  return {
    title: column.unit === "" ? title : `${title} (${column.unit})`,
    headers: [down.header, ...columns.map(String)],
    lines,
    keys: 1,
    bestOf: "line",
  };
}

function figureCell(row: Summary, { path, best }: Column, peers: readonly Summary[]): Cell {
  const value = figureAt(row.figures, path);
  if (value === null) return { text: "–", spread: "", isBest: false };
  const [min, max] =
    row.spread === null ? [null, null] : [figureAt(row.spread.min, path), figureAt(row.spread.max, path)];
  const spread = min === null || max === null ? "" : `${formatNumber(min)}–${formatNumber(max)}`;
  const others = peers.map(({ figures }) => figureAt(figures, path)).filter((other) => other !== null);
  return { text: formatNumber(value), spread, isBest: isBest(value, others, best) };
}

/** False where all values are equal. */
function isBest(value: number, among: readonly number[], best: Column["best"]): boolean {
  if (best === null || among.every((other) => other === value)) return false;
  return value === (best === "least" ? Math.min(...among) : Math.max(...among));
}

function keyCell(value: string | number | undefined): Cell {
  return { text: value === undefined ? "–" : String(value), spread: "", isBest: false };
}

function headerOf({ header, unit }: Column): string {
  return unit === "" ? header : `${header} (${unit})`;
}

export interface TextLook {
  /** null: unlimited. */
  readonly width: number | null;
  readonly color: boolean;
}

/** A table that is too wide is printed without its `min–max` values, and a note names where they are. */
export function tablesText(specs: readonly TableSpec[], outcome: Outcome, look: TextLook): string {
  const parts = gridsOf(specs, outcome).map((grid) => {
    const wide = gridText(grid, look, true);
    const fits = look.width === null || widthOf(wide) <= look.width;
    return { text: fits ? wide : gridText(grid, look, false), isCut: !fits && outcome.seeds > 1, grid };
  });
  const legend = [...new Set(parts.map(({ grid }) => grid.bestOf))].map((of) => `* best of its ${of}`);
  const figures = outcome.seeds === 1 ? "" : `; figures are the ${outcome.centre} of ${outcome.seeds} seeds`;
  const spread = outcome.seeds === 1 || parts.every(({ isCut }) => isCut) ? "" : " (min–max)";
  const cut = parts.some(({ isCut }) => isCut) ? "; min–max is in --json and --out" : "";
  return `${parts.map(({ text }) => text).join("\n")}\n${legend.join(", ")}${figures}${spread}${cut}\n`;
}

function gridText({ title, headers, lines, keys }: Grid, { color }: TextLook, hasSpread: boolean): string {
  const texts = lines.map((line) => line.map((cell) => cellText(cell, hasSpread)));
  const widths = headers.map((header, at) =>
    Math.max(header.length + 1, ...texts.map((line) => line[at]?.length ?? 0)),
  );
  const isText = (at: number) => at < keys && lines.some((line) => !/^[\d,.]+$/.test(line[at]?.text ?? ""));
  const aligned = (text: string, at: number) =>
    isText(at) ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0);
  // The mark is to the right of the number, so headers end one column earlier.
  const head = headers.map((header, at) => aligned(`${header} `, at));
  const body = texts.map((line, row) =>
    line.map((text, at) => {
      const shown = aligned(text, at);
      return color && lines[row]?.[at]?.isBest ? `\u001b[1;32m${shown}\u001b[0m` : shown;
    }),
  );
  return `${[title, head.join("  "), ...body.map((line) => line.join("  "))].map((line) => line.trimEnd()).join("\n")}\n`;
}

function cellText({ text, spread, isBest }: Cell, hasSpread: boolean): string {
  const figure = hasSpread && spread !== "" ? `${text} (${spread})` : text;
  return isBest ? `${figure}*` : `${figure} `;
}

function widthOf(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: color codes have no width.
  return Math.max(...text.split("\n").map((line) => line.replaceAll(/\u001b\[[\d;]*m/g, "").length));
}
