import { formatPolicy, parsePolicy, type Random } from "../retry/policies.ts";
import type { PredictedFigures, RolloutPrediction } from "../rollout/rollout.ts";
import { type RolloutSubject, valueInForce, withValue } from "../rollout/subject.ts";
import type { Settings } from "../settings.ts";
import type { ContentionRecord, StoredContention } from "./acquisition.ts";
import { DamagedRecordError, decodeRecord } from "./codec.ts";
import { type ContentionFigures, figuresOf, recordedOutcomes } from "./figures.ts";
import { replay } from "./replay.ts";
import { type ReplayCosts, ReplayLimitError, type Window } from "./replay-options.ts";
import { type ContentionTrace, traceOf } from "./trace.ts";

/** Subjects whose effect is lock contention. Others have no prediction. */
export const isPredictable = (subject: RolloutSubject): boolean =>
  subject === "lock_busy" ||
  subject === "run_lock.engine_wait_ms" ||
  subject === "run_lock.coalesce" ||
  subject === "admission.polled.policy";

/**
 * Predicts a rollout from recorded contention: the value in force and the treatment replayed on the same arrivals. Null
 * without a record, or for a subject that the record says nothing about. Bounded: a large record is sampled by key.
 */
export function predict(
  records: readonly ContentionRecord[],
  settings: Settings,
  subject: RolloutSubject,
  treatment: string,
): RolloutPrediction | null {
  if (!isPredictable(subject)) return null;
  const trace = traceOf(records.map(onlyPathOf(subject)), SAMPLE_MAX);
  if (trace.size === 0) return null;
  try {
    const costs = calibrate(trace, settings);
    const figures = (value: string): PredictedFigures => {
      const replayed = withValue(settings, subject, value);
      return predictedFigures(value, figuresIn(trace, replayed, costs, ATTEMPTS_MAX));
    };
    return {
      ...{ fromMs: trace.fromMs, toMs: trace.toMs },
      acquisitions: Math.round(trace.weight.reduce((sum, weight) => sum + weight, 0)),
      control: figures(valueInForce(settings, subject)),
      treatment: figures(treatment),
    };
  } catch (error) {
    if (error instanceof ReplayLimitError) return null;
    throw error;
  }
}

/** Damaged records are left out. */
export function predictStored(
  stored: readonly StoredContention[],
  settings: Settings,
  subject: RolloutSubject,
  treatment: string,
): RolloutPrediction | null {
  const records = stored.flatMap((one) => {
    try {
      return [decodeRecord(one)];
    } catch (error) {
      if (error instanceof DamagedRecordError) return [];
      throw error;
    }
  });
  return predict(records, settings, subject, treatment);
}

/** The admission lock and the run lock have nothing in common but their record. */
function onlyPathOf(subject: RolloutSubject): (record: ContentionRecord) => ContentionRecord {
  const isAdmission = subject === "admission.polled.policy";
  return (record) => ({
    ...record,
    acquisitions: record.acquisitions.filter(({ path }) => (path === "admission") === isAdmission),
  });
}

function predictedFigures(policy: string, figures: ContentionFigures): PredictedFigures {
  const { busyRetries, firstRetrySuccess, waitMs, latencyMs } = figures;
  return { policy, busyRetries: Math.round(busyRetries), firstRetrySuccess, waitMs, latencyMs };
}

/** Figures of a replay without a chart. */
export function figuresIn(
  trace: ContentionTrace,
  settings: Settings,
  costs: ReplayCosts,
  attemptsMax: number,
): ContentionFigures {
  const random = seededRandom(SEED);
  return figuresOf(trace, replay(trace, { settings, costs, random, window: NO_WINDOW, attemptsMax }));
}

/**
 * Fits the spread of the lateness of retries: with it, a replay of the recorded settings needs as many attempts as were
 * recorded. It is what separates retries of equal delays, and differs between machines and brokers. Jittered delays hide
 * it, so there is nothing to fit and it has its default.
 */
export function calibrate(trace: ContentionTrace, settings: Settings): ReplayCosts {
  const { inForce, costs } = trace;
  const usual = { ...costs, returnSpread: SPREAD_DEFAULT };
  if (inForce === null || parsePolicy(inForce.lockBusyPolicy).kind !== "fixed") return usual;
  const { lockBusyPolicy, engineWaitMs, coalesce } = inForce;
  const recorded = figuresOf(trace, recordedOutcomes(trace)).busyRetries;
  if (recorded < RETRIES_MIN) return usual;
  const recordedSettings: Settings = {
    ...withValue(settings, "lock_busy", formatPolicy(parsePolicy(lockBusyPolicy))),
    runLock: { ...settings.runLock, engineWaitMs, coalesce },
  };
  const retriesWith = (returnSpread: number): number =>
    figuresIn(trace, recordedSettings, { ...costs, returnSpread }, ATTEMPTS_MAX).busyRetries;
  // More spread, fewer retries.
  let [low, high] = [SPREAD_MIN, SPREAD_MAX];
  for (let step = 0; step < FIT_STEPS; step++) {
    const middle = Math.sqrt(low * high);
    if (retriesWith(middle) > recorded) low = middle;
    else high = middle;
  }
  return { ...costs, returnSpread: Math.sqrt(low * high) };
}

/** A small seeded generator: a multiplicative counter with an avalanche. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e37_79b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85eb_ca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}

const SEED = 1;
const NO_WINDOW: Window = { fromMs: 0, binMs: 1, bins: 0 };
/** Acquisitions of a prediction. */
const SAMPLE_MAX = 4_000;
const ATTEMPTS_MAX = 400_000;
const SPREAD_DEFAULT = 0.1;
const [SPREAD_MIN, SPREAD_MAX] = [0.01, 100];
const FIT_STEPS = 8;
const RETRIES_MIN = 100;
