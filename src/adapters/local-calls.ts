import { jsonCopy } from "../core/model/json.ts";
import type { Dispatched, Stop } from "../ports/bus.ts";
import type { Log } from "../ports/log.ts";
import type { Packet } from "../protocol/packet.ts";

/**
 * The fleeting half of a bus within one process: whoever is there hears it, each server in turn gets the work.
 * Nobody is called inside the caller's own stack, and one that throws disturbs nobody.
 */
export class LocalCalls {
  readonly #log: Log;
  readonly #listeners = new Map<string, Set<Subscription>>();
  readonly #servers = new Map<string, Subscription[]>();
  #turn = 0;
  #calls: { readonly filter: Subscription; readonly packet: Packet }[] = [];

  constructor(log: Log) {
    this.#log = log;
  }

  tell(subject: string, packet: Packet): void {
    for (const filter of this.#listeners.get(subject) ?? []) this.#callSoon(filter, packet);
  }

  hasListeners(subject: string): boolean {
    return this.#listeners.has(subject);
  }

  async listen(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    const filter: Subscription = { subject, handler };
    const ears = this.#listeners.get(subject) ?? new Set();
    this.#listeners.set(subject, ears.add(filter));
    return async () => {
      ears.delete(filter);
      if (ears.size === 0 && this.#listeners.get(subject) === ears) this.#listeners.delete(subject);
    };
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    const servers = this.#servers.get(subject);
    if (!servers) return NOBODY;
    this.#callSoon(servers[this.#turn++ % servers.length]!, copyOf(packet));
    return SENT;
  }

  async serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    const filter: Subscription = { subject, handler };
    this.#servers.set(subject, [...(this.#servers.get(subject) ?? []), filter]);
    return async () => {
      const left = (this.#servers.get(subject) ?? []).filter((other) => other !== filter);
      if (left.length > 0) this.#servers.set(subject, left);
      else this.#servers.delete(subject);
    };
  }

  #callSoon(filter: Subscription, packet: Packet): void {
    this.#calls.push({ filter, packet });
    if (this.#calls.length === 1) queueMicrotask(() => this.#callAll());
  }

  #callAll(): void {
    const calls = this.#calls;
    this.#calls = [];
    for (const { filter, packet } of calls) {
      try {
        filter.handler(packet);
      } catch (error) {
        this.#log.write("error", "bus.listener_failed", { subject: filter.subject, error: String(error) });
      }
    }
  }
}

interface Subscription {
  readonly subject: string;
  readonly handler: (packet: Packet) => void;
}

/** What is sent is a copy, as on any other bus: a worker that changes its input must not change the sender's record. */
function copyOf(packet: Packet): Packet {
  const { body } = packet;
  if (body.kind !== "job_request" || typeof body.input !== "object" || body.input === null) return packet;
  return { ...packet, body: { ...body, input: jsonCopy(body.input) } };
}

const NOBODY = Promise.resolve("no_responders" as const);
const SENT = Promise.resolve("sent" as const);
