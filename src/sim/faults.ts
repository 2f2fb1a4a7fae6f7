import type { NetFaults } from "./adapters/net.ts";
import type { SimNet } from "./adapters/world.ts";
import type { Host, Peer, Process } from "./process.ts";
import type { SeededRandom } from "./random.ts";

/**
 * Fault injection: which faults a seed has, and the injector of process faults.
 *
 * The profile `swarm` draws a subset of the fault kinds for each seed (swarm testing): a history with lost acknowledgements
 * only finds bugs that other faults would hide.
 */
export type FaultProfile = "none" | "lite" | "swarm";
export const FAULT_PROFILES: readonly FaultProfile[] = ["none", "lite", "swarm"];

export interface Faults {
  readonly net: NetFaults;
  readonly process: ProcessFaults;
}

/** Faults of processes, partitions, and the safety kernel. `null` means never. */
export interface ProcessFaults {
  readonly crashEveryMs: number | null;
  /** The share of crashes that are replaced by a graceful stop, as in a rolling restart. */
  readonly stopRate: number;
  /** The share of commits after which the process crashes before it receives the reply. */
  readonly crashOnCommitRate: number;
  readonly downMsMax: number;
  readonly pauseEveryMs: number | null;
  readonly pauseMsMax: number;
  readonly cutEveryMs: number | null;
  readonly cutMsMax: number;
  /** Partitions of all hosts from the store or from the bus. */
  readonly outageEveryMs: number | null;
  readonly outageMsMax: number;
  readonly kernelOutageEveryMs: number | null;
  readonly kernelOutageMsMax: number;
  /** The largest difference between the clocks of two processes. */
  readonly skewMsMax: number;
  /** Steps of the system clock of a host or of the store's server, up to a day and an hour in both directions. */
  readonly clockStepEveryMs: number | null;
}

/** How far the times of two processes differ at most: skew, and the approach to a server clock that has stepped. */
export function clockToleranceMs({ skewMsMax, clockStepEveryMs }: ProcessFaults): number {
  return skewMsMax + (clockStepEveryMs === null ? 0 : APPROACH_MS_MAX);
}

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
    kernelOutageEveryMs: null,
    kernelOutageMsMax: 0,
    skewMsMax: 0,
    clockStepEveryMs: null,
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

/** `isOn` decides for each kind of fault. `strength` scales rates, not the effect of a single fault. */
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
      kernelOutageEveryMs: every(4_000, 20_000),
      kernelOutageMsMax: random.logarithmic(500, 15_000),
      skewMsMax: isOn() ? random.logarithmic(1, 300) : 0,
      clockStepEveryMs: every(5_000, 40_000),
    },
  };
}

/** Injects faults into hosts and the kernel until `stop`, which ends all faults and restarts the hosts that are down. */
export class FaultInjector {
  readonly #net: SimNet;
  readonly #faults: ProcessFaults;
  readonly #random: SeededRandom;
  readonly #hosts: readonly Host[];
  #isStopped = false;
  #crashes = 0;
  onKernelOutage: () => void = () => undefined;

  constructor(net: SimNet, faults: ProcessFaults, hosts: readonly Host[], random: SeededRandom) {
    this.#net = net;
    this.#faults = faults;
    this.#hosts = hosts;
    this.#random = random;
  }

  get crashes(): number {
    return this.#crashes;
  }

