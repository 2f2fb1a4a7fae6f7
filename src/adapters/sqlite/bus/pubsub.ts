import { jsonCopy } from "../../../core/model/json.ts";
import type { Dispatched, Stop } from "../../../ports/bus.ts";
import type { Log } from "../../../ports/log.ts";
import type { Packet } from "../../../protocol/packet.ts";

/**
 * The transient half of the bus, within one process: broadcasts reach all current subscribers, dispatches go to the servers
 * of a subject in turn. Handlers run in a microtask, never inside the caller; one that throws does not affect the others.
 */
export class LocalPubSub {
  readonly #log: Log;
  readonly #subscribers = new Map<string, Set<Subscription>>();
  readonly #servers = new Map<string, Subscription[]>();
  #dispatches = 0;
  #queued: { readonly subscription: Subscription; readonly packet: Packet }[] = [];

  constructor(log: Log) {
    this.#log = log;
  }

  broadcast(subject: string, packet: Packet): void {
    for (const subscription of this.#subscribers.get(subject) ?? []) this.#enqueue(subscription, packet);
  }

  hasSubscribers(subject: string): boolean {
    return this.#subscribers.has(subject);
  }

  async subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    const subscription: Subscription = { subject, handler };
    const subscribers = this.#subscribers.get(subject) ?? new Set();
    this.#subscribers.set(subject, subscribers.add(subscription));
    return async () => {
      subscribers.delete(subscription);
      if (subscribers.size === 0 && this.#subscribers.get(subject) === subscribers) this.#subscribers.delete(subject);
    };
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    const servers = this.#servers.get(subject);
    if (!servers) return NO_RESPONDERS;
    this.#enqueue(servers[this.#dispatches++ % servers.length]!, copyInput(packet));
    return SENT;
  }

  async serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    const subscription: Subscription = { subject, handler };
    this.#servers.set(subject, [...(this.#servers.get(subject) ?? []), subscription]);
    return async () => {
      const others = (this.#servers.get(subject) ?? []).filter((other) => other !== subscription);
      if (others.length > 0) this.#servers.set(subject, others);
      else this.#servers.delete(subject);
    };
  }

  #enqueue(subscription: Subscription, packet: Packet): void {
    this.#queued.push({ subscription, packet });
    if (this.#queued.length === 1) queueMicrotask(() => this.#deliverAll());
  }

  #deliverAll(): void {
    const deliveries = this.#queued;
    this.#queued = [];
    for (const { subscription, packet } of deliveries) {
      try {
        subscription.handler(packet);
      } catch (error) {
        this.#log.write("error", "bus.listener_failed", { subject: subscription.subject, error: String(error) });
      }
    }
  }
}

interface Subscription {
  readonly subject: string;
  readonly handler: (packet: Packet) => void;
}

/** Workers may change their input, which must not change the sender's record. */
function copyInput(packet: Packet): Packet {
  const { body } = packet;
  if (body.kind !== "job_request" || typeof body.input !== "object" || body.input === null) return packet;
  return { ...packet, body: { ...body, input: jsonCopy(body.input) } };
}

const NO_RESPONDERS = Promise.resolve("no_responders" as const);
const SENT = Promise.resolve("sent" as const);
