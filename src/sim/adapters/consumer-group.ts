import type { Settlement } from "../../core/retry/bus-action.ts";
import type { BusOptions, Content, Delivery, Handler } from "../../ports/bus.ts";
import type { Cancel } from "../../ports/clock.ts";
import type { SentMessage } from "../flows.ts";
import type { Process } from "../process.ts";
import type { Timeline } from "../timeline.ts";
import { latency, type Network } from "./net.ts";

/**
 * The consumers of one subject that share its messages.
 *
 * 1. A delivery without a settlement is redelivered after the ack wait, unless its handler is running in a process that
 *    sends keep-alives. A paused process sends none, and may still process the delivery after the resume.
 * 2. After `deliverMax` deliveries a message is dropped silently, as JetStream does, and added to `exhausted`.
 * 3. Each delivery has its own latency, so the order is not guaranteed.
 */
export class ConsumerGroup {
  readonly open = new Set<StreamMessage>();
  readonly #net: Network;
  readonly #options: BusOptions;
  readonly #observers: readonly BusObserver[];
  readonly #exhausted: StreamMessage[];
  readonly #nakTimer: NakTimer<StreamMessage>;
  #consumers: Consumer[] = [];
  readonly #ready: StreamMessage[] = [];
  /** The index of the first unsent message in `#ready`; shifting a long array for each one is too slow. */
  #readyAt = 0;
  /** Where the round-robin over the consumers continues. */
  #next = 0;
  #isRetryScheduled = false;

  constructor(net: Network, options: BusOptions, observers: readonly BusObserver[], exhausted: StreamMessage[]) {
    this.#net = net;
    this.#options = options;
    this.#observers = observers;
    this.#exhausted = exhausted;
    this.#nakTimer = new NakTimer(net.timeline, (message) => this.#enqueue(message));
  }

  add(message: StreamMessage): void {
    this.open.add(message);
    this.#enqueue(message);
  }

  join(process: Process, handler: Handler): Consumer {
    const consumer = new Consumer(process, handler);
    this.#consumers.push(consumer);
    process.onEnd(() => {
      this.#consumers = this.#consumers.filter((other) => other !== consumer);
    });
    this.pump();
    return consumer;
  }

  pump(): void {
    while (this.#readyAt < this.#ready.length) {
      const consumer = this.#chooseConsumer();
      if (consumer === null) return;
      const message = this.#ready[this.#readyAt]!;
      this.#readyAt += 1;
      if (this.#readyAt * 2 >= this.#ready.length) {
        this.#ready.splice(0, this.#readyAt);
        this.#readyAt = 0;
      }
      if (!message.isEnded) this.#send(message, consumer);
    }
  }

