import { SCHEDULES } from "../../core/schedule/schedule.ts";
import type { Engine } from "../../engine/engine.ts";
import {
  applySchedule,
  backfillSchedule,
  deleteSchedule,
  pauseSchedule,
  resumeSchedule,
  triggerSchedule,
} from "../../engine/schedules/index.ts";
import type { SimNet } from "../adapters/world.ts";
import type { ActionOutcome, HumanActions } from "../checks/audit-checker.ts";
import type { Violations } from "../checks/violations.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";
import { sendRequest } from "./request.ts";
import { SCHEDULE_OPERATOR, type ScheduleAction, type SchedulePlan } from "./schedule-plan.ts";

/** Operators of schedules. An apply and a trigger are repeated until they are answered, other requests may be lost. */
export class ScheduleOperators {
  readonly #net: SimNet;
  readonly #system: System;
  readonly #random: SeededRandom;
  readonly #actions: HumanActions;
  readonly #violations: Violations;
  readonly #triggered = new Map<string, string>();
  #isRetired = false;

  constructor(net: SimNet, system: System, random: SeededRandom, actions: HumanActions, violations: Violations) {
    this.#net = net;
    this.#system = system;
    this.#random = random;
    this.#actions = actions;
    this.#violations = violations;
  }

  start(plans: readonly SchedulePlan[]): void {
    this.#isRetired = plans.length === 0;
    for (const plan of plans) {
      this.#net.timeline.post(plan.atMs, () => this.#apply(plan));
      for (const [index, { afterMs, action }] of plan.actions.entries()) {
        this.#net.timeline.post(plan.atMs + afterMs, () => {
          if (!this.#isRetired) this.#act(plan, action, `trigger-${index}`);
        });
      }
    }
  }

  /** Some time after the faults have stopped, all schedules are deleted, so that the system becomes idle. */
  retireLater(before: () => void): void {
    if (this.#isRetired) return;
    const { timeline } = this.#net;
    timeline.post(SETTLE_MS, () => {
      before();
      this.#isRetired = true;
      this.#deleteAll(timeline.nowMs + LATE_MS);
    });
  }

  /** Polls, because a request to apply may still be open. */
  #deleteAll(untilMs: number): void {
    const { store, timeline } = this.#net;
    const found = [...store.rows(SCHEDULES)];
    for (const { value } of found) {
      this.#send((engine, by) => deleteSchedule(engine, { org: value.org, id: value.id, by }));
    }
    if (found.length > 0 || timeline.nowMs < untilMs) timeline.post(POLL_MS, () => this.#deleteAll(untilMs));
  }

  #act(plan: SchedulePlan, action: ScheduleAction, key: string): void {
    const { org, document } = plan;
    const { id, every } = document;
    if (action === "trigger") this.#trigger(plan, key);
    else if (action === "apply") this.#apply(plan);
    else if (action !== "retime") this.#send((engine, by) => ACTIONS[action](engine, { org, id, by }));
    else if (every !== undefined) this.#apply({ ...plan, document: { ...document, every: longer(every) } });
  }

  /** Until the workflow exists and the apply is answered. */
  #apply(plan: SchedulePlan): void {
    const { org, document } = plan;
    this.#send(
      (engine, by) => applySchedule(engine, { org, document, by }),
      ({ kind }) => kind === "applied",
    );
  }

  #trigger({ org, document: { id, jitter_ms } }: SchedulePlan, key: string): void {
    const idempotencyKey = `${id}-${key}`;
    this.#send(
      async (engine, by) => {
        const mayOverlap = jitter_ms % 2 === 0;
        const triggered = await triggerSchedule(engine, { org, id, by, idempotencyKey, mayOverlap });
        if (triggered.kind !== "triggered") return { kind: triggered.kind };
        const { outcome } = triggered;
        if (outcome.kind === "started" || outcome.kind === "replayed") {
          const known = this.#triggered.get(idempotencyKey) ?? outcome.runId;
          this.#triggered.set(idempotencyKey, known);
          const hint = `got run ${known} first, then ${outcome.runId}`;
          if (known !== outcome.runId) this.#violations.add("run_idempotency", idempotencyKey, hint);
        }
        return { kind: outcome.kind === "started" ? "triggered" : outcome.kind };
      },
      () => true,
    );
  }

  /** With `isDone`, the request is repeated until its reply is accepted. */
  #send(request: (engine: Engine, by: string) => Promise<ActionOutcome>, isDone?: (o: ActionOutcome) => boolean): void {
    const again = (): void => {
      if (isDone === undefined || this.#isRetired) return;
      this.#net.timeline.post(this.#random.between(100, 3_000), () => this.#send(request, isDone));
    };
    sendRequest(
      { net: this.#net, system: this.#system, random: this.#random },
      (engine) => this.#actions.perform(SCHEDULE_OPERATOR, (by) => request(engine, by)),
      again,
      (outcome) => {
        if (isDone?.(outcome) === false) again();
      },
    );
  }
}

const ACTIONS = {
  pause: pauseSchedule,
  resume: resumeSchedule,
  delete: deleteSchedule,
  backfill: (engine: Engine, act: Parameters<typeof pauseSchedule>[1]): Promise<ActionOutcome> => {
    const untilMs = engine.world.clock.now() - 1_000;
    return backfillSchedule(engine, { ...act, fromMs: untilMs - 40_000, untilMs, paceMs: 500 });
  },
};

const longer = (every: string): string => `${Number.parseInt(every, 10) + 2}s`;

/** Schedules continue for so long without faults. */
const SETTLE_MS = 20_000;
const LATE_MS = 10_000;
const POLL_MS = 900;
