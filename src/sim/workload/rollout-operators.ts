import type { Engine } from "../../engine/engine.ts";
import {
  endRollout,
  pauseRollout,
  promoteRollout,
  type RolloutAction,
  type RolloutOutcome,
  resumeRollout,
  rollbackRollout,
  startRollout,
} from "../../engine/rollouts/index.ts";
import type { SimNet } from "../adapters/world.ts";
import type { ActionOutcome, HumanActions } from "../checks/audit-checker.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";

/** A rollout that an operator starts, and what follows. */
export interface RolloutPlan {
  readonly atMs: number;
  readonly subject: string;
  /** A value that no setting has, so that its use is seen. */
  readonly treatment: string;
  readonly shares: readonly number[];
  readonly horizonMs: number;
  readonly forMs: number;
  readonly followUps: readonly { readonly afterMs: number; readonly action: keyof typeof ACTIONS }[];
}

const ACTIONS = {
  pause: pauseRollout,
  resume: resumeRollout,
  rollback: rollbackRollout,
  end: endRollout,
  promote: (engine: Engine, action: RolloutAction): Promise<RolloutOutcome> =>
    promoteRollout(engine, { ...action, isForced: true }),
};

const TREATMENTS: readonly (readonly [subject: string, treatment: string])[] = [
  ["unclassified", "fixed:1777ms"],
  ["unclassified", "fixed:2777ms"],
  ["throttled", "fixed:1771ms"],
  ["no_worker", "fixed:1773ms"],
  ["safety_unavailable", "fixed:1779ms"],
  ["lock_busy", "fixed:377ms"],
  ["run_lock.engine_wait_ms", "177"],
  ["run_lock.coalesce", "false"],
  ["admission.polled.policy", "fixed:17ms"],
];

/** Two thirds of the seeds have no rollout. */
export function drawRollouts(random: SeededRandom, safetyMs: number): readonly RolloutPlan[] {
  if (!random.chance(1 / 3)) return [];
  return [
    drawEarlyRollback(random),
    ...Array.from({ length: 1 + random.below(5) }, () => drawRollout(random, safetyMs)),
  ];
}

function drawRollout(random: SeededRandom, safetyMs: number): RolloutPlan {
  const [subject, treatment] = random.pick(TREATMENTS);
  const first = random.between(0.1, 0.7);
  return {
    atMs: random.logarithmic(50, safetyMs / 2),
    subject,
    treatment,
    shares: random.chance(0.5) ? [first] : [first, 0.9],
    horizonMs: Math.max(horizonMinOf(subject), Math.round(random.logarithmic(1_000, 20_000))),
    forMs: Math.round(random.between(5_000, safetyMs)),
    followUps: Array.from({ length: random.below(4) }, () => ({
      afterMs: random.logarithmic(200, safetyMs / 2),
      action: random.pick(["pause", "resume", "rollback", "rollback", "end", "promote"] as const),
    })),
  };
}

/** A shorter horizon of an admission rollout is refused. */
const horizonMinOf = (subject: string): number => (subject === "admission.polled.policy" ? 10_000 : 0);

/** Of the policy that is used most, so early that a process which misses the rollback still uses the treatment a minute later. */
function drawEarlyRollback(random: SeededRandom): RolloutPlan {
  return {
    atMs: random.between(10, 500),
    subject: "unclassified",
    treatment: "fixed:1778ms",
    shares: [0.8],
    horizonMs: Math.round(random.logarithmic(1_000, 20_000)),
    forMs: 600_000,
    followUps: [{ afterMs: random.logarithmic(500, 8_000), action: "rollback" }],
  };
}

/** Operators of rollouts. Requests can be lost with the process that receives them. */
export class RolloutOperators {
  readonly #net: SimNet;
  readonly #system: System;
  readonly #random: SeededRandom;
  readonly #actions: HumanActions;

  constructor(net: SimNet, system: System, random: SeededRandom, actions: HumanActions) {
    this.#net = net;
    this.#system = system;
    this.#random = random;
    this.#actions = actions;
  }

  start(plans: readonly RolloutPlan[]): void {
    for (const plan of plans) this.#net.timeline.post(plan.atMs, () => this.#start(plan));
  }

  #start({ atMs: _, followUps, ...request }: RolloutPlan): void {
    this.#send(async (engine, by) => {
      const started = await startRollout(engine, { ...request, by });
      if (started.kind !== "started") return { kind: started.kind };
      const { id } = started.rollout;
      for (const { afterMs, action } of followUps) {
        this.#net.timeline.post(afterMs, () =>
          this.#send((other, who) => ACTIONS[action](other, { id, by: who, reason: "simulated" })),
        );
      }
      // The name of an outcome with one audit entry.
      return { kind: "opened" };
    });
  }

  #send(request: (engine: Engine, by: string) => Promise<ActionOutcome>): void {
    const { host, engine } = this.#random.pick(this.#system.controls);
    if (engine === null) return;
    host.process?.enter(() => {
      void this.#actions.perform("rollout-operator", (by) => request(engine, by)).catch(() => undefined);
    });
  }
}
