import type { Bus, Dispatched, Handler, Message, Stop } from "../../ports/bus.ts";
import type { Packet } from "../../protocol/packet.ts";
import type { Process } from "../process.ts";
import type { BusServer } from "./bus-server.ts";
import { call, latency, type Network } from "./net.ts";

/** The bus as one process sees it; see `BusServer` for the durable half. */
export class SimBus implements Bus {
  readonly hasThirdPartyWorkers = false;
  readonly #net: Network;
  readonly #server: BusServer;
  readonly #fleeting: PubSub;
  readonly #process: Process;

  constructor(net: Network, server: BusServer, fleeting: PubSub, process: Process) {
    this.#net = net;
    this.#server = server;
    this.#fleeting = fleeting;
    this.#process = process;
  }

  publish(message: Message): Promise<void> {
    return call(this.#net, this.#process, "bus", () => this.#server.publish(message));
  }

  async consume(subject: string, group: string, handler: Handler): Promise<Stop> {
    await this.#connected();
    const member = this.#server.join(subject, group, this.#process, handler);
    return () => member.stop();
  }

  broadcast(subject: string, packet: Packet): void {
    this.#fleeting.broadcast(this.#process, subject, packet);
  }

  hasSubscribers(): boolean {
    return true;
  }

  async subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    await this.#connected();
    return this.#fleeting.add("listeners", this.#process, subject, handler);
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    return call(this.#net, this.#process, "bus", () => this.#fleeting.dispatch(subject, packet));
  }

  async serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    await this.#connected();
    return this.#fleeting.add("servers", this.#process, subject, handler);
  }

  /** Subscribing takes a moment; a client library tries again by itself, so it does not fail. */
  #connected(): Promise<void> {
    return new Promise((resolve) => {
      this.#process.after(latency(this.#net.random, this.#net.faults.bus), resolve);
    });
  }
}

/** The half that remembers nothing: who listens and who serves right now. */
export class PubSub {
  readonly #net: Network;
  readonly #members: Record<"listeners" | "servers", Map<string, Subscription[]>> = {
    listeners: new Map(),
    servers: new Map(),
  };

  constructor(net: Network) {
    this.#net = net;
  }

  add(kind: "listeners" | "servers", process: Process, subject: string, hear: (packet: Packet) => void): Stop {
    const members = this.#members[kind];
    const filter: Subscription = { process, hear, lastMs: 0 };
    members.set(subject, [...(members.get(subject) ?? []), filter]);
    const remove = (): void => {
      members.set(
        subject,
        (members.get(subject) ?? []).filter((other) => other !== filter),
      );
    };
    process.onEnd(remove);
    return async () => remove();
  }

  broadcast(from: Process, subject: string, packet: Packet): void {
    const { random, faults, timeline } = this.#net;
    if (!from.reaches("bus")) return;
    for (const filter of this.#members.listeners.get(subject) ?? []) {
      if (random.chance(faults.bus.broadcastLossRate)) continue;
      // One connection keeps its order.
      filter.lastMs = Math.max(filter.lastMs, timeline.nowMs + latency(random, faults.bus));
      this.#hear(filter, packet, filter.lastMs - timeline.nowMs, "listeners", subject);
    }
  }

  dispatch(subject: string, packet: Packet): Dispatched {
    const { random, faults } = this.#net;
    const there = (this.#members.servers.get(subject) ?? []).filter(({ process }) => process.reaches("bus"));
    if (there.length === 0) return "no_responders";
    if (random.chance(faults.bus.dispatchLossRate)) return "sent";
    const copies = random.chance(faults.bus.dispatchDuplicateRate) ? 2 : 1;
    for (let copy = 0; copy < copies; copy += 1) {
      this.#hear(random.pick(there), packet, latency(random, faults.bus), "servers", subject);
    }
    return "sent";
  }

  #hear(filter: Subscription, packet: Packet, delayMs: number, kind: "listeners" | "servers", subject: string): void {
    const { timeline, trace } = this.#net;
    timeline.post(delayMs, () => {
      if (!filter.process.reaches("bus") || !this.#members[kind].get(subject)?.includes(filter)) return;
      filter.process.enter(() => {
        trace.note(timeline.nowMs, filter.process.name, kind, subject);
        try {
          filter.hear(packet);
        } catch {
          // A listener's bug is its own; adapters log it and go on.
        }
      });
    });
  }
}

interface Subscription {
  readonly process: Process;
  hear(packet: Packet): void;
  lastMs: number;
}
