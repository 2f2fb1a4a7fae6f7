/**
 * `cordum lab replay`: recorded lock contention under other retry policies (`core/contention/`). `report.ts` describes the
 * figures, `trace-file.ts` reads and writes exported records.
 */
import { settingsFrom } from "../../config/config.ts";
import {
  busiestWindow,
  type ContentionFigures,
  figuresOf,
  type Outcomes,
  recordedOutcomes,
} from "../../core/contention/figures.ts";
import { calibrate, seededRandom } from "../../core/contention/predict.ts";
import { replay } from "../../core/contention/replay.ts";
import { type ReplayCosts, ReplayLimitError } from "../../core/contention/replay-options.ts";
import type { ContentionTrace } from "../../core/contention/trace.ts";
import type { Settings } from "../../core/settings.ts";
import { type Experiment, experiment, type Figures, type Row } from "../experiment.ts";
import { decimal, type ParamTable, type ValuesOf } from "../params.ts";
import { type Column, column } from "../report/tables.ts";
import { binned, maxOf, mean, rounded, sampled } from "../statistics.ts";
import { replayCharts, replayFindings } from "./report.ts";

export const RECORDED = "recorded";

const KNOWN_ROWS = {
  in_force: "the settings in force when the record ends",
  baseline: "the profile `baseline`: `fixed:500ms`, no lock queue, one commit per result",
  hand_over: "one commit per result, up to 60 s in the lock queue",
  default: "the default settings",
} as const;

type KnownRow = keyof typeof KNOWN_ROWS;

export const REPLAY_PARAMS = {
  policies: {
    kind: "rows",
    default: ["in_force"],
    known: KNOWN_ROWS,
    help: "rows to replay, repeatable; a retry policy replaces the one in force",
  },
  lock: {
    kind: "choice",
    choices: ["in_force", "off"],
    default: "in_force",
    help: "lock queue and coalescing of rows that are a retry policy; off: each result tries the lock once per delivery",
  },
  binMs: decimal({ unit: "ms", default: 50, min: 1, max: 60_000, help: "bin width of arrival counts" }),
} as const satisfies ParamTable;

type ReplayParams = ValuesOf<typeof REPLAY_PARAMS>;

const POLICY = [{ key: "policy", header: "row" }] as const;

const WORK_COLUMNS: readonly Column[] = [
  column("acquisitions", "acquisitions"),
  column("busy_retries", "retries", "", "least"),
  column("attempts_per_acquisition", "attempts/acquisition", "", "least"),
  column("first_retry_success", "first-retry success", "", "most"),
  column("drain_ms.p50", "drain time p50", "ms", "least"),
  column("drain_ms.p95", "p95", "ms", "least"),
  column("drain_ms.max", "max", "ms", "least"),
  column("refused", "refused", "", "least"),
];

const WAIT_COLUMNS: readonly Column[] = [
  column("wait_ms.p50", "lock wait p50", "ms", "least"),
  column("wait_ms.p95", "p95", "ms", "least"),
  column("wait_ms.p99", "p99", "ms", "least"),
  column("result_latency_ms.p50", "result latency p50", "ms", "least"),
  column("result_latency_ms.p95", "p95", "ms", "least"),
  column("result_latency_ms.p99", "p99", "ms", "least"),
];

/** The experiment on one record. Its command reads the record, so it is not in the list of experiments. */
export function replayExperiment(trace: ContentionTrace): Experiment {
  return experiment({
    name: "replay",
    summary: SUMMARY,
    description:
      "Each process records the lock acquisitions that met another one on the same key. The replay takes their first attempts " +
      "and hold times, and lets the retries follow from other settings, on virtual time, with the retry policies, budgets, " +
      "parking and batches of the engine. The row `recorded` is what happened. Arrivals do not depend on the policy, so " +
      "work that starts after a result arrives as recorded.",
    params: REPLAY_PARAMS,
    seedsDefault: 1,
    centre: "median",
    run: async (seed, params, onProgress) => runRows(trace, seed, params, onProgress),
    tables: [
      { kind: "rows", title: "retries and drain time", keys: POLICY, columns: WORK_COLUMNS },
      { kind: "rows", title: "lock wait and result latency", keys: POLICY, columns: WAIT_COLUMNS },
    ],
    charts: replayCharts,
    findings: replayFindings,
  });
}

export const SUMMARY = "replay recorded lock contention under other retry policies: retries, lock wait and latency";

