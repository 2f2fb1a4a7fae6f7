import type { Bus, BusOptions, Content, Dispatched, Handler, Message, Stop } from "../../ports/bus.ts";
import type { Packet } from "../../protocol/packet.ts";
import type { Process } from "../process.ts";
import {
  type BusObserver,
  type Consumer,
  ConsumerGroup,
  type Publisher,
  StreamMessage,
  unreached,
} from "./consumer-group.ts";
import { call, latency, type Network } from "./net.ts";

/** The bus client of one process. `BusServer` simulates the durable streams, `PubSub` the subjects without storage. */
export class SimBus implements Bus {
  readonly hasThirdPartyWorkers = false;
  readonly #net: Network;
  readonly #server: BusServer;
  readonly #pubSub: PubSub;
  readonly #process: Process;

  constructor(net: Network, server: BusServer, pubSub: PubSub, process: Process) {
    this.#net = net;
    this.#server = server;
    this.#pubSub = pubSub;
    this.#process = process;
  }

  get nakTimerMs(): number {
    return this.#net.faults.bus.nakLookMs ?? 0;
  }

  publish(message: Message): Promise<void> {
    const { name } = this.#process;
    const publisher = { name, sentMs: this.#net.timeline.nowMs };
    const { flows } = this.#net;
    const onLost = (why: string): void => {
      flows?.lose(flows.send(name, "bus", message.subject, message.id, publisher.sentMs), why);
    };
    return call(this.#net, this.#process, "bus", () => this.#server.publish(message, publisher), onLost);
  }

  async consume(subject: string, group: string, handler: Handler): Promise<Stop> {
    await this.#connected();
    const consumer = this.#server.join(subject, group, this.#process, handler);
    return () => consumer.stop();
  }

  broadcast(subject: string, packet: Packet): void {
    this.#pubSub.broadcast(this.#process, subject, packet);
  }

  hasSubscribers(): boolean {
    return true;
  }

  async subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    await this.#connected();
    return this.#pubSub.add("listeners", this.#process, subject, handler);
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    const from = { name: this.#process.name, sentMs: this.#net.timeline.nowMs };
    const onLost = (why: string): void => this.#pubSub.lost(from, "bus", subject, why);
    return call(this.#net, this.#process, "bus", () => this.#pubSub.dispatch(from, subject, packet), onLost);
  }

  async serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    await this.#connected();
    return this.#pubSub.add("servers", this.#process, subject, handler);
  }

  /** Subscribing takes one network latency and does not fail, because client libraries retry it. */
  #connected(): Promise<void> {
    return new Promise((resolve) => {
      this.#process.after(latency(this.#net.random, this.#net.faults.bus), resolve);
    });
  }
}

/**
 * The broker of the durable streams. A message is kept until every consumer group has acknowledged or terminated it.
 * Publishes with the same id are deduplicated within `DEDUPE_MS`, except for injected duplicates.
 */
export class BusServer {
  readonly #net: Network;
  readonly #options: BusOptions;
  readonly #groups = new Map<string, Map<string, ConsumerGroup>>();
  /** Messages published before the first group of their subject joined. */
  readonly #early = new Map<string, StreamMessage[]>();
  readonly #publishedMs = new Map<string, number>();
  readonly #observers: BusObserver[] = [];
  readonly exhausted: StreamMessage[] = [];

  constructor(net: Network, options: BusOptions) {
    this.#net = net;
    this.#options = options;
  }

  observe(observer: BusObserver): void {
    this.#observers.push(observer);
  }

  publish(message: Message, publisher: Publisher | null = null): void {
    const { random, faults, timeline } = this.#net;
    const isDuplicated = random.chance(faults.bus.duplicateRate);
    const publishedMs = this.#publishedMs.get(message.id);
    const isKnown = publishedMs !== undefined && timeline.nowMs - publishedMs < DEDUPE_MS;
    if (isKnown && !isDuplicated) return;
    this.#publishedMs.set(message.id, timeline.nowMs);
    const { subject, id, packet } = message;
    this.store(subject, id, { kind: "packet", packet }, publisher);
    if (isDuplicated && !isKnown) this.store(subject, id, { kind: "packet", packet }, publisher);
  }

