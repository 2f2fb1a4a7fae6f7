/** Numbers, durations and retry policies as text. */
import { interval, parsePolicy } from "../../core/retry/policies.ts";
import { figureOf, type Row } from "../experiment.ts";

/** `62,391`, `37.5`, `1.08`: thousands separators and about three significant digits. */
export function formatNumber(value: number, decimals = decimalsFor(value)): string {
  const [whole = "", fraction] = Math.abs(value).toFixed(decimals).split(".");
  const grouped = whole.replaceAll(/\B(?=(\d{3})+$)/g, ",");
  const sign = value < 0 && /[1-9]/.test(`${whole}${fraction ?? ""}`) ? "−" : "";
  return `${sign}${grouped}${fraction === undefined ? "" : `.${fraction}`}`;
}

/** `250 ms`, `1.5 s`, `10 min`. */
export function formatMs(ms: number): string {
  const [, size, unit] = UNITS.find(([fromMs]) => Math.abs(ms) >= fromMs) ?? [0, 1, "ms"];
  return `${formatShort(ms / size)} ${unit}`;
}

/** Without trailing zeros: `0.05`, `1.5`, `20`, `1,200`. */
export function formatShort(value: number): string {
  if (value === 0) return "0";
  const decimals = Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  const text = formatNumber(value, decimals);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** How many times larger a figure is in one row than in another: `30.1 ×`. */
export function formatRatio(more: Pick<Row, "figures">, less: Pick<Row, "figures">, path: string): string {
  return `${formatNumber(figureOf(more, path) / Math.max(1, figureOf(less, path)), 1)} ×`;
}

/** `retries after 350 ms to 650 ms, random`. Empty for a row that is not a retry policy. */
export function describePolicy(policy: string): string {
  const first = intervalOf(policy, 1);
  const late = intervalOf(policy, LATE_ATTEMPT);
  if (first === null || late === null) return "";
  const start = `retries after ${rangeOf(first)}`;
  if (late.hiMs <= first.hiMs) return isRandom(first) ? `${start}, random` : start;
  if (isRandom(first) && isRandom(late)) return `${start}, later ${rangeOf(late)}, random`;
  return `${start}${isRandom(first) ? ", random" : ""}; later after ${rangeOf(late)}`;
}

interface Range {
  readonly loMs: number;
  readonly hiMs: number;
}

function intervalOf(policy: string, attempt: number): Range | null {
  try {
    const parsed = parsePolicy(policy);
    // The base stands for the previous delay of the first attempt.
    return interval(parsed, attempt, attempt === 1 && "baseMs" in parsed ? parsed.baseMs : undefined);
  } catch {
    return null;
  }
}

function rangeOf({ loMs, hiMs }: Range): string {
  if (hiMs === loMs) return formatMs(hiMs);
  return loMs <= 1 ? `up to ${formatMs(hiMs)}` : `${formatMs(loMs)} to ${formatMs(hiMs)}`;
}

const isRandom = ({ loMs, hiMs }: Range): boolean => hiMs > loMs;

function decimalsFor(value: number): number {
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 100) return 0;
  return size >= 10 ? 1 : 2;
}

const UNITS: readonly (readonly [fromMs: number, sizeMs: number, unit: string])[] = [
  [2 * 3_600_000, 3_600_000, "h"],
  [2 * 60_000, 60_000, "min"],
  [1_000, 1_000, "s"],
];
/** By this attempt every policy has reached its maximum delay. */
const LATE_ATTEMPT = 40;
