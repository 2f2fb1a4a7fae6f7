import type { Settlement } from "../../core/retry/bus-action.ts";
import type { BusOptions, Content, Delivery, Handler } from "../../ports/bus.ts";
import type { Process } from "../process.ts";
import { NakTimer } from "./nak-timer.ts";
import { latency, type Network } from "./net.ts";

/**
 * One group of consumers of one subject: who has which message, and until when.
 *
 * 1. A delivery that is not answered within the ack wait comes again, unless its handler works in a process that shows
 *    signs of life. A paused process shows none; it may still work on what it has when it wakes up.
 * 2. After `deliverMax` deliveries the broker gives up without a word, as the real one does. `exhausted` remembers it.
 * 3. Each delivery takes its own time, so the order is anybody's guess.
 */
export class ConsumerGroup {
  readonly open = new Set<StreamMessage>();
  readonly #net: Network;
  readonly #options: BusOptions;
  readonly #taps: readonly BusObserver[];
  readonly #exhausted: StreamMessage[];
  readonly #nakTimer: NakTimer<StreamMessage>;
  #members: Consumer[] = [];
  readonly #ready: StreamMessage[] = [];
  /** The first that is still to be sent: to take one off the front of a long list moves all the others. */
  #readyAt = 0;
  #next = 0;

  constructor(net: Network, options: BusOptions, taps: readonly BusObserver[], exhausted: StreamMessage[]) {
    this.#net = net;
    this.#options = options;
    this.#taps = taps;
    this.#exhausted = exhausted;
    this.#nakTimer = new NakTimer(net.timeline, (letter) => this.#offer(letter));
  }

  add(letter: StreamMessage): void {
    this.open.add(letter);
    this.#offer(letter);
  }

  join(process: Process, handler: Handler): Consumer {
    const member = new Consumer(process, handler);
    this.#members.push(member);
    process.onEnd(() => {
      this.#members = this.#members.filter((other) => other !== member);
    });
    this.pump();
    return member;
  }

  pump(): void {
    while (this.#readyAt < this.#ready.length) {
      const member = this.#chooseMember();
      if (member === null) return;
      const letter = this.#ready[this.#readyAt]!;
      this.#readyAt += 1;
      if (this.#readyAt * 2 >= this.#ready.length) {
        this.#ready.splice(0, this.#readyAt);
        this.#readyAt = 0;
      }
      if (!letter.isEnded) this.#send(letter, member);
    }
  }

