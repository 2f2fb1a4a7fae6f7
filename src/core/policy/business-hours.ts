/**
 * `business_hours(now, "Europe/Berlin", "Mon-Fri 09:00-17:00")`: whether an instant is within weekly hours of a time zone.
 *
 * 1. An instant has exactly one wall time, so clock changes need no rules: on a day with 23 hours the hours are those that
 *    the clocks show.
 * 2. Time zone and hours are literals, as patterns are, and are read once. A call costs a fixed number of steps.
 * 3. Windows are separated by `;`, days by `,`. The end is exclusive. A window whose end is not after its start ends on
 *    the next day.
 */
import type { ASTNode, Environment } from "@marcbachmann/cel-js";
import type { Meter } from "../expression/meter.ts";
import { offsetsOf, timeZoneProblem } from "../schedule/time-zone.ts";

/** An instant in milliseconds. */
type IsOpen = (ms: number) => boolean;

/** The calls of one policy. */
export class BusinessHours {
  readonly #known = new Map<string, IsOpen>();

  /** Reads the calls of an expression. Returns the problem with one, or null. */
  add(nodes: readonly ASTNode[]): string | null {
    for (const node of nodes) {
      if (node.op !== "call" || node.args[0] !== NAME) continue;
      const [, timeZone, hours] = node.args[1].map(textOf);
      if (typeof timeZone !== "string" || typeof hours !== "string") {
        return `needs a literal time zone and literal hours for \`${NAME}\`, as in \`${EXAMPLE}\``;
      }
      const zoneProblem = timeZoneProblem(timeZone);
      if (zoneProblem !== null) return `has the time zone \`${timeZone.slice(0, TEXT_MAX)}\`, which ${zoneProblem}`;
      const read = readHours(hours);
      if (typeof read === "string") return `has the hours \`${hours.slice(0, TEXT_MAX)}\`: ${read}`;
      this.#known.set(keyOf(timeZone, hours), isOpenIn(read, offsetsOf(timeZone)));
    }
    return null;
  }

  register(environment: Environment, meter: Meter): void {
    environment.registerFunction(
      `${NAME}(google.protobuf.Timestamp, string, string): bool`,
      (at: Date, timeZone: string, hours: string) => {
        const isOpen = this.#known.get(keyOf(timeZone, hours));
        if (isOpen === undefined) throw new Error(`\`${NAME}\` needs literals`);
        meter.charge(CALL_STEPS);
        return isOpen(at.getTime());
      },
    );
  }
}

/** Minutes of a day; `toMinute` is at most `DAY_MINUTES`, and not above `fromMinute` if the window ends on the next day. */
interface Window {
  /** 0 is Sunday. */
  readonly days: ReadonlySet<number>;
  readonly fromMinute: number;
  readonly toMinute: number;
}

function isOpenIn(windows: readonly Window[], offsetAt: (ms: number) => number): IsOpen {
  return (ms) => {
    const wall = new Date(ms + offsetAt(ms));
    const day = wall.getUTCDay();
    const minute = wall.getUTCHours() * 60 + wall.getUTCMinutes();
    return windows.some(({ days, fromMinute, toMinute }) =>
      toMinute > fromMinute
        ? days.has(day) && minute >= fromMinute && minute < toMinute
        : (days.has(day) && minute >= fromMinute) || (days.has((day + 6) % 7) && minute < toMinute),
    );
  };
}

/** The windows, or what is wrong. */
export function readHours(text: string): readonly Window[] | string {
  if (text.length > HOURS_LENGTH_MAX) return `longer than ${HOURS_LENGTH_MAX} characters`;
  const windows: Window[] = [];
  for (const part of text.split(";")) {
    const match = /^\s*([A-Za-z, -]+?)\s+(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)\s*$/.exec(part);
    if (match === null) return `\`${part.trim()}\` is not of the form \`Mon-Fri 09:00-17:00\``;
    const [, names = "", ...times] = match;
    const [fromHour = 0, fromMin = 0, toHour = 0, toMin = 0] = times.map(Number);
    const [fromMinute, toMinute] = [fromHour * 60 + fromMin, toHour * 60 + toMin];
    if (fromMin > 59 || toMin > 59 || fromMinute >= DAY_MINUTES || toMinute > DAY_MINUTES) {
      return "times are between `00:00` and `24:00`";
    }
    if (fromMinute === toMinute) return "a window has different times; a whole day is `00:00-24:00`";
    const days = readDays(names);
    if (typeof days === "string") return days;
    windows.push({ days, fromMinute, toMinute });
  }
  return windows;
}

/** `Mon-Fri`, `Sat,Sun`, `Fri-Mon`. */
function readDays(text: string): ReadonlySet<number> | string {
  const days = new Set<number>();
  for (const part of text.split(",")) {
    const names = part.split("-").map((name) => name.trim());
    const [first = -1, last = first] = names.map((name) => DAYS.indexOf(name.toLowerCase()));
    if (names.length > 2 || first < 0 || last < 0) {
      return `\`${part.trim()}\` is not a day or a range of days such as \`Mon-Fri\``;
    }
    for (let day = first; ; day = (day + 1) % 7) {
      days.add(day);
      if (day === last) break;
    }
  }
  return days;
}

const textOf = (node: ASTNode): unknown => (node.op === "value" ? node.args : undefined);
const keyOf = (timeZone: string, hours: string): string => `${timeZone}\n${hours}`;

const NAME = "business_hours";
const EXAMPLE = `${NAME}(now, "Europe/Berlin", "Mon-Fri 09:00-17:00")`;
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const DAY_MINUTES = 1_440;
const HOURS_LENGTH_MAX = 256;
const TEXT_MAX = 80;
/** The offset of a time zone costs some microseconds. */
const CALL_STEPS = 100;
