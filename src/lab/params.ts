/**
 * The knobs of an experiment. Each has a default, a unit and limits; the flag, the help, the JSON document and the
 * report are made from this one description: `holdMs` is the flag `--hold-ms` and the member `hold_ms`.
 */
import { parsePolicy } from "../core/retry/policies.ts";

export type Param =
  | NumberParam
  /** Several numbers, `10,20,30`: a row of results for each. */
  | (Limits & { readonly kind: "numbers"; readonly default: readonly number[]; readonly help: string })
  /** Rows by name, or a retry policy as it is written in the config. */
  | RowsParam
  | { readonly kind: "choice"; readonly default: string; readonly choices: readonly string[]; readonly help: string }
  | { readonly kind: "flag"; readonly default: false; readonly help: string };

export interface NumberParam extends Limits {
  readonly kind: "number";
  readonly default: number;
  readonly help: string;
}

export interface Limits {
  /** As it stands behind a number: `ms`, `jobs/s`; empty for a count. */
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly isWhole: boolean;
}

export interface RowsParam {
  readonly kind: "rows";
  /** Always `policy`, so that every experiment spells the flag the same. */
  readonly flag: "--policy";
  readonly default: readonly string[];
  /** Name → what it is, for people. */
  readonly known: Readonly<Record<string, string>>;
  /** Whether a policy such as `bounded:500ms:0.3` is a row, too. */
  readonly takesPolicies: boolean;
  readonly help: string;
}

export type ParamTable = Readonly<Record<string, Param>>;

export type ParamValue = number | string | boolean | readonly number[] | readonly string[];

/** The values that a table of params stands for. */
export type ValuesOf<Table extends ParamTable> = { readonly [Name in keyof Table]: ValueOf<Table[Name]> };

type ValueOf<One extends Param> = One extends { kind: "number" }
  ? number
  : One extends { kind: "numbers" }
    ? readonly number[]
    : One extends { kind: "rows" }
      ? readonly string[]
      : One extends { kind: "choice" }
        ? string
        : boolean;

/** What somebody typed: texts, lists of texts for `rows`, true for a flag. Whatever is missing has its default. */
export type Typed = Readonly<Record<string, string | readonly string[] | boolean | undefined>>;

/** Throws with the flag and what it takes. */
export function readParams<Table extends ParamTable>(table: Table, typed: Typed): ValuesOf<Table> {
  const values = Object.entries(table).map(([name, param]): [string, ParamValue] => {
    const given = typed[name];
    if (given === undefined || given === false) return [name, param.default];
    return [name, read(flagOf(name, param), param, given === true ? [] : [given].flat())];
  });
  return Object.fromEntries(values) as ValuesOf<Table>;
}

/** `holdMs` → `--hold-ms`. */
export function flagOf(name: string, param?: Param): string {
  return param?.kind === "rows" ? param.flag : `--${snake(name).replaceAll("_", "-")}`;
}

/** `holdMs` → `hold_ms`. */
export function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`);
}

/** As it stands in the document and on the page, in the order of the table. */
export function paramsDocument(values: Readonly<Record<string, ParamValue>>): Record<string, ParamValue> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [snake(name), value]));
}

/** Written as it would be typed. */
export function valueText(value: ParamValue): string {
  return Array.isArray(value) ? value.join(",") : String(value);
}

function read(flag: string, param: Param, texts: readonly string[]): ParamValue {
  const [text = ""] = texts.slice(-1);
  switch (param.kind) {
    case "number":
      return readNumber(flag, param, text);
    case "numbers": {
      const numbers = text.split(",").map((part) => readNumber(flag, param, part.trim()));
      return [...new Set(numbers)].sort((a, b) => a - b);
    }
    case "rows":
      return [...new Set(texts.map((row) => readRow(flag, param, row)))];
    case "choice":
      if (param.choices.includes(text)) return text;
      throw new Error(`${flag} \`${text}\`: choose one of ${param.choices.join(", ")}`);
    case "flag":
      return true;
    default:
      return param satisfies never;
  }
}

function readNumber(flag: string, { min, max, unit, isWhole }: Limits, text: string): number {
  const number = /^\d{1,15}(\.\d{1,6})?$/.test(text) ? Number(text) : Number.NaN;
  if (number >= min && number <= max && (!isWhole || Number.isInteger(number))) return number;
  const range = `${isWhole ? "a whole number" : "a number"} from ${min} to ${max}${unit === "" ? "" : ` ${unit}`}`;
  throw new Error(`${flag} \`${text}\`: give ${range}`);
}

function readRow(flag: string, { known, takesPolicies }: RowsParam, text: string): string {
  if (Object.hasOwn(known, text)) return text;
  const names = Object.keys(known).join(", ");
  if (!takesPolicies) throw new Error(`${flag} \`${text}\`: choose among ${names}`);
  try {
    parsePolicy(text);
    return text;
  } catch (error) {
    throw new Error(`${flag}: ${(error as Error).message}; or choose among ${names}`);
  }
}
