/**
 * The definition of an experiment, and its execution over several seeds.
 *
 * 1. `run` depends on its seed and its parameters only: no clock, no randomness of its own. The same seed gives the same
 *    JSON document byte for byte: fixed key order, rounded numbers, no wall time.
 * 2. Every seed gives the same rows in the same order. Figures are aggregated over the seeds one by one.
 * 3. Time series are used by charts only and come from the first seed.
 *
 * A new experiment is a folder whose `experiment.ts` calls `experiment({…})`, and a line in `experiments.ts`. These files
 * load on every start of `cordum`, so the simulation is imported inside `run`.
 */
import type { LiveOutcome, LiveSpec } from "./live.ts";
import {
  type NumberParam,
  type ParamTable,
  type ParamValue,
  type RawParams,
  readParams,
  type ValuesOf,
} from "./params.ts";
import type { Chart } from "./report/chart.ts";
import type { TableSpec } from "./report/tables.ts";
import { mean, median, rounded } from "./statistics.ts";

export interface ExperimentSpec<Table extends ParamTable> {
  /** The command: `cordum lab <name>`. */
  readonly name: string;
  /** One line for `--help`. */
  readonly summary: string;
  /** What is simulated and what is measured, in a few sentences. */
  readonly description: string;
  readonly params: Table;
  readonly seedsDefault: number;
  /** How a figure is aggregated over the seeds. */
  readonly centre: "median" | "mean";
  /** Throws when the parameters contradict each other. */
  check?(params: ValuesOf<Table>): void;
  /** Runs one seed. `onProgress` gets the completed share, from 0 to 1. */
  run(seed: number, params: ValuesOf<Table>, onProgress: OnProgress): Promise<readonly Row[]>;
  readonly tables: readonly TableSpec[];
  charts(outcome: Outcome): readonly Chart[];
  /** The main comparisons, one sentence each, with their figures. */
  findings(outcome: Outcome): readonly string[];
  /** How it runs with real processes. Without it, the experiment is simulated only. */
  readonly live?: LiveSpec<Table>;
}

export type OnProgress = (share: number) => void;

/** The measurements of one row with one seed. */
export interface Row {
  /** Identifies the row: `{ policy, clients }`. Equal in every seed. */
  readonly key: RowKey;
  /** Named as in the JSON document: `{ drain_ms, wait_ms: { p50, p95, p99 } }`. null: no samples. */
  readonly figures: Figures;
  readonly series?: Series;
  /** How many times code of simulated processes ran. Used by the calibration of live runs, not reported. */
  readonly steps?: number;
}

export type RowKey = Readonly<Record<string, string | number>>;

export type Series = Readonly<Record<string, readonly number[]>>;

export interface Figures {
  readonly [name: string]: number | null | Figures;
}

/** A row aggregated over all seeds. */
export interface Summary {
  readonly key: RowKey;
  readonly figures: Figures;
  /** Minimum and maximum of each figure; null with one seed. */
  readonly spread: { readonly min: Figures; readonly max: Figures } | null;
  /** Of the first seed. */
  readonly series: Series;
}

export interface Outcome {
  readonly experiment: string;
  readonly seed: number;
  readonly seeds: number;
  readonly centre: "median" | "mean";
  /** By their names in the code. */
  readonly params: Readonly<Record<string, ParamValue>>;
  readonly rows: readonly Summary[];
  readonly live?: LiveOutcome;
}

/** An experiment with its parameter types erased, for the command line and the report. */
export interface Experiment extends Omit<ExperimentSpec<ParamTable>, "run" | "check"> {
  readParams(raw: RawParams): Readonly<Record<string, ParamValue>>;
  runSeed(seed: number, params: Readonly<Record<string, ParamValue>>, onProgress: OnProgress): Promise<readonly Row[]>;
}

export function experiment<const Table extends ParamTable>(spec: ExperimentSpec<Table>): Experiment {
  const { run, check, ...rest } = spec;
  return {
    ...rest,
    readParams: (raw) => {
      const params = readParams(spec.params, raw);
      check?.(params);
      return params;
    },
    // `params` comes from `readParams`.
    runSeed: (seed, params, onProgress) => run(seed, params as ValuesOf<Table>, onProgress),
  };
}

