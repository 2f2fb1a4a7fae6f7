import type { Arm } from "./arm.ts";
import { betsUntil, eValueOf } from "./e-value.ts";
import type { Histogram } from "./histogram.ts";
import { type Distribution, differenceOf, distributionOf, type Interval } from "./interval.ts";
import { type Breach, breachEValue, type Judgement } from "./judgement.ts";
import type { Rollout } from "./rollout.ts";
import type { Series } from "./series.ts";
import { type ArmTally, figureOf, retriesPerMinute } from "./tally.ts";

/** The figures of a rollout, for views. */
export interface RolloutSummary {
  readonly arms: Readonly<Record<Arm, ArmSummary>>;
  readonly gates: readonly GateSummary[];
  /** The mean of the breach e-values of the gates, and the value at which the rollout is rolled back and a gate is proved. */
  readonly eValue: number;
  readonly eValueLimit: number;
  readonly blocks: number;
  readonly stage: number;
  readonly series: Series;
  readonly breach: Breach | null;
  /** Extrapolated from the units so far; null: neither a breach nor a proof is in sight. */
  readonly decision: ExpectedDecision | null;
}

export interface ArmSummary {
  readonly units: number;
  readonly busyRetries: number;
  readonly retriesPerUnit: number | null;
  readonly retriesPerMinute: number | null;
  /** Share of the refused events that the first retry served. */
  readonly firstRetrySuccess: number | null;
  readonly results: number;
  readonly deadLetters: number;
  readonly lockWaitMs: Distribution | null;
  readonly latencyMs: Distribution | null;
  readonly admissionWaitMs: Distribution | null;
}

export interface GateSummary {
  readonly gate: string;
  readonly breachE: number;
  readonly proofE: number;
  readonly isProved: boolean;
  readonly blocks: number;
  /** Mean score of treatment minus control, in [-1, 1]; positive: worse than the gate. */
  readonly difference: (Interval & { readonly mean: number }) | null;
}

export interface ExpectedDecision {
  readonly kind: "breach" | "proved";
  readonly inMs: number;
}

export function summaryOf(
  { alpha, horizonMs }: Pick<Rollout, "alpha" | "horizonMs">,
  judgement: Judgement,
): RolloutSummary {
  const { gates, arms, series, breach, blocks, stage } = judgement;
  const spanMs = spanOf(judgement) + horizonMs;
  return {
    arms: { control: armSummary(arms.control, spanMs, alpha), treatment: armSummary(arms.treatment, spanMs, alpha) },
    gates: gates.map((test) => ({
      ...{ gate: test.gate, isProved: test.isProved, blocks: test.blocks },
      breachE: eValueOf(test.breach),
      proofE: eValueOf(test.proof),
      difference: differenceOf(test.difference, alpha),
    })),
    eValue: breachEValue(judgement),
    eValueLimit: 1 / alpha,
    ...{ blocks, stage, series, breach },
    decision: breach === null ? expectedDecision(judgement, alpha) : null,
  };
}

function armSummary(tally: ArmTally, spanMs: number, alpha: number): ArmSummary {
  const { units, busyRetries, results, deadLetters } = tally;
  const distribution = (histogram: Histogram) => distributionOf(histogram, units, alpha);
  return {
    ...{ units, busyRetries, results, deadLetters },
    retriesPerUnit: units === 0 ? null : busyRetries / units,
    retriesPerMinute: retriesPerMinute(tally, spanMs),
    firstRetrySuccess: figureOf("first_retry_success", tally),
    lockWaitMs: distribution(tally.lockWaits),
    latencyMs: distribution(tally.latencies),
    admissionWaitMs: distribution(tally.admissionWaits),
  };
}

/** Assumes that the next blocks are like the past ones. */
function expectedDecision(judgement: Judgement, alpha: number): ExpectedDecision | null {
  const { gates, blocks } = judgement;
  if (blocks === 0) return null;
  const msPerBlock = spanOf(judgement) / blocks;
  const breaches = gates.map(({ breach, blocks: bets }) => betsUntil(breach, bets, gates.length / alpha));
  const proofs = gates.map((test) => (test.isProved ? 0 : betsUntil(test.proof, test.proofBlocks, 1 / alpha)));
  const toBreach = Math.min(...breaches.map((wait) => wait ?? Number.POSITIVE_INFINITY));
  const toProof = Math.max(...proofs.map((wait) => wait ?? Number.POSITIVE_INFINITY));
  if (Math.min(toBreach, toProof) === Number.POSITIVE_INFINITY) return null;
  const [kind, wait] = toBreach < toProof ? (["breach", toBreach] as const) : (["proved", toProof] as const);
  return { kind, inMs: Math.round(wait * msPerBlock) };
}

const spanOf = ({ firstMs, cursor }: Judgement): number => (cursor === null ? 0 : cursor.startMs - firstMs);
