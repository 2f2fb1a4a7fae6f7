import { RUNS, type Run, type TimelineLine } from "../../core/model/run.ts";
import type { Change, Versioned } from "../../ports/store.ts";
import type { SimNet } from "../adapters/world.ts";
import { linesIn } from "../reference/commit-lines.ts";
import type { EventClients } from "../workload/event-clients.ts";
import type { RunPlan } from "../workload/run-plan.ts";
import type { Violations } from "./violations.ts";

/**
 * Follows every event by its timeline line: it is kept until exactly one step takes it, which names the line as its cause. The
 * key of most events is theirs alone, so that an event that was applied twice is seen.
 */
export class EventChecker {
  readonly #violations: Violations;
  readonly #waits: ReadonlySet<string>;
  /** The lines of kept events by run. */
  readonly #kept = new Map<string, Set<number>>();
  readonly #taken = new Set<string>();
  readonly #applied = new Map<string, string>();

  constructor(net: SimNet, plan: RunPlan, violations: Violations) {
    this.#violations = violations;
    const steps = plan.workflows.flatMap(({ id, steps: own }) => own.map((step) => ({ id, step })));
    this.#waits = new Set(steps.flatMap(({ id, step }) => (step.act === "wait" ? [`${id} ${step.id}`] : [])));
    net.store.observe((change, before) => this.#committed(change, before));
  }

  checkEnd({ accepted }: EventClients): void {
    for (const [key, { runId }] of accepted) {
      if (this.#applied.get(key) !== runId) this.#add(runId, `accepted event ${key}, but has no line of it`);
    }
  }

  #committed(change: Change, before: readonly (Versioned<unknown> | null)[]): void {
    for (const [index, { table, id, value }] of change.puts.entries()) {
      if (table !== RUNS.name) continue;
      if (value === null) this.#kept.delete(id);
      else this.#follow(change, (before[index]?.value ?? null) as Run | null, value as Run);
    }
  }

  #follow(change: Change, before: Run | null, after: Run): void {
    const kept = this.#kept.get(after.id) ?? new Set();
    this.#kept.set(after.id, kept);
    for (const line of linesIn(change, before, after)) {
      if (line.event === "event_received") this.#received(after, line, kept);
      else if (this.#waits.has(`${after.workflowId} ${line.stepId}`) && line.event === "step_succeeded")
        this.#tookIt(after, line, kept);
    }
    const stored = new Set((after.events?.kept ?? []).map(({ line }) => line));
    for (const seq of kept) if (!stored.has(seq)) this.#add(after.id, `lost the kept event of line ${seq}`);
    for (const seq of stored)
      if (!kept.has(seq)) this.#add(after.id, `keeps the event of line ${seq}, which was taken`);
    this.#kept.set(after.id, stored);
  }

  #received({ id }: Run, { seq, stepId, why = "" }: TimelineLine, kept: Set<number>): void {
    if (stepId === undefined) kept.add(seq);
    const [, key] = /correlation key `(event-\d+)`/.exec(why) ?? [];
    if (key === undefined) return;
    if (this.#applied.has(key)) this.#add(id, `applied event ${key} twice`);
    this.#applied.set(key, id);
  }

  #tookIt({ id }: Run, { stepId, cause }: TimelineLine, kept: Set<number>): void {
    if (this.#taken.has(`${id} ${cause}`)) this.#add(id, `step ${stepId} took the event of line ${cause} again`);
    this.#taken.add(`${id} ${cause}`);
    kept.delete(cause ?? -1);
  }

  #add(id: string, hint: string): void {
    this.#violations.add("events", id, hint);
  }
}
