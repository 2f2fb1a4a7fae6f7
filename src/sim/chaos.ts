import type { SimNet } from "./adapters/world.ts";
import type { ProcessFaults } from "./faults.ts";
import type { Host, Peer, Process } from "./process.ts";
import type { SeededRandom } from "./random.ts";

/**
 * Strikes hosts and the kernel by the seed until it is told to stop; then everything that is down comes back.
 */
export class FaultInjector {
  readonly #net: SimNet;
  readonly #chaos: ProcessFaults;
  readonly #random: SeededRandom;
  readonly #hosts: readonly Host[];
  #isOver = false;
  #crashes = 0;
  /** Told when the kernel goes away. */
  onKernelOutage: () => void = () => undefined;

  constructor(net: SimNet, chaos: ProcessFaults, hosts: readonly Host[], random: SeededRandom) {
    this.#net = net;
    this.#chaos = chaos;
    this.#hosts = hosts;
    this.#random = random;
  }

  get crashes(): number {
    return this.#crashes;
  }

  start(): void {
    const { crashEveryMs, pauseEveryMs, cutEveryMs, outageEveryMs, kernelOutEveryMs } = this.#chaos;
    for (const host of this.#hosts) {
      this.#again(crashEveryMs, () => this.#end(host));
      this.#again(pauseEveryMs, () => this.pause(host, this.#random.between(10, this.#chaos.pauseMsMax)));
      this.#again(cutEveryMs, () => {
        this.#cut(host, this.#random.chance(0.5) ? "bus" : "store", this.#random.between(10, this.#chaos.cutMsMax));
      });
    }
    this.#again(outageEveryMs, () => this.#outage(this.#random.chance(0.5) ? "bus" : "store"));
    this.#again(kernelOutEveryMs, () => this.#kernelOut());
  }

  /** At each commit, at the instant of the write. */
  afterCommit(process: Process): void {
    if (this.#isOver || !this.#random.chance(this.#chaos.crashOnCommitRate)) return;
    const host = this.#hosts.find((candidate) => candidate.process === process);
    if (host !== undefined) this.crash(host);
  }

  crash(host: Host): void {
    if (!this.#isOver) this.#kill(host);
  }

  #kill(host: Host): void {
    if (host.process === null) return;
    this.#crashes += 1;
    this.#note(host.name, "crash");
    host.crash();
    this.#restartLater(host);
  }

  /** A crash, or an orderly stop; who does not stop in time is killed. */
  #end(host: Host): void {
    const { process } = host;
    const isAsked = this.#random.chance(this.#chaos.stopRate) && host.stop(() => this.#restartLater(host));
    if (!isAsked) {
      this.#kill(host);
      return;
    }
    this.#note(host.name, "stop");
    this.#net.timeline.post(STOP_MS_MAX, () => {
      if (host.process === process) this.#kill(host);
    });
  }

  #restartLater(host: Host): void {
    this.#net.timeline.post(this.#random.between(5, this.#chaos.downMsMax), () => this.#restart(host));
  }

  /** SIGSTOP, then SIGCONT. */
  pause(host: Host, ms: number): void {
    const { process } = host;
    if (process === null || this.#isOver) return;
    this.#note(host.name, "pause");
    process.pause();
    this.#net.timeline.post(ms, () => {
      this.#note(host.name, "resume");
      process.resume();
    });
  }

  stop(): void {
    this.#isOver = true;
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
    this.#note(host.name, "start");
    host.start();
  }

  #outage(peer: Peer): void {
    const ms = this.#random.between(10, this.#chaos.outageMsMax);
    for (const host of this.#hosts) this.#cut(host, peer, ms);
  }

  #cut(host: Host, peer: Peer, ms: number): void {
    const { process } = host;
    if (process === null) return;
    this.#note(host.name, `cut ${peer}`);
    process.cut(peer);
    this.#net.timeline.post(ms, () => {
      this.#note(host.name, `heal ${peer}`);
      process.heal(peer);
    });
  }

  #kernelOut(): void {
    const { kernel } = this.#net;
    kernel.health = this.#random.chance(0.5) ? "refuses" : "hangs";
    this.#note("kernel", kernel.health);
    this.onKernelOutage();
    this.#net.timeline.post(this.#random.between(10, this.#chaos.kernelOutMsMax), () => {
      this.#note("kernel", "up");
      kernel.health = "up";
    });
  }

  #again(everyMs: number | null, strike: () => void): void {
    if (everyMs === null) return;
    this.#net.timeline.post(this.#random.exponential(everyMs), () => {
      if (this.#isOver) return;
      strike();
      this.#again(everyMs, strike);
    });
  }

  #note(who: string, what: string): void {
    this.#net.trace.note(this.#net.timeline.nowMs, who, what, "");
  }
}

const STOP_MS_MAX = 10_000;