  #offer(letter: StreamMessage): void {
    if (letter.isEnded) return;
    if (letter.attempt >= this.#options.deliverMax) {
      this.#exhausted.push(letter);
      this.open.delete(letter);
      return;
    }
    this.#ready.push(letter);
    this.pump();
  }

  #chooseMember(): Consumer | null {
    const members = this.#members;
    const start = this.#next;
    for (let step = 0; step < members.length; step += 1) {
      const at = (start + step) % members.length;
      const member = members[at]!;
      if (member.isStopping || member.inFlight >= this.#options.inFlightMax || !member.process.reaches("bus")) continue;
      this.#next = at + 1;
      return member;
    }
    if (members.length > 0 && !this.#isWaitingForMembers) this.#lookAgain();
    return null;
  }

  /** Members that are full pump when they are done; those that are cut off come back unannounced. */
  #isWaitingForMembers = false;
  #lookAgain(): void {
    this.#isWaitingForMembers = true;
    this.#net.timeline.postQuiet(LOOK_AGAIN_MS, () => {
      this.#isWaitingForMembers = false;
      this.pump();
    });
  }

  #send(letter: StreamMessage, member: Consumer): void {
    const { timeline, random, faults } = this.#net;
    letter.attempt += 1;
    member.inFlight += 1;
    const { subject, id, attempt, content } = letter;
    const out = new Outstanding(letter, member, { id, subject, attempt, content });
    timeline.post(latency(random, faults.bus), () => this.#arrive(out));
    this.#watch(out, this.#options.ackWaitMs);
  }

  #arrive(out: Outstanding): void {
    const { process } = out.member;
    if (!process.reaches("bus") || (out.member.isStopping && !out.letter.isEnded)) {
      this.#bounce(out);
      return;
    }
    process.enter(() => {
      out.isWorking = true;
      for (const tap of this.#taps) tap.delivered?.(process, out.delivery);
      this.#net.trace.note(this.#net.timeline.nowMs, process.name, out.delivery.subject, out.delivery.id);
      handle(out).then((settlement) => this.#answer(out, settlement));
    });
  }

  /** It never reached the handler: a stopping member hands it back, a lost one waits for its ack wait. */
  #bounce(out: Outstanding): void {
    out.member.leave();
    if (!out.member.process.reaches("bus")) return;
    out.cancelWatch?.();
    out.letter.attempt -= 1;
    this.#offer(out.letter);
  }

  #answer(out: Outstanding, settlement: Settlement): void {
    const { timeline, random, faults } = this.#net;
    const { process } = out.member;
    out.isWorking = false;
    out.member.leave();
    for (const tap of this.#taps) tap.settled?.(process, out.delivery, settlement);
    if (process.reaches("bus") && !random.chance(faults.bus.ackLossRate)) {
      timeline.postQuiet(latency(random, faults.bus), () => this.#settle(out, settlement));
    }
    this.pump();
  }

  #settle(out: Outstanding, settlement: Settlement): void {
    const { letter } = out;
    switch (settlement.kind) {
      case "ack":
      case "term":
        letter.isEnded = true;
        this.open.delete(letter);
        out.cancelWatch?.();
        return;
      case "nak":
      case "nakDelay": {
        // An answer to a delivery that was already given to somebody else changes nothing.
        if (letter.attempt !== out.delivery.attempt || out.isExpired) return;
        out.cancelWatch?.();
        out.isExpired = true;
        if (settlement.kind === "nak") this.#offer(letter);
        else this.#offerAfter(settlement.delayMs, letter);
        return;
      }
      default:
        settlement satisfies never;
    }
  }

  #offerAfter(delayMs: number, letter: StreamMessage): void {
    const { timeline, faults } = this.#net;
    const { nakLookMs = 0 } = faults.bus;
    if (nakLookMs > 0) this.#nakTimer.add(letter, delayMs, nakLookMs);
    else timeline.postQuiet(delayMs, () => this.#offer(letter));
  }

  /** The ack wait (1): looked at once per wait, by asking since when the process has been silent. */
  #watch(out: Outstanding, delayMs: number): void {
    const { timeline } = this.#net;
    const { ackWaitMs } = this.#options;
    out.cancelWatch = timeline.afterQuiet(delayMs, () => {
      if (out.letter.isEnded || out.isExpired) return;
      const silentSinceMs = out.member.process.silentSinceMs;
      if (out.isWorking && silentSinceMs === null) {
        this.#watch(out, ackWaitMs);
      } else if (out.isWorking && timeline.nowMs - silentSinceMs! < ackWaitMs) {
        // Never less than a step: a rest that rounding leaves would look again at the same instant for ever.
        this.#watch(out, Math.max(STEP_MS, silentSinceMs! + ackWaitMs - timeline.nowMs));
      } else {
        out.isExpired = true;
        this.#offer(out.letter);
      }
    });
  }
}

/** What checkers are told. `answered` is called at the instant of the answer, before it travels. */
export interface BusObserver {
  stored?(subject: string, id: string, content: Content): void;
  delivered?(process: Process, delivery: Delivery): void;
  settled?(process: Process, delivery: Delivery, settlement: Settlement): void;
}

export class StreamMessage {
  readonly subject: string;
  readonly id: string;
  readonly content: Content;
  /** Deliveries so far. */
  attempt = 0;
  isEnded = false;

  constructor(subject: string, id: string, content: Content) {
    this.subject = subject;
    this.id = id;
    this.content = content;
  }
}

/** One `consume` of one process. */
export class Consumer {
  readonly process: Process;
  readonly handler: Handler;
  inFlight = 0;
  isStopping = false;
  onIdle: (() => void) | null = null;

  constructor(process: Process, handler: Handler) {
    this.process = process;
    this.handler = handler;
  }

  stop(): Promise<void> {
    this.isStopping = true;
    if (this.inFlight === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.onIdle = resolve;
    });
  }

  leave(): void {
    this.inFlight -= 1;
    if (this.inFlight === 0) this.onIdle?.();
  }
}

/** One delivery that is out. */
class Outstanding {
  readonly letter: StreamMessage;
  readonly member: Consumer;
  readonly delivery: Delivery;
  isWorking = false;
  isExpired = false;
  cancelWatch: (() => void) | null = null;

  constructor(letter: StreamMessage, member: Consumer, delivery: Delivery) {
    this.letter = letter;
    this.member = member;
    this.delivery = delivery;
  }
}

async function handle(out: Outstanding): Promise<Settlement> {
  try {
    return await out.member.handler(out.delivery);
  } catch {
    return { kind: "nakDelay", delayMs: 1_000 };
  }
}

const STEP_MS = 0.01;
const LOOK_AGAIN_MS = 100;
