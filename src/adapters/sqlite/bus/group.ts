import type { Delivery, Handler, Message, Settlement, Stop } from "../../../ports/bus.ts";
import type { Cancel } from "../../../ports/clock.ts";
import { type GroupHost, Shelf, type Slip } from "./disk-queue.ts";
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
  readonly #shelf: Shelf;
  readonly #members: Member[] = [];
  readonly #working = new Set<Slip>();
  #ready: Slip[] = [];
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
    this.#shelf = new Shelf(host, subject, name, found);
  }

  rename(name: string): void {
    this.#shelf.rename(name);
  }

  /** Resolves when the message is safe: on disk, or ended by its handler. */
  offer(message: Message): Promise<void> {
    const refusal = this.#isClosed ? new Error("the bus is closed") : this.#shelf.refusal();
    if (refusal !== null) return Promise.reject(refusal);
    const slip = this.#shelf.newSlip(message);
    return new Promise((resolve, reject) => {
      slip.safe = { resolve, reject };
      // Behind a backlog there is no overtaking: the newcomer goes to its end, which is on disk.
      if (this.#members.length === 0 || this.#hasBacklog || this.#ready.length >= READY_MAX) {
        void this.#shelve(slip);
        return;
      }
      this.#held.add(slip.seq);
      this.#ready.push(slip);
      this.#watchReady(slip);
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
    for (const slip of [...this.#working, ...this.#ready]) void this.#shelf.store(slip);
  }

  /** A message does not wait for its handler for ever. */
  #watchReady(slip: Slip): void {
    let waits = 0;
    this.#host.watch(() => {
      if (slip.attempt > 0) return true;
      waits += 1;
      if (waits < READY_WAITS_MAX) return false;
      void this.#shelf.store(slip);
      return true;
    });
  }

  /** A handler gets its few turns from when it begins. */
  #watchBegun(slip: Slip): void {
    this.#host.watch(() => {
      if (!slip.isEnded) void this.#shelf.store(slip);
      return true;
    });
  }

  async #shelve(slip: Slip): Promise<void> {
    await this.#shelf.store(slip);
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

  #begin(member: Member, slip: Slip): void {
    member.working += 1;
    this.#working.add(slip);
    slip.attempt += 1;
    if (!slip.isRow) this.#watchBegun(slip);
    void this.#handle(member, slip, this.#shelf.begin(slip));
  }

  async #handle(member: Member, slip: Slip, counted: Promise<void> | null): Promise<void> {
    let answer: Settlement;
    try {
      if (counted) await counted;
      const delivery: Delivery = { id: slip.id, subject: this.#subject, attempt: slip.attempt, content: slip.content };
      answer = await member.handler(delivery);
    } catch (error) {
      this.#host.log.write("error", "bus.handler_failed", {
        subject: this.#subject,
        id: slip.id,
        error: String(error),
      });
      answer = { kind: "nakDelay", delayMs: FAILED_DELAY_MS };
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
        this.#held.delete(slip.seq);
        this.#shelf.end(slip);
        return;
      case "nak":
        void this.#redeliver(slip, 0);
        return;
      case "nakDelay":
        void this.#redeliver(slip, Math.max(0, answer.delayMs));
        return;
      default:
        answer satisfies never;
    }
  }

  async #redeliver(slip: Slip, delayMs: number): Promise<void> {
    const { clock, log, options } = this.#host;
    const isLast = slip.attempt >= options.deliverMax;
    if (isLast)
      log.write("error", "bus.delivery_limit", { subject: this.#subject, id: slip.id, attempt: slip.attempt });
    const visibleMs = isLast ? NEVER_MS : Math.min(clock.now() + delayMs, NEVER_MS);
    if (await this.#shelf.delay(slip, visibleMs)) {
      this.#held.delete(slip.seq);
      this.#wakeAt(visibleMs);
    } else if (!this.#isClosed) {
      // The disk is at fault, not the message: memory keeps it, and its publisher knows that it is not safe.
      clock.after(Math.max(delayMs, FAILED_DELAY_MS), () => {
        this.#ready.push(slip);
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
    for (const slip of ready) {
      this.#held.delete(slip.seq);
      if (slip.isRow) this.#hasBacklog = true;
      else void this.#shelve(slip);
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
