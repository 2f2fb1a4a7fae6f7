/**
 * Text for people. What stands in a cell may come from anybody who submits jobs: it is shown, never obeyed, so that no
 * job can move the cursor or change the title of the terminal of whoever looks at it.
 */

/** Columns; the last one may be as long as it likes. */
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

/** One thing, a line for each of its facts. */
export function textFacts(facts: readonly (readonly [name: string, text: string])[]): string {
  const width = Math.max(...facts.map(([name]) => name.length)) + 2;
  return facts
    .map(([name, text]) => `${name.padEnd(width)}${printable(text)}`.trimEnd())
    .join("\n")
    .concat("\n");
}

/** On one line, without anything that a terminal would take for a command. */
export function printable(text: unknown): string {
  return String(text ?? "–").replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (char) => ESCAPES[char] ?? `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** `3 jobs`, `1 job`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** As people say it. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}

const ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
