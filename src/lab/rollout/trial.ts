/** One trial: a rollout whose units are drawn from pools, judged as in production and inspected after every block. */
import { armOf } from "../../core/rollout/arm.ts";
import { defaultGates } from "../../core/rollout/gate.ts";
import {
  type JudgedRollout,
  type Judgement,
  judge,
  type MeasuredUnit,
  newJudgement,
} from "../../core/rollout/judgement.ts";
import type { SeededRandom } from "../../sim/random.ts";
import type { Pool } from "./pool.ts";

export interface TrialRequest {
  readonly random: SeededRandom;
  readonly control: Pool;
  readonly treatment: Pool;
  readonly share: number;
  readonly alpha: number;
  /** The trial ends undecided after this many treatment units. */
  readonly treatmentMax: number;
  /** A proof ends the trial. */
  readonly endsWhenProved: boolean;
  /** Units that are judged at once. */
  readonly batchMax?: number;
  readonly onJudged?: (judgement: Judgement) => void;
}

export interface TrialOutcome {
  readonly kind: "breach" | "proved" | "none";
  /** Treatment units until the end of the batch that decided, or all of them. */
  readonly treatmentUnits: number;
}

export function runTrial(request: TrialRequest): TrialOutcome {
  const { share, alpha, batchMax = BATCH_MAX, onJudged = () => {} } = request;
  const gates = defaultGates("lock_busy");
  const rollout: JudgedRollout = { gates, shares: [share], stage: 0, horizonMs: 0, switchMs: null, alpha };
  const salt = String(request.random.next());
  let judgement = newJudgement(rollout);
  let startMs = 0;
  while (judgement.arms.treatment.units < request.treatmentMax) {
    const left = Math.ceil((request.treatmentMax - judgement.arms.treatment.units) / share);
    const batch = Math.min(batchMax, left);
    const units = unitsOf(request, salt, startMs, batch);
    startMs += batch;
    const judged = judge(rollout, judgement, units, Number.MAX_SAFE_INTEGER);
    judgement = judged.judgement;
    onJudged(judgement);
    const { kind } = judged.verdict;
    if (kind === "breach" || (kind === "proved" && request.endsWhenProved)) {
      return { kind, treatmentUnits: judgement.arms.treatment.units };
    }
  }
  const isProved = judgement.gates.every((gate) => gate.isProved);
  return { kind: isProved ? "proved" : "none", treatmentUnits: judgement.arms.treatment.units };
}

function unitsOf(
  { random, control, treatment, share }: TrialRequest,
  salt: string,
  fromMs: number,
  count: number,
): readonly MeasuredUnit[] {
  const rule = { salt, switchMs: null, share };
  return Array.from({ length: count }, (_, at) => {
    const startMs = fromMs + at;
    const arm = armOf(rule, String(startMs), startMs);
    const pool = arm === "treatment" ? treatment : control;
    const measure = pool[Math.floor(random.next() * pool.length)]!;
    return { id: "", startMs, arm, stage: 0, measure, deadByBudget: 0 };
  });
}

const BATCH_MAX = 500;
