import { setTimeout as delay } from "node:timers/promises";
import type { SeededRandom } from "../../../src/sim/random.ts";
import type { Transport } from "../../../src/worlds/worker-sdk.ts";
import type { History } from "./history.ts";
import type { Load } from "./load.ts";
import type { Service } from "./service.ts";

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

/**
 * Sets the clock of a process that runs by up to 25 hours, or of one that is killed before and starts with it by up to 20, forwards
 * and back. The latter is below the deadline of a job, because the time between two processes counts as passed (decision 26).
 */
export async function stepClock(service: Service, random: SeededRandom): Promise<string> {
  const isKilled = random.chance(0.5);
  const hours = isKilled ? 20 : 25;
  const stepMs = Math.round(random.logarithmic(1_000, hours * 3_600_000)) * random.pick([1, -1]);
  if (isKilled) {
    await service.end("SIGKILL");
    await service.start(stepMs);
  } else service.stepClock(stepMs);
  await delay(random.between(500, 4_000));
  return `${stepMs} ms${isKilled ? ", killed before" : ""}`;
}
