/** Numbers as people read them. */

/** `62,391`, `37.5`, `1.08`: thousands apart, and what it takes to see three digits. */
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

/** At most three digits behind nothing: `0.05`, `1.5`, `20`, `1,200`. */
export function formatShort(value: number): string {
  if (value === 0) return "0";
  const decimals = Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  const text = formatNumber(value, decimals);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

const UNITS: readonly (readonly [fromMs: number, sizeMs: number, unit: string])[] = [
  [2 * 3_600_000, 3_600_000, "h"],
  [2 * 60_000, 60_000, "min"],
  [1_000, 1_000, "s"],
];

function decimalsFor(value: number): number {
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 100) return 0;
  return size >= 10 ? 1 : 2;
}
