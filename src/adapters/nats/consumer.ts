import type { Settlement } from "../../core/retry/bus-action.ts";
import type { Content, Handler, Stop } from "../../ports/bus.ts";
import type { Log } from "../../ports/log.ts";
import type { FrameItem } from "../../protocol/frame.ts";
import { SignatureError } from "../../protocol/signature.ts";
import type { PacketForm } from "../packet-form.ts";
import type { NatsLink } from "./connection.ts";
import { describeError } from "./errors.ts";
import { type Arrival, type Arrived, noteHeaders, traced } from "./message.ts";
import type { NatsPublisher } from "./publisher.ts";
import { NatsPull } from "./pull.ts";
import { NANOS_PER_MS } from "./stream.ts";

/**
 * One member of a group: pulls messages, hands their packets to the handler, tells the broker what became of them.
 *
 * 1. A message is acknowledged when every packet in it is settled, and never before its handler said so.
 * 2. A packet of a frame that has to come again is published again alone, then the frame is acknowledged; if that
 *    publish fails, the frame comes again as a whole.
 * 3. While any packet of a message is with us, the broker hears so every third of the ack wait.
 * 4. At most `inFlightMax` packets are with the handler; a handler that throws is `nakDelay` of a second.
 */
export class NatsMember {
  readonly #link: NatsLink;
  readonly #publisher: NatsPublisher;
  readonly #options: MemberOptions;
  readonly #handler: Handler;
  readonly #pull: NatsPull;
  readonly #held = new Set<Held>();
  readonly #waiting = new Queue<Item>();
  #active = 0;
  /** How many packets a message has, lately: what a free place is worth in messages. */
  #packetsPerMessage = 1;
  #isStopped = false;
  #whenDone: (() => void) | null = null;
  readonly #beat: NodeJS.Timeout;