  store(subject: string, id: string, content: Content, publisher: Publisher | null = null): void {
    for (const observer of this.#observers) observer.stored?.(subject, id, content);
    const groups = this.#groups.get(subject);
    if (groups === undefined) {
      const early = this.#early.get(subject);
      const message = new StreamMessage(subject, id, content, publisher);
      if (early === undefined) this.#early.set(subject, [message]);
      else early.push(message);
      return;
    }
    for (const group of groups.values()) group.add(new StreamMessage(subject, id, content, publisher));
  }

  join(subject: string, name: string, process: Process, handler: Handler): Consumer {
    let groups = this.#groups.get(subject);
    if (groups === undefined) {
      groups = new Map();
      this.#groups.set(subject, groups);
    }
    let group = groups.get(name);
    if (group === undefined) {
      group = new ConsumerGroup(this.#net, this.#options, this.#observers, this.exhausted);
      groups.set(name, group);
      for (const message of this.#early.get(subject) ?? []) group.add(message);
      this.#early.delete(subject);
    }
    return group.join(process, handler);
  }

  /** Messages that are neither acknowledged nor terminated in every group. */
  *open(): Generator<StreamMessage, void, undefined> {
    for (const groups of this.#groups.values()) {
      for (const group of groups.values()) yield* group.open;
    }
  }
}

const DEDUPE_MS = 120_000;

type SubscriptionKind = "listeners" | "servers";

/** At-most-once delivery to the current subscribers: broadcasts to all listeners, dispatches to one server. */
export class PubSub {
  readonly #net: Network;
  readonly #subscriptions: Record<SubscriptionKind, Map<string, Subscription[]>> = {
    listeners: new Map(),
    servers: new Map(),
  };

  constructor(net: Network) {
    this.#net = net;
  }

  add(kind: SubscriptionKind, process: Process, subject: string, handle: (packet: Packet) => void): Stop {
    const subscriptions = this.#subscriptions[kind];
    const added: Subscription = { process, handle, lastMs: 0 };
    subscriptions.set(subject, [...(subscriptions.get(subject) ?? []), added]);
    const remove = (): void => {
      const others = (subscriptions.get(subject) ?? []).filter((other) => other !== added);
      subscriptions.set(subject, others);
    };
    process.onEnd(remove);
    return async () => remove();
  }

  broadcast(from: Process, subject: string, packet: Packet): void {
    const { random, faults, timeline } = this.#net;
    if (!from.reaches("bus")) return;
    const sent: Sent = { from: { name: from.name, sentMs: timeline.nowMs }, kind: "listeners", subject, packet };
    for (const to of this.#subscriptions.listeners.get(subject) ?? []) {
      if (random.chance(faults.bus.broadcastLossRate)) {
        this.lost(sent.from, to.process.name, subject);
        continue;
      }
      // A connection delivers in order.
      to.lastMs = Math.max(to.lastMs, timeline.nowMs + latency(random, faults.bus));
      this.#deliver(sent, to, to.lastMs - timeline.nowMs);
    }
  }

  dispatch(from: Publisher, subject: string, packet: Packet): Dispatched {
    const { random, faults } = this.#net;
    const servers = (this.#subscriptions.servers.get(subject) ?? []).filter(({ process }) => process.reaches("bus"));
    if (servers.length === 0) return "no_responders";
    if (random.chance(faults.bus.dispatchLossRate)) {
      this.lost(from, "bus", subject);
      return "sent";
    }
    const copies = random.chance(faults.bus.dispatchDuplicateRate) ? 2 : 1;
    for (let copy = 0; copy < copies; copy += 1) {
      const sent: Sent = { from, kind: "servers", subject, packet };
      this.#deliver(sent, random.pick(servers), latency(random, faults.bus));
    }
    return "sent";
  }

  lost(from: Publisher, to: string, subject: string, why = "lost by the network"): void {
    const { flows } = this.#net;
    flows?.lose(flows.send(from.name, to, subject, "", from.sentMs), why);
  }

  #deliver({ from, kind, subject, packet }: Sent, to: Subscription, delayMs: number): void {
    const { timeline, trace, flows } = this.#net;
    const flow = flows?.send(from.name, to.process.name, subject, "", from.sentMs);
    timeline.post(delayMs, () => {
      if (!to.process.reaches("bus") || !this.#subscriptions[kind].get(subject)?.includes(to)) {
        if (flow) flows?.lose(flow, unreached(to.process));
        return;
      }
      to.process.enter(() => {
        trace.note(timeline.nowMs, to.process.name, kind, subject);
        if (flow) flows?.delivered(flow);
        try {
          to.handle(packet);
        } catch {
          // Real adapters log errors of listeners and continue.
        }
      });
    });
  }
}

/** A message of at-most-once delivery. */
interface Sent {
  readonly from: Publisher;
  readonly kind: SubscriptionKind;
  readonly subject: string;
  readonly packet: Packet;
}

interface Subscription {
  readonly process: Process;
  handle(packet: Packet): void;
  /** The time of the latest delivery. */
  lastMs: number;
}
