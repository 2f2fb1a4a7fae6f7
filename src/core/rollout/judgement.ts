/**
 * The anytime-valid judgement of a rollout.
 *
 * Units arrive in the order of their start and form blocks. The score of a unit is in [0, 1] (`score.ts`). A block gives one
 * difference per gate: the mean score of its treatment units minus that of its control units. The differences are bets against
 * "the gate holds" and, shifted by `PROOF_MARGIN`, against "the treatment is worse than the margin" (`e-value.ts`).
 *
 * 1. Scales come from the previous window of control units and change between blocks only. Given everything before a block,
 *    the scores of its units under either arm are fixed and only the arms are random, so the mean of its difference is at most
 *    0 while the gate holds. This needs no assumption on the distribution of units, their order or their trend.
 * 2. All units of a block were enrolled in one stage: with equal shares every choice of treatment units is equally likely.
 * 3. The units of a switched rollout that start in one time block share an arm. They count as one, with their mean score.
 * 4. The state depends on the units only, not on how they are split into calls.
 *
 * Breach: the mean of the e-values of the gates reaches 1/α, over all stages. Proof: the e-value of every gate reaches 1/α
 * within the current stage. A breach is final.
 */
import type { Arm } from "./arm.ts";
import { bet, type Capital, eValueOf, NO_BETS } from "./e-value.ts";
import { formatGate, type Gate, judgedGates } from "./gate.ts";
import { addDifference, type MeanState, NO_MEAN } from "./interval.ts";
import type { Rollout } from "./rollout.ts";
import { type MeasuredUnit, type Scale, scaleOf, scoreOf, type WindowEntry, windowEntryOf } from "./score.ts";
import { addToSeries, armPoint, NO_SERIES, type Series } from "./series.ts";
import { type ArmTally, addToTally, describeGate, NO_TALLY } from "./tally.ts";

export type { MeasuredUnit } from "./score.ts";

/** Stored as JSON. Its size is bounded: at most 150 KB. */
export interface Judgement {
  readonly gates: readonly GateTest[];
  readonly arms: Readonly<Record<Arm, ArmTally>>;
  /** The last unit that was judged, and its stage. */
  readonly cursor: UnitPosition | null;
  readonly stage: number;
  /** The start of the first unit. */
  readonly firstMs: number;
  /** Control units since the scales were set, by gate. */
  readonly window: readonly (readonly WindowEntry[])[];
  /** By gate; null before the end of the first window. */
  readonly scales: readonly (Scale | null)[] | null;
  readonly block: Block;
  /** The units of the current time block of a switched rollout (3). */
  readonly cluster: Cluster | null;
  /** Completed blocks. */
  readonly blocks: number;
  readonly series: Series;
  readonly breach: Breach | null;
}

export interface UnitPosition {
  readonly startMs: number;
  readonly id: string;
}

export interface GateTest {
  /** As in `formatGate`. */
  readonly gate: string;
  readonly breach: Capital;
  /** Of the current stage. */
  readonly proof: Capital;
  readonly proofBlocks: number;
  readonly isProved: boolean;
  /** Blocks that gave a difference. */
  readonly blocks: number;
  readonly difference: MeanState;
}

interface Block {
  /** Units, or time blocks of a switched rollout. */
  readonly size: number;
  /** Sums of scores by arm and gate. */
  readonly sums: Readonly<Record<Arm, readonly ScoreSum[]>>;
}

interface ScoreSum {
  readonly count: number;
  readonly sum: number;
}

interface Cluster {
  readonly key: number;
  readonly arm: Arm;
  readonly stage: number;
  /** False: the scales were set during this time block, so a part of it is missing. */
  readonly isWhole: boolean;
  readonly scores: readonly ScoreSum[];
}

export interface Breach {
  readonly gate: string;
  readonly reason: string;
  readonly atMs: number;
}

/** The part of a rollout that decides its verdict. */
export type JudgedRollout = Pick<Rollout, "gates" | "shares" | "stage" | "horizonMs" | "switchMs" | "alpha">;

export type Verdict =
  | { readonly kind: "none" }
  | { readonly kind: "breach"; readonly gate: string; readonly reason: string }
  /** Every gate is proved in the current stage of the rollout. */
  | { readonly kind: "proved" };

/** A proved gate is met, or missed by less than this share of the range of scores. */
export const PROOF_MARGIN = 0.05;
/** Control units per window. */
export const WINDOW_UNITS = 100;