/** Which seeds run, for every experiment. */
export function seedParams(one: Pick<Experiment, "seedsDefault" | "centre">): {
  readonly seed: NumberParam;
  readonly seeds: NumberParam;
} {
  const count = { kind: "number", unit: "", isWhole: true } as const;
  return {
    seed: { ...count, default: 1, min: 0, max: Number.MAX_SAFE_INTEGER - SEEDS_MAX, help: "first seed" },
    seeds: {
      ...count,
      default: one.seedsDefault,
      min: 1,
      max: SEEDS_MAX,
      help: `number of seeds, starting at --seed; figures are the ${one.centre} of them`,
    },
  };
}

const SEEDS_MAX = 10_000;

export interface ExperimentOptions {
  readonly seed: number;
  readonly seeds: number;
  readonly params: Readonly<Record<string, ParamValue>>;
}

export async function runExperiment(
  one: Experiment,
  { seed, seeds, params }: ExperimentOptions,
  onProgress: OnProgress = () => {},
): Promise<Outcome> {
  const histories: (readonly Row[])[] = [];
  // A run throws tens of thousands of expected errors. Their stack traces would take a fifth of the time.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    for (let index = 0; index < seeds; index += 1) {
      const rows = await one.runSeed(seed + index, params, (share) => onProgress((index + share) / seeds));
      // Charts show the first seed only; the other series are dropped to save memory.
      histories.push(index === 0 ? rows : rows.map(({ key, figures }) => ({ key, figures })));
      onProgress((index + 1) / seeds);
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return { experiment: one.name, seed, seeds, centre: one.centre, params, rows: aggregate(histories, one.centre) };
}

/** `figureAt(figures, "wait_ms.p95")`; null where there is none. */
export function figureAt(figures: Figures, path: string): number | null {
  let at: number | null | Figures | undefined = figures;
  for (const name of path.split(".")) {
    if (at === null || at === undefined || typeof at === "number") return null;
    at = at[name];
  }
  return typeof at === "number" ? at : null;
}

/** A figure of a row; 0 where there is none. */
export const figureOf = ({ figures }: Pick<Row, "figures">, path: string): number => figureAt(figures, path) ?? 0;

/** The first row whose key has these values. */
export function findRow<One extends Pick<Row, "key">>(rows: readonly One[], key: Partial<RowKey>): One | undefined {
  return rows.find((row) => Object.entries(key).every(([name, value]) => row.key[name] === value));
}

function aggregate(histories: readonly (readonly Row[])[], centre: Outcome["centre"]): readonly Summary[] {
  const [first = []] = histories;
  const central = centre === "mean" ? mean : median;
  return first.map(({ key, series = {} }, index) => {
    const all = histories.map((rows) => rows[index]!);
    const other = all.find((row) => JSON.stringify(row.key) !== JSON.stringify(key));
    if (other !== undefined) throw new Error(`rows differ between seeds: ${JSON.stringify([key, other.key])}`);
    const figures = all.map((row) => row.figures);
    const spread =
      histories.length === 1
        ? null
        : {
            min: combined(figures, (values) => Math.min(...values)),
            max: combined(figures, (values) => Math.max(...values)),
          };
    return { key, figures: combined(figures, central), spread, series };
  });
}

/** Combines the seeds figure by figure. Seeds without a value for a figure are left out. */
function combined(all: readonly Figures[], combine: (values: readonly number[]) => number): Figures {
  const names = [...new Set(all.flatMap((figures) => Object.keys(figures)))];
  return Object.fromEntries(
    names.map((name): [string, number | null | Figures] => {
      const found = all.map((figures) => figures[name] ?? null).filter((value) => value !== null);
      const numbers = found.filter((value) => typeof value === "number");
      if (numbers.length < found.length) return [name, combined(found.filter(isNested), combine)];
      const wrong = numbers.find((value) => !Number.isFinite(value));
      if (wrong !== undefined) throw new Error(`\`${name}\` is ${wrong}: a figure is a finite number or null`);
      return [name, numbers.length === 0 ? null : rounded(combine(numbers))];
    }),
  );
}

function isNested(value: number | Figures): value is Figures {
  return typeof value !== "number";
}
