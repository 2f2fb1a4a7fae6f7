import type { Settlement } from "../../../core/retry/bus-action.ts";
import type { Delivery, Handler, Message, Stop } from "../../../ports/bus.ts";
import type { Cancel } from "../../../ports/clock.ts";
import { type BusContext, DiskQueue, type Envelope } from "./disk-queue.ts";
import { NEVER_MS } from "./message-rows.ts";

/**
 * A consumer group of one subject: delivers its messages to its members.
 *
 * 1. A message is in memory, on disk, or both. Its `publish` resolves once it is on disk or has ended.
 * 2. Memory has ready and in-flight messages, both bounded. Delayed messages, and those above the bound, are only on disk:
 *    a delayed message takes no slot and no memory, and one timer wakes the group for the earliest of them.
 * 3. The attempt of a stored message is written before its handler runs, so a crash during the delivery counts.
 */
export class ConsumerGroup {
  readonly #context: BusContext;
  readonly #subject: string;
  readonly #disk: DiskQueue;
  readonly #members: Member[] = [];
  readonly #inFlight = new Set<Envelope>();
  #ready: Envelope[] = [];
  /** Messages in memory, by seq: a load skips them. */
  readonly #inMemory = new Set<number>();
  /** The disk may have ready messages that are not in memory. */
  #hasBacklog = false;
  #isLoading = false;
  #isPumping = false;
  #isClosed = false;
  #wakeUp: { readonly atMs: number; readonly cancel: Cancel } | null = null;

  constructor(
    context: BusContext,
    subject: string,
    name: string,
    stored: { readonly size: number; readonly oldestMs: number | null },
  ) {
    this.#context = context;
    this.#subject = subject;
    this.#disk = new DiskQueue(context, subject, name, stored);
  }

  rename(name: string): void {
    this.#disk.rename(name);
  }

  /** Resolves when the message is on disk, or ended by its handler. */
  publish(message: Message): Promise<void> {
    const refusal = this.#isClosed ? new Error("the bus is closed") : this.#disk.refusal();
    if (refusal !== null) return Promise.reject(refusal);
    const envelope = this.#disk.newEnvelope(message);
    return new Promise((resolve, reject) => {
      envelope.publisher = { resolve, reject };
      // Behind a backlog, a new message must not overtake it.
      if (this.#members.length === 0 || this.#hasBacklog || this.#ready.length >= READY_MAX) {
        void this.#addToBacklog(envelope);
        return;
      }
      this.#inMemory.add(envelope.seq);
      this.#ready.push(envelope);
      this.#storeIfNotBegun(envelope);
      this.#schedulePump();
    });
  }

  join(handler: Handler): Stop {
    const member: Member = { handler, inFlight: 0, onIdle: null };
    this.#members.push(member);
    if (this.#disk.size > 0) this.#hasBacklog = true;
    this.#schedulePump();
    let stopped: Promise<void> | null = null;
    return () => {
      stopped ??= this.#leave(member);
      return stopped;
    };
  }

  /** Stores the messages that are only in memory. Does not wait for running handlers. */
  close(): void {
    this.#isClosed = true;
    this.#wakeUp?.cancel();
    for (const envelope of [...this.#inFlight, ...this.#ready]) void this.#disk.store(envelope);
  }

  #storeIfNotBegun(envelope: Envelope): void {
    let periods = 0;
    this.#context.afterGrace(() => {
      if (envelope.attempt > 0) return true;
      periods += 1;
      if (periods < READY_GRACE_PERIODS) return false;
      void this.#disk.store(envelope);
      return true;
    });
  }

