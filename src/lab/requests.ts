/** Experiments and simulations as requests: plain data in, plain data out, so that a thread can run them. */
import type { StoredContention } from "../core/contention/acquisition.ts";
import { decodeRecord } from "../core/contention/codec.ts";
import { traceOf } from "../core/contention/trace.ts";
import { type Experiment, runExperiment, seedParams } from "./experiment.ts";
import { EXPERIMENTS } from "./experiments.ts";
import { type Param, ParamError, type ParamTable, type RawParams, readParams, valueText } from "./params.ts";
import { REPLAY_PARAMS, replayExperiment, SUMMARY } from "./replay/experiment.ts";
import { type ReportData, reportData } from "./report/data.ts";

const REPLAY = "replay";
const NO_RECORD =
  "no lock contention was recorded in the last 24 hours; it is recorded a minute after it happens, unless `contention.record` is off";
const NO_LIMITS = { unit: "", min: null, max: null };

/** Parameter values in the syntax of the command line, by name. */
export type ParamTexts = Readonly<Record<string, string | readonly string[]>>;

export interface ExperimentRequest {
  readonly name: string;
  readonly params: ParamTexts;
  /** The recorded contention that `replay` replays. */
  readonly records: readonly StoredContention[];
}

/** A rejected parameter; an empty name: the request as a whole. */
export interface Rejected {
  readonly kind: "rejected";
  readonly param: string;
  readonly detail: string;
}

export async function runRequest({ name, params, records }: ExperimentRequest): Promise<ReportData | Rejected> {
  const trace = name === REPLAY ? traceOf(records.map(decodeRecord)) : null;
  if (trace?.size === 0) return { kind: "rejected", param: "", detail: NO_RECORD };
  const one = trace === null ? experimentNamed(name) : replayExperiment(trace);
  const seeding = seedParams(one);
  const unknown = Object.keys(params).find((name) => !Object.hasOwn({ ...one.params, ...seeding }, name));
  if (unknown !== undefined) return { kind: "rejected", param: unknown, detail: `no parameter \`${unknown}\`` };
  try {
    const { seed, seeds } = readParams(seeding, params as RawParams);
    const outcome = await runExperiment(one, { seed, seeds, params: one.readParams(params as RawParams) });
    return reportData(one, outcome);
  } catch (error) {
    if (error instanceof ParamError) return { kind: "rejected", param: error.param, detail: error.message };
    throw error;
  }
}

function experimentNamed(name: string): Experiment {
  const one = EXPERIMENTS.find((known) => known.name === name);
  if (one === undefined) throw new Error(`no experiment \`${name}\``);
  return one;
}

export interface ExperimentView {
  readonly name: string;
  readonly summary: string;
  readonly needs_record: boolean;
  readonly params: readonly ParamView[];
}

export interface ParamView {
  readonly name: string;
  readonly kind: Param["kind"];
  readonly help: string;
  readonly unit: string;
  /** In the syntax of the command line; one value per row. */
  readonly default: readonly string[];
  readonly min: number | null;
  readonly max: number | null;
  /** Of a choice, or the named rows. */
  readonly choices: readonly { readonly value: string; readonly about: string }[];
}

/** The experiments with their parameters. */
export const EXPERIMENT_VIEWS: readonly ExperimentView[] = [
  ...EXPERIMENTS.map((one) => viewOf(one, one.params)),
  viewOf({ name: REPLAY, summary: SUMMARY, seedsDefault: 1, centre: "median" }, REPLAY_PARAMS),
];

function viewOf(
  { name, summary, ...seeding }: Pick<Experiment, "name" | "summary" | "seedsDefault" | "centre">,
  params: ParamTable,
): ExperimentView {
  const all = Object.entries({ ...params, ...seedParams(seeding) });
  return { name, summary, needs_record: name === REPLAY, params: all.map(([key, param]) => paramView(key, param)) };
}

function paramView(name: string, param: Param): ParamView {
  const { kind, help } = param;
  const limits = "min" in param ? { unit: param.unit, min: param.min, max: param.max } : NO_LIMITS;
  const usual = param.kind === "rows" ? param.default : [valueText(param.default)];
  return { name, kind, help, ...limits, default: usual, choices: choicesOf(param) };
}

function choicesOf(param: Param): ParamView["choices"] {
  if (param.kind === "rows") return Object.entries(param.known).map(([value, about]) => ({ value, about }));
  return param.kind === "choice" ? param.choices.map((value) => ({ value, about: "" })) : [];
}
