import type { Msg, Subscription } from "@nats-io/nats-core";
import { createInbox } from "@nats-io/transport-node";
import type { Log } from "../../ports/log.ts";
import type { NatsLink } from "./connection.ts";
import { describeError } from "./errors.ts";
import { type Arrival, readArrival } from "./message.ts";
import { NANOS_PER_MS } from "./stream.ts";

/**
 * Asks a consumer for messages, never for more than there is room for.
 *
 * 1. The server gives what was asked for and no more, so what waits here is bounded by what the owner said it has room
 *    for, not by what is in the stream.
 * 2. A request that was lost (connection, leader, server) is noticed by the missing heartbeat and made again; a
 *    consumer that is gone is made anew. It goes on until it is stopped.
 */
export class NatsPull {
  readonly #link: NatsLink;
  readonly #options: PullOptions;
  readonly #inbox = createInbox();
  readonly #subscription: Subscription;
  /** Asked for, not yet come. */
  #asked = 0;
  #heardMs = 0;
  #isStopped = false;
  #isReviving = false;
  #pause: NodeJS.Timeout | null = null;
  readonly #watchdog: NodeJS.Timeout;
  readonly #endBack: () => void;

  constructor(link: NatsLink, options: PullOptions) {
    this.#link = link;
    this.#options = options;
    this.#subscription = link.connection.subscribe(this.#inbox, { callback: (_, message) => this.#arrived(message) });
    this.#watchdog = setInterval(() => this.#lookAfter(), HEARTBEAT_MS).unref();
    this.#endBack = link.onBack(() => void this.#makeSure());
  }

  /** To be called whenever there may be room. */
  ask(): void {
    if (this.#isStopped || this.#isReviving || this.#pause !== null || !this.#link.isConnected) return;
    const count = this.#options.room(this.#asked);
    if (count <= 0) return;
    if (this.#asked === 0) this.#heardMs = performance.now();
    this.#asked += count;
    const { stream, consumer } = this.#options;
    const body = `{"batch":${count},"expires":${EXPIRES_MS * NANOS_PER_MS},"idle_heartbeat":${HEARTBEAT_MS * NANOS_PER_MS}}`;
    this.#link.connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`, body, { reply: this.#inbox });
  }

  /** Takes nothing new; what the server has sent already still arrives before this resolves. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#endBack();
    clearInterval(this.#watchdog);
    if (this.#pause !== null) clearTimeout(this.#pause);
    if (this.#link.isConnected) await this.#subscription.drain().catch(() => undefined);
    else this.#subscription.unsubscribe();
  }

  #arrived(message: Msg): void {
    this.#heardMs = performance.now();
    const arrival = readArrival(message, this.#options.group);
    if (arrival.kind !== "status") {
      this.#asked = Math.max(0, this.#asked - 1);
      this.#options.onArrival(arrival);
      return;
    }
    this.#heed(arrival);
  }

  #heed({ code, text, left }: Extract<Arrival, { kind: "status" }>): void {
    if (code === IDLE_HEARTBEAT) return;
    this.#asked = left === null ? 0 : Math.max(0, this.#asked - left);
    if (code === NO_RESPONDERS || /deleted/i.test(text)) {
      void this.#revive(text);
    } else if (code === REQUEST_ENDED || code === NO_MESSAGES || /leadership|shutdown/i.test(text)) {
      this.ask();
    } else {
      this.#options.log.write("warn", "bus_pull_refused", { consumer: this.#options.consumer, code, text });
      this.#rest();
    }
  }

  /** A server that says no is not asked again at once. */
  #rest(): void {
    this.#pause ??= setTimeout(() => {
      this.#pause = null;
      this.ask();
    }, REST_MS);
  }

  #lookAfter(): void {
    const isSilent = this.#asked > 0 && performance.now() - this.#heardMs > SILENCE_MS_MAX;
    // A consumer that was deleted while it was asked may swallow requests without a word: so look whether it is there.
    if (isSilent && this.#link.isConnected) void this.#revive("no sign of life");
    else this.ask();
  }

  async #revive(why: string): Promise<void> {
    if (this.#isReviving || this.#isStopped) return;
    const { consumer, log } = this.#options;
    log.write("warn", "bus_consumer_gone", { consumer, why });
    this.#isReviving = true;
    // The server is still removing the files of what it calls deleted, and trips over new ones.
    await rest();
    this.#isReviving = false;
    await this.#makeSure();
    log.write("info", "bus_consumer_back", { consumer });
  }

  /**
   * A server that was away may have come back without its data, and one that has no such consumer does not say so when
   * it is asked for messages. So the consumer is looked for, and made if need be, before it is asked again.
   */
  async #makeSure(): Promise<void> {
    if (this.#isReviving) return;
    this.#isReviving = true;
    const { consumer, log, ensure } = this.#options;
    while (!this.#isStopped) {
      try {
        await ensure();
        break;
      } catch (error) {
        log.write("warn", "bus_consumer_not_made", { consumer, error: describeError(error) });
        await rest();
      }
    }
    this.#isReviving = false;
    this.#asked = 0;
    this.ask();
  }
}

const rest = (): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, REST_MS).unref();
  });

export interface PullOptions {
  readonly stream: string;
  readonly consumer: string;
  readonly group: string;
  readonly log: Log;
  /** How many messages more may be asked for, given how many are asked for already. */
  room(asked: number): number;
  onArrival(arrival: Exclude<Arrival, { kind: "status" }>): void;
  /** Makes stream and consumer if they are not there. */
  ensure(): Promise<void>;
}

const IDLE_HEARTBEAT = 100;
const NO_MESSAGES = 404;
const REQUEST_ENDED = 408;
const NO_RESPONDERS = 503;

const EXPIRES_MS = 30_000;
const HEARTBEAT_MS = 2_000;
const SILENCE_MS_MAX = HEARTBEAT_MS * 2.5;
const REST_MS = 1_000;
