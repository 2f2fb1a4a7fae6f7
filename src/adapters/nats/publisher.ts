import { createHash } from "node:crypto";
import { headers, type Msg, type MsgHdrs } from "@nats-io/nats-core";
import { createInbox } from "@nats-io/transport-node";
import type { Message } from "../../ports/bus.ts";
import { encodeFrame, FRAME_ITEMS_MAX } from "../../protocol/frame.ts";
import type { PacketCodec } from "../packet-codec.ts";
import { RecentIds } from "../recent-ids.ts";
import type { NatsLink } from "./connection.ts";
import { describeError, refused, unavailable } from "./errors.ts";
import { readPublishAck } from "./publish-ack.ts";

/**
 * Durable publishing, batched: the publishes of one tick to one subject are sent as one JetStream message (a frame).
 *
 * 1. A publish resolves once the stream has confirmed its message with a sequence number and no error.
 * 2. Messages in flight, queued packets, their bytes and the time without a reply are bounded. Beyond a bound, and while
 *    disconnected, a publish rejects at once.
 * 3. Publishes are deduplicated by id: a duplicate shares the result of a publish in flight, and resolves at once within
 *    two minutes of the confirmation. Across processes the stream deduplicates messages that are not framed.
 */
export class NatsPublisher {
  readonly #link: NatsLink;
  readonly #queues: ReadonlyMap<string, PublishQueue>;
  readonly #codec: PacketCodec;
  readonly #timeoutMs: number;
  readonly #packetBytesMax: number;
  readonly #frameBytesMax: number;
  readonly #inbox = `${createInbox()}.`;
  /** By token, in send order. */
  readonly #sent = new Map<string, Sent>();
  #tokens = 0;
  #queued = 0;
  #queuedBytes = 0;
  #isDrainScheduled = false;
  #timeout: NodeJS.Timeout | null = null;
  #onIdle: (() => void)[] = [];

