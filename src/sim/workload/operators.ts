import { FAIL_OPENS, type FailOpenGrant } from "../../core/model/fail-open.ts";
import { APPROVALS_GROUP, JOBS, type Job } from "../../core/model/job.ts";
import { cancelOwnJob } from "../../engine/dispatch/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { approve, closeFailOpen, openFailOpen, reject } from "../../engine/safety/index.ts";
import type { SimNet } from "../adapters/world.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";
import type { Clients } from "./clients.ts";
import { drawLease, type LeasePlan, type Order, type Plan } from "./plan.ts";

/**
 * Those who decide: they approve, reject or forget, cancel jobs, open and close fail-open leases, and publish policies.
 * They are outside, as clients are: what they ask of a process gets lost with it.
 */
export class Operators {
  readonly #net: SimNet;
  readonly #plan: Plan;
  readonly #system: System;
  readonly #clients: Clients;
  readonly #random: SeededRandom;
  #isOver = false;

  constructor(net: SimNet, plan: Plan, system: System, clients: Clients, random: SeededRandom) {
    this.#net = net;
    this.#plan = plan;
    this.#system = system;
    this.#clients = clients;
    this.#random = random;
  }

  start(): void {
    const { timeline } = this.#net;
    for (const lease of this.#plan.leases) this.#openLater(lease);
    for (const order of this.#plan.orders) {
      if (order.cancelAfterMs !== null) timeline.post(order.atMs + order.cancelAfterMs, () => this.#cancel(order));
    }
    this.#lookLater();
  }

  /** The kernel is away: sometimes somebody is awake, and pulls the lever. */
  seeOutage(): void {
    if (this.#plan.leases.length > 0 && this.#random.chance(0.6)) this.#openLater(drawLease(this.#random, 2_000));
  }

  /** Nobody looks at anything any more. */
  stop(): void {
    this.#isOver = true;
  }

  #openLater({ atMs, scope, forMs, closedAfterMs }: LeasePlan): void {
    const { timeline } = this.#net;
    const request = { scope, reason: reasonFor(forMs), by: "operator", forMs };
    timeline.post(atMs, () => this.#ask((engine) => openFailOpen(engine, request)));
    if (closedAfterMs !== null) timeline.post(atMs + closedAfterMs, () => this.#closeOne(scope));
  }

  #lookLater(): void {
    this.#net.timeline.post(LOOK_EVERY_MS, () => {
      if (this.#isOver) return;
      this.#look();
      this.#lookLater();
    });
  }

  /** Answers that got lost are given again at the next look. */
  #look(): void {
    if (this.#net.store.counts(APPROVALS_GROUP, 1).size === 0) return;
    for (const { value } of this.#net.store.rows(JOBS)) {
      if (value.state === "APPROVAL_REQUIRED") this.#answer(value);
    }
  }

  #answer(job: Job): void {
    const { id: jobId, org } = job;
    switch (this.#answerTo(job)) {
      case "forget":
        return;
      case "reject":
        this.#ask((engine) => reject(engine, { org, jobId, by: "operator", why: "no" }));
        return;
      case "both":
        this.#ask((engine) => reject(engine, { org, jobId, by: "another", why: "no" }));
        this.#ask((engine) => approve(engine, { org, jobId, by: "operator" }));
        return;
      case "approve":
        this.#ask((engine) => approve(engine, { org, jobId, by: "operator" }));
        if (this.#random.chance(0.3)) this.#ask((engine) => approve(engine, { org, jobId, by: "another" }));
    }
  }

  #answerTo({ step, labels }: Job): Order["answer"] {
    const { orders, runs } = this.#plan;
    if (step === undefined) return orders[Number(labels.order)]?.answer ?? "approve";
    const steps = runs.workflows.find(({ id }) => id === labels.workflow_id)?.steps;
    return steps?.find(({ id }) => id === step.stepId)?.answer ?? "approve";
  }

  #cancel({ number, submission: { org } }: Order): void {
    const jobId = this.#clients.told.get(number);
    if (jobId !== undefined)
      this.#ask((engine) => cancelOwnJob(engine, { org, jobId, by: "client", why: "not any more" }));
  }

  #closeOne(scope: string): void {
    for (const { id, value } of this.#net.store.rows(FAIL_OPENS)) {
      if (value.scope !== scope || value.ended) continue;
      this.#ask((engine) => closeFailOpen(engine, id, "operator"));
      return;
    }
  }

  #ask(request: (engine: Engine) => Promise<unknown>): void {
    const { host, engine } = this.#random.pick(this.#system.controls);
    if (engine !== null) host.process?.enter(() => void request(engine).catch(() => undefined));
  }
}

/** How long it was meant to last stands in the reason: the watch does not trust the record. */
const reasonFor = (forMs: number): string => `for ${forMs} ms`;
export const forMsOf = ({ reason }: FailOpenGrant): number => Number(reason.split(" ")[1]);

const LOOK_EVERY_MS = 700;