export function newJudgement({ gates }: Pick<JudgedRollout, "gates">): Judgement {
  const tests = judgedGates(gates).map(
    (gate): GateTest => ({
      gate: formatGate(gate),
      ...{ breach: NO_BETS, proof: NO_BETS, proofBlocks: 0, isProved: false, blocks: 0, difference: NO_MEAN },
    }),
  );
  return {
    gates: tests,
    arms: { control: NO_TALLY, treatment: NO_TALLY },
    ...{ cursor: null, stage: 0, firstMs: 0, scales: null, cluster: null, blocks: 0, breach: null },
    window: tests.map(() => []),
    block: emptyBlock(tests.length),
    series: NO_SERIES,
  };
}

/** The number of units in a block: about two of the smaller arm. Shares such as 1 - 0.9 are not exact. */
export const blockSizeOf = (share: number): number => Math.ceil(2 / Math.min(share, 1 - share) - 1e-9);

/**
 * Judges more units. They are in the order of start and id; units up to the cursor are skipped, and units from the first one
 * whose horizon has not ended are left for a later call.
 */
export function judge(
  rollout: JudgedRollout,
  judgement: Judgement,
  units: readonly MeasuredUnit[],
  nowMs: number,
): { readonly judgement: Judgement; readonly verdict: Verdict } {
  const draft = copyOf(judgement) as Draft<Judgement>;
  const judged = judgedGates(rollout.gates);
  for (const unit of units) {
    if (unit.startMs + rollout.horizonMs > nowMs) break;
    if (draft.cursor !== null && !isAfter(unit, draft.cursor)) continue;
    addUnit({ rollout, judged, draft }, unit);
  }
  return { judgement: draft, verdict: verdictOf(rollout, draft) };
}

export function verdictOf({ stage }: Pick<JudgedRollout, "stage">, { breach, gates, ...at }: Judgement): Verdict {
  if (breach !== null) return { kind: "breach", gate: breach.gate, reason: breach.reason };
  // Units of an earlier stage arrive until the horizon of its last one ends.
  return at.stage === stage && gates.every(({ isProved }) => isProved) ? { kind: "proved" } : { kind: "none" };
}

/** The e-value that rolls back at 1/α. */
export const breachEValue = ({ gates }: Pick<Judgement, "gates">): number =>
  gates.reduce((sum, { breach }) => sum + eValueOf(breach), 0) / gates.length;

/** A deep copy without shared parts: a structured clone would keep those of the initial state shared. */
function copyOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOf);
  const copy: Record<string, unknown> = {};
  for (const [name, part] of Object.entries(value)) copy[name] = copyOf(part);
  return copy;
}

type Draft<Value> = { -readonly [Key in keyof Value]: Draft<Value[Key]> };

interface Work {
  readonly rollout: JudgedRollout;
  readonly judged: readonly Gate[];
  readonly draft: Draft<Judgement>;
}

function addUnit(work: Work, unit: MeasuredUnit): void {
  const { rollout, judged, draft } = work;
  const { cursor, scales } = draft;
  if (cursor === null) draft.firstMs = unit.startMs;
  draft.cursor = { startMs: unit.startMs, id: unit.id };
  addToTally(draft.arms[unit.arm], unit);
  if (draft.breach !== null || unit.stage < draft.stage) return;
  if (unit.stage > draft.stage) startStage(draft, unit.stage);
  if (rollout.switchMs !== null) switchCluster(work, Math.floor(unit.startMs / rollout.switchMs), unit);
  if (scales === null) {
    addToWindow(work, unit);
    if (isWindowFull(draft)) setScales(work);
    return;
  }
  const scores = judged.map((gate, at) => {
    const scale = scales[at] ?? null;
    return scale === null ? null : scoreOf(gate, scale, unit);
  });
  addToWindow(work, unit);
  if (draft.cluster !== null) addScores(draft.cluster.scores, scores);
  else addToBlock(work, unit.arm, scores);
}

/** (2) A block that is not complete is dropped. */
function startStage(draft: Draft<Judgement>, stage: number): void {
  draft.stage = stage;
  draft.block = emptyBlock(draft.gates.length);
  draft.cluster = null;
  for (const test of draft.gates) {
    test.proof = [...NO_BETS];
    test.proofBlocks = 0;
    test.isProved = false;
  }
}

