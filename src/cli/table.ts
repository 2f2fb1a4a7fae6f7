/** Text output. Cells contain user input, so control characters are escaped before they reach a terminal. */
import { escapeControls } from "../core/model/json.ts";
import type { Json } from "./client.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { type Io, printJson } from "./io.ts";

export interface PageOptions {
  readonly json?: boolean;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface ListView {
  readonly headers: readonly string[];
  row(item: Json): readonly string[];
  /** The command without `cordum` and without the cursor; printed with the cursor of the next page. */
  readonly command: string;
}

/** Prints one page of a list. */
export function showPage(io: Io, page: Json, options: PageOptions, { headers, row, command }: ListView): ExitCode {
  if (options.json) {
    printJson(io, page);
    return EXIT.ok;
  }
  io.out(textTable(headers, page.items.map(row)));
  if (page.items.length === 0) io.err("no items found\n");
  const limit = options.limit === undefined ? "" : ` --limit ${options.limit}`;
  if (page.next_cursor !== null) io.err(`next page: ${io.command} ${command}${limit} --cursor ${page.next_cursor}\n`);
  return EXIT.ok;
}

/** Aligned columns; the last one is not padded. */
export function textTable(headers: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [headers, ...rows.map((row) => row.map(printable))];
  const widths = headers.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join("  ")
      .trimEnd();
  return `${all.map(line).join("\n")}\n`;
}

/** One `name  value` line per field. */
export function textFields(fields: readonly (readonly [name: string, text: string])[]): string {
  const width = Math.max(...fields.map(([name]) => name.length)) + 2;
  return fields
    .map(([name, text]) => `${name.padEnd(width)}${printable(text)}`.trimEnd())
    .join("\n")
    .concat("\n");
}

export function printable(text: unknown): string {
  return escapeControls(String(text ?? "–"));
}

/** Who decided about an approval, when, and what they wrote. */
export function describeApproval(approval: Json): string {
  const { decision, decided_by, decided_by_name, decided_at, note, requested_at, expires_at } = approval;
  if (!decided_by) return `requested at ${requested_at}, expires at ${expires_at}`;
  const who = decided_by_name ? `${decided_by_name} (key ${decided_by})` : `key ${decided_by}`;
  return `${decision ?? "decided"} by ${who} at ${decided_at}${note ? `: ${note}` : ""}`;
}

/** Why a record is in its state, each with the command that changes it. */
export function reasonsText(io: Io, reasons: readonly Json[]): string {
  const lines = reasons.flatMap(({ reason, unblocks }) => [
    `- ${printable(reason)}`,
    ...(unblocks === null ? [] : [`  ${printable(unblocks).replace(/^cordum /, `${io.command} `)}`]),
  ]);
  return `${lines.join("\n")}\n`;
}

/** `3 jobs`, `1 job`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** `90 s`, `5 min`, `3 h`, `4 days`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}
