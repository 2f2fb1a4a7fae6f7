import { EVERY_SCOPE, isKillId, KILLS } from "../../core/model/kill-switch.ts";
import type { Engine } from "../../engine/engine.ts";
import { engageKill, releaseKill } from "../../engine/safety/index.ts";
import type { SimNet } from "../adapters/world.ts";
import type { ActionOutcome, HumanActions } from "../checks/audit-checker.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";

/** A kill switch that an operator engages, and releases after `forMs`. */
export interface KillPlan {
  readonly atMs: number;
  readonly scope: string;
  readonly forMs: number;
}

/** Three quarters of the seeds have none. The first of a seed is so long that a process which misses it is found. */
export function drawKills(random: SeededRandom, safetyMs: number, orgs: readonly string[]): readonly KillPlan[] {
  if (!random.chance(0.25)) return [];
  const long: KillPlan = { atMs: random.between(10, 2_000), scope: random.pick(orgs), forMs: safetyMs };
  const others = Array.from({ length: random.below(3) }, () => ({
    atMs: random.between(0, safetyMs * 0.8),
    scope: random.chance(0.3) ? EVERY_SCOPE : random.pick(orgs),
    forMs: random.logarithmic(500, 20_000),
  }));
  return [long, ...others];
}

/** Operators of kill switches. A lost request to release is repeated; one to engage is not. */
export class KillOperators {
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

  start(plans: readonly KillPlan[]): void {
    for (const { atMs, scope, forMs } of plans) {
      this.#net.timeline.post(atMs, () => {
        this.#send((engine, by) => engageKill(engine, { scope, reason: "simulated", by }));
      });
      this.#releaseLater(scope, atMs + forMs, atMs + forMs + LATE_MS);
    }
  }

  /** Polls, because a request to engage may be executed after its sender was paused. */
  #releaseLater(scope: string, inMs: number, untilMs: number): void {
    this.#net.timeline.post(inMs, () => {
      const isEngaged = [...this.#net.store.rows(KILLS)].some(({ id, value }) => isKillId(id) && value.scope === scope);
      if (isEngaged) {
        this.#send(async (engine, by) => ({ kind: (await releaseKill(engine, scope, by)) ? "released" : "not_found" }));
      }
      if (isEngaged || this.#net.timeline.nowMs < untilMs) this.#releaseLater(scope, POLL_MS, untilMs);
    });
  }

  #send(request: (engine: Engine, by: string) => Promise<ActionOutcome>): void {
    const { host, engine } = this.#random.pick(this.#system.controls);
    if (engine === null) return;
    host.process?.enter(() => {
      void this.#actions.perform(KILL_OPERATOR, (by) => request(engine, by)).catch(() => undefined);
    });
  }
}

/** The role in the names of these operators. */
export const KILL_OPERATOR = "kill-operator";
const POLL_MS = 900;
const LATE_MS = 20_000;
