/** Numbers with their unit. A space that does not break stands between the two. */

const SPACE = "\u00a0";

export function duration(ms: number): string {
  if (ms < 1) return `${ms === 0 ? 0 : "<1"}${SPACE}ms`;
  if (ms < 1_000) return `${Math.round(ms)}${SPACE}ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1).replace(/\.0$/, "")}${SPACE}s`;
  if (ms < 60_000) return `${Math.floor(ms / 1_000)}${SPACE}s`;
  if (ms < 3_600_000) return two(ms, 60_000, "min", 1_000, "s", 10);
  if (ms < 86_400_000) return two(ms, 3_600_000, "h", 60_000, "min", 10);
  return two(ms, 86_400_000, "d", 3_600_000, "h", 10);
}

/** The smaller unit is left out from `big` on: `2 min 5 s`, `12 min`. */
function two(ms: number, largeMs: number, large: string, smallMs: number, small: string, big: number): string {
  const whole = Math.floor(ms / largeMs);
  const rest = Math.floor((ms % largeMs) / smallMs);
  return `${whole}${SPACE}${large}${whole < big && rest > 0 ? `${SPACE}${rest}${SPACE}${small}` : ""}`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** `1,234 jobs`, `1 job`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)}${SPACE}${value === 1 ? one : many}`;
}

/** At most three digits: `0.25`, `12.3`, `1,240`. */
export function decimal(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

export function rate(perSecond: number): string {
  return `${decimal(perSecond)}/s`;
}

export function percent(share: number): string {
  const value = share * 100;
  return `${value > 0 && value < 1 ? "<1" : Math.round(value)}${SPACE}%`;
}

export function bytes(size: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let [value, at] = [size, 0];
  while (value >= 1_000 && at < units.length - 1) [value, at] = [value / 1_000, at + 1];
  return `${at === 0 ? value : decimal(value)}${SPACE}${units[at]}`;
}
