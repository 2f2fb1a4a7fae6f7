import type { BusOptions, Content, Message } from "../../../ports/bus.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { Log } from "../../../ports/log.ts";
import type { Packet } from "../../../protocol/packet.ts";
import type { GroupCommit } from "../group-commit.ts";
import { type MessageRow, type MessageRows, NO_GROUP, type VisibleRow } from "./message-rows.ts";

/** What the consumer groups of a bus share. */
export interface BusContext {
  readonly clock: Clock;
  readonly log: Log;
  readonly writer: GroupCommit;
  readonly rows: MessageRows;
  readonly options: BusOptions;
  /** Assigned before the row is written, so that memory and disk agree on it. */
  newSeq(): number;
  /** Calls `check` after a grace period of a few batches, and again after each further one until it returns true. */
  afterGrace(check: () => boolean): void;
}

/** A message of one consumer group. */
export interface Envelope {
  readonly seq: number;
  readonly id: string;
  readonly content: Content;
  /** Encoded content, once it was needed. */
  text: string | Uint8Array | null;
  /** Deliveries begun. */
  attempt: number;
  isStored: boolean;
  writesInFlight: number;
  isEnded: boolean;
  /** The pending `publish`. */
  publisher: { readonly resolve: () => void; readonly reject: (error: unknown) => void } | null;
}

/** The stored messages of a consumer group, bounded in number. A full queue rejects new messages; it drops none. */
export class DiskQueue {
  readonly #context: BusContext;
  readonly #subject: string;
  #name: string;
  #size: number;
  #oldestMs: number | null;
  /** Deleted since the running `load` started, which may still return them. */
  #deletedDuringLoad: Set<number> | null = null;

  constructor(
    context: BusContext,
    subject: string,
    name: string,
    stored: { readonly size: number; readonly oldestMs: number | null },
  ) {
    this.#context = context;
    this.#subject = subject;
    this.#name = name;
    this.#size = stored.size;
    this.#oldestMs = stored.oldestMs;
  }

  get size(): number {
    return this.#size;
  }

  /** The first group of a subject takes over the messages of `NO_GROUP`. */
  rename(name: string): void {
    this.#name = name;
  }

  newEnvelope({ id, packet }: Message): Envelope {
    return {
      seq: this.#context.newSeq(),
      id,
      content: { kind: "packet", packet },
      text: null,
      attempt: 0,
      isStored: false,
      writesInFlight: 0,
      isEnded: false,
      publisher: null,
    };
  }

  /** The reason to reject another message, or null. */
  refusal(): Error | null {
    if (this.#name !== NO_GROUP) {
      if (this.#size < ROWS_MAX) return null;
      return new Error(
        `queue \`${this.#subject}\` is full: ${this.#size} messages wait for group \`${this.#name}\`: start its consumers`,
      );
    }
    const ageMs = this.#oldestMs === null ? 0 : this.#context.clock.now() - this.#oldestMs;
    if (this.#size < ORPHANS_MAX && ageMs <= ORPHAN_AGE_MS_MAX) return null;
    return new Error(
      `\`${this.#subject}\` has no consumer: ${this.#size} messages wait, the oldest for ${Math.floor(ageMs / 1_000)} s: ` +
        "start a consumer",
    );
  }

  /** Stores a message, unless it has ended by then. Settles its publisher. */
  async store(envelope: Envelope): Promise<void> {
    if (envelope.isEnded || envelope.isStored) return;
    const { clock, writer, rows } = this.#context;
    const nowMs = clock.now();
    await this.#write(envelope, nowMs, () => {
      const row = this.#rowOf(envelope, nowMs, nowMs);
      return writer.writeUnless(
        () => envelope.isEnded,
        "tables",
        () => rows.add(row),
      );
    });
  }

