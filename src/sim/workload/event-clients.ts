import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import { sendEvent } from "../../engine/runs/index.ts";
import type { SimNet } from "../adapters/world.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";
import { sendRequest } from "./request.ts";
import { EVENT_NAMES, type RunPlan } from "./run-plan.ts";

/**
 * Systems that send events to runs: before a `wait` step starts, while it waits, with wrong correlation keys, and again with the
 * same id. A request is repeated until it is answered.
 */
export class EventClients {
  readonly #net: SimNet;
  readonly #plan: RunPlan;
  readonly #system: System;
  readonly #random: SeededRandom;
  readonly #perRun = new Map<string, number>();
  #sent = 0;
  #open = 0;
  #isStopped = false;
  /** Accepted events by their key, if that is theirs alone. */
  readonly accepted = new Map<string, { readonly runId: string }>();

  constructor(net: SimNet, plan: RunPlan, system: System, random: SeededRandom) {
    this.#net = net;
    this.#plan = plan;
    this.#system = system;
    this.#random = random;
  }

  start(): void {
    this.#net.timeline.post(POLL_MS, () => {
      if (this.#isStopped) return;
      for (const { value } of this.#net.store.rows(RUNS)) if (!isRunFinal(value.state)) this.#consider(value);
      this.start();
    });
  }

  get isDone(): boolean {
    return this.#open === 0;
  }

  stop(): void {
    this.#isStopped = true;
  }

  #consider(run: Run): void {
    const workflow = this.#plan.workflows.find(({ id }) => id === run.workflowId);
    const waits = (workflow?.steps ?? []).filter(({ act }) => act === "wait");
    const count = this.#perRun.get(run.id) ?? 0;
    if (waits.length === 0 || count >= EVENTS_MAX || !this.#random.chance(0.5)) return;
    this.#perRun.set(run.id, count + 1);
    const { awaits } = this.#random.pick(waits);
    const name = this.#random.chance(0.8) ? (awaits?.event ?? "") : this.#random.pick(EVENT_NAMES);
    const isOwn = awaits?.key === "own" && this.#random.chance(0.7);
    this.#sent += 1;
    const id = `event-${this.#sent}`;
    this.#send(run, { name, id, key: isOwn ? (run.labels.run_order ?? "") : id, data: this.#sent, by: "webhook" });
  }

  #send(run: Run, event: SimEvent): void {
    this.#open += 1;
    const again = (): void => {
      this.#open -= 1;
      this.#net.timeline.post(this.#random.between(100, 2_000), () => this.#send(run, event));
    };
    sendRequest(
      { net: this.#net, system: this.#system, random: this.#random },
      (engine) => sendEvent(engine, { org: run.org, runId: run.id, event }),
      again,
      ({ kind }) => {
        this.#open -= 1;
        const isAccepted = kind === "kept" || kind === "delivered";
        if (isAccepted && event.key === event.id) this.accepted.set(event.key, { runId: run.id });
        // A sender that did not see the answer sends the event again.
        if (isAccepted && this.#random.chance(0.3)) {
          this.#open += 1;
          again();
        }
      },
    );
  }
}

interface SimEvent {
  readonly name: string;
  readonly id: string;
  readonly key: string;
  readonly data: number;
  readonly by: string;
}

const POLL_MS = 700;
const EVENTS_MAX = 8;
