import type { Setting } from "../../../../src/client/schema.ts";
import { bytes, count, duration } from "../../kit/numbers.ts";

/** A value with its unit: `30 s`, `1 MB`, `10 runs`; the number itself if it was rounded. */
export function valueText({ unit, range }: Pick<Setting, "unit" | "range">, value: Setting["value"]): string {
  if (value === null || value === "") return range.includes("`never`") ? "never" : "not set";
  if (typeof value === "string") return value;
  switch (unit) {
    case "ms":
      return withExact(duration(value), value, "ms");
    case "bytes":
      return withExact(bytes(value), value, "B");
    case "percent":
      return `${value} %`;
    case "port":
    case null:
      return String(value);
    default:
      return `${count(value)} ${unit}`;
  }
}

function withExact(text: string, value: number, unit: string): string {
  const exact = `${count(value)} ${unit}`;
  return text.replace("\u00a0", " ") === exact ? exact : `${text} (${exact})`;
}