  #storeIfNotEnded(envelope: Envelope): void {
    this.#context.afterGrace(() => {
      if (!envelope.isEnded) void this.#disk.store(envelope);
      return true;
    });
  }

  async #addToBacklog(envelope: Envelope): Promise<void> {
    await this.#disk.store(envelope);
    this.#onBacklog();
  }

  #onBacklog(): void {
    this.#hasBacklog = true;
    this.#schedulePump();
  }

  #schedulePump(): void {
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

  /** The member with the fewest messages in flight. */
  #freeMember(): Member | null {
    let free: Member | null = null;
    for (const member of this.#members) {
      if (member.inFlight >= this.#context.options.inFlightMax) continue;
      if (free === null || member.inFlight < free.inFlight) free = member;
    }
    return free;
  }

  #begin(member: Member, envelope: Envelope): void {
    member.inFlight += 1;
    this.#inFlight.add(envelope);
    envelope.attempt += 1;
    if (!envelope.isStored) this.#storeIfNotEnded(envelope);
    void this.#handle(member, envelope, this.#disk.begin(envelope));
  }

  async #handle(member: Member, envelope: Envelope, counted: Promise<void> | null): Promise<void> {
    const { id, attempt, content } = envelope;
    let settlement: Settlement;
    try {
      if (counted) await counted;
      const delivery: Delivery = { id, subject: this.#subject, attempt, content };
      settlement = await member.handler(delivery);
    } catch (error) {
      this.#context.log.write("error", "bus.handler_failed", { subject: this.#subject, id, error: String(error) });
      settlement = { kind: "nakDelay", delayMs: FAILED_DELAY_MS };
    }
    this.#inFlight.delete(envelope);
    member.inFlight -= 1;
    this.#settle(envelope, settlement);
    if (member.inFlight === 0) member.onIdle?.();
    this.#schedulePump();
  }

  #settle(envelope: Envelope, settlement: Settlement): void {
    switch (settlement.kind) {
      case "ack":
      case "term":
        this.#inMemory.delete(envelope.seq);
        this.#disk.end(envelope);
        return;
      case "nak":
        void this.#redeliver(envelope, 0);
        return;
      case "nakDelay":
        void this.#redeliver(envelope, Math.max(0, settlement.delayMs));
        return;
      default:
        settlement satisfies never;
    }
  }

  async #redeliver(envelope: Envelope, delayMs: number): Promise<void> {
    const { clock, log, options } = this.#context;
    const { id, attempt } = envelope;
    const isLast = attempt >= options.deliverMax;
    if (isLast) log.write("error", "bus.delivery_limit", { subject: this.#subject, id, attempt });
    const visibleMs = isLast ? NEVER_MS : Math.min(clock.now() + delayMs, NEVER_MS);
    if (await this.#disk.delay(envelope, visibleMs)) {
      this.#inMemory.delete(envelope.seq);
      this.#wakeAt(visibleMs);
    } else if (!this.#isClosed) {
      // The message stays in memory. Its publisher has seen the failure.
      clock.after(Math.max(delayMs, FAILED_DELAY_MS), () => {
        this.#ready.push(envelope);
        this.#schedulePump();
      });
    }
  }

  #wakeAt(atMs: number): void {
    const delayMs = atMs - this.#context.clock.now();
    if (delayMs <= 0) {
      this.#onBacklog();
      return;
    }
    if (this.#isClosed || atMs >= NEVER_MS || (this.#wakeUp !== null && this.#wakeUp.atMs <= atMs)) return;
    this.#wakeUp?.cancel();
    const cancel = this.#context.clock.after(delayMs, () => {
      this.#wakeUp = null;
      this.#onBacklog();
    });
    this.#wakeUp = { atMs, cancel };
  }

  /** Reads ready messages from disk and sets the timer for the next delayed one. */
  async #load(): Promise<void> {
    this.#isLoading = true;
    this.#hasBacklog = false;
    try {
      const { envelopes, hasMore, nextMs } = await this.#disk.load(READY_MAX - this.#ready.length, this.#inMemory);
      this.#ready.push(...envelopes);
      if (hasMore) this.#hasBacklog = true;
      if (nextMs !== null) this.#wakeAt(nextMs);
    } catch (error) {
      if (this.#isClosed) return;
      this.#context.log.write("error", "bus.load_failed", { subject: this.#subject, error: String(error) });
      this.#wakeAt(this.#context.clock.now() + FAILED_DELAY_MS);
    } finally {
      this.#isLoading = false;
    }
    this.#schedulePump();
  }

  async #leave(member: Member): Promise<void> {
    this.#members.splice(this.#members.indexOf(member), 1);
    if (this.#members.length === 0) this.#moveReadyToDisk();
    if (member.inFlight === 0) return;
    await new Promise<void>((resolve) => {
      member.onIdle = resolve;
    });
  }

  #moveReadyToDisk(): void {
    const ready = this.#ready;
    this.#ready = [];
    for (const envelope of ready) {
      this.#inMemory.delete(envelope.seq);
      if (envelope.isStored) this.#hasBacklog = true;
      else void this.#addToBacklog(envelope);
    }
  }
}

interface Member {
  readonly handler: Handler;
  inFlight: number;
  onIdle: (() => void) | null;
}

const READY_MAX = 4_096;
const READY_GRACE_PERIODS = 5;
/** After a handler that threw, and after a failed write. */
const FAILED_DELAY_MS = 1_000;
