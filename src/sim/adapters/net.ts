import type { Flows } from "../flows.ts";
import type { Peer, Process } from "../process.ts";
import type { SeededRandom } from "../random.ts";
import type { Timeline } from "../timeline.ts";
import type { Trace } from "../trace.ts";
import { EPOCH_MS, type TimeServer } from "./time.ts";

/**
 * The network between processes and servers.
 *
 * 1. A sent request takes effect even if its sender crashes. A lost reply is an error for the sender, which cannot know
 *    whether the request took effect.
 * 2. Request and reply are two events, so other events can happen between the effect and the reply.
 */
export interface Network {
  readonly timeline: Timeline;
  readonly time: TimeServer;
  readonly trace: Trace;
  /** Null: not recorded. */
  readonly flows: Flows | null;
  readonly random: SeededRandom;
  faults: NetFaults;
}

export interface NetFaults {
  readonly store: CallFaults;
  readonly bus: CallFaults & MessageFaults;
  readonly safety: { readonly latencyMs: number; readonly hangRate: number };
}

export interface CallFaults {
  /** The mean of the one-way latency. */
  readonly latencyMs: number;
  /** The standard deviation of the latency as a share of the mean; without it the latency is exponential. */
  readonly latencySpread?: number;
  /** The share of calls that take `slowFactor` times as long. */
  readonly slowRate: number;
  readonly slowFactor: number;
  /** The share of calls that fail without an effect. */
  readonly errorBeforeRate: number;
  /** The share of calls that take effect and then fail. */
  readonly errorAfterRate: number;
  /** How long the caller waits for a lost reply. */
  readonly timeoutMs: number;
}

export interface MessageFaults {
  readonly duplicateRate: number;
  readonly ackLossRate: number;
  readonly broadcastLossRate: number;
  readonly dispatchLossRate: number;
  readonly dispatchDuplicateRate: number;
  /** The reset interval of the group's shared redelivery timer (see `NakTimer`); 0: one timer per delayed nak. */
  readonly nakLookMs?: number;
}

/** An error of a simulated server; the engine classifies it by its code. */
export class UnavailableError extends Error {
  readonly code: "STORE_UNAVAILABLE" | "BUS_UNAVAILABLE";

  constructor(peer: Peer, reason: string) {
    super(`${peer}: ${reason}`);
    this.code = peer === "bus" ? "BUS_UNAVAILABLE" : "STORE_UNAVAILABLE";
  }
}

/**
 * Calls a server: `effect` runs there, and the promise settles with its result after the reply. `onLost` is called when the
 * request does not take effect.
 */
export function call<T>(
  net: Network,
  from: Process,
  peer: Peer,
  effect: () => T,
  onLost?: (why: string) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const { timeline, random } = net;
    const faults = net.faults[peer];
    const fail = (reason: string): void => from.enter(() => reject(new UnavailableError(peer, reason)));
    const failLate = (reason: string): void => timeline.post(faults.timeoutMs, () => fail(reason));
    if (!from.reaches(peer)) {
      if (from.isAlive) onLost?.(NO_CONNECTION);
      failLate(NO_CONNECTION);
      return;
    }
    const outMs = latency(random, faults);
    const backMs = latency(random, faults);
    const fate = fateOf(random, faults);
    timeline.postQuiet(outMs, () => {
      if (fate === "before") {
        onLost?.("refused");
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
        if (fate === "after") fail("the reply was an error");
        else if (from.reaches(peer)) from.enter(() => resolve(value));
        else failLate("the reply was lost");
      });
    });
  });
}

const NO_CONNECTION = "no connection";

export function latency(random: SeededRandom, faults: CallFaults): number {
  const meanMs =
    faults.slowRate > 0 && random.chance(faults.slowRate) ? faults.latencyMs * faults.slowFactor : faults.latencyMs;
  const { latencySpread } = faults;
  if (latencySpread === undefined) return random.exponential(meanMs);
  return Math.abs(random.normal(meanMs, latencySpread * meanMs));
}

/** The time of the cluster. */
export function serverNow(net: Network): number {
  return net.time.nowMs;
}

/**
 * The latest time that a process may have. If the clock of the server steps back while no process follows the shared time, that
 * time loses what has passed since it was last read. A process that was suspended meanwhile has not lost it.
 */
export const latestNow = (net: Network): number => Math.max(serverNow(net), EPOCH_MS + net.timeline.nowMs);

function fateOf(random: SeededRandom, faults: CallFaults): "fine" | "before" | "after" {
  const bad = faults.errorBeforeRate + faults.errorAfterRate;
  if (bad <= 0) return "fine";
  const drawn = random.next();
  if (drawn >= bad) return "fine";
  return drawn < faults.errorBeforeRate ? "before" : "after";
}