  #enqueue(message: StreamMessage): void {
    if (message.isEnded) return;
    if (message.attempt >= this.#options.deliverMax) {
      this.#exhausted.push(message);
      this.open.delete(message);
      return;
    }
    this.#ready.push(message);
    this.pump();
  }

  #chooseConsumer(): Consumer | null {
    const consumers = this.#consumers;
    const start = this.#next;
    for (let step = 0; step < consumers.length; step += 1) {
      const at = (start + step) % consumers.length;
      const consumer = consumers[at]!;
      const isFull = consumer.inFlight >= this.#options.inFlightMax;
      if (consumer.isStopping || isFull || !consumer.process.reaches("bus")) continue;
      this.#next = at + 1;
      return consumer;
    }
    if (consumers.length > 0 && !this.#isRetryScheduled) this.#pumpLater();
    return null;
  }

  /** A consumer with free capacity calls `pump` itself; the end of a partition is found by polling. */
  #pumpLater(): void {
    this.#isRetryScheduled = true;
    this.#net.timeline.postQuiet(POLL_MS, () => {
      this.#isRetryScheduled = false;
      this.pump();
    });
  }

  #send(message: StreamMessage, consumer: Consumer): void {
    const { timeline, random, faults } = this.#net;
    message.attempt += 1;
    consumer.inFlight += 1;
    const { subject, id, attempt, content } = message;
    const sent = new SentDelivery(message, consumer, { id, subject, attempt, content });
    sent.flow = this.#flowOf(message, consumer.process);
    timeline.post(latency(random, faults.bus), () => this.#arrive(sent));
    this.#startAckTimer(sent, this.#options.ackWaitMs);
  }

  /** The first delivery starts at the publisher. */
  #flowOf({ attempt, publisher, subject, id }: StreamMessage, to: Process): SentMessage | null {
    const { flows } = this.#net;
    if (flows === null) return null;
    if (attempt > 1 || publisher === null) return flows.send("bus", to.name, subject, id);
    return flows.send(publisher.name, to.name, subject, id, publisher.sentMs);
  }

  #arrive(sent: SentDelivery): void {
    const { process } = sent.consumer;
    if (!process.reaches("bus") || (sent.consumer.isStopping && !sent.message.isEnded)) {
      this.#bounce(sent);
      return;
    }
    process.enter(() => {
      sent.isHandling = true;
      for (const observer of this.#observers) observer.delivered?.(process, sent.delivery);
      this.#net.trace.note(this.#net.timeline.nowMs, process.name, sent.delivery.subject, sent.delivery.id);
      if (sent.flow !== null) this.#net.flows?.delivered(sent.flow);
      handle(sent).then((settlement) => this.#reply(sent, settlement));
    });
  }

  /** The delivery did not reach the handler. A stopping consumer returns it; a lost one waits for the ack timeout. */
  #bounce(sent: SentDelivery): void {
    const { process } = sent.consumer;
    const reaches = process.reaches("bus");
    if (sent.flow !== null) this.#net.flows?.lose(sent.flow, unreached(process));
    sent.consumer.leave();
    if (!reaches) return;
    sent.cancelAckTimer?.();
    sent.message.attempt -= 1;
    this.#enqueue(sent.message);
  }

  #reply(sent: SentDelivery, settlement: Settlement): void {
    const { timeline, random, faults } = this.#net;
    const { process } = sent.consumer;
    sent.isHandling = false;
    sent.consumer.leave();
    for (const observer of this.#observers) observer.settled?.(process, sent.delivery, settlement);
    if (process.reaches("bus") && !random.chance(faults.bus.ackLossRate)) {
      timeline.postQuiet(latency(random, faults.bus), () => this.#settle(sent, settlement));
    } else if (this.#net.flows !== null && process.isAlive) {
      const { subject, id } = sent.delivery;
      const { flows } = this.#net;
      const why = process.reaches("bus") ? "lost by the network" : unreached(process);
      flows.lose(flows.send(process.name, "bus", subject, `${settlement.kind} of ${id}`), why);
    }
    this.pump();
  }

  #settle(sent: SentDelivery, settlement: Settlement): void {
    const { message } = sent;
    switch (settlement.kind) {
      case "ack":
      case "term":
        message.isEnded = true;
        this.open.delete(message);
        sent.cancelAckTimer?.();
        return;
      case "nak":
      case "nakDelay": {
        // A nak of a delivery that was already redelivered is ignored.
        if (message.attempt !== sent.delivery.attempt || sent.isExpired) return;
        sent.cancelAckTimer?.();
        sent.isExpired = true;
        if (settlement.kind === "nak") this.#enqueue(message);
        else this.#enqueueAfter(settlement.delayMs, message);
        return;
      }
      default:
        settlement satisfies never;
    }
  }

  #enqueueAfter(delayMs: number, message: StreamMessage): void {
    const { timeline, faults } = this.#net;
    const { nakLookMs = 0 } = faults.bus;
    if (nakLookMs > 0) this.#nakTimer.add(message, delayMs, nakLookMs);
    else timeline.postQuiet(delayMs, () => this.#enqueue(message));
  }

  /** The ack wait (1): one timer per wait that checks since when the process has been silent. */
  #startAckTimer(sent: SentDelivery, delayMs: number): void {
    const { timeline } = this.#net;
    const { ackWaitMs } = this.#options;
    sent.cancelAckTimer = timeline.afterQuiet(delayMs, () => {
      if (sent.message.isEnded || sent.isExpired) return;
      const silentSinceMs = sent.consumer.process.silentSinceMs;
      if (sent.isHandling && silentSinceMs === null) {
        this.#startAckTimer(sent, ackWaitMs);
      } else if (sent.isHandling && timeline.nowMs - silentSinceMs! < ackWaitMs) {
        // A minimum delay: a remainder from rounding would fire at the same instant for ever.
        this.#startAckTimer(sent, Math.max(STEP_MS, silentSinceMs! + ackWaitMs - timeline.nowMs));
      } else {
        sent.isExpired = true;
        this.#enqueue(sent.message);
      }
    });
  }
}

