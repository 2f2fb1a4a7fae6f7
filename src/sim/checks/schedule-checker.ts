import { AUDIT_PENDING, type PendingAudit, type StampedLine } from "../../core/model/audit.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import { SCHEDULES, type Schedule, scheduleKey, startOf } from "../../core/schedule/schedule.ts";
import type { Change, Versioned } from "../../ports/store.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import { clockToleranceMs } from "../faults.ts";
import { type RefEntry, RefSchedule, type RefSeen } from "../reference/schedule-reference.ts";
import type { Plan } from "../workload/plan.ts";
import type { Violations } from "./violations.ts";

/** Runs the reference model beside every schedule, and checks that no slot is overdue after the faults. */
export class ScheduleChecker {
  readonly #net: SimNet;
  readonly #violations: Violations;
  readonly #toleranceMs: number;
  /** By the key of the record. */
  readonly #models = new Map<string, RefSchedule>();
  readonly #specs = new Map<string, Schedule>();
  /** The runs of each schedule by its `uid`. */
  readonly #runs = new Map<string, Map<string, { endedMs: number | null }>>();

  constructor(net: SimNet, plan: Plan, violations: Violations) {
    this.#net = net;
    this.#violations = violations;
    this.#toleranceMs = clockToleranceMs(plan.faults.process) + 1;
    if (plan.schedules.length > 0) net.store.observe((change, before) => this.#committed(change, before));
  }

  /** Some time after the faults have stopped: by then, the claims of crashed processes have expired. */
  checkSettled(): void {
    const nowMs = serverNow(this.#net) - OVERDUE_MS;
    for (const { id, value } of this.#net.store.rows(SCHEDULES)) {
      const { isPaused, wait, nextMs, queuedMs, uid } = value;
      // The start of its next slot is refused: the tenant has too many runs.
      if (isPaused || wait) continue;
      const startMs = nextMs === null ? Number.POSITIVE_INFINITY : startOf(value, nextMs);
      if (startMs < nowMs) this.#add("schedule_late", id, `slot ${nextMs} was to start at ${startMs}`);
      if (queuedMs !== undefined && !this.#wasBusy(uid, nowMs))
        this.#add("schedule_late", id, `slot ${queuedMs} is queued, but no run is open`);
    }
  }

  #committed(change: Change, before: readonly (Versioned<unknown> | null)[]): void {
    const created: Run[] = [];
    const written = new Map<string, Schedule | null>();
    const entries = new Map<string, RefEntry[]>();
    for (const [index, { table, id, value }] of change.puts.entries()) {
      if (table === SCHEDULES.name) written.set(id, value as Schedule | null);
      else if (table === RUNS.name && (value as Run | null)?.schedule) {
        if (before[index]) this.#followRun(value as Run);
        else created.push(value as Run);
      } else if (table === AUDIT_PENDING.name && value !== null) collect(value as PendingAudit, entries);
    }
    for (const id of new Set([...written.keys(), ...entries.keys()])) {
      const own = created.filter(({ org, schedule }) => scheduleKey(org, schedule?.id ?? "") === id);
      this.#follow(id, written.get(id), entries.get(id) ?? [], own);
    }
    for (const { id, org, schedule } of created) {
      const isNoted = entries.get(scheduleKey(org, schedule?.id ?? ""))?.some(({ run }) => run === id);
      if (!isNoted) this.#add("schedule_slot", id, "a run of a schedule without an audit entry");
    }
  }

  #follow(
    id: string,
    record: Schedule | null | undefined,
    entries: readonly RefEntry[],
    created: readonly Run[],
  ): void {
    if (record === null) {
      this.#models.delete(id);
      return;
    }
    if (record) this.#specs.set(id, record);
    const spec = this.#specs.get(id);
    if (!spec) return;
    const isNew = this.#models.get(id)?.uid !== spec.uid;
    const model = isNew ? new RefSchedule(spec) : this.#models.get(id);
    if (!model) return;
    this.#models.set(id, model);
    const seen = this.#seen(model.uid, spec, record ?? null, created);
    for (const entry of isNew ? [] : entries) {
      for (const { checker, hint } of model.apply(entry, seen)) this.#add(checker, `${id} ${entry.what}`, hint);
    }
    const runs = this.#runs.get(model.uid) ?? new Map();
    this.#runs.set(model.uid, runs);
    for (const run of created) runs.set(run.id, { endedMs: null });
    if (record) for (const { checker, hint } of model.compare(record)) this.#add(checker, id, hint);
  }

  #seen(uid: string, spec: Schedule, record: Schedule | null, created: readonly Run[]): RefSeen {
    return {
      record,
      spec,
      nowMs: serverNow(this.#net) + this.#toleranceMs,
      newRuns: new Map(created.map((run) => [run.id, run.schedule?.slotMs ?? null])),
      startOf: (slot) => startOf(spec, slot),
      openRun: () => [...(this.#runs.get(uid) ?? [])].find(([, { endedMs }]) => endedMs === null)?.[0],
      wasBusy: (sinceMs) => this.#wasBusy(uid, sinceMs - this.#toleranceMs),
    };
  }

  #wasBusy(uid: string, sinceMs: number): boolean {
    const runs = [...(this.#runs.get(uid)?.values() ?? [])];
    return runs.some(({ endedMs }) => endedMs === null || endedMs >= sinceMs);
  }

  #followRun(run: Run): void {
    if (!isRunFinal(run.state)) return;
    for (const runs of this.#runs.values()) {
      const found = runs.get(run.id);
      if (found) found.endedMs ??= serverNow(this.#net);
    }
  }

  #add(checker: Parameters<Violations["add"]>[0], id: string, hint: string): void {
    this.#violations.add(checker, id, hint);
  }
}

function collect({ org, lines }: PendingAudit, entries: Map<string, RefEntry[]>): void {
  for (const line of lines) {
    if (line.kind !== "schedule") continue;
    const id = scheduleKey(org, String(line.facts?.schedule));
    const own = entries.get(id) ?? [];
    own.push(entryOf(line));
    entries.set(id, own);
  }
}

function entryOf({ what, facts = {} }: StampedLine): RefEntry {
  return {
    what,
    slot: Date.parse(String(facts.slot)),
    run: String(facts.run),
    isBackfill: facts.cause === "backfill",
    from: Date.parse(String(facts.from)),
    until: Date.parse(String(facts.until)),
    slots: Number(facts.slots),
  };
}

/** The lease of a claim, and a sweep. */
const OVERDUE_MS = 13_000;
