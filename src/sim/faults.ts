import type { NetFaults } from "./adapters/net.ts";
import type { SeededRandom } from "./random.ts";

/**
 * What goes wrong, and how much of it.
 *
 * `swarm` draws a subset for each seed: a history in which only acknowledgements are lost finds what a history in which
 * everything happens at once hides.
 */
export type FaultProfile = "none" | "lite" | "swarm";
export const FAULT_PROFILES: readonly FaultProfile[] = ["none", "lite", "swarm"];

export interface Faults {
  readonly net: NetFaults;
  readonly process: ProcessFaults;
}

/** What happens to processes and to the kernel. `null` means never. */
export interface ProcessFaults {
  readonly crashEveryMs: number | null;
  /** The share of crashes that are an orderly stop instead, as in a rolling restart. */
  readonly stopRate: number;
  /** The share of commits after which the process dies at once, before it knows. */
  readonly crashOnCommitRate: number;
  readonly downMsMax: number;
  readonly pauseEveryMs: number | null;
  readonly pauseMsMax: number;
  readonly cutEveryMs: number | null;
  readonly cutMsMax: number;
  /** The store or the bus is away for everybody at once. */
  readonly outageEveryMs: number | null;
  readonly outageMsMax: number;
  readonly kernelOutEveryMs: number | null;
  readonly kernelOutMsMax: number;
  /** How far the clocks of processes are apart. */
  readonly skewMsMax: number;
}

/** A network that only takes its time. */
export const NO_NET_FAULTS: NetFaults = {
  store: { latencyMs: 0.3, slowRate: 0, slowFactor: 1, errorBeforeRate: 0, errorAfterRate: 0, timeoutMs: 2_000 },
  bus: {
    ...{ latencyMs: 0.3, slowRate: 0, slowFactor: 1, errorBeforeRate: 0, errorAfterRate: 0, timeoutMs: 2_000 },
    ...{ duplicateRate: 0, ackLossRate: 0, broadcastLossRate: 0, dispatchLossRate: 0, dispatchDuplicateRate: 0 },
  },
  safety: { latencyMs: 1, hangRate: 0 },
};

export const NO_PROCESS_FAULTS: ProcessFaults = {
  ...{ crashEveryMs: null, stopRate: 0, crashOnCommitRate: 0, downMsMax: 0, pauseEveryMs: null, pauseMsMax: 0 },
  ...{
    cutEveryMs: null,
    cutMsMax: 0,
    outageEveryMs: null,
    outageMsMax: 0,
    kernelOutEveryMs: null,
    kernelOutMsMax: 0,
    skewMsMax: 0,
  },
};

export function drawFaults(profile: FaultProfile, random: SeededRandom): Faults {
  switch (profile) {
    case "none":
      return { net: NO_NET_FAULTS, process: NO_PROCESS_FAULTS };
    case "lite":
      return draw(random, () => true, 0.3);
    case "swarm":
      return draw(random, () => random.chance(0.6), 1);
    default:
      return profile satisfies never;
  }
}

/** `isOn` decides for each family of faults; the strength scales rates, never what a single fault does. */
function draw(random: SeededRandom, isOn: () => boolean, strength: number): Faults {
  const rate = (low: number, high: number): number => (isOn() ? strength * random.logarithmic(low, high) : 0);
  const every = (low: number, high: number): number | null =>
    isOn() ? random.logarithmic(low, high) / strength : null;
  const calls = () => ({
    latencyMs: isOn() ? random.logarithmic(0.3, 20) : 0.3,
    slowRate: rate(0.001, 0.05),
    slowFactor: random.logarithmic(10, 100),
    errorBeforeRate: rate(0.002, 0.08),
    errorAfterRate: rate(0.002, 0.08),
    timeoutMs: random.between(500, 3_000),
  });
  return {
    net: {
      store: calls(),
      bus: {
        ...calls(),
        duplicateRate: rate(0.01, 0.3),
        ackLossRate: rate(0.01, 0.2),
        broadcastLossRate: rate(0.01, 0.3),
        dispatchLossRate: rate(0.01, 0.15),
        dispatchDuplicateRate: rate(0.01, 0.15),
      },
      safety: { latencyMs: isOn() ? random.logarithmic(1, 100) : 1, hangRate: rate(0.005, 0.1) },
    },
    process: {
      crashEveryMs: every(3_000, 40_000),
      stopRate: isOn() ? 0.3 : 0,
      crashOnCommitRate: rate(0.001, 0.02),
      downMsMax: random.logarithmic(50, 8_000),
      pauseEveryMs: every(4_000, 40_000),
      pauseMsMax: random.logarithmic(500, 15_000),
      cutEveryMs: every(4_000, 40_000),
      cutMsMax: random.logarithmic(500, 8_000),
      outageEveryMs: every(10_000, 60_000),
      outageMsMax: random.logarithmic(300, 15_000),
      kernelOutEveryMs: every(4_000, 20_000),
      kernelOutMsMax: random.logarithmic(500, 15_000),
      skewMsMax: isOn() ? random.logarithmic(1, 300) : 0,
    },
  };
}
