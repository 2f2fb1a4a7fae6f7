/** The tables of an outcome for a terminal. */
import type { Outcome } from "../experiment.ts";
import { type Cell, type Grid, gridsOf, type TableSpec } from "./grid.ts";

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
