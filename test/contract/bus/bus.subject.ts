import type { Settlement } from "../../../src/core/retry/bus-action.ts";
import type { Bus, BusOptions, Delivery, Handler } from "../../../src/ports/bus.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { RESULT, SUBMIT } from "../../../src/protocol/subjects.ts";

/** The interface between the bus contract and an adapter's test harness, and helpers of the cases. */
export interface BusSubject {
  readonly bus: Bus;
  /** The bus of another process, or at least another connection. Embedded buses return the same bus. */
  other(): Promise<Bus>;
  /** Drives the subject until the promise settles. */
  run<T>(promise: Promise<T>): Promise<T>;
  /** Advances the subject's clock. */
  pass(ms: number): Promise<void>;
  /** The subject's clock in milliseconds; only differences are used. */
  now(): number;
  /** Publishes raw bytes on a durable subject, like a third-party client. Capability `inject`. */
  injectRaw?(subject: string, bytes: Uint8Array): Promise<void>;
  /** Crashes the process of that bus. Capability `crash`. */
  crash?(bus: Bus): Promise<void>;
  /** `true`, or the reason why the capability is missing. */
  readonly capabilities: Readonly<Record<BusCapability, true | string>>;
  close(): Promise<void>;
}

/** `processes`: `other()` is a separate member. `inject`, `crash`: see the methods. */
export type BusCapability = "processes" | "inject" | "crash";

/** Short times, for subjects that run in real time. */
export const CONTRACT_OPTIONS: BusOptions = { ackWaitMs: 900, deliverMax: 100, inFlightMax: 8 };

export type CaseMaker = (
  title: string,
  body: (subject: BusSubject) => Promise<void>,
  needs?: readonly BusCapability[],
) => void;

export const ACK: Settlement = { kind: "ack" };
export const NAK: Settlement = { kind: "nak" };
export const TERM: Settlement = { kind: "term" };
export const GROUP = "contract";

/** Records items; `until` waits for a condition on them. */
export class Recorder<T> {
  readonly seen: T[] = [];
  #waiters: { condition: (seen: readonly T[]) => boolean; wake: () => void }[] = [];

  add(item: T): void {
    this.seen.push(item);
    this.#waiters = this.#waiters.filter((waiter) => {
      if (!waiter.condition(this.seen)) return true;
      waiter.wake();
      return false;
    });
  }

  until(condition: (seen: readonly T[]) => boolean): Promise<void> {
    if (condition(this.seen)) return Promise.resolve();
    return new Promise((wake) => this.#waiters.push({ condition, wake }));
  }

  count(n: number): Promise<void> {
    return this.until((seen) => seen.length >= n);
  }
}

export interface Seen extends Delivery {
  readonly atMs: number;
}

export class Deliveries extends Recorder<Seen> {
  readonly handler: Handler;

  constructor(subject: BusSubject, answer: (delivery: Delivery) => Settlement | Promise<Settlement> = () => ACK) {
    super();
    this.handler = async (delivery) => {
      this.add({ ...delivery, atMs: subject.now() });
      return answer(delivery);
    };
  }

  ids(): string[] {
    return this.seen.map((delivery) => delivery.id).sort();
  }

  of(id: string): Seen[] {
    return this.seen.filter((delivery) => delivery.id === id);
  }
}

/** Blocks handlers until it is opened. */
export function gate(): { readonly passed: Promise<void>; open(): void } {
  let open = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open: () => open() };
}

export const request = (jobId: string): Packet => ({
  traceId: `trace-${jobId}`,
  senderId: "contract",
  createdAtMs: 1_700_000_000_123,
  body: {
    kind: "job_request",
    jobId,
    topic: "contract.echo",
    priority: "batch",
    tenantId: "default",
    labels: { suite: "contract", ü: "ö" },
    attempt: 1,
    input: { n: 1, text: "héllo", list: [1, null, true] },
    deadlineMs: 1_700_000_900_000,
  },
});

export const result = (jobId: string): Packet => ({
  traceId: `trace-${jobId}`,
  senderId: "contract",
  createdAtMs: 1_700_000_000_456,
  body: { kind: "job_result", jobId, status: "succeeded", workerId: "w-1", attempt: 1, output: { ok: true } },
});

export const submit = (id: string) => ({ id, subject: SUBMIT, packet: request(id) });
export const finish = (id: string) => ({ id, subject: RESULT, packet: result(id) });

/** Starts all publishes in one tick and waits for all of them. */
export const publishTogether = (subject: BusSubject, ids: readonly string[]): Promise<unknown> =>
  subject.run(Promise.all(ids.map((id) => subject.bus.publish(submit(id)))));

export const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}-${String(index).padStart(4, "0")}`);

export const later = (delayMs: number): Settlement => ({ kind: "nakDelay", delayMs });

/** Resolves when two recorders together have seen `count`. */
export function both(a: Deliveries, b: Deliveries, count: number): Promise<void> {
  const enough = () => a.seen.length + b.seen.length >= count;
  return Promise.race([a.until(enough), b.until(enough)]);
}

/** Long enough for a redelivery of a message that was not settled. */
export const QUIET_MS = CONTRACT_OPTIONS.ackWaitMs * 2;