/** `settled` is called when the handler returns, before the settlement is sent. */
export interface BusObserver {
  stored?(subject: string, id: string, content: Content): void;
  delivered?(process: Process, delivery: Delivery): void;
  settled?(process: Process, delivery: Delivery, settlement: Settlement): void;
}

export class StreamMessage {
  readonly subject: string;
  readonly id: string;
  readonly content: Content;
  readonly publisher: Publisher | null;
  /** The number of deliveries. */
  attempt = 0;
  isEnded = false;

  constructor(subject: string, id: string, content: Content, publisher: Publisher | null = null) {
    this.subject = subject;
    this.id = id;
    this.content = content;
    this.publisher = publisher;
  }
}

/** Which process published a message, and when. */
export interface Publisher {
  readonly name: string;
  readonly sentMs: number;
}

/** One `consume` call of one process. */
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

class SentDelivery {
  readonly message: StreamMessage;
  readonly consumer: Consumer;
  readonly delivery: Delivery;
  isHandling = false;
  isExpired = false;
  cancelAckTimer: (() => void) | null = null;
  flow: SentMessage | null = null;

  constructor(message: StreamMessage, consumer: Consumer, delivery: Delivery) {
    this.message = message;
    this.consumer = consumer;
    this.delivery = delivery;
  }
}

/** Why a message does not reach a process. */
export const unreached = (process: Process): string =>
  process.reaches("bus")
    ? `${process.name} stops`
    : process.isAlive
      ? `${process.name} is cut off`
      : `${process.name} is down`;

async function handle(sent: SentDelivery): Promise<Settlement> {
  try {
    return await sent.consumer.handler(sent.delivery);
  } catch {
    return { kind: "nakDelay", delayMs: 1_000 };
  }
}

const STEP_MS = 0.01;
const POLL_MS = 100;

/**
 * The redelivery timer of JetStream: one timer for all delayed naks of a group.
 *
 * 1. Each nak resets the timer to `lookMs` from now, and only the timer releases due entries. While naks arrive more often
 *    than that, no entry is released, however long it has been due.
 * 2. When the timer fires, it is set to the next due time plus `LATE_MS`, so entries that are due together are released
 *    together.
 */
export class NakTimer<T> {
  readonly #timeline: Timeline;
  readonly #release: (item: T) => void;
  #waiting: { readonly item: T; readonly dueMs: number }[] = [];
  #cancel: Cancel = () => undefined;

  constructor(timeline: Timeline, release: (item: T) => void) {
    this.#timeline = timeline;
    this.#release = release;
  }

  add(item: T, delayMs: number, lookMs: number): void {
    this.#waiting.push({ item, dueMs: this.#timeline.nowMs + delayMs });
    this.#reset(lookMs);
  }

  #reset(delayMs: number): void {
    this.#cancel();
    this.#cancel = this.#timeline.afterQuiet(delayMs, () => this.#fire());
  }

  #fire(): void {
    const { nowMs } = this.#timeline;
    const due = this.#waiting.filter(({ dueMs }) => dueMs <= nowMs);
    this.#waiting = this.#waiting.filter(({ dueMs }) => dueMs > nowMs);
    const nextMs = this.#waiting.reduce((least, { dueMs }) => Math.min(least, dueMs), Number.POSITIVE_INFINITY);
    if (this.#waiting.length > 0) this.#reset(nextMs - nowMs + LATE_MS);
    for (const { item } of due) this.#release(item);
  }
}

const LATE_MS = 1;