  /** Stores when a message is delivered again. Settles its publisher. False when the write failed. */
  delay(envelope: Envelope, visibleMs: number): Promise<boolean> {
    const { clock, writer, rows } = this.#context;
    const nowMs = clock.now();
    return this.#write(envelope, nowMs, () => {
      const row = this.#rowOf(envelope, visibleMs, nowMs);
      return writer.write("tables", () => rows.put(row));
    });
  }

  /** Counts a delivery before it begins. Null for a message that is only in memory: a crash ends its count with it. */
  begin({ isStored, writesInFlight, seq, attempt }: Envelope): Promise<void> | null {
    if (!isStored && writesInFlight === 0) return null;
    const { writer, rows } = this.#context;
    return writer.write("tables", () => rows.begin(seq, attempt));
  }

  end(envelope: Envelope): void {
    envelope.isEnded = true;
    confirm(envelope);
    this.#delete(envelope);
  }

  /** Reads visible messages that are not in `inMemory`, and adds them to it. Not reentrant. */
  async load(limit: number, inMemory: Set<number>): Promise<Loaded> {
    const { clock, writer, rows } = this.#context;
    const deleted = new Set<number>();
    this.#deletedDuringLoad = deleted;
    try {
      const [subject, name, nowMs, rowsMax] = [this.#subject, this.#name, clock.now(), limit + inMemory.size];
      writer.flushPiggybacked();
      const found = await writer.read("memory", () => rows.visible(subject, name, nowMs, rowsMax));
      const fresh = found.rows.filter(({ seq }) => !inMemory.has(seq) && !deleted.has(seq));
      for (const { seq } of fresh) inMemory.add(seq);
      return { envelopes: fresh.map(envelopeOf), hasMore: found.hasMore, nextMs: found.nextMs };
    } finally {
      this.#deletedDuringLoad = null;
    }
  }

  /** `write` resolves with null when the write became obsolete. */
  async #write(envelope: Envelope, nowMs: number, write: () => Promise<unknown>): Promise<boolean> {
    envelope.writesInFlight += 1;
    try {
      envelope.text ??= encodeContent(envelope.content);
      if ((await write()) !== null) this.#onStored(envelope, nowMs);
      return true;
    } catch (error) {
      envelope.publisher?.reject(error);
      envelope.publisher = null;
      return false;
    } finally {
      envelope.writesInFlight -= 1;
    }
  }

  #rowOf({ seq, id, text, attempt }: Envelope, visibleMs: number, atMs: number): MessageRow {
    return { seq, subject: this.#subject, group: this.#name, id, packet: text!, attempt, visibleMs, atMs };
  }

  #onStored(envelope: Envelope, nowMs: number): void {
    if (!envelope.isStored) {
      envelope.isStored = true;
      this.#size += 1;
      this.#oldestMs ??= nowMs;
    }
    confirm(envelope);
    if (envelope.isEnded) this.#delete(envelope);
  }

  /** Piggybacked: after a crash the message may be delivered again. */
  #delete(envelope: Envelope): void {
    if (!envelope.isStored) return;
    envelope.isStored = false;
    this.#size -= 1;
    const { seq } = envelope;
    this.#deletedDuringLoad?.add(seq);
    const { writer, rows } = this.#context;
    writer.piggyback("tables", () => rows.delete(seq));
  }
}

export interface Loaded {
  readonly envelopes: readonly Envelope[];
  readonly hasMore: boolean;
  /** See `VisibleRows`. */
  readonly nextMs: number | null;
}

const ROWS_MAX = 1_000_000;
/** Limits of a subject without consumer groups. */
const ORPHANS_MAX = 100_000;
const ORPHAN_AGE_MS_MAX = 7 * 24 * 3_600_000;

/** Resolves the pending `publish`. */
function confirm(envelope: Envelope): void {
  envelope.publisher?.resolve();
  envelope.publisher = null;
}

function envelopeOf({ seq, id, packet, attempt, isDamaged }: VisibleRow): Envelope {
  return {
    seq,
    id,
    content: isDamaged ? undecodable(packet, "the stored message does not match its checksum") : decodeContent(packet),
    text: packet,
    attempt,
    isStored: true,
    writesInFlight: 0,
    isEnded: false,
    publisher: null,
  };
}

function encodeContent(content: Content): string | Uint8Array {
  return content.kind === "packet" ? JSON.stringify(content.packet) : content.bytes;
}

/** The raw bytes when the row is not a JSON document. */
function decodeContent(packet: string | Uint8Array): Content {
  try {
    const text = typeof packet === "string" ? packet : new TextDecoder("utf-8", { fatal: true }).decode(packet);
    return { kind: "packet", packet: JSON.parse(text) as Packet };
  } catch (error) {
    return undecodable(packet, String(error));
  }
}

function undecodable(packet: string | Uint8Array, error: string): Content {
  const bytes = typeof packet === "string" ? new TextEncoder().encode(packet) : Uint8Array.from(packet);
  return { kind: "undecodable", bytes, error };
}
