import type { SeededRandom } from "../../../src/sim/random.ts";
import type { Transport } from "../../../src/worlds/worker-sdk.ts";
import type { History } from "./history.ts";
import type { Load } from "./load.ts";

/** A deployment that a fault campaign breaks. */
export interface Target {
  readonly name: string;
  /** The gateway, behind a proxy. */
  readonly url: string;
  /** Of workers besides the HTTP worker. */
  readonly transports: readonly Transport[];
  readonly faults: Readonly<Record<string, Fault>>;
  /** Faults that this machine does not allow, with the reason. */
  readonly unavailable: Readonly<Record<string, string>>;
  /** An API key for the load. */
  createKey(): Promise<string>;
  /** Starts whatever does not run. */
  heal(): Promise<void>;
  stop(): Promise<void>;
}

/** Returns details for the log. The campaign heals the target afterwards. */
export type Fault = (random: SeededRandom, load: Load, history: History) => Promise<string>;

/** Up to 20 hours, forwards and back: below the deadline of a job. */
export const clockStepMs = (random: SeededRandom): number =>
  Math.round(random.logarithmic(1_000, 20 * 3_600_000)) * random.pick([1, -1]);
