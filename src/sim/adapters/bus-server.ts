import type { BusOptions, Content, Handler, Message } from "../../ports/bus.ts";
import type { Process } from "../process.ts";
import { type BusObserver, type Consumer, ConsumerGroup, StreamMessage } from "./consumer-group.ts";
import type { Network } from "./net.ts";

/**
 * The broker of the durable half: what was published stays until every group has ended it (see `Group`). Two messages
 * of one id within two minutes are one, unless the faults want a duplicate, which is then a message of its own.
 */
export class BusServer {
  readonly #net: Network;
  readonly #options: BusOptions;
  readonly #groups = new Map<string, Map<string, ConsumerGroup>>();
  /** What came before the first group of its subject did. */
  readonly #early = new Map<string, StreamMessage[]>();
  readonly #seen = new Map<string, number>();
  readonly #taps: BusObserver[] = [];
  readonly exhausted: StreamMessage[] = [];

  constructor(net: Network, options: BusOptions) {
    this.#net = net;
    this.#options = options;
  }

  observe(tap: BusObserver): void {
    this.#taps.push(tap);
  }

  publish(message: Message): void {
    const { random, faults, timeline } = this.#net;
    const again = random.chance(faults.bus.duplicateRate);
    const seenMs = this.#seen.get(message.id);
    const isKnown = seenMs !== undefined && timeline.nowMs - seenMs < DEDUPE_MS;
    if (isKnown && !again) return;
    this.#seen.set(message.id, timeline.nowMs);
    this.store(message.subject, message.id, { kind: "packet", packet: message.packet });
    if (again && !isKnown) this.store(message.subject, message.id, { kind: "packet", packet: message.packet });
  }

  store(subject: string, id: string, content: Content): void {
    for (const tap of this.#taps) tap.stored?.(subject, id, content);
    const groups = this.#groups.get(subject);
    if (groups === undefined) {
      const early = this.#early.get(subject);
      if (early === undefined) this.#early.set(subject, [new StreamMessage(subject, id, content)]);
      else early.push(new StreamMessage(subject, id, content));
      return;
    }
    for (const group of groups.values()) group.add(new StreamMessage(subject, id, content));
  }

  join(subject: string, name: string, process: Process, handler: Handler): Consumer {
    let groups = this.#groups.get(subject);
    if (groups === undefined) {
      groups = new Map();
      this.#groups.set(subject, groups);
    }
    let group = groups.get(name);
    if (group === undefined) {
      group = new ConsumerGroup(this.#net, this.#options, this.#taps, this.exhausted);
      groups.set(name, group);
      for (const letter of this.#early.get(subject) ?? []) group.add(letter);
      this.#early.delete(subject);
    }
    return group.join(process, handler);
  }

  /** Messages that some group has not ended yet. */
  *open(): Generator<StreamMessage, void, undefined> {
    for (const groups of this.#groups.values()) {
      for (const group of groups.values()) yield* group.open;
    }
  }
}

const DEDUPE_MS = 120_000;
