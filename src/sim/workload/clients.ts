import { admitJob } from "../../engine/intake/index.ts";
import type { Message } from "../../ports/bus.ts";
import { SUBMIT } from "../../protocol/subjects.ts";
import { SimBus } from "../adapters/bus.ts";
import type { SimNet } from "../adapters/world.ts";
import type { Violations } from "../checks/violations.ts";
import { Process } from "../process.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";
import type { Garbage, Order, Plan } from "./plan.ts";
import { sendRequest } from "./request.ts";
import { tallyMessage } from "./tally.ts";

/**
 * Those who ask: clients that try again with their key until they are told, CAP clients on the bus, and some that send
 * what nobody can read. They are outside: they do not crash, but their requests and the answers get lost.
 */
export class Clients {
  readonly #net: SimNet;
  readonly #system: System;
  readonly #random: SeededRandom;
  readonly #violations: Violations;
  readonly #bus: SimBus;
  /** Order → the job that its client was told of. */
  readonly told = new Map<number, string>();
  /** Orders whose clients still try. */
  readonly trying = new Set<number>();
  /** Messages that clients have put on the bus for certain. */
  readonly published = new Set<string>();
  #publishing = 0;

  constructor(net: SimNet, system: System, random: SeededRandom, violations: Violations) {
    this.#net = net;
    this.#system = system;
    this.#random = random;
    this.#violations = violations;
    const outside = new Process(net.timeline, "client", random.fork("outside"));
    this.#bus = new SimBus(net, net.bus, net.pubSub, outside);
  }

  start(plan: Plan): void {
    const { timeline } = this.#net;
    for (const order of plan.orders) {
      this.trying.add(order.number);
      timeline.post(order.atMs, () => (order.by === "bus" ? this.#publish(order) : this.#ask(order)));
    }
    for (const tally of plan.tallies) timeline.post(tally.atMs, () => this.#send(tallyMessage(tally)));
    for (const garbage of plan.garbage) timeline.post(garbage.atMs, () => this.#litter(garbage));
  }

  get isDone(): boolean {
    return this.trying.size === 0 && this.#publishing === 0;
  }

  #ask(order: Order): void {
    const again = (): void => {
      if (order.by === "none") this.trying.delete(order.number);
      else this.#net.timeline.post(this.#random.between(20, 1_000), () => this.#ask(order));
    };
    sendRequest(
      { net: this.#net, system: this.#system, random: this.#random },
      (engine) => admitJob(engine, order.submission),
      again,
      ({ jobId, kind }) => this.#hear(order, jobId, kind),
    );
  }

  #hear(order: Order, jobId: string, kind: string): void {
    const known = this.told.get(order.number);
    const id = `order ${order.number}`;
    if (kind === "conflict" || kind === "unusable")
      this.#violations.add("idempotency", id, `the same wish was called a conflict with ${jobId}`);
    if (known !== undefined && known !== jobId) {
      this.#violations.add("idempotency", id, `told of ${known} first, then of ${jobId}`);
    }
    this.told.set(order.number, jobId);
    this.trying.delete(order.number);
    if (known !== undefined || order.replayAfterMs === null) return;
    this.trying.add(order.number);
    this.#net.timeline.post(order.replayAfterMs, () => this.#ask(order));
  }

  /** A CAP client: the job is in the message, and the message is published until that is certain. */
  #publish(order: Order): void {
    const { org, topic, input, jobId, priority, labels } = order.submission;
    const body = { kind: "job_request", jobId: jobId ?? "", topic, tenantId: org, priority, labels, input } as const;
    const packet = { traceId: `trace-${order.number}`, senderId: "cap-client", createdAtMs: 0, body };
    this.#send({ id: `client:${order.number}`, subject: SUBMIT, packet }, () => {
      this.told.set(order.number, jobId ?? "");
      this.trying.delete(order.number);
    });
  }

  #send(message: Message, then: () => void = () => undefined): void {
    this.#publishing += 1;
    const attempt = (): void => {
      this.#bus.publish(message).then(
        () => {
          this.#publishing -= 1;
          this.published.add(message.id);
          then();
        },
        () => this.#net.timeline.post(this.#random.between(20, 1_000), attempt),
      );
    };
    attempt();
  }

  #litter({ id, kind }: Garbage): void {
    const base = { traceId: id, senderId: "litterer", createdAtMs: 0 };
    switch (kind) {
      case "bytes":
        this.#net.bus.store(SUBMIT, id, { kind: "undecodable", bytes: garbageBytes(id), error: "not a packet" });
        this.published.add(id);
        return;
      case "wrong_kind":
        this.#send({ id, subject: SUBMIT, packet: { ...base, body: { kind: "heartbeat", workerId: "lost" } } });
        return;
      case "phantom": {
        const body = { kind: "job_request", jobId: `nobody-${id}`, topic: "work.alpha" } as const;
        this.#send({ id, subject: SUBMIT, packet: { ...base, body } });
        return;
      }
      case "stray_result": {
        const body = { kind: "job_result", jobId: `nobody-${id}`, status: "succeeded", workerId: "lost" } as const;
        this.#send({ id, subject: "sys.job.result", packet: { ...base, body } });
        return;
      }
      default:
        kind satisfies never;
    }
  }
}

export function garbageBytes(id: string): Uint8Array {
  return new TextEncoder().encode(`\u0000garbage ${id}`);
}
