import type { BusOptions, Content, Message } from "../../../ports/bus.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { Log } from "../../../ports/log.ts";
import type { Writer } from "../writer.ts";
import { contentOf, type MessageRow, NO_GROUP, type VisibleRow } from "./rows.ts";

/** What the groups of a bus share. */
export interface GroupHost {
  readonly clock: Clock;
  readonly log: Log;
  readonly writer: Writer;
  readonly options: BusOptions;
  /** Numbers are given before the row is written, so that a message can be spoken of in memory. */
  newSeq(): number;
  /** Calls `look` after a few turns of the event loop, and again after as many until it answers true. */
  watch(look: () => boolean): void;
}

/** A message on its way to one group. */
export interface Envelope {
  readonly seq: number;
  readonly id: string;
  readonly content: Content;
  /** As it is on disk; null until it has to be. */
  text: string | Uint8Array | null;
  /** Deliveries begun. */
  attempt: number;
  isRow: boolean;
  /** Writes under way. */
  writes: number;
  isEnded: boolean;
  /** The publisher, as long as it waits. */
  safe: { readonly resolve: () => void; readonly reject: (error: unknown) => void } | null;
}

/**
 * The part of a group that is on disk: how much there is, how much there may be, and the way there and back.
 * Nothing that was acknowledged is dropped: a group that is full refuses.
 */
export class DiskQueue {
  readonly #host: GroupHost;
  readonly #subject: string;
  #name: string;
  #size: number;
  #oldestMs: number | null;
  /** While a load is under way: what it may still see and must not bring back. */
  #erasedMeanwhile: Set<number> | null = null;

  constructor(host: GroupHost, subject: string, name: string, found: { size: number; oldestMs: number | null }) {
    this.#host = host;
    this.#subject = subject;
    this.#name = name;
    this.#size = found.size;
    this.#oldestMs = found.oldestMs;
  }

  get size(): number {
    return this.#size;
  }

  /** The first group of a subject takes over what waited for it. */
  rename(name: string): void {
    this.#name = name;
  }

  newSlip({ id, packet }: Message): Envelope {
    const seq = this.#host.newSeq();
    const content: Content = { kind: "packet", packet };
    return { seq, id, content, text: null, attempt: 0, isRow: false, writes: 0, isEnded: false, safe: null };
  }

  /** Why there is no room for one more; null when there is. */
  refusal(): Error | null {
    if (this.#name !== NO_GROUP) {
      if (this.#size < ROWS_MAX) return null;
      return new Error(
        `\`${this.#subject}\` is full: ${this.#size} messages wait for \`${this.#name}\`: start its consumers`,
      );
    }
    const ageMs = this.#oldestMs === null ? 0 : this.#host.clock.now() - this.#oldestMs;
    if (this.#size < ORPHANS_MAX && ageMs <= ORPHAN_AGE_MS_MAX) return null;
    return new Error(
      `nobody consumes \`${this.#subject}\`: ${this.#size} messages wait, the oldest for ${Math.floor(ageMs / 1_000)} s: ` +
        "start a consumer",
    );
  }

  /** Writes down a message unless it was ended meanwhile. Its publisher is told. */
  async store(envelope: Envelope): Promise<void> {
    if (envelope.isEnded || envelope.isRow) return;
    const nowMs = this.#host.clock.now();
    await this.#write(envelope, nowMs, () => {
      const isEnded = () => envelope.isEnded;
      return this.#host.writer.changeUnless(isEnded, "addMessage", this.#rowOf(envelope, nowMs, nowMs));
    });
  }

  /** Writes down when a message comes again. Its publisher is told; false when the disk refused. */
  async delay(envelope: Envelope, visibleMs: number): Promise<boolean> {
    const nowMs = this.#host.clock.now();
    return this.#write(envelope, nowMs, () => {
      return this.#host.writer.change("putMessage", this.#rowOf(envelope, visibleMs, nowMs));
    });
  }

  /** Counts a delivery before it begins; only a message on disk, or on its way there, can come again after a crash. */
  begin({ isRow, writes, seq, attempt }: Envelope): Promise<void> | null {
    return isRow || writes > 0 ? this.#host.writer.change("beginMessage", seq, attempt) : null;
  }

  end(envelope: Envelope): void {
    envelope.isEnded = true;
    tellSafe(envelope);
    this.#erase(envelope);
  }

  /** Reads what is ready and not `held`; what is read is held from then on. One at a time. */
  async load(limit: number, held: Set<number>): Promise<Loaded> {
    const { clock, writer } = this.#host;
    const erased = new Set<number>();
    this.#erasedMeanwhile = erased;
    try {
      const most = limit + held.size;
      const found = await writer.readLatest("visibleMessages", this.#subject, this.#name, clock.now(), most);
      const fresh = found.rows.filter(({ seq }) => !held.has(seq) && !erased.has(seq));
      for (const { seq } of fresh) held.add(seq);
      return { slips: fresh.map(slipOf), hasMore: found.hasMore, nextMs: found.nextMs };
    } finally {
      this.#erasedMeanwhile = null;
    }
  }

  /** False when the disk refused. Null from `write` says that there was nothing to write any more. */
  async #write(envelope: Envelope, nowMs: number, write: () => Promise<unknown>): Promise<boolean> {
    envelope.writes += 1;
    try {
      envelope.text ??= textOf(envelope.content);
      if ((await write()) !== null) this.#stored(envelope, nowMs);
      return true;
    } catch (error) {
      envelope.safe?.reject(error);
      envelope.safe = null;
      return false;
    } finally {
      envelope.writes -= 1;
    }
  }

  #rowOf({ seq, id, text, attempt }: Envelope, visibleMs: number, atMs: number): MessageRow {
    return { seq, subject: this.#subject, group: this.#name, id, packet: text!, attempt, visibleMs, atMs };
  }

  #stored(envelope: Envelope, nowMs: number): void {
    if (!envelope.isRow) {
      envelope.isRow = true;
      this.#size += 1;
      this.#oldestMs ??= nowMs;
    }
    tellSafe(envelope);
    if (envelope.isEnded) this.#erase(envelope);
  }

  #erase(envelope: Envelope): void {
    if (!envelope.isRow) return;
    envelope.isRow = false;
    this.#size -= 1;
    this.#erasedMeanwhile?.add(envelope.seq);
    // A crash may forget it, and then the message comes once more: "at least once".
    this.#host.writer.later("deleteMessage", envelope.seq);
  }
}

export interface Loaded {
  readonly slips: readonly Envelope[];
  readonly hasMore: boolean;
  /** When the next delayed one is due; null when there is none, or more to read first. */
  readonly nextMs: number | null;
}

const ROWS_MAX = 1_000_000;
/** What a subject keeps for a group that has not come yet. */
const ORPHANS_MAX = 100_000;
const ORPHAN_AGE_MS_MAX = 7 * 24 * 3_600_000;

function tellSafe(envelope: Envelope): void {
  envelope.safe?.resolve();
  envelope.safe = null;
}

function slipOf({ seq, id, packet, attempt }: VisibleRow): Envelope {
  return {
    seq,
    id,
    content: contentOf(packet),
    text: packet,
    attempt,
    isRow: true,
    writes: 0,
    isEnded: false,
    safe: null,
  };
}

function textOf(content: Content): string | Uint8Array {
  return content.kind === "packet" ? JSON.stringify(content.packet) : content.bytes;
}
