import type { Msg, Subscription } from "@nats-io/nats-core";
import { createInbox } from "@nats-io/transport-node";
import type { Log } from "../../ports/log.ts";
import type { NatsLink } from "./connection.ts";
import { describeError } from "./errors.ts";
import { type Arrival, readArrival } from "./message.ts";
import { NANOS_PER_MS } from "./stream.ts";

/**
 * Pulls messages from a JetStream consumer, at most as many as the owner has capacity for.
 *
 * 1. The number of buffered messages is bounded by `capacity`, not by the stream.
 * 2. A missing heartbeat reveals a lost pull request (connection, leader, server), which is then repeated. A deleted
 *    consumer is created again. Pulling continues until `stop`.
 */
export class NatsPull {
  readonly #link: NatsLink;
  readonly #options: PullOptions;
  readonly #inbox = createInbox();
  readonly #subscription: Subscription;
  /** Messages requested and not yet received. */
  #requested = 0;
  #lastSeenMs = 0;
  #isStopped = false;
  #isRestoring = false;
  #backoffTimer: NodeJS.Timeout | null = null;
  readonly #watchdog: NodeJS.Timeout;
  readonly #stopReconnect: () => void;

  constructor(link: NatsLink, options: PullOptions) {
    this.#link = link;
    this.#options = options;
    this.#subscription = link.connection.subscribe(this.#inbox, { callback: (_, message) => this.#onMessage(message) });
    this.#watchdog = setInterval(() => this.#checkHeartbeat(), HEARTBEAT_MS).unref();
    this.#stopReconnect = link.onReconnect(() => void this.#ensureConsumer());
  }

  /** Call this whenever capacity may be available. */
  request(): void {
    if (this.#isStopped || this.#isRestoring || this.#backoffTimer !== null || !this.#link.isConnected) return;
    const count = this.#options.capacity(this.#requested);
    if (count <= 0) return;
    if (this.#requested === 0) this.#lastSeenMs = performance.now();
    this.#requested += count;
    const { stream, consumer } = this.#options;
    const body = `{"batch":${count},"expires":${EXPIRES_MS * NANOS_PER_MS},"idle_heartbeat":${HEARTBEAT_MS * NANOS_PER_MS}}`;
    this.#link.connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`, body, { reply: this.#inbox });
  }

  /** Requests no more messages. Resolves after messages already sent by the server have arrived. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#stopReconnect();
    clearInterval(this.#watchdog);
    if (this.#backoffTimer !== null) clearTimeout(this.#backoffTimer);
    if (this.#link.isConnected) await this.#subscription.drain().catch(() => undefined);
    else this.#subscription.unsubscribe();
  }

  #onMessage(message: Msg): void {
    this.#lastSeenMs = performance.now();
    const arrival = readArrival(message, this.#options.group);
    if (arrival.kind !== "status") {
      this.#requested = Math.max(0, this.#requested - 1);
      this.#options.onArrival(arrival);
      return;
    }
    this.#onStatus(arrival);
  }

  #onStatus({ code, text, left }: Extract<Arrival, { kind: "status" }>): void {
    if (code === IDLE_HEARTBEAT) return;
    this.#requested = left === null ? 0 : Math.max(0, this.#requested - left);
    if (code === NO_RESPONDERS || /deleted/i.test(text)) {
      void this.#restore(text);
    } else if (code === REQUEST_ENDED || code === NO_MESSAGES || /leadership|shutdown/i.test(text)) {
      this.request();
    } else {
      this.#options.log.write("warn", "bus_pull_refused", { consumer: this.#options.consumer, code, text });
      this.#requestLater();
    }
  }

  /** Backs off after an error status. */
  #requestLater(): void {
    this.#backoffTimer ??= setTimeout(() => {
      this.#backoffTimer = null;
      this.request();
    }, BACKOFF_MS);
  }

  #checkHeartbeat(): void {
    const isSilent = this.#requested > 0 && performance.now() - this.#lastSeenMs > SILENCE_MS_MAX;
    // The server may drop requests to a deleted consumer without a status, so check that the consumer exists.
    if (isSilent && this.#link.isConnected) void this.#restore("no heartbeat");
    else this.request();
  }

  async #restore(reason: string): Promise<void> {
    if (this.#isRestoring || this.#isStopped) return;
    const { consumer, log } = this.#options;
    log.write("warn", "bus_consumer_lost", { consumer, reason });
    this.#isRestoring = true;
    // The server may still be removing files of the deleted consumer; creating it at once can fail.
    await backoff();
    this.#isRestoring = false;
    await this.#ensureConsumer();
    log.write("info", "bus_consumer_restored", { consumer });
  }

  /** Creates the consumer if needed. A restarted server may have lost it, and pull requests then fail silently. */
  async #ensureConsumer(): Promise<void> {
    if (this.#isRestoring) return;
    this.#isRestoring = true;
    const { consumer, log, ensure } = this.#options;
    while (!this.#isStopped) {
      try {
        await ensure();
        break;
      } catch (error) {
        log.write("warn", "bus_consumer_create_failed", { consumer, error: describeError(error) });
        await backoff();
      }
    }
    this.#isRestoring = false;
    this.#requested = 0;
    this.request();
  }
}

const backoff = (): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, BACKOFF_MS).unref();
  });

export interface PullOptions {
  readonly stream: string;
  readonly consumer: string;
  readonly group: string;
  readonly log: Log;
  /** How many more messages to request, given the number already requested. */
  capacity(requested: number): number;
  onArrival(arrival: Exclude<Arrival, { kind: "status" }>): void;
  /** Creates the stream and the consumer if they do not exist. */
  ensure(): Promise<void>;
}

const IDLE_HEARTBEAT = 100;
const NO_MESSAGES = 404;
const REQUEST_ENDED = 408;
const NO_RESPONDERS = 503;

const EXPIRES_MS = 30_000;
const HEARTBEAT_MS = 2_000;
const SILENCE_MS_MAX = HEARTBEAT_MS * 2.5;
const BACKOFF_MS = 1_000;
