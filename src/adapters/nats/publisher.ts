import { createHash } from "node:crypto";
import { headers, type Msg, type MsgHdrs } from "@nats-io/nats-core";
import { createInbox } from "@nats-io/transport-node";
import type { Message } from "../../ports/bus.ts";
import { encodeFrame, FRAME_ITEMS_MAX } from "../../protocol/frame.ts";
import type { PacketForm } from "../packet-form.ts";
import { RecentIds } from "../recent-ids.ts";
import { failureOfAck } from "./ack.ts";
import type { NatsLink } from "./connection.ts";
import { describeError, refused, unavailable } from "./errors.ts";

/**
 * Durable publishing, gathered: the publishes of one tick to one subject travel as one JetStream message.
 *
 * 1. A publish resolves when the stream has confirmed the message that it travelled in, and only then. A confirmation
 *    counts if it carries a sequence number and no error (error confirmations carry the number 0).
 * 2. Everything is bounded: messages on their way, packets that wait, their bytes, the time without an answer. Beyond a
 *    bound, and while there is no connection, a publish fails at once; none is left hanging.
 * 3. Two publishes with one id are one: while the first is on its way the second shares its fate, and for two minutes
 *    after it was confirmed the second is done already. What other processes publish alone, the stream de-duplicates.
 */
export class NatsPublisher {
  readonly #link: NatsLink;
  readonly #lanes: ReadonlyMap<string, Lane>;
  readonly #form: PacketForm;
  readonly #timeoutMs: number;
  readonly #packetBytesMax: number;
  readonly #frameBytesMax: number;
  readonly #inbox = `${createInbox()}.`;
  /** By token, in the order of their sending. */
  readonly #sent = new Map<string, Sent>();
  #tokens = 0;
  #waiting = 0;
  #waitingBytes = 0;
  #isTickOpen = false;
  #overdue: NodeJS.Timeout | null = null;
  #whenIdle: (() => void)[] = [];

