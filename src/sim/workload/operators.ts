import { FAIL_OPENS, type FailOpenGrant } from "../../core/model/fail-open.ts";
import { APPROVALS_GROUP, JOBS, type Job } from "../../core/model/job.ts";
import { cancelOwnJob } from "../../engine/dispatch/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { approve, closeFailOpen, openFailOpen, reject } from "../../engine/safety/index.ts";
import type { SimNet } from "../adapters/world.ts";
import type { ActionOutcome, HumanActions } from "../checks/audit-checker.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";
import type { Clients } from "./clients.ts";
import { drawLease, type LeasePlan, type Order, type Plan } from "./plan.ts";

/** Human operators: they approve and reject jobs, cancel jobs, and open and close fail-open leases. Requests can be lost. */
export class Operators {
  readonly #net: SimNet;
  readonly #plan: Plan;
  readonly #system: System;
  readonly #clients: Clients;
  readonly #random: SeededRandom;
  readonly #actions: HumanActions;
  #isStopped = false;

  constructor(net: SimNet, plan: Plan, system: System, clients: Clients, random: SeededRandom, actions: HumanActions) {
    this.#actions = actions;
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
    this.#pollLater();
  }

  /** Sometimes opens a fail-open lease during an outage of the kernel. */
  onKernelOutage(): void {
    if (this.#plan.leases.length > 0 && this.#random.chance(0.6)) this.#openLater(drawLease(this.#random, 2_000));
  }

  stop(): void {
    this.#isStopped = true;
  }

  #openLater({ atMs, scope, forMs, closedAfterMs }: LeasePlan): void {
    const { timeline } = this.#net;
    const request = { scope, reason: reasonFor(forMs), forMs };
    timeline.post(atMs, () => this.#send((engine, by) => openFailOpen(engine, { ...request, by })));
    if (closedAfterMs !== null) timeline.post(atMs + closedAfterMs, () => this.#closeOne(scope));
  }

  #pollLater(): void {
    this.#net.timeline.post(POLL_MS, () => {
      if (this.#isStopped) return;
      this.#decideApprovals();
      this.#pollLater();
    });
  }

  /** A lost decision is repeated at the next poll. */
  #decideApprovals(): void {
    if (this.#net.store.counts(APPROVALS_GROUP, 1).size === 0) return;
    for (const { value } of this.#net.store.rows(JOBS)) {
      if (value.state === "APPROVAL_REQUIRED") this.#decide(value);
    }
  }

  #decide(job: Job): void {
    const { id: jobId, org } = job;
    switch (this.#decisionOn(job)) {
      case "forget":
        return;
      case "reject":
        this.#send((engine, by) => reject(engine, { org, jobId, by, why: "no" }));
        return;
      case "both":
        this.#send((engine, by) => reject(engine, { org, jobId, by, why: "no" }));
        this.#send((engine, by) => approve(engine, { org, jobId, by }));
        return;
      case "approve":
        this.#send((engine, by) => approve(engine, { org, jobId, by }));
        if (this.#random.chance(0.3)) this.#send((engine, by) => approve(engine, { org, jobId, by }));
    }
  }

  #decisionOn({ step, labels }: Job): Order["decision"] {
    const { orders, runs } = this.#plan;
    if (step === undefined) return orders[Number(labels.order)]?.decision ?? "approve";
    const steps = runs.workflows.find(({ id }) => id === labels.workflow_id)?.steps;
    return steps?.find(({ id }) => id === step.stepId)?.decision ?? "approve";
  }

  #cancel({ number, submission: { org } }: Order): void {
    const jobId = this.#clients.acknowledged.get(number);
    if (jobId !== undefined) this.#send((engine, by) => cancelOwnJob(engine, { org, jobId, by, why: "not any more" }));
  }

  #closeOne(scope: string): void {
    for (const { id, value } of this.#net.store.rows(FAIL_OPENS)) {
      if (value.scope !== scope || value.ended) continue;
      this.#send((engine, by) => closeFailOpen(engine, id, by));
      return;
    }
  }

  #send(request: (engine: Engine, by: string) => Promise<ActionOutcome>): void {
    const { host, engine } = this.#random.pick(this.#system.controls);
    if (engine === null) return;
    host.process?.enter(() => {
      void this.#actions.perform("operator", (by) => request(engine, by)).catch(() => undefined);
    });
  }
}

/** The requested duration is part of the reason, so that the checker does not depend on the stored end. */
const reasonFor = (forMs: number): string => `for ${forMs} ms`;
export const forMsOf = ({ reason }: FailOpenGrant): number => Number(reason.split(" ")[1]);

const POLL_MS = 700;
