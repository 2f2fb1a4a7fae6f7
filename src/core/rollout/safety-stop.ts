import type { Rollout } from "./rollout.ts";

export interface SafetyCounts {
  /**
   * Units with a dead letter by an exhausted budget. Dead letters of one unit have one arm and count once; those of a
   * switched rollout count once per time block.
   */
  readonly deadUnits: Readonly<Record<"control" | "treatment", number>>;
  /** Errors of the treatment policy, such as a delay that is not a number. */
  readonly policyErrors: number;
}

/**
 * Why a rollout stops at once, outside the test; null: it does not. If both arms are equal, the first k units with dead letters
 * are all in treatment with probability shareᵏ, so a stop needs enough of them for shareᵏ ≤ α.
 */
export function safetyStop(
  { shares, stage, alpha }: Pick<Rollout, "shares" | "stage" | "alpha">,
  { deadUnits, policyErrors }: SafetyCounts,
): string | null {
  if (policyErrors > 0) return `the treatment policy failed ${policyErrors} times`;
  const share = Math.max(...shares.slice(0, stage + 1));
  const { control, treatment } = deadUnits;
  if (control > 0 || treatment === 0 || share ** treatment > alpha * ROUNDING) return null;
  return `dead letters by an exhausted budget: ${treatment} treatment units, no control unit`;
}

/** 0.1² is not exactly 0.01. */
const ROUNDING = 1 + 1e-9;
