import type { BusOptions, Content, Delivery, Handler, Message, Settlement, Stop } from "../ports/bus.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { contentOf, type MessageRows, NEVER_MS, NO_GROUP, type VisibleRow } from "./sqlite-bus-rows.ts";
import type { Writer } from "./sqlite-writer.ts";

/**
 * One group of a subject: its messages on their way to its members.
 *
 * 1. A message is in memory (`fresh`), on disk, or both. Its publisher is told once it is on disk or has been ended.
 * 2. Memory holds what is ready and what is being handled, both bounded. What is delayed, and what does not fit, is
 *    on disk only: a delayed message holds neither a slot nor memory, one timer wakes the group for the earliest.
 * 3. A delivery that began counts: for a message on disk its number is written before the handler is called.
 */
export class Group {
  readonly #host: GroupHost;
  readonly #subject: string;
  #name: string;
  readonly #members: Member[] = [];
  readonly #working = new Set<Slip>();
  #ready: Slip[] = [];
  /** What is in memory, so that it is not read from disk a second time. */
  readonly #held = new Set<number>();
  /** Rows may be ready on disk that are not in memory. */
  #hasBacklog: boolean;
  #isLoading = false;
  #isPumping = false;
  #isClosed = false;
  #wake: { readonly atMs: number; readonly cancel: Cancel } | null = null;
  #rows: number;
  #oldestMs: number | null;

  constructor(host: GroupHost, subject: string, name: string, found: { size: number; oldestMs: number | null }) {
    this.#host = host;
    this.#subject = subject;
    this.#name = name;
    this.#rows = found.size;
    this.#oldestMs = found.oldestMs;
    // Also delayed rows are found by looking: at the first member, not before.
    this.#hasBacklog = found.size > 0;
  }

  /** The first group of a subject takes over what waited for it. */
  rename(name: string): void {
    this.#name = name;
  }

