/**
 * What an experiment is, and how it is run over several seeds.
 *
 * 1. `run` is a function of its seed and its params: no clock, no chance of its own. The document that comes out is the
 *    same byte for byte: keys in the order they are written down, numbers rounded, no wall time in it.
 * 2. Each seed gives the same rows in the same order; a row's figures are summed up over the seeds, one by one.
 * 3. Series (what happened when) are for pictures. They are those of the first seed: a mean of waves is no wave.
 *
 * To add one: a file like `occ.ts` that calls `experiment({…})`, and a line in `experiments.ts`. That file is read whenever
 * `cordum` starts, so it imports what it simulates in `run`, and not before.
 */
import type { LiveOutcome, LiveSpec } from "./live.ts";
import { type ParamTable, type ParamValue, type RawParams, readParams, type ValuesOf } from "./params.ts";
import type { Chart } from "./report/picture.ts";
import type { TableSpec } from "./report/tables.ts";
import { mean, median, rounded } from "./statistics.ts";

/** As it is written. `Table` is taken from `params`. */
export interface ExperimentSpec<Table extends ParamTable> {
  /** The command: `cordum lab <name>`. */
  readonly name: string;
  /** One line for `--help`. */
  readonly summary: string;
  /** What it asks and how it answers, in a few sentences for somebody who has never heard of it. */
  readonly description: string;
  readonly params: Table;
  readonly seedsDefault: number;
  /** What one figure of several seeds is. */
  readonly centre: "median" | "mean";
  /** Throws when the params do not fit each other. */
  check?(params: ValuesOf<Table>): void;
  /** One history. `note` says how far it has come, from 0 to 1. */
  run(seed: number, params: ValuesOf<Table>, note: (share: number) => void): Promise<readonly Row[]>;
  readonly tables: readonly TableSpec[];
  charts(outcome: Outcome): readonly Chart[];
  /** What is to be learned, one sentence each; with the figures that say so. */
  findings(outcome: Outcome): readonly string[];
  /** How it is run with real processes; without, it is under virtual time only. */
  readonly live?: LiveSpec<Table>;
}

/** What one row measured in one history. */
export interface Row {
  /** What tells it from the others: `{ policy, clients }`. The same in every seed. */
  readonly key: Readonly<Record<string, string | number>>;
  /** Named as in the document: `{ drain_ms, wait_ms: { p50, p95, p99 } }`. null: nothing to measure. */
  readonly figures: Figures;
  /** What happened when, for pictures. */
  readonly series?: Readonly<Record<string, readonly number[]>>;
  /** How often code of simulated processes ran meanwhile, where a live run asks. No figure: nobody is shown it. */
  readonly steps?: number;
}

export interface Figures {
  readonly [name: string]: number | null | Figures;
}

/** A row of all seeds. */
export interface Summary {
  readonly key: Row["key"];
  readonly figures: Figures;
  /** The least and the most of each figure; null with one seed. */
  readonly spread: { readonly min: Figures; readonly max: Figures } | null;
  /** Of the first seed. */
  readonly series: Readonly<Record<string, readonly number[]>>;
}

export interface Outcome {
  readonly experiment: string;
  readonly seed: number;
  readonly seeds: number;
  readonly centre: "median" | "mean";
  /** By their names in the code. */
  readonly params: Readonly<Record<string, ParamValue>>;
  readonly rows: readonly Summary[];
  /** The same with real processes. */
  readonly live?: LiveOutcome;
}

/** An experiment of whatever params: what the command line and the report work with. */
export interface Experiment extends Omit<ExperimentSpec<ParamTable>, "run" | "check"> {
  readParams(typed: RawParams): Readonly<Record<string, ParamValue>>;
  runSeed(
    seed: number,
    params: Readonly<Record<string, ParamValue>>,
    note: (share: number) => void,
  ): Promise<readonly Row[]>;
}

export function experiment<const Table extends ParamTable>(spec: ExperimentSpec<Table>): Experiment {
  const { run, check, ...rest } = spec;
  return {
    ...rest,
    readParams: (typed) => {
      const params = readParams(spec.params, typed);
      check?.(params);
      return params;
    },
    // Whatever comes in has been through `read`, or through the types of whoever calls.
    runSeed: (seed, params, note) => run(seed, params as ValuesOf<Table>, note),
  };
}

export interface ExperimentOptions {
  readonly seed: number;
  readonly seeds: number;
  readonly params: Readonly<Record<string, ParamValue>>;
}

export async function runExperiment(
  one: Experiment,
  { seed, seeds, params }: ExperimentOptions,
  note: (share: number) => void = () => {},
): Promise<Outcome> {
  const histories: (readonly Row[])[] = [];
  // Errors by the ten thousand, all expected and soon forgotten: a stack for each would take a fifth of the time.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    for (let index = 0; index < seeds; index += 1) {
      const rows = await one.runSeed(seed + index, params, (share) => note((index + share) / seeds));
      // Only the first seed is drawn; the others' series would only fill the memory.
      histories.push(index === 0 ? rows : rows.map(({ key, figures }) => ({ key, figures })));
      note((index + 1) / seeds);
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return { experiment: one.name, seed, seeds, centre: one.centre, params, rows: summed(histories, one.centre) };
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

function summed(histories: readonly (readonly Row[])[], centre: Outcome["centre"]): readonly Summary[] {
  const [first = []] = histories;
  const sumUp = centre === "mean" ? mean : median;
  return first.map(({ key, series = {} }, index) => {
    const all = histories.map((rows) => rows[index]!);
    const strange = all.find((row) => JSON.stringify(row.key) !== JSON.stringify(key));
    if (strange !== undefined) throw new Error(`rows differ between seeds: ${JSON.stringify([key, strange.key])}`);
    const figures = all.map((row) => row.figures);
    const spread =
      histories.length === 1
        ? null
        : {
            min: combined(figures, (values) => Math.min(...values)),
            max: combined(figures, (values) => Math.max(...values)),
          };
    return { key, figures: combined(figures, sumUp), spread, series };
  });
}

/** Figure by figure. One that some seeds could not measure is summed up over the others. */
function combined(all: readonly Figures[], sumUp: (values: readonly number[]) => number): Figures {
  const names = [...new Set(all.flatMap((figures) => Object.keys(figures)))];
  return Object.fromEntries(
    names.map((name): [string, number | null | Figures] => {
      const found = all.map((figures) => figures[name] ?? null).filter((value) => value !== null);
      const numbers = found.filter((value) => typeof value === "number");
      if (numbers.length < found.length) return [name, combined(found.filter(isNested), sumUp)];
      const wrong = numbers.find((value) => !Number.isFinite(value));
      if (wrong !== undefined) throw new Error(`\`${name}\` is ${wrong}: a figure is a finite number, or null`);
      return [name, numbers.length === 0 ? null : rounded(sumUp(numbers))];
    }),
  );
}

function isNested(value: number | Figures): value is Figures {
  return typeof value !== "number";
}
