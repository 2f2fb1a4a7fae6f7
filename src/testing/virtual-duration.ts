import { parseDuration } from "../core/retry/duration.ts";
import { PlaneError } from "./plane-error.ts";

/** Milliseconds, or a number with a unit: `500ms`, `90s`, `10m`, `24h`, `30d`. */
export type Duration = number | string;

export function durationMs(duration: Duration, name: string): number {
  try {
    const ms = typeof duration === "string" ? textMs(duration) : duration;
    if (Number.isFinite(ms) && ms >= 0 && ms <= DURATION_MS_MAX) return ms;
    throw new Error(`\`${duration}\` is not a duration from 0 to ten years`);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new PlaneError("invalid_options", `${name}: ${reason}; write \`30d\`, \`12h\` or milliseconds`);
  }
}

function textMs(text: string): number {
  const days = /^(\d{1,6}(?:\.\d{1,6})?)d$/.exec(text)?.[1];
  return days === undefined ? parseDuration(text, { msMin: 0, msMax: DURATION_MS_MAX }) : Number(days) * DAY_MS;
}

const DAY_MS = 24 * 3_600_000;
export const DURATION_MS_MAX = 3_660 * DAY_MS;