  constructor(link: NatsLink, publisher: NatsPublisher, handler: Handler, options: MemberOptions) {
    this.#link = link;
    this.#publisher = publisher;
    this.#handler = handler;
    this.#options = options;
    this.#pull = new NatsPull(link, {
      ...options,
      room: (asked) => this.#room(asked),
      onArrival: (arrival) => this.#arrived(arrival),
    });
    this.#beat = setInterval(() => this.#signal(), options.ackWaitMs / 3).unref();
    this.#pull.ask();
  }

  readonly stop: Stop = async () => {
    if (this.#isStopped) return this.#done();
    this.#isStopped = true;
    await this.#pull.stop();
    this.#giveBack();
    await this.#done();
    clearInterval(this.#beat);
  };

  #done(): Promise<void> {
    if (this.#held.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const before = this.#whenDone;
      this.#whenDone = () => {
        before?.();
        resolve();
      };
    });
  }

  /** As many messages as the free places are worth; in lots, so that a request is not made for every packet. */
  #room(asked: number): number {
    const { inFlightMax } = this.#options;
    const free = inFlightMax - this.#active - this.#waiting.length;
    const wanted = Math.min(Math.ceil(free / this.#packetsPerMessage), ASKED_MAX) - asked;
    return free > 0 && (asked === 0 || wanted >= asked) ? wanted : 0;
  }

  #arrived(arrival: Exclude<Arrival, { kind: "status" }>): void {
    switch (arrival.kind) {
      case "hold":
        this.#say(arrival.reply, nakAfter(arrival.delayMs));
        break;
      case "elsewhere":
        this.#say(arrival.reply, ACK);
        break;
      case "packets": {
        const { reply, attempt, items } = arrival;
        this.#packetsPerMessage += (items.length - this.#packetsPerMessage) / 8;
        const held: Held = { reply, attempt, isFrame: items.length > 1, left: items.length, isBroken: false, begun: 0 };
        this.#held.add(held);
        for (const item of items) this.#waiting.push({ held, item });
        this.#start();
        break;
      }
      default:
        throw new Error(`no arrival ${arrival satisfies never}`);
    }
    if (this.#isStopped) this.#giveBack();
    else this.#pull.ask();
  }

  #start(): void {
    while (this.#active < this.#options.inFlightMax && this.#waiting.length > 0 && !this.#isStopped) {
      const { held, item } = this.#waiting.shift();
      this.#active += 1;
      held.begun += 1;
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
      log.write("error", "bus_handler_threw", { subject, message: item.id, error: describeError(error) });
      settlement = { kind: "nakDelay", delayMs: THROWN_DELAY_MS };
    }
    this.#active -= 1;
    this.#settle(held, item, settlement);
    this.#start();
    if (!this.#isStopped) this.#pull.ask();
  }

  #settle(held: Held, item: FrameItem, settlement: Settlement): void {
    if (!held.isFrame) {
      this.#end(held, wordFor(settlement));
      return;
    }
    switch (settlement.kind) {
      case "ack":
      case "term":
        this.#itemDone(held);
        break;
      case "nak":
        void this.#alone(held, item, held.attempt, 0);
        break;
      case "nakDelay":
        void this.#alone(held, item, held.attempt, settlement.delayMs);
        break;
      default:
        throw new Error(`no settlement ${settlement satisfies never}`);
    }
  }

  /** `attempt` is how often the packet has been with a handler. */
  async #alone(held: Held, { id, bytes }: FrameItem, attempt: number, delayMs: number): Promise<void> {
    const { subject, group, log } = this.#options;
    try {
      // The attempt is part of the id: the same packet that fails again is another message.
      const note = noteHeaders({ id, attempt, group, delayMs });
      await this.#publisher.publishAlone(subject, `${note["Cordum-Id"]}#${group}#${attempt}`, bytes, note);
    } catch (error) {
      log.write("warn", "bus_frame_comes_again", { subject, message: id, error: describeError(error) });
      held.isBroken = true;
    }
    this.#itemDone(held);
  }

  #itemDone(held: Held): void {
    held.left -= 1;
    if (held.left === 0) this.#end(held, held.isBroken ? nakAfter(THROWN_DELAY_MS) : ACK);
  }

  #end(held: Held, word: string): void {
    this.#held.delete(held);
    this.#say(held.reply, word);
    if (this.#held.size > 0) return;
    this.#whenDone?.();
    this.#whenDone = null;
  }

  /** What was not begun goes back at once: whole messages to the broker, the rest of a begun frame packet by packet. */
  #giveBack(): void {
    while (this.#waiting.length > 0) {
      const { held, item } = this.#waiting.shift();
      if (held.begun > 0) void this.#alone(held, item, held.attempt - 1, 0);
      else if (this.#held.has(held)) this.#end(held, NAK);
    }
  }

  #signal(): void {
    for (const { reply } of this.#held) this.#say(reply, WORKING);
  }

  /** Without a connection nothing is said; the broker gives the message to somebody else when the ack wait is over. */
  #say(reply: string, word: string): void {
    if (this.#link.isConnected && !this.#link.connection.isClosed()) this.#link.connection.publish(reply, word);
  }
}

export interface MemberOptions {
  readonly form: PacketForm;
  readonly stream: string;
  readonly consumer: string;
  readonly group: string;
  /** As the core calls it. */
  readonly subject: string;
  readonly ackWaitMs: number;
  readonly inFlightMax: number;
  readonly log: Log;
  ensure(): Promise<void>;
}

/** A message that is with us, until the broker is told what became of it. */
interface Held {
  readonly reply: string;
  readonly attempt: number;
  readonly isFrame: boolean;
  /** Packets that are not settled. */
  left: number;
  /** Packets that were given to the handler. */
  begun: number;
  /** A packet that should have been published again could not be. */
  isBroken: boolean;
}

interface Item {
  readonly held: Held;
  readonly item: Arrived;
}

const THROWN_DELAY_MS = 1_000;
/** Any of them may turn out to be a frame of half a megabyte. */
const ASKED_MAX = 64;

const ACK = "+ACK";
const NAK = "-NAK";
/** Without a reason: older servers ignore a termination that gives one. */
const TERM = "+TERM";
const WORKING = "+WPI";

const nakAfter = (delayMs: number): string => `-NAK {"delay":${Math.ceil(delayMs) * NANOS_PER_MS}}`;

function wordFor(settlement: Settlement): string {
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

function contentOf({ bytes, traceparent }: Arrived, { form, subject }: MemberOptions, isFirst: boolean): Content {
  try {
    return { kind: "packet", packet: traced(form.decode(bytes, subject, isFirst), traceparent) };
  } catch (error) {
    if (error instanceof SignatureError) return { kind: "refused", bytes, code: error.code, error: error.message };
    return { kind: "undecodable", bytes, error: describeError(error) };
  }
}

/** First in, first out, without moving the rest at each step. */
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
