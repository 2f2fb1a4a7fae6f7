import { AUDIT_PAGES } from "../../core/model/audit.ts";
import { JOBS } from "../../core/model/job.ts";
import { RUNS, TIMELINE } from "../../core/model/run.ts";
import type { SimNet } from "../adapters/world.ts";
import { KILL_OPERATOR } from "../workload/kill-operators.ts";
import { SCHEDULE_OPERATOR } from "../workload/schedule-plan.ts";
import type { Violations } from "./violations.ts";

export interface ActionOutcome {
  readonly kind: string;
  /** False if the request found what it asks for. */
  readonly isNew?: boolean;
}

/** The requests of people. Each has a name of its own, so that its audit entries can be counted. */
export class HumanActions {
  /** The outcome of each request by its name; null: the process crashed or the request failed. */
  readonly #outcomes = new Map<string, string | null>();

  async perform<T extends ActionOutcome>(role: string, act: (by: string) => Promise<T>): Promise<T> {
    const by = `${role}-${this.#outcomes.size + 1}`;
    this.#outcomes.set(by, null);
    const outcome = await act(by);
    this.#outcomes.set(by, outcome.isNew === false ? "unchanged" : outcome.kind);
    return outcome;
  }

  /** A request with an effect has one entry, whether its reply arrived or not. A request without effect has none. */
  check({ store }: SimNet, violations: Violations): void {
    const entries = new Map<string, number>();
    for (const { value } of store.rows(AUDIT_PAGES)) {
      for (const { who, kind } of value.entries) {
        // A kill switch cancels jobs in the name of the person who engaged it, and a schedule starts runs in the name of its author.
        const own = OWN_KINDS.find(([role]) => who.startsWith(role));
        if (own === undefined || own[1] === kind) entries.set(who, (entries.get(who) ?? 0) + 1);
      }
    }
    const named = new Set<string | undefined>();
    for (const { value } of store.rows(JOBS)) for (const { who } of value.history) named.add(who);
    for (const { value } of store.rows(RUNS)) for (const { who } of value.lines) named.add(who);
    for (const { value } of store.rows(TIMELINE)) for (const { who } of value.lines) named.add(who);
    for (const [by, outcome] of this.#outcomes) {
      const count = entries.get(by) ?? 0;
      const isDone = named.has(by) || (outcome !== null && EFFECTS.includes(outcome));
      // A run may end in the commit that contains the request.
      const isOpen = outcome === null || outcome === "ended" || outcome === "already";
      const [min, max] = isDone ? [1, 1] : [0, isOpen ? 1 : 0];
      if (count < min || count > max)
        violations.add("human_actions", by, `${outcome ?? "no outcome"}, but ${count} audit entries`);
    }
  }
}

const OWN_KINDS = [
  [KILL_OPERATOR, "kill"],
  [SCHEDULE_OPERATOR, "schedule"],
] as const;

const EFFECTS = [
  "approved",
  "void",
  "rejected",
  "cancelled",
  "moved",
  "revived",
  "sent_again",
  "opened",
  "closed",
  "applied",
  "deleted",
  "engaged",
  "released",
  "triggered",
];
