/**
 * The limits of a policy over recorded decisions, in order of time.
 *
 * 1. Counts start empty. While uses of a limit are not known (its duration reaches back beyond the records), a rule that
 *    decided beyond its limit is taken to be beyond it again.
 * 2. Otherwise limits are applied as in `apply-limits.ts`, without merging: a use costs the same however many came before.
 * 3. A job that would wait for a slot counts for that rate, and for no limit of a later rule.
 */
import type { BudgetTerms, Decision, Effect } from "../decision.ts";
import type { DecidedBy } from "../recorded.ts";
import type { Limit, LimitKind } from "./limit.ts";
import { windowId } from "./limit.ts";
import { ENTRIES_MAX, ROUNDING } from "./window.ts";

export interface ReplayedDecision extends DecidedBy {
  readonly budgets?: readonly BudgetTerms[];
}

/** A limit that a recorded decision may use. */
export interface LimitUse {
  readonly kind: LimitKind;
  readonly window: string;
  readonly max: number;
  readonly withinMs: number;
  readonly amount: number;
  readonly exceeded: ReplayedDecision;
}

/** What the policy decides about a record, depending on its limits. */
export interface LimitedDecision {
  readonly otherwise: ReplayedDecision;
  readonly limits: readonly LimitUse[];
}

export interface RecordedUse extends LimitedDecision {
  /** When the job counted, or was decided. */
  readonly atMs: number;
  readonly deadlineMs: number;
  readonly decided: DecidedBy;
}

export function replayed({ effect, ruleId, budgets }: Decision): ReplayedDecision {
  return budgets === undefined ? { effect, ruleId } : { effect, ruleId, budgets };
}

export function limitUse(org: string, limit: Limit): LimitUse {
  const { kind, key, max, withinMs, amount, exceeded } = limit;
  return { kind, window: windowId(org, limit, key), max, withinMs, amount, exceeded: replayed(exceeded) };
}

/** Of the uses of one millisecond, those that were beyond a limit come last. */
export function inOrderOfTime<T extends RecordedUse>(uses: readonly T[]): readonly T[] {
  const rank = new Map(uses.map((use) => [use, wasBeyond(use) ? 1 : 0]));
  return [...uses].sort((a, b) => a.atMs - b.atMs || (rank.get(a) ?? 0) - (rank.get(b) ?? 0));
}

const wasBeyond = ({ decided, limits }: RecordedUse): boolean =>
  limits.some(({ exceeded }) => exceeded.ruleId === decided.ruleId);

export class LimitReplay {
  readonly #knownFromMs: number;
  readonly #windows = new Map<string, ReplayWindow>();

  constructor(knownFromMs: number) {
    this.#knownFromMs = knownFromMs;
  }

  /** Called in order of time. */
  decide({ atMs: nowMs, deadlineMs, decided, otherwise, limits }: RecordedUse): ReplayedDecision {
    const charges: (() => void)[] = [];
    const applied = (decision: ReplayedDecision): ReplayedDecision => {
      if (decision.effect !== "deny") for (const charge of charges) charge();
      return decision;
    };
    for (const limit of limits) {
      const { kind, max, withinMs, amount, exceeded } = limit;
      const isUnknown = nowMs < this.#knownFromMs + withinMs;
      if (isUnknown && exceeded.ruleId === decided.ruleId) return applied(exceeded);
      const window = this.#windowOf(limit.window);
      window.expire(nowMs - withinMs);
      const atMs = kind === "throttle" ? window.slotAt(max, withinMs, nowMs) : nowMs;
      const hasRoom = kind === "throttle" ? atMs === nowMs : window.sum + amount <= max * (1 + ROUNDING);
      const isSlot = kind === "throttle" && atMs < deadlineMs && window.size < ENTRIES_MAX;
      if (hasRoom || isSlot) charges.push(() => window.add(atMs, amount));
      if (!hasRoom) return applied(exceeded);
    }
    return applied(otherwise);
  }

  #windowOf(id: string): ReplayWindow {
    const known = this.#windows.get(id);
    if (known !== undefined) return known;
    const window = new ReplayWindow();
    this.#windows.set(id, window);
    return window;
  }
}

/** Uses in order of time. Expired ones are dropped in batches. */
class ReplayWindow {
  sum = 0;
  #times: number[] = [];
  #amounts: number[] = [];
  #first = 0;

  get size(): number {
    return this.#times.length - this.#first;
  }

  expire(beforeMs: number): void {
    while (this.size > 0 && (this.#times[this.#first] ?? 0) <= beforeMs) {
      this.sum -= this.#amounts[this.#first] ?? 0;
      this.#first += 1;
    }
    if (this.size === 0) this.sum = 0; // Drops the rounding errors of decimal fractions.
    if (this.#first < BATCH) return;
    this.#times = this.#times.slice(this.#first);
    this.#amounts = this.#amounts.slice(this.#first);
    this.#first = 0;
  }

  /** The next free slot. Slots are given in order of time, so each is a duration after the one `max` before it. */
  slotAt(max: number, withinMs: number, nowMs: number): number {
    if (this.size < max) return nowMs;
    return Math.max(nowMs, (this.#times[this.#times.length - max] ?? 0) + withinMs);
  }

  add(atMs: number, amount: number): void {
    this.#times.push(atMs);
    this.#amounts.push(amount);
    this.sum += amount;
  }
}

const BATCH = 4_096;

/** Effects after which no job runs. */
export const letsRun = (effect: Effect): boolean => effect !== "deny" && effect !== "throttle";