  constructor(link: NatsLink, options: PublisherOptions) {
    this.#link = link;
    this.#form = options.form;
    this.#timeoutMs = options.timeoutMs;
    this.#packetBytesMax = link.server.payloadBytesMax - HEADER_BYTES_MAX;
    this.#frameBytesMax = Math.min(FRAME_BYTES_MAX, link.server.payloadBytesMax / 2);
    this.#lanes = new Map(options.subjects.map((subject) => [subject.name, new Lane(subject)]));
    link.connection.subscribe(`${this.#inbox}*`, { callback: (_, message) => this.#answered(message) });
    link.onLost(() => this.#failAll("the connection was lost before the stream confirmed"));
  }

  publish({ subject, id, packet }: Message): Promise<void> {
    try {
      const lane = this.#lane(subject);
      const known = lane.find(id);
      if (known !== null) return known;
      return this.#enqueue(lane, id, this.#form.encode(packet));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** One packet as one message, whatever else there is to send; `note` goes into its headers. */
  publishAlone(subject: string, id: string, bytes: Uint8Array, note: Readonly<Record<string, string>>): Promise<void> {
    return new Promise((resolve, reject) => {
      const lane = this.#lane(subject);
      if (!this.#link.isConnected) throw notConnected();
      this.#send(lane, [{ id, bytes, promise: null, resolve, reject }], bytes, id, note);
    });
  }

  /** Resolves when nothing is waiting or on its way. */
  idle(): Promise<void> {
    if (this.#waiting === 0 && this.#sent.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  #lane(subject: string): Lane {
    const lane = this.#lanes.get(subject);
    if (lane === undefined) throw refused(`\`${subject}\` is not a durable subject: use \`tell\` or \`dispatch\``);
    return lane;
  }

  #enqueue(lane: Lane, id: string, bytes: Uint8Array): Promise<void> {
    if (!this.#link.isConnected) throw notConnected();
    if (bytes.length > this.#packetBytesMax) {
      throw refused(`a packet of ${bytes.length} bytes is larger than nats takes (${this.#packetBytesMax}): store it`);
    }
    if (this.#waiting >= WAITING_MAX || this.#waitingBytes >= WAITING_BYTES_MAX) {
      throw unavailable(`${this.#waiting} publishes wait already: nats takes them slower than they come`);
    }
    this.#waiting += 1;
    this.#waitingBytes += bytes.length;
    if (!this.#isTickOpen) {
      this.#isTickOpen = true;
      setImmediate(() => {
        this.#isTickOpen = false;
        for (const one of this.#lanes.values()) this.#drain(one);
      });
    }
    return lane.add(id, bytes);
  }

  #drain(lane: Lane): void {
    while (lane.waiting.length > 0 && lane.onTheWay < lane.onTheWayMax) {
      const batch = lane.take(this.#frameBytesMax);
      this.#waiting -= batch.length;
      for (const { bytes } of batch) this.#waitingBytes -= bytes.length;
      const [first] = batch;
      if (batch.length === 1 && isHeaderSafe(first!.id)) this.#send(lane, batch, first!.bytes, first!.id, null);
      else this.#send(lane, batch, encodeFrame(batch), frameId(batch), null);
    }
  }

  #send(lane: Lane, entries: Entry[], bytes: Uint8Array, id: string, note: Readonly<Record<string, string>> | null) {
    this.#tokens += 1;
    const token = this.#tokens.toString(36);
    lane.onTheWay += 1;
    this.#sent.set(token, { lane, entries, deadlineMs: performance.now() + this.#timeoutMs });
    this.#overdue ??= setTimeout(() => this.#expire(), this.#timeoutMs);
    try {
      const fields = { headers: headersOf(id, note), reply: this.#inbox + token };
      this.#link.connection.publish(lane.subject, bytes, fields);
    } catch (error) {
      this.#end(token, unavailable(`nats did not take the message: ${describeError(error)}`, error));
    }
  }

  #answered(message: Msg): void {
    const token = message.subject.slice(this.#inbox.length);
    const sent = this.#sent.get(token);
    if (sent === undefined) return;
    this.#end(token, failureOfAck(message));
    this.#drain(sent.lane);
  }

  #end(token: string, failure: Error | null): void {
    const sent = this.#sent.get(token);
    if (sent === undefined) return;
    this.#sent.delete(token);
    sent.lane.onTheWay -= 1;
    sent.lane.settle(sent.entries, failure);
    this.#wakeIdle();
  }

  #wakeIdle(): void {
    if (this.#sent.size > 0) return;
    if (this.#overdue !== null) clearTimeout(this.#overdue);
    this.#overdue = null;
    if (this.#waiting === 0) for (const wake of this.#whenIdle.splice(0)) wake();
  }

  /** All have the same patience, so the oldest are the first. */
  #expire(): void {
    this.#overdue = null;
    const nowMs = performance.now();
    for (const [token, { deadlineMs, lane }] of this.#sent) {
      if (deadlineMs > nowMs) {
        this.#overdue = setTimeout(() => this.#expire(), deadlineMs - nowMs + 1);
        break;
      }
      this.#end(token, unavailable(`the stream did not confirm within ${this.#timeoutMs} ms`));
      this.#drain(lane);
    }
  }

  #failAll(why: string): void {
    const failure = unavailable(why);
    for (const lane of this.#lanes.values()) lane.settle(lane.waiting.splice(0), failure);
    this.#waiting = 0;
    this.#waitingBytes = 0;
    for (const token of [...this.#sent.keys()]) this.#end(token, failure);
    this.#wakeIdle();
  }
}

export interface PublisherOptions {
  readonly form: PacketForm;
  readonly timeoutMs: number;
  readonly subjects: readonly DurableSubject[];
}

export interface DurableSubject {
  /** As the core calls it. */
  readonly name: string;
  /** As the server calls it. */
  readonly subject: string;
  /** False where others watch: then each packet is a message of its own. */
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
  readonly lane: Lane;
  readonly entries: readonly Entry[];
  readonly deadlineMs: number;
}

/** What waits for one subject. */
class Lane {
  readonly subject: string;
  readonly waiting: Entry[] = [];
  readonly onTheWayMax: number;
  onTheWay = 0;
  readonly #itemsMax: number;
  readonly #unconfirmed = new Map<string, Promise<void>>();
  readonly #confirmed = new RecentIds(DUPLICATE_MS, DUPLICATES_MAX);

  constructor({ subject, isFramed }: DurableSubject) {
    this.subject = subject;
    this.#itemsMax = isFramed ? FRAME_ITEMS_MAX : 1;
    this.onTheWayMax = isFramed ? FRAMES_ON_THE_WAY_MAX : SINGLES_ON_THE_WAY_MAX;
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
    this.waiting.push({ id, bytes, promise, resolve, reject });
    return promise;
  }

  take(bytesMax: number): Entry[] {
    let count = 0;
    let bytes = 0;
    for (const entry of this.waiting) {
      bytes += entry.bytes.length;
      if (count === this.#itemsMax || (count > 0 && bytes > bytesMax)) break;
      count += 1;
    }
    return this.waiting.splice(0, count);
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

/** Large enough to cost little a packet, small enough to be far below what a server takes by default. */
const FRAME_BYTES_MAX = 512 * 1024;
const FRAMES_ON_THE_WAY_MAX = 16;
const SINGLES_ON_THE_WAY_MAX = 256;
const WAITING_MAX = 65_536;
const WAITING_BYTES_MAX = 64 * 1024 * 1024;
const HEADER_BYTES_MAX = 4 * 1024;
const DUPLICATE_MS = 2 * 60_000;
const DUPLICATES_MAX = 100_000;
const ID_LENGTH_MAX = 256;

/** Ids that a header cannot carry as they are travel inside a frame, even alone. */
const isHeaderSafe = (id: string): boolean => id.length <= ID_LENGTH_MAX && /^[\x21-\x7e]+$/.test(id);

/** The same packets in the same order are the same message; whatever differs is another one. */
function frameId(entries: readonly Entry[]): string {
  const hash = createHash("sha1");
  for (const { id } of entries) hash.update(`${id.length}:${id}`);
  return `frame-${hash.digest("base64url")}`;
}

function headersOf(id: string, note: Readonly<Record<string, string>> | null): MsgHdrs {
  const fields = headers();
  fields.set("Nats-Msg-Id", isHeaderSafe(id) ? id : createHash("sha1").update(id).digest("base64url"));
  for (const [name, value] of Object.entries(note ?? {})) fields.set(name, value);
  return fields;
}

const notConnected = () => unavailable("not connected to nats: it is tried again by itself, and so may you");