function runRows(
  trace: ContentionTrace,
  seed: number,
  { policies, lock, binMs }: ReplayParams,
  onProgress: (share: number) => void,
): readonly Row[] {
  const inForce = settingsInForce(trace);
  const costs = calibrate(trace, inForce);
  const window = busiestWindow(trace, binMs, BINS_MAX);
  const recorded = recordedOutcomes(trace);
  const firstMs = [...trace.arrivedMs.subarray(lowerBound(trace.arrivedMs, window.fromMs))];
  const rows = [rowOf(RECORDED, trace, recorded, binned(firstMs, binMs, window.fromMs).slice(0, BINS_MAX), binMs)];
  for (const [at, policy] of policies.entries()) {
    const settings = settingsOf(policy, inForce, lock === "off");
    const replayed = replayWithin(trace, settings, costs, { seed, window, policy });
    rows.push(rowOf(policy, trace, replayed, trimmed(replayed.arrivals), binMs));
    onProgress((at + 1) / policies.length);
  }
  return rows;
}

function replayWithin(
  trace: ContentionTrace,
  settings: Settings,
  costs: ReplayCosts,
  { seed, window, policy }: { seed: number; window: ReturnType<typeof busiestWindow>; policy: string },
) {
  try {
    return replay(trace, { settings, costs, random: seededRandom(seed), window, attemptsMax: ATTEMPTS_MAX });
  } catch (error) {
    if (!(error instanceof ReplayLimitError)) throw error;
    const message = `\`${policy}\` needs more than ${ATTEMPTS_MAX} attempts on this record; replay a shorter one, with --last`;
    throw new Error(message);
  }
}

/** The settings of the record; the rest has defaults. */
export function settingsInForce({ inForce }: ContentionTrace): Settings {
  if (inForce === null) return settingsFrom({});
  return settingsFrom({
    "retry.lock_busy.policy": inForce.lockBusyPolicy,
    "run_lock.engine_wait_ms": inForce.engineWaitMs,
    "run_lock.coalesce": String(inForce.coalesce),
  });
}

function settingsOf(row: string, inForce: Settings, isLockOff: boolean): Settings {
  switch (row as KnownRow) {
    case "in_force":
      return inForce;
    case "baseline":
      return settingsFrom({ profile: "baseline" });
    case "hand_over":
      return settingsFrom({ "run_lock.coalesce": "false", "run_lock.engine_wait_ms": ENGINE_WAIT_MS_MAX });
    case "default":
      return settingsFrom({});
    default: {
      const { engineWaitMs, coalesce } = isLockOff ? { engineWaitMs: 0, coalesce: false } : inForce.runLock;
      return settingsFrom({
        "retry.lock_busy.policy": row,
        "run_lock.engine_wait_ms": engineWaitMs,
        "run_lock.coalesce": String(coalesce),
      });
    }
  }
}

function rowOf(
  policy: string,
  trace: ContentionTrace,
  outcomes: Outcomes,
  arrivals: readonly number[],
  binMs: number,
): Row {
  const figures = figuresDocument(figuresOf(trace, outcomes), arrivals, binMs);
  return { key: { policy }, figures, series: { arrivals, latencies_ms: sampled([...outcomes.latencyMs]) } };
}

function figuresDocument(figures: ContentionFigures, arrivals: readonly number[], binMs: number): Figures {
  return {
    acquisitions: figures.acquisitions,
    busy_retries: figures.busyRetries,
    attempts_per_acquisition: figures.attemptsPerAcquisition,
    first_retry_success: figures.firstRetrySuccess,
    drain_ms: { ...figures.drainMs },
    wait_ms: { ...figures.waitMs },
    result_latency_ms: { ...figures.latencyMs },
    arrivals: arrivals.length === 0 ? null : { bin_ms: binMs, peak: maxOf(arrivals), mean: rounded(mean(arrivals)) },
    refused: figures.refused,
  };
}

/** Without the empty bins at the end. */
function trimmed(counts: readonly number[]): readonly number[] {
  let length = counts.length;
  while (length > 0 && counts[length - 1] === 0) length -= 1;
  return counts.slice(0, length);
}

function lowerBound(sorted: Float64Array, value: number): number {
  const at = sorted.findIndex((one) => one >= value);
  return at < 0 ? sorted.length : at;
}

const ENGINE_WAIT_MS_MAX = 60_000;
/** A minute of the default bins. */
const BINS_MAX = 1_200;
const ATTEMPTS_MAX = 30_000_000;
