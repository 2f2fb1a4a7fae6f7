import type { Process } from "../process.ts";
import { EPOCH_MS, type Peer } from "../process.ts";
import type { SeededRandom } from "../random.ts";
import type { Timeline } from "../timeline.ts";
import type { Trace } from "../trace.ts";

/**
 * What lies between processes and servers: requests and answers that take time and get lost.
 *
 * 1. A request that left takes effect even if its sender dies; a lost answer is an error to the sender, who cannot know.
 * 2. Request and answer are two events, so others can come between the effect and its being known.
 * 3. Chance is drawn from one generator per peer, in the order of the calls.
 */
export interface Network {
  readonly timeline: Timeline;
  readonly trace: Trace;
  readonly random: SeededRandom;
  faults: NetFaults;
}

export interface NetFaults {
  readonly store: CallFaults;
  readonly bus: CallFaults & MessageFaults;
  readonly safety: { readonly latencyMs: number; readonly hangRate: number };
}

export interface CallFaults {
  /** The mean of one way. */
  readonly latencyMs: number;
  /** The standard deviation of one way as a share of the mean; without, the times are exponential: anything may overtake. */
  readonly latencySpread?: number;
  /** This share of calls takes `slowFactor` times as long. */
  readonly slowRate: number;
  readonly slowFactor: number;
  /** Refused: nothing was done. */
  readonly errorBeforeRate: number;
  /** Done, but the answer is an error. */
  readonly errorAfterRate: number;
  /** What a caller waits for an answer that does not come. */
  readonly timeoutMs: number;
}

export interface MessageFaults {
  readonly duplicateRate: number;
  readonly ackLossRate: number;
  readonly broadcastLossRate: number;
  readonly dispatchLossRate: number;
  readonly dispatchDuplicateRate: number;
  /** Messages that are to come back later have one timer, which each of them sets to this (see `NakTimer`); 0: each its own. */
  readonly nakLookMs?: number;
}

/** An error of a simulated server; the flow knows it by its code. */
export class UnavailableError extends Error {
  readonly code: "STORE_UNAVAILABLE" | "BUS_UNAVAILABLE";

  constructor(peer: Peer, reason: string) {
    super(`${peer}: ${reason}`);
    this.code = peer === "bus" ? "BUS_UNAVAILABLE" : "STORE_UNAVAILABLE";
  }
}

/** Asks a server: `effect` runs there, its value or error comes back. */
export function call<T>(net: Network, from: Process, peer: Peer, effect: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    const { timeline, random } = net;
    const faults = net.faults[peer];
    const fail = (reason: string): void => from.enter(() => reject(new UnavailableError(peer, reason)));
    const failLate = (reason: string): void => timeline.post(faults.timeoutMs, () => fail(reason));
    if (!from.reaches(peer)) {
      failLate("no connection");
      return;
    }
    const outMs = latency(random, faults);
    const backMs = latency(random, faults);
    const fate = fateOf(random, faults);
    timeline.postQuiet(outMs, () => {
      if (fate === "before") {
        timeline.post(backMs, () => fail("refused"));
        return;
      }
      let value: T;
      try {
        value = effect();
      } catch (error) {
        timeline.post(backMs, () => from.enter(() => reject(error)));
        return;
      }
      timeline.post(backMs, () => {
        if (fate === "after") fail("the answer was an error");
        else if (from.reaches(peer)) from.enter(() => resolve(value));
        else failLate("the answer was lost");
      });
    });
  });
}

export function latency(random: SeededRandom, faults: CallFaults): number {
  const meanMs =
    faults.slowRate > 0 && random.chance(faults.slowRate) ? faults.latencyMs * faults.slowFactor : faults.latencyMs;
  const { latencySpread } = faults;
  if (latencySpread === undefined) return random.exponential(meanMs);
  return Math.abs(random.normal(meanMs, latencySpread * meanMs));
}

/** The time by the servers' own clock. */
export function serverNow(net: Network): number {
  return EPOCH_MS + net.timeline.nowMs;
}

function fateOf(random: SeededRandom, faults: CallFaults): "fine" | "before" | "after" {
  const bad = faults.errorBeforeRate + faults.errorAfterRate;
  if (bad <= 0) return "fine";
  const drawn = random.next();
  if (drawn >= bad) return "fine";
  return drawn < faults.errorBeforeRate ? "before" : "after";
}
