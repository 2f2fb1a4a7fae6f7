/** Parts shared by the simulated experiments: the network, the replicas, a kernel and a serial server. */
import type { Decision } from "../core/policy/decision.ts";
import type { Settings } from "../core/settings.ts";
import { type Engine, openEngine } from "../engine/engine.ts";
import { startControl } from "../engine/start-control.ts";
import type { World } from "../ports/world.ts";
import type { Kernel } from "../sim/adapters/safety.ts";
import { openNet, type SimNet, simWorld } from "../sim/adapters/world.ts";
import { NO_NET_FAULTS } from "../sim/faults.ts";
import { Process } from "../sim/process.ts";
import type { SeededRandom } from "../sim/random.ts";

export interface NetworkCosts {
  /** Mean one-way latency. */
  readonly latencyMs: number;
  /** Standard deviation as a share of the mean; without it, latencies are exponential. */
  readonly latencySpread?: number;
  readonly nakLookMs?: number;
}

/** A network without faults. */
export function openLabNet(
  random: SeededRandom,
  settings: Settings,
  { nakLookMs = 0, ...latency }: NetworkCosts,
  kernel: Kernel = ALLOW_ALL,
): SimNet {
  const { ackWaitMs, deliverMax, ackPendingMax: inFlightMax } = settings.bus;
  const { store, bus, safety } = NO_NET_FAULTS;
  const faults = { safety, store: { ...store, ...latency }, bus: { ...bus, ...latency, nakLookMs } };
  return openNet({ random, faults, bus: { ackWaitMs, deliverMax, inFlightMax }, kernel });
}

export interface ReplicaSpec {
  readonly count: number;
  readonly settings: Settings;
  readonly safety: "local" | "remote";
  /** Thread time per message, response or timer. */
  readonly stepMs?: number;
  /** Instruments the world of a replica. */
  decorate(world: World, process: Process): World;
}

export interface Replicas {
  readonly engines: readonly Engine[];
  readonly processes: readonly Process[];
}

/** Starts replicas of the production control plane. */
export async function startReplicas(net: SimNet, random: SeededRandom, spec: ReplicaSpec): Promise<Replicas> {
  const { count, settings, safety, stepMs = 0 } = spec;
  const processes = Array.from({ length: count }, (_, index) => {
    const name = `replica-${index + 1}`;
    return new Process(net.timeline, name, random.fork(name), undefined, stepMs);
  });
  const engines = processes.map((process) => {
    return openEngine(spec.decorate(simWorld(net, process, { safety }), process), { current: settings });
  });
  await net.timeline.runUntilSettled(Promise.all(engines.map(startControl)));
  return { engines, processes };
}

export const ALLOW: Decision = { effect: "allow", ruleId: null, reason: "the lab allows every job", snapshot: "lab" };

export const ALLOW_ALL: Kernel = { decide: () => ALLOW, health: "up", timeoutMs: 1_000 };

/** A server with one worker and a FIFO queue. Requests whose caller has timed out are served as well. */
export class SerialServer {
  readonly serviceMs: number;
  #freeMs = 0;

  constructor(serviceMs: number) {
    this.serviceMs = serviceMs;
  }

  /** Enqueues a request and returns its response time: queueing time plus service time. */
  enqueue(nowMs: number): number {
    this.#freeMs = Math.max(nowMs, this.#freeMs) + this.serviceMs;
    return this.#freeMs - nowMs;
  }
}
