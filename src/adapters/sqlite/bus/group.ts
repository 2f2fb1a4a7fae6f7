import type { Settlement } from "../../../core/retry/bus-action.ts";
import type { Delivery, Handler, Message, Stop } from "../../../ports/bus.ts";
import type { Cancel } from "../../../ports/clock.ts";
import { DiskQueue, type Envelope, type GroupHost } from "./disk-queue.ts";
import { NEVER_MS } from "./rows.ts";

/**
 * One group of a subject: its messages on their way to its members.
 *
 * 1. A message is in memory, on disk, or both. Its publisher is told once it is on disk or has been ended.
 * 2. Memory holds what is ready and what is being handled, both bounded. What is delayed, and what does not fit, is
 *    on disk only: a delayed message holds neither a slot nor memory, one timer wakes the group for the earliest.
 * 3. A delivery that began counts: for a message on disk its number is written before the handler is called.
 */
export class Group {
  readonly #host: GroupHost;
  readonly #subject: string;
  readonly #shelf: DiskQueue;
  readonly #members: Member[] = [];
  readonly #working = new Set<Envelope>();
  #ready: Envelope[] = [];
  /** What is in memory, so that it is not read from disk a second time. */
  readonly #held = new Set<number>();
  /** Rows may be ready on disk that are not in memory. */
  #hasBacklog = false;
  #isLoading = false;
  #isPumping = false;
  #isClosed = false;
  #wake: { readonly atMs: number; readonly cancel: Cancel } | null = null;

  constructor(host: GroupHost, subject: string, name: string, found: { size: number; oldestMs: number | null }) {
    this.#host = host;
    this.#subject = subject;
    this.#shelf = new DiskQueue(host, subject, name, found);
  }

  rename(name: string): void {
    this.#shelf.rename(name);
  }

  /** Resolves when the message is safe: on disk, or ended by its handler. */
  offer(message: Message): Promise<void> {
    const refusal = this.#isClosed ? new Error("the bus is closed") : this.#shelf.refusal();
    if (refusal !== null) return Promise.reject(refusal);
    const envelope = this.#shelf.newSlip(message);
    return new Promise((resolve, reject) => {
      envelope.safe = { resolve, reject };
      // Behind a backlog there is no overtaking: the newcomer goes to its end, which is on disk.
      if (this.#members.length === 0 || this.#hasBacklog || this.#ready.length >= READY_MAX) {
        void this.#shelve(envelope);
        return;
      }
      this.#held.add(envelope.seq);
      this.#ready.push(envelope);
      this.#watchReady(envelope);
      this.#pumpSoon();
    });
  }

  join(handler: Handler): Stop {
    const member: Member = { handler, working: 0, onIdle: null };
    this.#members.push(member);
    if (this.#shelf.size > 0) this.#hasBacklog = true;
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
    for (const envelope of [...this.#working, ...this.#ready]) void this.#shelf.store(envelope);
  }

  /** A message does not wait for its handler for ever. */
  #watchReady(envelope: Envelope): void {
    let waits = 0;
    this.#host.watch(() => {
      if (envelope.attempt > 0) return true;
      waits += 1;
      if (waits < READY_WAITS_MAX) return false;
      void this.#shelf.store(envelope);
      return true;
    });
  }

