import type { Msg } from "@nats-io/nats-core";
import { createInbox, headers, type PublishOptions } from "@nats-io/transport-node";
import type { Dispatched, Stop } from "../../ports/bus.ts";
import type { Log } from "../../ports/log.ts";
import type { Packet } from "../../protocol/packet.ts";
import { SignatureError } from "../../protocol/signature.ts";
import type { PacketForm } from "../packet-form.ts";
import type { NatsLink } from "./connection.ts";
import { describeError, unavailable } from "./errors.ts";
import { traced } from "./message.ts";

/**
 * What is not kept: `tell` and `listen`, `dispatch` and `serve`, on core NATS. One packet a message: workers of others
 * share the queue groups.
 *
 * 1. A dispatch carries a reply inbox, to which the server says "no responders" if nobody serves the subject. The server
 *    answers in order, so a ping behind the dispatches of one tick makes sure: what has not come before its pong will
 *    not come. One ping serves them all.
 * 2. Dispatches that are not answered in time, or whose connection breaks, are not known to have been sent: they fail.
 * 3. The trace context also travels as a header, where workers of others look for it.
 * 4. Packets that cannot be read, and those that are refused, are counted, logged and dropped; nothing here is kept that
 *    could come again.
 */
export class NatsWork {
  readonly #link: NatsLink;
  readonly #options: WorkOptions;
  readonly #inbox = `${createInbox()}.`;
  readonly #unanswered = new Map<string, Unanswered>();
  #tick: string[] = [];
  #tokens = 0;
  #unreadable = 0;
  #unreadableLoggedMs = Number.NEGATIVE_INFINITY;

  constructor(link: NatsLink, options: WorkOptions) {
    this.#link = link;
    this.#options = options;
    link.connection.subscribe(`${this.#inbox}*`, { callback: (_, message) => this.#answered(message) });
  }

  /** Packets that could not be read since the start. */
  get unreadable(): number {
    return this.#unreadable;
  }

  tell(subject: string, packet: Packet): void {
    if (!this.#link.isConnected) return;
    this.#link.connection.publish(subject, this.#options.form.encode(packet), withTrace(packet, {}));
  }

  listen(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#subscribe(subject, undefined, handler);
  }

  serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#subscribe(subject, subject, handler);
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    return new Promise((resolve, reject) => {
      if (!this.#link.isConnected) throw unavailable("not connected to nats");
      if (this.#unanswered.size >= UNANSWERED_MAX) {
        throw unavailable(`${UNANSWERED_MAX} dispatches wait for nats already`);
      }
      const bytes = this.#options.form.encode(packet);
      this.#tokens += 1;
      const token = this.#tokens.toString(36);
      this.#link.connection.publish(subject, bytes, withTrace(packet, { reply: this.#inbox + token }));
      this.#unanswered.set(token, { resolve, reject });
      if (this.#tick.push(token) === 1) setImmediate(() => this.#endTick());
    });
  }

  #endTick(): void {
    const tokens = this.#tick;
    this.#tick = [];
    const overdue = setTimeout(
      () => this.#settle(tokens, unavailable(`nats did not answer within ${this.#options.timeoutMs} ms`)),
      this.#options.timeoutMs,
    );
    this.#link.connection
      .flush()
      .then(
        () => this.#settle(tokens, null),
        (error) => this.#settle(tokens, unavailable(`the connection was lost: ${describeError(error)}`, error)),
      )
      .finally(() => clearTimeout(overdue));
  }

  #settle(tokens: readonly string[], failure: Error | null): void {
    for (const token of tokens) {
      const one = this.#unanswered.get(token);
      if (one === undefined) continue;
      this.#unanswered.delete(token);
      if (failure === null) one.resolve("sent");
      else one.reject(failure);
    }
  }

  #answered(message: Msg): void {
    // A worker that replies is there; only the server's own word says that nobody is.
    if (message.data.length > 0 || message.headers?.code !== NO_RESPONDERS) return;
    const token = message.subject.slice(this.#inbox.length);
    this.#unanswered.get(token)?.resolve("no_responders");
    this.#unanswered.delete(token);
  }

  async #subscribe(subject: string, queue: string | undefined, handler: (packet: Packet) => void): Promise<Stop> {
    const subscription = this.#link.connection.subscribe(subject, {
      ...(queue === undefined ? {} : { queue }),
      callback: (_, message) => this.#hand(subject, message, handler),
    });
    // Whoever dispatches after this resolves finds us.
    await this.#link.connection.flush().catch((error: unknown) => {
      subscription.unsubscribe();
      throw unavailable(`the connection was lost: ${describeError(error)}`, error);
    });
    return async () => {
      if (subscription.isClosed()) return;
      if (this.#link.isConnected) await subscription.drain().catch(() => undefined);
      else subscription.unsubscribe();
    };
  }

  #hand(subject: string, message: Msg, handler: (packet: Packet) => void): void {
    let packet: Packet;
    try {
      const decoded = this.#options.form.decode(message.data, subject, true);
      packet = traced(decoded, message.headers?.get("traceparent"));
    } catch (error) {
      if (error instanceof SignatureError) return; // Counted where it was looked at.
      this.#countUnreadable(subject, describeError(error));
      return;
    }
    try {
      handler(packet);
    } catch (error) {
      this.#options.log.write("error", "bus_listener_threw", { subject, error: describeError(error) });
    }
  }

  /** Anybody can send nonsense, at any rate: it is all counted, and logged once a second at most. */
  #countUnreadable(subject: string, error: string): void {
    this.#unreadable += 1;
    const nowMs = performance.now();
    if (nowMs - this.#unreadableLoggedMs < 1_000) return;
    this.#unreadableLoggedMs = nowMs;
    this.#options.log.write("warn", "bus_packet_unreadable", { subject, error, total: this.#unreadable });
  }
}

/** Options of one publish alone: the client writes into them. */
function withTrace({ traceparent }: Packet, options: PublishOptions): PublishOptions {
  if (traceparent === undefined) return options;
  options.headers = headers();
  options.headers.set("traceparent", traceparent);
  return options;
}

export interface WorkOptions {
  readonly log: Log;
  readonly form: PacketForm;
  readonly timeoutMs: number;
}

interface Unanswered {
  resolve(answer: Dispatched): void;
  reject(error: Error): void;
}

const NO_RESPONDERS = 503;
const UNANSWERED_MAX = 65_536;
