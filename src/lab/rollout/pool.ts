/**
 * Units for the trials: runs whose results arrive in bursts, one pool per retry policy. Each run is produced by the production
 * control plane in the simulator, with the lock settings of the baseline: no lock queue, one commit per result.
 */
import { NO_MEASURE, observe, type UnitMeasure } from "../../core/rollout/measure.ts";
import { SeededRandom } from "../../sim/random.ts";
import type { ResultOutcome } from "../lock-busy/probe.ts";
import { prepareRuns, settingsOf } from "../lock-busy/scenario.ts";
import { simulateRow } from "../lock-busy/simulation.ts";

export interface PoolRequest {
  readonly seed: number;
  readonly runs: number;
  /** The most results of a run. */
  readonly widthMax: number;
  readonly policies: readonly string[];
  readonly replicas: number;
  readonly holdMs: number;
  readonly latencyMs: number;
  readonly latencySpread: number;
  readonly horizonMs: number;
}

export type Pool = readonly UnitMeasure[];

export async function producePools(
  request: PoolRequest,
  onProgress: (share: number) => void,
): Promise<ReadonlyMap<string, Pool>> {
  const { seed, runs, policies } = request;
  const widths = widthsOf(request);
  const contenders = widths.reduce((sum, width) => sum + width, 0);
  const settings = settingsOf("default", true);
  const prepared = await prepareRuns({ seed, contenders, hotRuns: runs, widths, isLeased: false, settings });
  const pools = new Map<string, Pool>();
  for (const policy of policies) {
    const row = {
      ...request,
      settings: settingsOf(policy, false),
      variant: "bus",
      nakLookMs: 0,
      stepMs: 0,
      binMs: 50,
    } as const;
    const { outcomes } = await simulateRow(prepared, row);
    pools.set(policy, measuresOf(prepared.runIds, prepared.atMs + request.horizonMs, outcomes));
    onProgress(pools.size / policies.length);
  }
  return pools;
}

/** Log-uniform from 1 to the most: many small runs and a few wide ones. */
function widthsOf({ seed, runs, widthMax }: PoolRequest): readonly number[] {
  const random = new SeededRandom(seed, "widths");
  return Array.from({ length: runs }, () => Math.floor((widthMax + 1) ** random.next()));
}

function measuresOf(runIds: readonly string[], untilMs: number, outcomes: readonly ResultOutcome[]): Pool {
  const measures = new Map<string, UnitMeasure>(runIds.map((runId) => [runId, NO_MEASURE]));
  for (const { runId, appliedMs, waitedMs, busyTimes, latencyMs } of outcomes) {
    if (appliedMs > untilMs) continue;
    const acquired = observe(measures.get(runId) ?? NO_MEASURE, { kind: "acquired", waitedMs, busyTimes });
    measures.set(runId, observe(acquired, { kind: "result", latencyMs }));
  }
  return [...measures.values()];
}
