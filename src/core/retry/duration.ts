/**
 * Durations as text (`500ms`, `1.5s`, `10m`, `24h`) and as whole milliseconds. Only a delay stated on an error may be
 * fractional; it is rounded up where it is used.
 */

/** The longest delay a Node timer supports; longer ones fire at once. */
export const DELAY_MS_MAX = 2 ** 31 - 1;

/** Clamps to a valid timer delay; NaN becomes 0. */
export function clampDelay(delayMs: number): number {
  return delayMs > 0 ? Math.min(delayMs, DELAY_MS_MAX) : 0;
}

/** A unit is required. */
export function parseDuration(text: string, bounds: { readonly msMin: number; readonly msMax: number }): number {
  const [, digits, unit = ""] = /^(\d{1,12}(?:\.\d{1,9})?)([a-z]{1,2})$/.exec(text) ?? [];
  const unitMs = UNITS_MS.get(unit);
  if (unitMs === undefined) {
    throw new Error(
      `${quote(text)} is not a duration; write a number and \`ms\`, \`s\`, \`m\` or \`h\`, as in \`500ms\``,
    );
  }
  const exact = Number(digits) * unitMs;
  const ms = Math.round(exact);
  // 1.001 s is 1000.9999999999999 ms in floating point.
  if (Math.abs(exact - ms) > 1e-6) throw new Error(`${quote(text)} is not a whole number of milliseconds`);
  if (ms < bounds.msMin)
    throw new Error(`${quote(text)} is too short; the minimum is \`${formatDuration(bounds.msMin)}\``);
  if (ms > bounds.msMax)
    throw new Error(`${quote(text)} is too long; the maximum is \`${formatDuration(bounds.msMax)}\``);
  return ms;
}

/** Uses the largest unit without a fraction: 600000 is `10m`, 1500 is `1500ms`. */
export function formatDuration(ms: number): string {
  if (ms === 0) return "0ms";
  const [unit, unitMs] = [...UNITS_MS].find(([, perUnitMs]) => ms % perUnitMs === 0) ?? ["ms", 1];
  return `${ms / unitMs}${unit}`;
}

/** User input in backticks, shortened. */
export function quote(text: string): string {
  return `\`${text.length > 60 ? `${text.slice(0, 60)}…` : text}\``;
}

/** Largest first. */
const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
  ["ms", 1],
]);
