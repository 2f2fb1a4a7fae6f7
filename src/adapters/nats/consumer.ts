import type { Settlement } from "../../core/retry/bus-action.ts";
import type { Content, Handler, Stop } from "../../ports/bus.ts";
import type { Log } from "../../ports/log.ts";
import type { FrameItem } from "../../protocol/frame.ts";
import { RefusedPacketError } from "../../protocol/signature.ts";
import type { PacketCodec } from "../packet-codec.ts";
import type { NatsLink } from "./connection.ts";
import { describeError } from "./errors.ts";
import { type Arrival, type Arrived, redeliveryHeaders, withTraceHeader } from "./message.ts";
import type { NatsPublisher } from "./publisher.ts";
import { NatsPull } from "./pull.ts";
import { NANOS_PER_MS } from "./stream.ts";

/**
 * One member of a consumer group: pulls messages, calls the handler for each packet, and settles the messages.
 *
 * 1. A message is acknowledged once all its packets are settled.
 * 2. A packet of a frame that needs redelivery is published again on its own before the frame is acknowledged. If that
 *    fails, the whole frame is redelivered.
 * 3. While a message has unsettled packets, an in-progress signal is sent every third of the ack wait.
 * 4. At most `inFlightMax` packets are with the handler. A handler that throws settles as `nakDelay` of one second.
 */
export class NatsConsumer {
  readonly #link: NatsLink;
  readonly #publisher: NatsPublisher;
  readonly #options: ConsumerOptions;
  readonly #handler: Handler;
  readonly #pull: NatsPull;
  readonly #held = new Set<Held>();
  readonly #queued = new Queue<Item>();
  #active = 0;
  /** Moving average, to convert free capacity from packets to messages. */
  #packetsPerMessage = 1;
  #isStopped = false;
  #onDone: (() => void) | null = null;
  readonly #progressTimer: NodeJS.Timeout;

  constructor(link: NatsLink, publisher: NatsPublisher, handler: Handler, options: ConsumerOptions) {
    this.#link = link;
    this.#publisher = publisher;
    this.#handler = handler;
    this.#options = options;
    this.#pull = new NatsPull(link, {
      ...options,
      capacity: (requested) => this.#capacity(requested),
      onArrival: (arrival) => this.#onArrival(arrival),
    });
    this.#progressTimer = setInterval(() => this.#signalProgress(), options.ackWaitMs / 3).unref();
    this.#pull.request();
  }

  readonly stop: Stop = async () => {
    if (this.#isStopped) return this.#done();
    this.#isStopped = true;
    await this.#pull.stop();
    this.#returnUnstarted();
    await this.#done();
    clearInterval(this.#progressTimer);
  };

  #done(): Promise<void> {
    if (this.#held.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const before = this.#onDone;
      this.#onDone = () => {
        before?.();
        resolve();
      };
    });
  }

  /** Capacity in messages. Requests are made in batches, not one per packet. */
  #capacity(requested: number): number {
    const { inFlightMax } = this.#options;
    const free = inFlightMax - this.#active - this.#queued.length;
    const count = Math.min(Math.ceil(free / this.#packetsPerMessage), REQUESTED_MAX) - requested;
    return free > 0 && (requested === 0 || count >= requested) ? count : 0;
  }

  #onArrival(arrival: Exclude<Arrival, { kind: "status" }>): void {
    switch (arrival.kind) {
      case "delayed":
        this.#reply(arrival.reply, nakAfter(arrival.delayMs));
        break;
      case "otherGroup":
        this.#reply(arrival.reply, ACK);
        break;
      case "packets": {
        const { reply, attempt, items } = arrival;
        this.#packetsPerMessage += (items.length - this.#packetsPerMessage) / 8;
        const held: Held = {
          reply,
          attempt,
          isFrame: items.length > 1,
          left: items.length,
          hasFailed: false,
          started: 0,
        };
        this.#held.add(held);
        for (const item of items) this.#queued.push({ held, item });
        this.#start();
        break;
      }
      default:
        throw new Error(`unknown arrival ${arrival satisfies never}`);
    }
    if (this.#isStopped) this.#returnUnstarted();
    else this.#pull.request();
  }

  #start(): void {
    while (this.#active < this.#options.inFlightMax && this.#queued.length > 0 && !this.#isStopped) {
      const { held, item } = this.#queued.shift();
      this.#active += 1;
      held.started += 1;
      void this.#handle(held, item);
    }
  }

  async #handle(held: Held, item: Arrived): Promise<void> {
    let settlement: Settlement;
    try {
      const { id } = item;
      settlement = await this.#handler({
        id,
        subject: this.#options.subject,
        attempt: held.attempt,
        content: contentOf(item, this.#options, held.attempt === 1),
      });
    } catch (error) {
      const { subject, log } = this.#options;
      log.write("error", "bus_handler_failed", { subject, message: item.id, error: describeError(error) });
      settlement = { kind: "nakDelay", delayMs: THROWN_DELAY_MS };
    }
    this.#active -= 1;
    this.#settle(held, item, settlement);
    this.#start();
    if (!this.#isStopped) this.#pull.request();
  }

  #settle(held: Held, item: FrameItem, settlement: Settlement): void {
    if (!held.isFrame) {
      this.#settleMessage(held, replyFor(settlement));
      return;
    }
    switch (settlement.kind) {
      case "ack":
      case "term":
        this.#itemDone(held);
        break;
      case "nak":
        void this.#republish(held, item, held.attempt, 0);
        break;
      case "nakDelay":
        void this.#republish(held, item, held.attempt, settlement.delayMs);
        break;
      default:
        throw new Error(`no settlement ${settlement satisfies never}`);
    }
  }

  /** Publishes one packet of a frame again. `attempt` is the number of deliveries to a handler so far. */
  async #republish(held: Held, { id, bytes }: FrameItem, attempt: number, delayMs: number): Promise<void> {
    const { subject, group, log } = this.#options;
    try {
      // The id contains the attempt, so that a later redelivery is not deduplicated.
      const headers = redeliveryHeaders({ id, attempt, group, delayMs });
      await this.#publisher.publishAlone(subject, `${headers["Cordum-Id"]}#${group}#${attempt}`, bytes, headers);
    } catch (error) {
      log.write("warn", "bus_frame_redelivered", { subject, message: id, error: describeError(error) });
      held.hasFailed = true;
    }
    this.#itemDone(held);
  }

  #itemDone(held: Held): void {
    held.left -= 1;
    if (held.left === 0) this.#settleMessage(held, held.hasFailed ? nakAfter(THROWN_DELAY_MS) : ACK);
  }

  #settleMessage(held: Held, text: string): void {
    this.#held.delete(held);
    this.#reply(held.reply, text);
    if (this.#held.size > 0) return;
    this.#onDone?.();
    this.#onDone = null;
  }

  /** Returns packets that were not started: whole messages by a nak, the rest of a started frame packet by packet. */
  #returnUnstarted(): void {
    while (this.#queued.length > 0) {
      const { held, item } = this.#queued.shift();
      if (held.started > 0) void this.#republish(held, item, held.attempt - 1, 0);
      else if (this.#held.has(held)) this.#settleMessage(held, NAK);
    }
  }

  #signalProgress(): void {
    for (const { reply } of this.#held) this.#reply(reply, WORKING);
  }

  /** Does nothing while disconnected: the broker redelivers after the ack wait. */
  #reply(reply: string, text: string): void {
    if (this.#link.isConnected && !this.#link.connection.isClosed()) this.#link.connection.publish(reply, text);
  }
}