/** (3) */
function switchCluster(work: Work, key: number, { arm, stage }: MeasuredUnit): void {
  const { draft } = work;
  const { cluster } = draft;
  if (cluster !== null && cluster.key === key && cluster.stage === stage) return;
  if (cluster?.isWhole) addToBlock(work, cluster.arm, cluster.scores.map(meanOf));
  draft.cluster = { key, arm, stage, isWhole: draft.scales !== null, scores: noScores(draft.gates.length) };
}

function addToBlock(work: Work, arm: Arm, scores: readonly (number | null)[]): void {
  const { draft, rollout } = work;
  addScores(draft.block.sums[arm], scores);
  draft.block.size += 1;
  if (draft.block.size >= blockSizeOf(rollout.shares[draft.stage] ?? 0.5)) endBlock(work);
}

function endBlock(work: Work): void {
  const { draft, rollout } = work;
  const { control, treatment } = draft.block.sums;
  for (const [at, test] of draft.gates.entries()) {
    const [treated, controlled] = [meanOf(treatment[at]), meanOf(control[at])];
    if (treated === null || controlled === null) continue;
    const difference = treated - controlled;
    bet(test.breach, difference);
    bet(test.proof, (PROOF_MARGIN - difference) / (1 + PROOF_MARGIN));
    test.blocks += 1;
    test.proofBlocks += 1;
    test.difference = addDifference(test.difference, difference, rollout.alpha);
    if (eValueOf(test.proof) >= 1 / rollout.alpha) test.isProved = true;
  }
  draft.blocks += 1;
  draft.block = emptyBlock(draft.gates.length);
  const atMs = (draft.cursor?.startMs ?? 0) + rollout.horizonMs;
  addPoint(work, atMs);
  const e = breachEValue(draft);
  if (e >= 1 / rollout.alpha) draft.breach = breachOf(work, e, atMs);
  if (isWindowFull(draft)) setScales(work);
}

function breachOf({ draft, judged, rollout }: Work, e: number, atMs: number): Breach {
  const values = draft.gates.map(({ breach }) => eValueOf(breach));
  const worst = values.indexOf(Math.max(...values));
  const gate = judged[worst]!;
  const { control, treatment } = draft.arms;
  const evidence = `e-value ${e.toPrecision(3)} ≥ ${1 / rollout.alpha} after ${treatment.units} treatment and ${control.units} control units`;
  return { gate: formatGate(gate), reason: `${describeGate(gate, draft.arms)}; ${evidence}`, atMs };
}

function addToWindow({ judged, draft }: Work, unit: MeasuredUnit): void {
  if (unit.arm !== "control" || isWindowFull(draft)) return;
  for (const [at, gate] of judged.entries()) draft.window[at]!.push(windowEntryOf(gate, unit) as number[]);
}

const isWindowFull = ({ window }: Pick<Judgement, "window">): boolean => (window[0]?.length ?? 0) >= WINDOW_UNITS;

/** (1) */
function setScales({ judged, draft }: Work): void {
  draft.scales = judged.map((gate, at) => scaleOf(gate, draft.window[at] ?? []));
  draft.window = judged.map(() => []);
}

function addPoint({ draft, rollout }: Work, atMs: number): void {
  const { series, gates, arms, blocks, firstMs } = draft;
  if (blocks % series.stride !== 0) return;
  const point = (tally: ArmTally) => armPoint(tally, atMs - firstMs, rollout.alpha);
  draft.series = addToSeries(series as Series, {
    atMs,
    units: arms.control.units + arms.treatment.units,
    e: gates.map(({ breach }) => Number(eValueOf(breach).toPrecision(4))),
    arms: { control: point(arms.control), treatment: point(arms.treatment) },
  }) as Draft<Series>;
}

function addScores(sums: Draft<ScoreSum>[], scores: readonly (number | null)[]): void {
  for (const [at, score] of scores.entries()) {
    const sum = sums[at];
    if (score === null || sum === undefined) continue;
    sum.count += 1;
    sum.sum += score;
  }
}

const meanOf = (scores: ScoreSum | undefined): number | null =>
  scores === undefined || scores.count === 0 ? null : scores.sum / scores.count;

const noScores = (gates: number): Draft<ScoreSum>[] => Array.from({ length: gates }, () => ({ count: 0, sum: 0 }));

const emptyBlock = (gates: number): Draft<Block> => ({
  size: 0,
  sums: { control: noScores(gates), treatment: noScores(gates) },
});

const isAfter = (unit: UnitPosition, other: UnitPosition): boolean =>
  unit.startMs > other.startMs || (unit.startMs === other.startMs && unit.id > other.id);