  /** Resolves when the message is safe: on disk, or ended by its handler. */
  offer(message: Message): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== null) return Promise.reject(refusal);
    const { id, packet } = message;
    const content: Content = { kind: "packet", packet };
    const seq = this.#host.rows.newSeq();
    const slip: Slip = { seq, id, content, text: null, attempt: 0, isRow: false, isEnded: false, safe: null };
    return new Promise((resolve, reject) => {
      slip.safe = { resolve, reject };
      if (this.#members.length === 0 || this.#hasBacklog || this.#ready.length >= READY_MAX) {
        this.#storeAway(slip);
        return;
      }
      this.#held.add(seq);
      this.#ready.push(slip);
      this.#host.watch(this, slip);
      this.#pumpSoon();
    });
  }

  /** Writes down a message that its handler has not ended in time. */
  store(slip: Slip): Promise<void> {
    if (slip.isEnded || slip.isRow) return Promise.resolve();
    const nowMs = this.#host.clock.now();
    const stored = this.#host.writer.change(() => {
      if (slip.isEnded) return false;
      this.#put(slip, nowMs, nowMs);
      return true;
    });
    return stored.then(
      (isWritten) => isWritten && this.#isStored(slip, nowMs),
      (error: unknown) => slip.safe?.reject(error),
    );
  }

  join(handler: Handler): Stop {
    const member: Member = { handler, working: 0, onIdle: null };
    this.#members.push(member);
    this.#hasBacklog ||= this.#rows > 0;
    this.#pumpSoon();
    let stopped: Promise<void> | null = null;
    return () => {
      stopped ??= this.#leave(member);
      return stopped;
    };
  }

  /** Writes down what only memory knows. Handlers that still run are on their own. */
  close(): void {
    this.#isClosed = true;
    this.#wake?.cancel();
    for (const slip of [...this.#working, ...this.#ready]) void this.store(slip);
  }

  #refusal(): Error | null {
    if (this.#isClosed) return new Error("the bus is closed");
    const { ROWS_MAX, ORPHANS_MAX, ORPHAN_AGE_MS_MAX } = LIMITS;
    if (this.#name !== NO_GROUP) {
      if (this.#rows < ROWS_MAX) return null;
      return new Error(`\`${this.#subject}\` is full: ${this.#rows} messages wait for \`${this.#name}\`; start its consumers`);
    }
    const ageMs = this.#oldestMs === null ? 0 : this.#host.clock.now() - this.#oldestMs;
    if (this.#rows < ORPHANS_MAX && ageMs <= ORPHAN_AGE_MS_MAX) return null;
    return new Error(`nobody consumes \`${this.#subject}\`: ${this.#rows} messages wait, the oldest for ${ageMs} ms; start a consumer`);
  }

  #storeAway(slip: Slip): void {
    void this.store(slip).then(() => {
      this.#hasBacklog = true;
      this.#pumpSoon();
    });
  }

  #put(slip: Slip, visibleMs: number, atMs: number): void {
    slip.text ??= textOf(slip.content);
    const { seq, id, text: packet, attempt } = slip;
    this.#host.rows.put({ seq, subject: this.#subject, group: this.#name, id, packet, attempt, visibleMs, atMs });
  }

  #isStored(slip: Slip, nowMs: number): void {
    if (!slip.isRow) {
      slip.isRow = true;
      this.#rows += 1;
      this.#oldestMs ??= nowMs;
    }
    slip.safe?.resolve();
    slip.safe = null;
    if (slip.isEnded) this.#erase(slip);
  }

  #erase(slip: Slip): void {
    if (!slip.isRow) return;
    slip.isRow = false;
    this.#rows -= 1;
    // A crash may forget it, and then the message comes once more: "at least once".
    this.#host.writer.later(() => this.#host.rows.delete(slip.seq));
  }

  #pumpSoon(): void {
    if (this.#isPumping || this.#isClosed) return;
    this.#isPumping = true;
    queueMicrotask(() => {
      this.#isPumping = false;
      this.#pump();
    });
  }

  #pump(): void {
    while (this.#ready.length > 0 && !this.#isClosed) {
      const member = this.#freeMember();
      if (!member) break;
      this.#begin(member, this.#ready.shift()!);
    }
    if (this.#hasBacklog && this.#members.length > 0 && this.#ready.length < READY_MAX / 2) void this.#load();
  }

  #freeMember(): Member | null {
    let free: Member | null = null;
    for (const member of this.#members) {
      if (member.working < this.#host.options.inFlightMax && (free === null || member.working < free.working)) free = member;
    }
    return free;
  }

  #begin(member: Member, slip: Slip): void {
    member.working += 1;
    this.#working.add(slip);
    slip.attempt += 1;
    const { attempt, seq } = slip;
    const counted = slip.isRow ? this.#host.writer.change(() => this.#host.rows.begin(seq, attempt)) : null;
    void this.#handle(member, slip, counted);
  }

  async #handle(member: Member, slip: Slip, counted: Promise<void> | null): Promise<void> {
    let answer: Settlement;
    try {
      if (counted) await counted;
      const delivery: Delivery = { id: slip.id, subject: this.#subject, attempt: slip.attempt, content: slip.content };
      answer = await member.handler(delivery);
    } catch (error) {
      this.#host.log.write("error", "bus.handler_failed", { subject: this.#subject, id: slip.id, error: String(error) });
      answer = { kind: "nakDelay", delayMs: FAILED_HANDLER_DELAY_MS };
    }
    this.#working.delete(slip);
    member.working -= 1;
    this.#settle(slip, answer);
    if (member.working === 0) member.onIdle?.();
    this.#pumpSoon();
  }

  #settle(slip: Slip, answer: Settlement): void {
    switch (answer.kind) {
      case "ack":
      case "term":
        slip.isEnded = true;
        this.#held.delete(slip.seq);
        slip.safe?.resolve();
        slip.safe = null;
        this.#erase(slip);
        return;
      case "nak":
        this.#redeliver(slip, 0);
        return;
      case "nakDelay":
        this.#redeliver(slip, Math.max(0, answer.delayMs));
        return;
      default:
        answer satisfies never;
    }
  }

  #redeliver(slip: Slip, delayMs: number): void {
    const { clock, log, writer, options } = this.#host;
    const nowMs = clock.now();
    const isLast = slip.attempt >= options.deliverMax;
    const visibleMs = isLast ? NEVER_MS : nowMs + delayMs;
    if (isLast) log.write("error", "bus.delivery_limit", { subject: this.#subject, id: slip.id, attempt: slip.attempt });
    writer.change(() => this.#put(slip, visibleMs, nowMs)).then(
      () => {
        this.#held.delete(slip.seq);
        this.#isStored(slip, nowMs);
        if (visibleMs > clock.now()) this.#wakeAt(visibleMs);
        else this.#foundBacklog();
      },
      (error: unknown) => {
        // The disk is at fault, not the message: memory keeps it, and its publisher knows that it is not safe.
        slip.safe?.reject(error);
        slip.safe = null;
        if (this.#isClosed) return;
        clock.after(Math.max(delayMs, FAILED_HANDLER_DELAY_MS), () => {
          this.#ready.push(slip);
          this.#pumpSoon();
        });
      },
    );
  }

  #foundBacklog(): void {
    this.#hasBacklog = true;
    this.#pumpSoon();
  }

  #wakeAt(atMs: number): void {
    if (this.#isClosed || atMs >= NEVER_MS || (this.#wake !== null && this.#wake.atMs <= atMs)) return;
    this.#wake?.cancel();
    const cancel = this.#host.clock.after(Math.max(1, atMs - this.#host.clock.now()), () => {
      this.#wake = null;
      this.#foundBacklog();
    });
    this.#wake = { atMs, cancel };
  }

  /** Fills memory from disk with what is ready, and sets the timer for what is not. */
  async #load(): Promise<void> {
    if (this.#isLoading) return;
    this.#isLoading = true;
    this.#hasBacklog = false;
    const { clock, rows, writer, log } = this.#host;
    const fresh: VisibleRow[] = [];
    try {
      const nextMs = await writer.readLatest(() => {
        const nowMs = clock.now();
        const limit = READY_MAX - this.#ready.length + this.#held.size;
        const found = rows.visible(this.#subject, this.#name, nowMs, limit);
        // Now, not when the promise resolves: by then some may have been ended and would look new.
        for (const row of found) if (!this.#held.has(row.seq)) fresh.push(row);
        for (const row of fresh) this.#held.add(row.seq);
        return found.length === limit ? nowMs : rows.nextVisibleMs(this.#subject, this.#name, nowMs);
      });
      for (const row of fresh) this.#ready.push(slipOf(row));
      if (nextMs !== null && nextMs <= clock.now()) this.#hasBacklog = true;
      else if (nextMs !== null) this.#wakeAt(nextMs);
    } catch (error) {
      for (const row of fresh) this.#held.delete(row.seq);
      log.write("error", "bus.load_failed", { subject: this.#subject, error: String(error) });
      this.#wakeAt(clock.now() + FAILED_HANDLER_DELAY_MS);
    }
    this.#isLoading = false;
    if (fresh.length > 0 || this.#hasBacklog) this.#pumpSoon();
  }

  async #leave(member: Member): Promise<void> {
    this.#members.splice(this.#members.indexOf(member), 1);
    if (this.#members.length === 0) this.#letGo();
    if (member.working === 0) return;
    await new Promise<void>((resolve) => {
      member.onIdle = resolve;
    });
  }

  /** Nobody is left: what is ready waits on disk for the next member. */
  #letGo(): void {
    const ready = this.#ready;
    this.#ready = [];
    for (const slip of ready) {
      this.#held.delete(slip.seq);
      if (slip.isRow) this.#hasBacklog = true;
      else this.#storeAway(slip);
    }
  }
}

export interface GroupHost {
  readonly clock: Clock;
  readonly log: Log;
  readonly writer: Writer;
  readonly rows: MessageRows;
  readonly options: BusOptions;
  /** Calls `store` if the message is not ended within a few turns of the event loop. */
  watch(group: Group, slip: Slip): void;
}

export interface Slip {
  readonly seq: number;
  readonly id: string;
  readonly content: Content;
  text: string | Uint8Array | null;
  /** Deliveries begun. */
  attempt: number;
  isRow: boolean;
  isEnded: boolean;
  /** The publisher, as long as it waits. */
  safe: { readonly resolve: () => void; readonly reject: (error: unknown) => void } | null;
}

interface Member {
  readonly handler: Handler;
  working: number;
  onIdle: (() => void) | null;
}

const LIMITS = { ROWS_MAX: 1_000_000, ORPHANS_MAX: 100_000, ORPHAN_AGE_MS_MAX: 7 * 24 * 3_600_000 };
const READY_MAX = 4_096;
const FAILED_HANDLER_DELAY_MS = 1_000;

function slipOf({ seq, id, packet, attempt }: VisibleRow): Slip {
  return { seq, id, content: contentOf(packet), text: packet, attempt, isRow: true, isEnded: false, safe: null };
}

function textOf(content: Content): string | Uint8Array {
  return content.kind === "packet" ? JSON.stringify(content.packet) : content.bytes;
}
