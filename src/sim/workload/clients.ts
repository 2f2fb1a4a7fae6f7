import { wireJobId } from "../../core/model/job-id.ts";
import { admitJob } from "../../engine/intake/index.ts";
import { BudgetExhausted } from "../../engine/limits/index.ts";
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
 * Clients of the control plane: HTTP clients that retry with their idempotency key until they get a reply, CAP clients on
 * the bus, and senders of invalid messages. Clients do not crash; requests and replies can be lost.
 */
export class Clients {
  readonly #net: SimNet;
  readonly #system: System;
  readonly #random: SeededRandom;
  readonly #violations: Violations;
  readonly #bus: SimBus;
  /** The acknowledged job of each order. */
  readonly acknowledged = new Map<number, string>();
  /** Orders without a reply. */
  readonly pending = new Set<number>();
  /** Ids of messages whose publish was confirmed. */
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
      this.pending.add(order.number);
      timeline.post(order.atMs, () => (order.by === "bus" ? this.#publishJob(order) : this.#submit(order)));
    }
    for (const tally of plan.tallies) timeline.post(tally.atMs, () => this.#publish(tallyMessage(tally)));
    for (const garbage of plan.garbage) timeline.post(garbage.atMs, () => this.#publishGarbage(garbage));
  }

  get isDone(): boolean {
    return this.pending.size === 0 && this.#publishing === 0;
  }

  #submit(order: Order): void {
    const retry = (): void => {
      if (order.by === "none") this.pending.delete(order.number);
      else this.#net.timeline.post(this.#random.between(20, 1_000), () => this.#submit(order));
    };
    sendRequest(
      { net: this.#net, system: this.#system, random: this.#random },
      (engine) =>
        admitJob(engine, order.submission).catch((error: unknown) => {
          if (error instanceof BudgetExhausted) return null;
          throw error;
        }),
      retry,
      (admitted) => {
        if (admitted === null) this.pending.delete(order.number);
        else this.#acknowledge(order, admitted.jobId, admitted.kind);
      },
    );
  }

  #acknowledge(order: Order, jobId: string, kind: string): void {
    const known = this.acknowledged.get(order.number);
    const id = `order ${order.number}`;
    if (kind === "conflict" || kind === "unusable")
      this.#violations.add("idempotency", id, `a retry conflicts with ${jobId}`);
    if (known !== undefined && known !== jobId) {
      this.#violations.add("idempotency", id, `got job ${known} first, then ${jobId}`);
    }
    this.acknowledged.set(order.number, jobId);
    this.pending.delete(order.number);
    if (known !== undefined || order.replayAfterMs === null) return;
    this.pending.add(order.number);
    this.#net.timeline.post(order.replayAfterMs, () => this.#submit(order));
  }

  /** A CAP client puts the job into the message and retries the publish until it is confirmed. */
  #publishJob(order: Order): void {
    const { org, topic, input, jobId, priority, labels } = order.submission;
    const body = { kind: "job_request", jobId: jobId ?? "", topic, tenantId: org, priority, labels, input } as const;
    const packet = { traceId: `trace-${order.number}`, senderId: "cap-client", createdAtMs: 0, body };
    this.#publish({ id: `client:${order.number}`, subject: SUBMIT, packet }, () => {
      this.acknowledged.set(order.number, wireJobId(org, jobId ?? ""));
      this.pending.delete(order.number);
    });
  }

  #publish(message: Message, onPublished: () => void = () => undefined): void {
    this.#publishing += 1;
    const attempt = (): void => {
      this.#bus.publish(message).then(
        () => {
          this.#publishing -= 1;
          this.published.add(message.id);
          onPublished();
        },
        () => this.#net.timeline.post(this.#random.between(20, 1_000), attempt),
      );
    };
    attempt();
  }

  #publishGarbage({ id, kind }: Garbage): void {
    const base = { traceId: id, senderId: "litterer", createdAtMs: 0 };
    switch (kind) {
      case "bytes":
        this.#net.bus.store(SUBMIT, id, { kind: "undecodable", bytes: garbageBytes(id), error: "not a packet" });
        this.published.add(id);
        return;
      case "wrong_kind":
        this.#publish({ id, subject: SUBMIT, packet: { ...base, body: { kind: "heartbeat", workerId: "lost" } } });
        return;
      case "phantom": {
        const request = { kind: "job_request", jobId: `unknown-${id}`, topic: "work.alpha" } as const;
        const body = { ...request, announces: true };
        this.#publish({ id, subject: SUBMIT, packet: { ...base, body } });
        return;
      }
      case "stray_result": {
        const body = { kind: "job_result", jobId: `unknown-${id}`, status: "succeeded", workerId: "lost" } as const;
        this.#publish({ id, subject: "sys.job.result", packet: { ...base, body } });
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
