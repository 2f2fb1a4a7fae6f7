/**
 * Tables as data: which figures, in which order, and which of them is the best. Drawn as text for terminals and as HTML
 * for the page, from the same cells.
 */
import { figureAt, type Outcome, type Summary } from "../experiment.ts";
import { liveGrid } from "../live-compare.ts";
import { formatNumber } from "./numbers.ts";

export type TableSpec = RowsSpec | PivotSpec;

/** A line for each row. */
export interface RowsSpec {
  readonly kind: "rows";
  readonly title: string;
  readonly keys: readonly KeyColumn[];
  readonly columns: readonly Column[];
  /** The best is looked for among rows that agree in this key: only those can be compared. */
  readonly groupBy?: string;
  readonly where?: (row: Summary) => boolean;
}

/** One figure over two keys: a line for each value of `down`, a column for each of `across`. */
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
  /** Where the figure stands: `wait_ms.p95`. */
  readonly path: string;
  readonly header: string;
  readonly unit: string;
  /** null: neither more nor less is better. */
  readonly best: "least" | "most" | null;
}

export interface Grid {
  readonly title: string;
  readonly headers: readonly string[];
  readonly lines: readonly (readonly Cell[])[];
  /** How many cells of a line are keys. */
  readonly keys: number;
  /** In a pivot the best is that of its line. */
  readonly bestOf: "column" | "line";
}

export interface Cell {
  readonly text: string;
  /** `min–max` over the seeds; empty with one. */
  readonly spread: string;
  readonly isBest: boolean;
}

/** A table with nothing in it is left out. */
export function gridsOf(specs: readonly TableSpec[], outcome: Outcome): readonly Grid[] {
  const simulated = specs.map((spec) => {
    const rows = outcome.rows.filter((row) => spec.where?.(row) ?? true);
    return spec.kind === "rows" ? rowsGrid(spec, rows) : pivotGrid(spec, rows);
  });
  const live = outcome.live === undefined ? [] : [liveGrid(outcome, outcome.live)];
  return [...simulated, ...live].filter(({ lines }) => lines.length > 0);
}

function rowsGrid(spec: RowsSpec, rows: readonly Summary[]): Grid {
  const used = spec.columns.filter(({ path }) => rows.some(({ figures }) => figureAt(figures, path) !== null));
  const cellsOf = used.map((column) => {
    return rows.map((row) => {
      const rivals = rows.filter(
        ({ key }) => spec.groupBy === undefined || key[spec.groupBy] === row.key[spec.groupBy],
      );
      return figureCell(row, column, rivals);
    });
  });
  return {
    title: spec.title,
    headers: [...spec.keys.map(({ header }) => header), ...used.map(headerOf)],
    lines: rows.map((row, index) => [
      ...spec.keys.map(({ key }) => keyCell(row.key[key])),
      ...cellsOf.map((cells) => cells[index]!),
    ]),
    keys: spec.keys.length,
    bestOf: "column",
  };
}

function pivotGrid({ title, down, across, column }: PivotSpec, rows: readonly Summary[]): Grid {
  const valuesOf = (key: string) => [...new Set(rows.map((row) => row.key[key]))];
  const columns = valuesOf(across);
  const lines = valuesOf(down.key).map((value) => {
    const rivals = rows.filter(({ key }) => key[down.key] === value);
    const cells = columns.map((name) => {
      const row = rivals.find(({ key }) => key[across] === name);
      return row === undefined ? keyCell(undefined) : figureCell(row, column, rivals);
    });
    return [keyCell(value), ...cells];
  });
  const unit = column.unit === "" ? "" : `, ${column.unit}`;
  return {
    title: `${title}${unit}`,
    headers: [down.header, ...columns.map(String)],
    lines,
    keys: 1,
    bestOf: "line",
  };
}

function figureCell(row: Summary, column: Column, rivals: readonly Summary[]): Cell {
  const at = (figures: Summary["figures"]) => figureAt(figures, column.path);
  const value = at(row.figures);
  if (value === null) return { text: "–", spread: "", isBest: false };
  const [min, max] = row.spread === null ? [null, null] : [at(row.spread.min), at(row.spread.max)];
  const spread = min === null || max === null ? "" : `${formatNumber(min)}–${formatNumber(max)}`;
  const others = rivals.map(({ figures }) => at(figures)).filter((other) => other !== null);
  return { text: formatNumber(value), spread, isBest: isBest(value, others, column.best) };
}

/** Where all are alike, none is better than the others. */
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
  /** null: as wide as it takes. */
  readonly width: number | null;
  readonly color: boolean;
}

/** The spread is left out where it does not fit, and a line says so: a wrapped table cannot be read. */
export function tablesText(specs: readonly TableSpec[], outcome: Outcome, look: TextLook): string {
  const parts = gridsOf(specs, outcome).map((grid) => {
    const wide = drawn(grid, look, true);
    const fits = look.width === null || widthOf(wide) <= look.width;
    return { text: fits ? wide : drawn(grid, look, false), isCut: !fits && outcome.seeds > 1, grid };
  });
  const legend = [...new Set(parts.map(({ grid }) => grid.bestOf))].map((of) => `* best of its ${of}`);
  const figures = outcome.seeds === 1 ? "" : `; figures are the ${outcome.centre} of ${outcome.seeds} seeds`;
  const spread = outcome.seeds === 1 || parts.every(({ isCut }) => isCut) ? "" : " (min–max)";
  const cut = parts.some(({ isCut }) => isCut) ? "; min–max is in --json and --out" : "";
  return `${parts.map(({ text }) => text).join("\n")}\n${legend.join(", ")}${figures}${spread}${cut}\n`;
}

function drawn({ title, headers, lines, keys }: Grid, { color }: TextLook, hasSpread: boolean): string {
  const texts = lines.map((line) => line.map((cell) => cellText(cell, hasSpread)));
  const widths = headers.map((header, column) =>
    Math.max(header.length + 1, ...texts.map((line) => line[column]?.length ?? 0)),
  );
  const isText = (column: number) => column < keys && lines.some((line) => !/^[\d,.]+$/.test(line[column]?.text ?? ""));
  const placed = (text: string, column: number) =>
    isText(column) ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0);
  // The mark hangs to the right of the number, so a header ends above the number and not above the mark.
  const head = headers.map((header, column) => placed(`${header} `, column));
  const body = texts.map((line, row) =>
    line.map((text, column) => {
      const shown = placed(text, column);
      return color && lines[row]?.[column]?.isBest ? `\u001b[1;32m${shown}\u001b[0m` : shown;
    }),
  );
  return `${[title, head.join("  "), ...body.map((line) => line.join("  "))].map((line) => line.trimEnd()).join("\n")}\n`;
}

function cellText({ text, spread, isBest }: Cell, hasSpread: boolean): string {
  const figure = hasSpread && spread !== "" ? `${text} (${spread})` : text;
  return isBest ? `${figure}*` : `${figure} `;
}

function widthOf(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colors take no room.
  return Math.max(...text.split("\n").map((line) => line.replaceAll(/\u001b\[[\d;]*m/g, "").length));
}
