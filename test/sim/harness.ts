import type { BusOptions } from "../../src/ports/bus.ts";
import type { World } from "../../src/ports/world.ts";
import { openNet, type SimNet, type SimNetOptions, simWorld } from "../../src/sim/adapters/world.ts";
import { NO_NET_FAULTS } from "../../src/sim/faults.ts";
import { Process } from "../../src/sim/process.ts";
import { SeededRandom } from "../../src/sim/random.ts";

/** The simulations of the seed and mutant tests. `npm run check` uses fewer jobs. */
export const SWARM = { runs: process.env.CORDUM_SIM_SEEDS === undefined ? 100 : 30, faults: "swarm" } as const;
export const SEEDS: readonly number[] = Array.from({ length: 25 }, (_, index) => index + 1);

/** A simulated network without faults, for tests that control processes and time. */
export interface Bench {
  readonly net: SimNet;
  /** Starts a process on the network. */
  enter(name: string): { readonly process: Process; readonly world: World };
  run<T>(promise: Promise<T>): Promise<T>;
  pass(ms: number): Promise<void>;
}

export function openBench(options: Partial<SimNetOptions> = {}): Bench {
  const random = options.random ?? new SeededRandom(1);
  const net = openNet({
    random,
    faults: NO_NET_FAULTS,
    bus: BUS,
    kernel: { decide: () => ALLOWED, health: "up", timeoutMs: 1_000 },
    verifiesWrites: true,
    ...options,
  });
  return {
    net,
    enter: (name) => {
      const process = new Process(net.timeline, name, random.fork(name));
      return { process, world: simWorld(net, process, { safety: "remote" }) };
    },
    run: (promise) => net.timeline.runUntilSettled(promise, RUN_MS_MAX),
    pass: (ms) => net.timeline.runUntil(net.timeline.nowMs + ms),
  };
}

const BUS: BusOptions = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 256 };
const ALLOWED = { effect: "allow", ruleId: null, reason: "default", snapshot: "s" } as const;

/** Virtual time; an idle hour costs no real time. */
const RUN_MS_MAX = 3_600_000;