  /** A handler gets its few turns from when it begins. */
  #watchBegun(envelope: Envelope): void {
    this.#host.watch(() => {
      if (!envelope.isEnded) void this.#shelf.store(envelope);
      return true;
    });
  }

  async #shelve(envelope: Envelope): Promise<void> {
    await this.#shelf.store(envelope);
    this.#foundBacklog();
  }

  #foundBacklog(): void {
    this.#hasBacklog = true;
    this.#pumpSoon();
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
    const hasRoom = this.#ready.length < READY_MAX / 2;
    if (this.#hasBacklog && hasRoom && this.#members.length > 0 && !this.#isLoading) void this.#load();
  }

  #freeMember(): Member | null {
    let free: Member | null = null;
    for (const member of this.#members) {
      if (member.working >= this.#host.options.inFlightMax) continue;
      if (free === null || member.working < free.working) free = member;
    }
    return free;
  }

  #begin(member: Member, envelope: Envelope): void {
    member.working += 1;
    this.#working.add(envelope);
    envelope.attempt += 1;
    if (!envelope.isRow) this.#watchBegun(envelope);
    void this.#handle(member, envelope, this.#shelf.begin(envelope));
  }

  async #handle(member: Member, envelope: Envelope, counted: Promise<void> | null): Promise<void> {
    let answer: Settlement;
    try {
      if (counted) await counted;
      const delivery: Delivery = {
        id: envelope.id,
        subject: this.#subject,
        attempt: envelope.attempt,
        content: envelope.content,
      };
      answer = await member.handler(delivery);
    } catch (error) {
      this.#host.log.write("error", "bus.handler_failed", {
        subject: this.#subject,
        id: envelope.id,
        error: String(error),
      });
      answer = { kind: "nakDelay", delayMs: FAILED_DELAY_MS };
    }
    this.#working.delete(envelope);
    member.working -= 1;
    this.#settle(envelope, answer);
    if (member.working === 0) member.onIdle?.();
    this.#pumpSoon();
  }

  #settle(envelope: Envelope, answer: Settlement): void {
    switch (answer.kind) {
      case "ack":
      case "term":
        this.#held.delete(envelope.seq);
        this.#shelf.end(envelope);
        return;
      case "nak":
        void this.#redeliver(envelope, 0);
        return;
      case "nakDelay":
        void this.#redeliver(envelope, Math.max(0, answer.delayMs));
        return;
      default:
        answer satisfies never;
    }
  }

  async #redeliver(envelope: Envelope, delayMs: number): Promise<void> {
    const { clock, log, options } = this.#host;
    const isLast = envelope.attempt >= options.deliverMax;
    if (isLast)
      log.write("error", "bus.delivery_limit", { subject: this.#subject, id: envelope.id, attempt: envelope.attempt });
    const visibleMs = isLast ? NEVER_MS : Math.min(clock.now() + delayMs, NEVER_MS);
    if (await this.#shelf.delay(envelope, visibleMs)) {
      this.#held.delete(envelope.seq);
      this.#wakeAt(visibleMs);
    } else if (!this.#isClosed) {
      // The disk is at fault, not the message: memory keeps it, and its publisher knows that it is not safe.
      clock.after(Math.max(delayMs, FAILED_DELAY_MS), () => {
        this.#ready.push(envelope);
        this.#pumpSoon();
      });
    }
  }

  #wakeAt(atMs: number): void {
    const restMs = atMs - this.#host.clock.now();
    if (restMs <= 0) {
      this.#foundBacklog();
      return;
    }
    if (this.#isClosed || atMs >= NEVER_MS || (this.#wake !== null && this.#wake.atMs <= atMs)) return;
    this.#wake?.cancel();
    const cancel = this.#host.clock.after(restMs, () => {
      this.#wake = null;
      this.#foundBacklog();
    });
    this.#wake = { atMs, cancel };
  }

  /** Fills memory from disk with what is ready, and sets the timer for what is not. */
  async #load(): Promise<void> {
    this.#isLoading = true;
    this.#hasBacklog = false;
    try {
      const { slips, hasMore, nextMs } = await this.#shelf.load(READY_MAX - this.#ready.length, this.#held);
      this.#ready.push(...slips);
      if (hasMore) this.#hasBacklog = true;
      if (nextMs !== null) this.#wakeAt(nextMs);
    } catch (error) {
      if (this.#isClosed) return;
      this.#host.log.write("error", "bus.load_failed", { subject: this.#subject, error: String(error) });
      this.#wakeAt(this.#host.clock.now() + FAILED_DELAY_MS);
    } finally {
      this.#isLoading = false;
    }
    this.#pumpSoon();
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
    for (const envelope of ready) {
      this.#held.delete(envelope.seq);
      if (envelope.isRow) this.#hasBacklog = true;
      else void this.#shelve(envelope);
    }
  }
}

interface Member {
  readonly handler: Handler;
  working: number;
  onIdle: (() => void) | null;
}

const READY_MAX = 4_096;
const READY_WAITS_MAX = 5;
/** After a handler that threw, and after a disk that refused. */
const FAILED_DELAY_MS = 1_000;
