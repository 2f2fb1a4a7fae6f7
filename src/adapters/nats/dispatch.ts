import type { Msg, MsgHdrs } from "@nats-io/nats-core";
import { createInbox, headers, type PublishOptions } from "@nats-io/transport-node";
import type { Dispatched, Stop } from "../../ports/bus.ts";
import type { Log } from "../../ports/log.ts";
import type { Packet } from "../../protocol/packet.ts";
import { SignatureError } from "../../protocol/signature.ts";
import type { PacketCodec } from "../packet-codec.ts";
import type { NatsLink } from "./connection.ts";
import { describeError, unavailable } from "./errors.ts";
import { withTraceHeader } from "./message.ts";

/**
 * Broadcast and dispatch on core NATS, one packet per message: third-party workers share the queue groups.
 *
 * 1. A dispatch carries a reply inbox, on which the server reports "no responders". The server replies in order, so one
 *    ping after the dispatches of a tick is enough: a report that has not arrived before the pong will not arrive.
 * 2. A dispatch rejects if the pong does not arrive in time or the connection breaks: its outcome is unknown.
 * 3. The trace context is also sent as a header, where third-party workers read it. Attempt and deadline of an open
 *    packet are sent as headers only: a worker of the SDK may share the queue group with other workers.
 * 4. Packets that cannot be decoded or verified are counted, logged and dropped.
 */
export class NatsDispatch {
  readonly #link: NatsLink;
  readonly #options: DispatchOptions;
  readonly #inbox = `${createInbox()}.`;
  readonly #pending = new Map<string, Pending>();
  #tick: string[] = [];
  #tokens = 0;
  #unreadable = 0;
  #unreadableLoggedMs = Number.NEGATIVE_INFINITY;

  constructor(link: NatsLink, options: DispatchOptions) {
    this.#link = link;
    this.#options = options;
    link.connection.subscribe(`${this.#inbox}*`, { callback: (_, message) => this.#onReply(message) });
  }

  /** Packets that could not be decoded since the start. */
  get unreadable(): number {
    return this.#unreadable;
  }

  broadcast(subject: string, packet: Packet): void {
    if (!this.#link.isConnected) return;
    this.#link.connection.publish(subject, this.#options.codec.encode(packet), withHeaders(packet, {}));
  }

  subscribe(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#subscribe(subject, undefined, handler);
  }

  serve(subject: string, handler: (packet: Packet) => void): Promise<Stop> {
    return this.#subscribe(subject, subject, handler);
  }

  dispatch(subject: string, packet: Packet): Promise<Dispatched> {
    return new Promise((resolve, reject) => {
      if (!this.#link.isConnected) throw unavailable("not connected to nats");
      if (this.#pending.size >= PENDING_MAX) {
        throw unavailable(`too many pending dispatches (${PENDING_MAX}): nats replies too slowly`);
      }
      const bytes = this.#options.codec.encode(packet);
      this.#tokens += 1;
      const token = this.#tokens.toString(36);
      this.#link.connection.publish(subject, bytes, withHeaders(packet, { reply: this.#inbox + token }));
      this.#pending.set(token, { resolve, reject });
      if (this.#tick.push(token) === 1) setImmediate(() => this.#endTick());
    });
  }

  #endTick(): void {
    const tokens = this.#tick;
    this.#tick = [];
    const timeout = setTimeout(
      () => this.#settle(tokens, unavailable(`no reply from nats within ${this.#options.timeoutMs} ms`)),
      this.#options.timeoutMs,
    );
    this.#link.connection
      .flush()
      .then(
        () => this.#settle(tokens, null),
        (error) => this.#settle(tokens, unavailable(`connection to nats lost: ${describeError(error)}`, error)),
      )
      .finally(() => clearTimeout(timeout));
  }

  #settle(tokens: readonly string[], failure: Error | null): void {
    for (const token of tokens) {
      const one = this.#pending.get(token);
      if (one === undefined) continue;
      this.#pending.delete(token);
      if (failure === null) one.resolve("sent");
      else one.reject(failure);
    }
  }

  #onReply(message: Msg): void {
    // Workers may reply with data; only a status without data is from the server.
    if (message.data.length > 0 || message.headers?.code !== NO_RESPONDERS) return;
    const token = message.subject.slice(this.#inbox.length);
    this.#pending.get(token)?.resolve("no_responders");
    this.#pending.delete(token);
  }

  async #subscribe(subject: string, queue: string | undefined, handler: (packet: Packet) => void): Promise<Stop> {
    const subscription = this.#link.connection.subscribe(subject, {
      ...(queue === undefined ? {} : { queue }),
      callback: (_, message) => this.#deliver(subject, message, handler),
    });
    // After the flush the server knows the subscription.
    await this.#link.connection.flush().catch((error: unknown) => {
      subscription.unsubscribe();
      throw unavailable(`connection to nats lost: ${describeError(error)}`, error);
    });
    return async () => {
      if (subscription.isClosed()) return;
      if (this.#link.isConnected) await subscription.drain().catch(() => undefined);
      else subscription.unsubscribe();
    };
  }

  #deliver(subject: string, message: Msg, handler: (packet: Packet) => void): void {
    let packet: Packet;
    try {
      const decoded = this.#options.codec.decode(message.data, subject, true);
      packet = message.headers === undefined ? decoded : fromHeaders(decoded, message.headers);
    } catch (error) {
      if (error instanceof SignatureError) return; // Already counted by the verifier.
      this.#countUnreadable(subject, describeError(error));
      return;
    }
    try {
      handler(packet);
    } catch (error) {
      this.#options.log.write("error", "bus_subscriber_failed", { subject, error: describeError(error) });
    }
  }

  /** Any client can send invalid packets at any rate: all are counted, one per second is logged. */
  #countUnreadable(subject: string, error: string): void {
    this.#unreadable += 1;
    const nowMs = performance.now();
    if (nowMs - this.#unreadableLoggedMs < 1_000) return;
    this.#unreadableLoggedMs = nowMs;
    this.#options.log.write("warn", "bus_packet_unreadable", { subject, error, total: this.#unreadable });
  }
}

