/** Time zones of the IANA database, by `Intl`. */

/** Null if the time zone is unknown. */
export function timeZoneProblem(timeZone: string): string | null {
  if (timeZone.length <= NAME_LENGTH_MAX && /^[A-Za-z][\w+\-/]*$/.test(timeZone)) {
    try {
      formatOf(timeZone);
      return null;
    } catch {
      // An unknown name.
    }
  }
  return "is not a time zone of the IANA database; write a name such as `UTC` or `Europe/Berlin`";
}

/** The offset from UTC at an instant, in milliseconds. */
export function offsetsOf(timeZone: string): (ms: number) => number {
  if (timeZone === "UTC") return () => 0;
  const format = formatOf(timeZone);
  return (ms) => {
    const [, sign, hours, minutes = "0", seconds = "0"] =
      /GMT([+-])(\d\d):?(\d\d)?:?(\d\d)?$/.exec(format.format(ms)) ?? [];
    const size = (Number(hours ?? 0) * 60 + Number(minutes)) * 60_000 + Number(seconds) * 1_000;
    return sign === "-" ? -size : size;
  };
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = FORMATS.get(timeZone);
  if (known) return known;
  const format = new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset", year: "numeric" });
  if (FORMATS.size >= FORMATS_MAX) FORMATS.clear();
  FORMATS.set(timeZone, format);
  return format;
}

/** There are about 600 names, in any case. */
const FORMATS = new Map<string, Intl.DateTimeFormat>();
const FORMATS_MAX = 1_000;
const NAME_LENGTH_MAX = 200;
