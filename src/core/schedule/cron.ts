import { Cron } from "croner";
import { offsetsOf } from "./time-zone.ts";

/**
 * Times of a cron expression in a time zone.
 *
 * 1. Five fields (minute, hour, day of month, month, day of week) or a nickname such as `@daily`. `croner` matches them against
 *    the wall clock; the rules for daylight saving time are below.
 * 2. An expression without `*` in the minute and hour fields is a fixed time. If its wall time is skipped, it fires once, at the
 *    end of the gap; if its wall time is repeated, it fires at the first of both.
 * 3. Any other expression recurs: a skipped wall time does not fire, a repeated one fires twice.
 */
export interface CronTimes {
  /** The first time after `afterMs`; null if there is none within `YEARS_MAX`. */
  next(afterMs: number): number | null;
}

/** Throws an error that names what is wrong. */
export function cronTimes(cron: string, timeZone: string): CronTimes {
  const key = `${cron}\n${timeZone}`;
  const known = PARSED.get(key);
  if (known) return known;
  const times = parse(cron, timeZone);
  if (PARSED.size >= PARSED_MAX)
    for (const oldest of [...PARSED.keys()].slice(0, PARSED_MAX / 2)) PARSED.delete(oldest);
  PARSED.set(key, times);
  return times;
}

/** Parsed expressions; a pure function of their key. */
const PARSED = new Map<string, CronTimes>();
const PARSED_MAX = 2_000;

function parse(text: string, timeZone: string): CronTimes {
  const expression = NICKNAMES.get(text.trim().toLowerCase()) ?? text.trim();
  if (expression.startsWith("@")) {
    throw new Error(`unknown nickname; known are ${[...NICKNAMES.keys()].map((name) => `\`${name}\``).join(", ")}`);
  }
  const fields = expression.split(/\s+/);
  if (text.length > LENGTH_MAX) throw new Error(`longer than ${LENGTH_MAX} characters`);
  if (fields.length !== 5) {
    throw new Error(
      `${fields.length} ${fields.length === 1 ? "field" : "fields"} instead of 5: minute, hour, day of month, month, day of week`,
    );
  }
  if (!/^[\dA-Za-z*,/#\- ]+$/.test(fields.join(" ")))
    throw new Error("a field has a character that cron does not know");
  const wall = wallTimesOf(fields.join(" "));
  const isFixed = !`${fields[0]} ${fields[1]}`.includes("*");
  return { next: (afterMs) => nextTime({ wall, offsetAt: offsetsOf(timeZone), isFixed }, afterMs) };
}

/** Wall times as if they were UTC. */
type WallTimes = (afterMs: number) => number | null;

function wallTimesOf(expression: string): WallTimes {
  let cron: Cron;
  try {
    cron = new Cron(expression, { utcOffset: 0, mode: "5-part", paused: true });
  } catch (error) {
    throw new Error(String((error as Error).message).replace(/^CronPattern: /, ""));
  }
  return (afterMs) => {
    const next = cron.nextRun(new Date(afterMs))?.getTime() ?? null;
    return next === null || next - afterMs > YEARS_MAX * YEAR_MS ? null : next;
  };
}

interface Zoned {
  readonly wall: WallTimes;
  readonly offsetAt: (ms: number) => number;
  readonly isFixed: boolean;
}

function nextTime({ wall, offsetAt, isFixed }: Zoned, afterMs: number): number | null {
  let fromMs = afterMs;
  let offset = offsetAt(afterMs);
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const wallMs = wall(fromMs + offset);
    if (wallMs === null) return null;
    const atMs = wallMs - offset;
    const changeMs = transition(offsetAt, fromMs, atMs, offset);
    if (changeMs === null) {
      if (!isFixed || !isRepeated(offsetAt, atMs, offset)) return atMs;
      fromMs = atMs;
      continue;
    }
    const after = offsetAt(changeMs);
    if (isFixed && wallMs < changeMs + after && changeMs > afterMs) return changeMs;
    // The time of the change belongs to the new offset.
    fromMs = changeMs - 1;
    offset = after;
  }
  return null;
}

/** The first change of the offset in `(fromMs, untilMs]`; null if there is none. */
function transition(offsetAt: (ms: number) => number, fromMs: number, untilMs: number, offset: number): number | null {
  let low = fromMs;
  // A repeated hour soon after `fromMs` would be passed over if the next match were months away.
  let high = Math.min(untilMs, fromMs + DAY_MS);
  if (offsetAt(high) === offset) {
    if (offsetAt(untilMs) === offset) return null;
    [low, high] = [high, untilMs];
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(middle) === offset) low = middle;
    else high = middle;
  }
  return high;
}

/** Whether the same wall time occurred less than a day before. */
function isRepeated(offsetAt: (ms: number) => number, atMs: number, offset: number): boolean {
  const earlier = offsetAt(atMs - DAY_MS);
  return earlier > offset && offsetAt(atMs + offset - earlier) === earlier;
}

const NICKNAMES: ReadonlyMap<string, string> = new Map([
  ["@hourly", "0 * * * *"],
  ["@daily", "0 0 * * *"],
  ["@midnight", "0 0 * * *"],
  ["@weekly", "0 0 * * 0"],
  ["@monthly", "0 0 1 * *"],
  ["@yearly", "0 0 1 1 *"],
  ["@annually", "0 0 1 1 *"],
]);
const LENGTH_MAX = 200;
const DAY_MS = 86_400_000;
const YEAR_MS = 366 * DAY_MS;
/** 29 February on a given weekday recurs within 40 years. */
export const YEARS_MAX = 41;
const TURNS_MAX = 100;