  start(): void {
    const { crashEveryMs, pauseEveryMs, cutEveryMs, outageEveryMs, kernelOutageEveryMs, clockStepEveryMs } =
      this.#faults;
    for (const host of this.#hosts) {
      this.#repeat(crashEveryMs, () => this.#crashOrStop(host));
      this.#repeat(pauseEveryMs, () => this.pause(host, this.#random.between(10, this.#faults.pauseMsMax)));
      this.#repeat(cutEveryMs, () => {
        this.#cut(host, this.#random.chance(0.5) ? "bus" : "store", this.#random.between(10, this.#faults.cutMsMax));
      });
    }
    this.#repeat(outageEveryMs, () => this.#outage(this.#random.chance(0.5) ? "bus" : "store"));
    this.#repeat(kernelOutageEveryMs, () => this.#breakKernel());
    this.#repeat(clockStepEveryMs, () => this.#stepClock());
  }

  /** Called at the instant of each write. */
  afterCommit(process: Process): void {
    if (this.#isStopped || !this.#random.chance(this.#faults.crashOnCommitRate)) return;
    const host = this.#hosts.find((candidate) => candidate.process === process);
    if (host !== undefined) this.crash(host);
  }

  crash(host: Host): void {
    if (!this.#isStopped) this.#kill(host);
  }

  #kill(host: Host): void {
    if (host.process === null) return;
    this.#crashes += 1;
    this.#trace(host.name, "crash");
    host.crash();
    this.#restartLater(host);
  }

  /** A process that does not stop within `STOP_MS_MAX` is killed. */
  #crashOrStop(host: Host): void {
    const { process } = host;
    const isStopping = this.#random.chance(this.#faults.stopRate) && host.stop(() => this.#restartLater(host));
    if (!isStopping) {
      this.#kill(host);
      return;
    }
    this.#trace(host.name, "stop");
    this.#net.timeline.post(STOP_MS_MAX, () => {
      if (host.process === process) this.#kill(host);
    });
  }

  #restartLater(host: Host): void {
    this.#net.timeline.post(this.#random.between(5, this.#faults.downMsMax), () => this.#restart(host));
  }

  /** SIGSTOP, then SIGCONT. */
  pause(host: Host, ms: number): void {
    const { process } = host;
    if (process === null || this.#isStopped) return;
    this.#trace(host.name, "pause");
    process.pause();
    this.#net.timeline.post(ms, () => {
      this.#trace(host.name, "resume");
      process.resume();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#net.kernel.health = "up";
    for (const host of this.#hosts) {
      host.process?.heal("bus");
      host.process?.heal("store");
      host.process?.resume();
      if (host.process === null) this.#net.timeline.post(1, () => this.#restart(host));
    }
  }

  #restart(host: Host): void {
    if (host.process !== null) return;
    this.#trace(host.name, "start");
    host.start();
  }

  #outage(peer: Peer): void {
    const ms = this.#random.between(10, this.#faults.outageMsMax);
    for (const host of this.#hosts) this.#cut(host, peer, ms);
  }

  #cut(host: Host, peer: Peer, ms: number): void {
    const { process } = host;
    if (process === null) return;
    this.#trace(host.name, `cut ${peer}`);
    process.cut(peer);
    this.#net.timeline.post(ms, () => {
      this.#trace(host.name, `heal ${peer}`);
      process.heal(peer);
    });
  }

  #stepClock(): void {
    const ms = Math.round(this.#random.logarithmic(STEP_MS_MIN, STEP_MS_MAX)) * (this.#random.chance(0.5) ? 1 : -1);
    const host = this.#random.chance(0.5) ? this.#random.pick(this.#hosts) : null;
    this.#trace(host?.name ?? "server", `clock ${ms}`);
    (host ?? this.#net.time).stepClock(ms);
  }

  #breakKernel(): void {
    const { kernel } = this.#net;
    kernel.health = this.#random.chance(0.5) ? "refuses" : "hangs";
    this.#trace("kernel", kernel.health);
    this.onKernelOutage();
    this.#net.timeline.post(this.#random.between(10, this.#faults.kernelOutageMsMax), () => {
      this.#trace("kernel", "up");
      kernel.health = "up";
    });
  }

  #repeat(everyMs: number | null, inject: () => void): void {
    if (everyMs === null) return;
    this.#net.timeline.post(this.#random.exponential(everyMs), () => {
      if (this.#isStopped) return;
      inject();
      this.#repeat(everyMs, inject);
    });
  }

  #trace(source: string, action: string): void {
    this.#net.trace.note(this.#net.timeline.nowMs, source, action, "");
  }
}

const STOP_MS_MAX = 10_000;
/** In the longest pause or partition. */
const APPROACH_MS_MAX = 150;
/** Smaller steps are skew. */
const STEP_MS_MIN = 5_000;
const STEP_MS_MAX = 25 * 3_600_000;
