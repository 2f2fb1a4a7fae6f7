import type { Random } from "../retry/policies.ts";
import type { Settings } from "../settings.ts";
import type { RecordedCosts } from "./trace.ts";

export interface ReplayOptions {
  readonly settings: Settings;
  readonly costs: ReplayCosts;
  readonly random: Random;
  /** Attempts per bin are counted here. */
  readonly window: Window;
  /** A `ReplayLimitError` beyond. */
  readonly attemptsMax: number;
}

export interface ReplayCosts extends RecordedCosts {
  /** Standard deviation of the lateness of a retry, as a share of its mean. */
  readonly returnSpread: number;
}

/** Relative to the start of the trace. */
export interface Window {
  readonly fromMs: number;
  readonly binMs: number;
  readonly bins: number;
}

/** By index of the trace. */
export interface Replayed {
  readonly waitMs: Float64Array;
  /** From the first attempt to the end of the commit. */
  readonly latencyMs: Float64Array;
  readonly attempts: Int32Array;
  readonly isRefused: Uint8Array;
  /** Attempts per bin of the window. */
  readonly arrivals: readonly number[];
}

export class ReplayLimitError extends Error {
  override readonly name = "ReplayLimit";
}
