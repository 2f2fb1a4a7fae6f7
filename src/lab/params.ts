/**
 * The parameters of an experiment. The flag, its help, the JSON field and the parameter table of the report are derived
 * from one description: `holdMs` is the flag `--hold-ms` and the field `hold_ms`.
 */
import { parsePolicy } from "../core/retry/policies.ts";

export type Param =
  | NumberParam
  /** A comma-separated list such as `10,20,30`. Each number adds rows of results. */
  | (Limits & { readonly kind: "numbers"; readonly default: readonly number[]; readonly help: string })
  | RowsParam
  | { readonly kind: "choice"; readonly default: string; readonly choices: readonly string[]; readonly help: string };

export interface NumberParam extends Limits {
  readonly kind: "number";
  readonly default: number;
  readonly help: string;
}

export interface Limits {
  /** Printed after the number: `ms`, `jobs/s`. Empty for a count. */
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly isWhole: boolean;
}

/** The rows of the result table: named rows, or retry policies in config syntax. The flag is `--policy`. */
export interface RowsParam {
  readonly kind: "rows";
  readonly default: readonly string[];
  /** Row name → description. */
  readonly known: Readonly<Record<string, string>>;
  readonly help: string;
}

export type ParamTable = Readonly<Record<string, Param>>;

export type ParamValue = number | string | readonly number[] | readonly string[];

export type ValuesOf<Table extends ParamTable> = { readonly [Name in keyof Table]: ValueOf<Table[Name]> };

type ValueOf<One extends Param> = One extends { kind: "number" }
  ? number
  : One extends { kind: "numbers" }
    ? readonly number[]
    : One extends { kind: "rows" }
      ? readonly string[]
      : string;

type NumberSpec<Default> = Omit<Limits, "isWhole" | "unit"> & {
  readonly default: Default;
  readonly unit?: string;
  readonly help: string;
};

export const whole = ({ unit = "", ...spec }: NumberSpec<number>): NumberParam => ({
  ...{ ...spec, kind: "number", unit, isWhole: true },
});

export const decimal = ({ unit = "", ...spec }: NumberSpec<number>): NumberParam => ({
  ...{ ...spec, kind: "number", unit, isWhole: false },
});

export const wholes = ({ unit = "", ...spec }: NumberSpec<readonly number[]>) => {
  return { ...spec, kind: "numbers", unit, isWhole: true } as const;
};

/** Command-line values by parameter name: lists for `rows`, strings for the rest. A missing one has its default. */
export type RawParams = Readonly<Record<string, string | readonly string[] | boolean | undefined>>;

/** A rejected parameter. The message has the flag, the rejected value and the accepted values. */
export class ParamError extends Error {
  override readonly name = "ParamError";
  readonly param: string;

  constructor(param: string, message: string) {
    super(message);
    this.param = param;
  }
}

/** Throws a `ParamError`. */
export function readParams<Table extends ParamTable>(table: Table, raw: RawParams): ValuesOf<Table> {
  const values = Object.entries(table).map(([name, param]): [string, ParamValue] => {
    const given = raw[name];
    if (given === undefined || typeof given === "boolean") return [name, param.default];
    return [name, read(name, param, [given].flat())];
  });
  return Object.fromEntries(values) as ValuesOf<Table>;
}

/** `holdMs` → `--hold-ms`. */
export function flagOf(name: string, param?: Param): string {
  return param?.kind === "rows" ? "--policy" : `--${snake(name).replaceAll("_", "-")}`;
}

/** `holdMs` → `hold_ms`. */
function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`);
}

export function paramsDocument(values: Readonly<Record<string, ParamValue>>): Record<string, ParamValue> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [snake(name), value]));
}

/** The value in command-line syntax. */
export function valueText(value: ParamValue): string {
  return Array.isArray(value) ? value.join(",") : String(value);
}

function read(name: string, param: Param, texts: readonly string[]): ParamValue {
  const [text = ""] = texts.slice(-1);
  switch (param.kind) {
    case "number":
      return readNumber(name, param, text);
    case "numbers": {
      const numbers = text.split(",").map((part) => readNumber(name, param, part.trim()));
      return [...new Set(numbers)].sort((a, b) => a - b);
    }
    case "rows":
      return [...new Set(texts.map((row) => readRow(name, param, row)))];
    case "choice":
      if (param.choices.includes(text)) return text;
      throw new ParamError(name, `${flagOf(name)} \`${text}\`: choose one of ${param.choices.join(", ")}`);
    default:
      return param satisfies never;
  }
}

function readNumber(name: string, { min, max, unit, isWhole }: Limits, text: string): number {
  const number = /^\d{1,15}(\.\d{1,6})?$/.test(text) ? Number(text) : Number.NaN;
  if (number >= min && number <= max && (!isWhole || Number.isInteger(number))) return number;
  const range = `${isWhole ? "a whole number" : "a number"} from ${min} to ${max}${unit === "" ? "" : ` ${unit}`}`;
  throw new ParamError(name, `${flagOf(name)} \`${text}\`: give ${range}`);
}

function readRow(name: string, param: RowsParam, text: string): string {
  const { known } = param;
  if (Object.hasOwn(known, text)) return text;
  try {
    parsePolicy(text);
    return text;
  } catch (error) {
    const choices = Object.keys(known).join(", ");
    throw new ParamError(name, `${flagOf(name, param)}: ${(error as Error).message}; or choose one of ${choices}`);
  }
}