/** `options` must be a new object: the client modifies it. */
function withHeaders({ traceparent, isOpen, body }: Packet, options: PublishOptions): PublishOptions {
  const attempt = isOpen && body.kind === "job_request" ? body.attempt : undefined;
  if (traceparent === undefined && attempt === undefined) return options;
  options.headers = headers();
  if (traceparent !== undefined) options.headers.set("traceparent", traceparent);
  if (attempt === undefined || body.kind !== "job_request") return options;
  options.headers.set(ATTEMPT_HEADER, String(attempt));
  if (body.deadlineMs !== undefined) options.headers.set(DEADLINE_HEADER, String(body.deadlineMs));
  return options;
}

/** Adds what was sent as headers. Any client can set headers: invalid numbers are ignored. */
function fromHeaders(packet: Packet, fields: MsgHdrs): Packet {
  const traced = withTraceHeader(packet, fields.get("traceparent"));
  const { body } = traced;
  if (body.kind !== "job_request" || body.attempt !== undefined) return traced;
  const [attempt, deadlineMs] = [Number(fields.get(ATTEMPT_HEADER)), Number(fields.get(DEADLINE_HEADER))];
  if (!Number.isSafeInteger(attempt) || attempt < 1) return traced;
  const isDeadline = Number.isSafeInteger(deadlineMs) && deadlineMs > 0;
  return { ...traced, body: { ...body, attempt, ...(isDeadline ? { deadlineMs } : {}) } };
}

const ATTEMPT_HEADER = "Cordum-Job-Attempt";
const DEADLINE_HEADER = "Cordum-Job-Deadline-Ms";

export interface DispatchOptions {
  readonly log: Log;
  readonly codec: PacketCodec;
  readonly timeoutMs: number;
}

interface Pending {
  resolve(answer: Dispatched): void;
  reject(error: Error): void;
}

const NO_RESPONDERS = 503;
const PENDING_MAX = 65_536;
