/** A brute-force model of cron with wall times: looks at every minute. Fields of minute and hour only. */
export function timesOf(cron: string, timeZone: string, fromMs: number, untilMs: number): readonly number[] {
  const [minuteField = "", hourField = ""] = cron.split(" ");
  const minutes = valuesOf(minuteField, 59);
  const hours = valuesOf(hourField, 23);
  const isFixed = !`${minuteField}${hourField}`.includes("*");
  const matches = (wallMs: number): boolean => {
    const wall = new Date(wallMs);
    return minutes.has(wall.getUTCMinutes()) && hours.has(wall.getUTCHours());
  };
  const times: number[] = [];
  const seen = new Set<number>();
  // A repeated day needs a day before the range.
  const startMs = fromMs - DAY_MS - 3 * HOUR_MS;
  const wallOf = wallTimes(timeZone);
  let beforeMs = wallOf(startMs);
  for (let ms = startMs; ms < untilMs; ms += MINUTE_MS) {
    const wallMs = wallOf(ms);
    let fires = matches(wallMs) && !(isFixed && seen.has(wallMs));
    for (let gapMs = beforeMs + MINUTE_MS; isFixed && gapMs < wallMs; gapMs += MINUTE_MS) fires ||= matches(gapMs);
    if (matches(wallMs)) seen.add(wallMs);
    if (fires && ms > fromMs) times.push(ms);
    beforeMs = wallMs;
  }
  return times;
}

function wallTimes(timeZone: string): (ms: number) => number {
  const format = new Intl.DateTimeFormat("en-US", {
    ...{ timeZone, hourCycle: "h23", year: "numeric", month: "numeric" },
    ...{ day: "numeric", hour: "numeric", minute: "numeric" },
  } as const);
  const known = WALLS.get(timeZone) ?? new Map<number, number>();
  WALLS.set(timeZone, known);
  const wallOf = (ms: number) => {
    const parts = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute);
  };
  return (ms) => {
    const wallMs = known.get(ms) ?? wallOf(ms);
    known.set(ms, wallMs);
    return wallMs;
  };
}

/** `*`, numbers, ranges, lists and steps. */
function valuesOf(field: string, max: number): ReadonlySet<number> {
  const values = new Set<number>();
  for (const part of field.split(",")) {
    const [range = "*", step = "1"] = part.split("/");
    const [low = 0, high = low] = range === "*" ? [0, max] : range.split("-").map(Number);
    for (let value = low; value <= high; value += Number(step)) values.add(value);
  }
  return values;
}

/** Formatting a time is most of the work. */
const WALLS = new Map<string, Map<number, number>>();
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