export interface ConsumerOptions {
  readonly codec: PacketCodec;
  readonly stream: string;
  readonly consumer: string;
  readonly group: string;
  /** Without the prefix. */
  readonly subject: string;
  readonly ackWaitMs: number;
  readonly inFlightMax: number;
  readonly log: Log;
  ensure(): Promise<void>;
}

/** A message that is not settled yet. */
interface Held {
  readonly reply: string;
  readonly attempt: number;
  readonly isFrame: boolean;
  /** Packets not settled. */
  left: number;
  /** Packets given to the handler. */
  started: number;
  /** A packet that needs redelivery could not be published. */
  hasFailed: boolean;
}

interface Item {
  readonly held: Held;
  readonly item: Arrived;
}

const THROWN_DELAY_MS = 1_000;
/** A message can be a frame of half a megabyte. */
const REQUESTED_MAX = 64;

const ACK = "+ACK";
const NAK = "-NAK";
/** Without a reason: older servers ignore a `+TERM` with one. */
const TERM = "+TERM";
const WORKING = "+WPI";

const nakAfter = (delayMs: number): string => `-NAK {"delay":${Math.ceil(delayMs) * NANOS_PER_MS}}`;

function replyFor(settlement: Settlement): string {
  switch (settlement.kind) {
    case "ack":
      return ACK;
    case "nak":
      return NAK;
    case "nakDelay":
      return settlement.delayMs > 0 ? nakAfter(settlement.delayMs) : NAK;
    case "term":
      return TERM;
    default:
      throw new Error(`no settlement ${settlement satisfies never}`);
  }
}

function contentOf({ bytes, traceparent }: Arrived, { codec, subject }: ConsumerOptions, isFirst: boolean): Content {
  try {
    return { kind: "packet", packet: withTraceHeader(codec.decode(bytes, subject, isFirst), traceparent) };
  } catch (error) {
    if (error instanceof RefusedPacketError) return { kind: "refused", bytes, code: error.code, error: error.message };
    return { kind: "undecodable", bytes, error: describeError(error) };
  }
}

/** FIFO with amortized constant-time `shift`. */
class Queue<T> {
  #items: T[] = [];
  #first = 0;

  get length(): number {
    return this.#items.length - this.#first;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T {
    const item = this.#items[this.#first]!;
    this.#first += 1;
    if (this.#first > 256 && this.#first * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
    return item;
  }
}
