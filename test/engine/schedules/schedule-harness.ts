import { AUDIT_PAGES, AUDIT_PENDING, type StampedLine } from "../../../src/core/model/audit.ts";
import { RUNS, type Run } from "../../../src/core/model/run.ts";
import { SCHEDULES, type Schedule, scheduleKey } from "../../../src/core/schedule/schedule.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { type AppliedSchedule, applySchedule } from "../../../src/engine/schedules/index.ts";
import { RunHarness } from "../run-harness.ts";

export const ORG = "default";

/** One step that takes `sec` seconds. */
export const lasting = (id: string, sec: number) => ({ id, steps: { wait: { type: "delay", delay_sec: sec } } });

export class ScheduleHarness extends RunHarness {
  /** A control process with the workflow `short` of one second and `long` of 25 seconds. */
  async open(name = "c1"): Promise<Engine> {
    const { engine } = await this.control(name);
    await this.apply(engine, lasting("short", 1));
    await this.apply(engine, lasting("long", 25));
    return engine;
  }

  async schedule(engine: Engine, fields: object, org = ORG): Promise<Schedule> {
    const applied = await this.tryApply(engine, fields, org);
    if (applied.kind !== "applied") throw new Error(JSON.stringify(applied));
    return applied.schedule;
  }

  tryApply(engine: Engine, fields: object, org = ORG): Promise<AppliedSchedule> {
    const document = { id: "s", workflow_id: "short", every: "10s", ...fields };
    return this.run(applySchedule(engine, { org, document, by: "alice" }));
  }

  now(id = "s", org = ORG): Schedule {
    const found = this.sim.net.store.load(SCHEDULES, scheduleKey(org, id));
    if (!found) throw new Error(`no schedule ${id}`);
    return found.value;
  }

  /** Runs by slot, in order of their start. */
  runs(id = "s"): readonly Run[] {
    const runs = [...this.sim.net.store.rows(RUNS)].map(({ value }) => value);
    return runs.filter(({ schedule }) => schedule?.id === id).sort((a, b) => a.createdMs - b.createdMs);
  }

  slots(id = "s"): readonly (number | undefined)[] {
    return this.runs(id).map(({ schedule }) => schedule?.slotMs);
  }

  /** Audit entries of schedules, as `what`. */
  audited(): readonly string[] {
    const lines: StampedLine[] = [];
    for (const { value } of this.sim.net.store.rows(AUDIT_PENDING)) lines.push(...value.lines);
    for (const { value } of this.sim.net.store.rows(AUDIT_PAGES)) lines.push(...value.entries);
    return lines.filter(({ kind }) => kind === "schedule").map(({ what }) => what);
  }
}

/** Slots from the first one, `everyMs` apart. */
export const slotsFrom = (firstMs: number, everyMs: number, count: number): readonly number[] =>
  Array.from({ length: count }, (_, index) => firstMs + index * everyMs);