  constructor(link: NatsLink, options: PublisherOptions) {
    this.#link = link;
    this.#codec = options.codec;
    this.#timeoutMs = options.timeoutMs;
    this.#packetBytesMax = link.server.payloadBytesMax - HEADER_BYTES_MAX;
    this.#frameBytesMax = Math.min(FRAME_BYTES_MAX, link.server.payloadBytesMax / 2);
    this.#queues = new Map(options.subjects.map((subject) => [subject.name, new PublishQueue(subject)]));
    link.connection.subscribe(`${this.#inbox}*`, { callback: (_, message) => this.#onAck(message) });
    link.onDisconnect(() => this.#failAll("the connection was lost before the stream confirmed"));
  }

  publish({ subject, id, packet }: Message): Promise<void> {
    try {
      const queue = this.#queue(subject);
      const known = queue.find(id);
      if (known !== null) return known;
      return this.#enqueue(queue, id, this.#codec.encode(packet));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Sends one packet as one message, ahead of the queue, with additional headers. */
  publishAlone(
    subject: string,
    id: string,
    bytes: Uint8Array,
    extraHeaders: Readonly<Record<string, string>>,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const queue = this.#queue(subject);
      if (!this.#link.isConnected) throw notConnected();
      this.#send(queue, [{ id, bytes, promise: null, resolve, reject }], bytes, id, extraHeaders);
    });
  }

  /** Resolves when nothing is queued or in flight. */
  idle(): Promise<void> {
    if (this.#queued === 0 && this.#sent.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  #queue(subject: string): PublishQueue {
    const queue = this.#queues.get(subject);
    if (queue === undefined)
      throw refused(`\`${subject}\` is not a durable subject: use \`broadcast\` or \`dispatch\``);
    return queue;
  }

  #enqueue(queue: PublishQueue, id: string, bytes: Uint8Array): Promise<void> {
    if (!this.#link.isConnected) throw notConnected();
    if (bytes.length > this.#packetBytesMax) {
      throw refused(`packet of ${bytes.length} bytes exceeds the limit of ${this.#packetBytesMax}: store it as a blob`);
    }
    if (this.#queued >= QUEUED_MAX || this.#queuedBytes >= QUEUED_BYTES_MAX) {
      throw unavailable(`publish queue full (${this.#queued} packets): nats is too slow`);
    }
    this.#queued += 1;
    this.#queuedBytes += bytes.length;
    if (!this.#isDrainScheduled) {
      this.#isDrainScheduled = true;
      setImmediate(() => {
        this.#isDrainScheduled = false;
        for (const one of this.#queues.values()) this.#drain(one);
      });
    }
    return queue.add(id, bytes);
  }

  #drain(queue: PublishQueue): void {
    while (queue.queued.length > 0 && queue.inFlight < queue.inFlightMax) {
      const batch = queue.take(this.#frameBytesMax);
      this.#queued -= batch.length;
      for (const { bytes } of batch) this.#queuedBytes -= bytes.length;
      const [first] = batch;
      if (batch.length === 1 && isHeaderSafe(first!.id)) this.#send(queue, batch, first!.bytes, first!.id, null);
      else this.#send(queue, batch, encodeFrame(batch), frameId(batch), null);
    }
  }

  #send(
    queue: PublishQueue,
    entries: Entry[],
    bytes: Uint8Array,
    id: string,
    extraHeaders: Readonly<Record<string, string>> | null,
  ) {
    this.#tokens += 1;
    const token = this.#tokens.toString(36);
    queue.inFlight += 1;
    this.#sent.set(token, { queue, entries, deadlineMs: performance.now() + this.#timeoutMs });
    this.#timeout ??= setTimeout(() => this.#expire(), this.#timeoutMs);
    try {
      const fields = { headers: headersOf(id, extraHeaders), reply: this.#inbox + token };
      this.#link.connection.publish(queue.subject, bytes, fields);
    } catch (error) {
      this.#end(token, unavailable(`nats did not accept the message: ${describeError(error)}`, error));
    }
  }

  #onAck(message: Msg): void {
    const token = message.subject.slice(this.#inbox.length);
    const sent = this.#sent.get(token);
    if (sent === undefined) return;
    this.#end(token, readPublishAck(message));
    this.#drain(sent.queue);
  }

  #end(token: string, failure: Error | null): void {
    const sent = this.#sent.get(token);
    if (sent === undefined) return;
    this.#sent.delete(token);
    sent.queue.inFlight -= 1;
    sent.queue.settle(sent.entries, failure);
    this.#checkIdle();
  }

  #checkIdle(): void {
    if (this.#sent.size > 0) return;
    if (this.#timeout !== null) clearTimeout(this.#timeout);
    this.#timeout = null;
    if (this.#queued === 0) for (const wake of this.#onIdle.splice(0)) wake();
  }

  /** All messages have the same timeout, so the oldest expire first. */
  #expire(): void {
    this.#timeout = null;
    const nowMs = performance.now();
    for (const [token, { deadlineMs, queue }] of this.#sent) {
      if (deadlineMs > nowMs) {
        this.#timeout = setTimeout(() => this.#expire(), deadlineMs - nowMs + 1);
        break;
      }
      this.#end(token, unavailable(`the stream did not confirm within ${this.#timeoutMs} ms`));
      this.#drain(queue);
    }
  }

  #failAll(reason: string): void {
    const failure = unavailable(reason);
    for (const queue of this.#queues.values()) queue.settle(queue.queued.splice(0), failure);
    this.#queued = 0;
    this.#queuedBytes = 0;
    for (const token of [...this.#sent.keys()]) this.#end(token, failure);
    this.#checkIdle();
  }
}

export interface PublisherOptions {
  readonly codec: PacketCodec;
  readonly timeoutMs: number;
  readonly subjects: readonly DurableSubject[];
}

export interface DurableSubject {
  /** Without the prefix. */
  readonly name: string;
  /** With the prefix. */
  readonly subject: string;
  /** False for subjects that third parties read: each packet is its own message. */
  readonly isFramed: boolean;
}

interface Entry {
  readonly id: string;
  readonly bytes: Uint8Array;
  readonly promise: Promise<void> | null;
  resolve(): void;
  reject(error: Error): void;
}

interface Sent {
  readonly queue: PublishQueue;
  readonly entries: readonly Entry[];
  readonly deadlineMs: number;
}

/** The publish queue of one subject. */
class PublishQueue {
  readonly subject: string;
  readonly queued: Entry[] = [];
  readonly inFlightMax: number;
  inFlight = 0;
  readonly #itemsMax: number;
  readonly #unconfirmed = new Map<string, Promise<void>>();
  readonly #confirmed = new RecentIds(DUPLICATE_MS, DUPLICATES_MAX);

  constructor({ subject, isFramed }: DurableSubject) {
    this.subject = subject;
    this.#itemsMax = isFramed ? FRAME_ITEMS_MAX : 1;
    this.inFlightMax = isFramed ? FRAMES_IN_FLIGHT_MAX : SINGLES_IN_FLIGHT_MAX;
  }

  find(id: string): Promise<void> | null {
    const known = this.#unconfirmed.get(id);
    if (known !== undefined) return known;
    return this.#confirmed.has(id, performance.now()) ? Promise.resolve() : null;
  }

  add(id: string, bytes: Uint8Array): Promise<void> {
    let resolve!: Entry["resolve"];
    let reject!: Entry["reject"];
    const promise = new Promise<void>((yes, no) => {
      resolve = yes;
      reject = no;
    });
    this.#unconfirmed.set(id, promise);
    this.queued.push({ id, bytes, promise, resolve, reject });
    return promise;
  }

  take(bytesMax: number): Entry[] {
    let count = 0;
    let bytes = 0;
    for (const entry of this.queued) {
      bytes += entry.bytes.length;
      if (count === this.#itemsMax || (count > 0 && bytes > bytesMax)) break;
      count += 1;
    }
    return this.queued.splice(0, count);
  }

  settle(entries: readonly Entry[], failure: Error | null): void {
    const nowMs = performance.now();
    for (const entry of entries) {
      if (entry.promise !== null) {
        this.#unconfirmed.delete(entry.id);
        if (failure === null) this.#confirmed.add(entry.id, nowMs);
      }
      if (failure === null) entry.resolve();
      else entry.reject(failure);
    }
  }
}

/** Large enough to amortize the overhead, and below the default payload limit of a server. */
const FRAME_BYTES_MAX = 512 * 1024;
const FRAMES_IN_FLIGHT_MAX = 16;
const SINGLES_IN_FLIGHT_MAX = 256;
const QUEUED_MAX = 65_536;
const QUEUED_BYTES_MAX = 64 * 1024 * 1024;
const HEADER_BYTES_MAX = 4 * 1024;
const DUPLICATE_MS = 2 * 60_000;
const DUPLICATES_MAX = 100_000;
const ID_LENGTH_MAX = 256;

/** Other ids do not fit into a header; such a packet is sent in a frame, even alone. */
const isHeaderSafe = (id: string): boolean => id.length <= ID_LENGTH_MAX && /^[\x21-\x7e]+$/.test(id);

/** The same packets in the same order get the same id. */
function frameId(entries: readonly Entry[]): string {
  const hash = createHash("sha1");
  for (const { id } of entries) hash.update(`${id.length}:${id}`);
  return `frame-${hash.digest("base64url")}`;
}

function headersOf(id: string, extraHeaders: Readonly<Record<string, string>> | null): MsgHdrs {
  const fields = headers();
  fields.set("Nats-Msg-Id", isHeaderSafe(id) ? id : createHash("sha1").update(id).digest("base64url"));
  for (const [name, value] of Object.entries(extraHeaders ?? {})) fields.set(name, value);
  return fields;
}

const notConnected = () => unavailable("not connected to nats: the client is reconnecting, retry later");
