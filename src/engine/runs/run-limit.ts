import { SLOT_WAITS_GROUP, slotWaitsOf } from "../../core/model/job.ts";
import { RUNS_GROUP, runsOpenOf } from "../../core/model/run.ts";
import type { Settings } from "../../core/settings.ts";
import type { Committed, Guard } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

/** The limit of open runs per tenant. It is a guard of the commit that creates or reopens a run. */
export function slotGuard(settings: Settings, org: string): Extract<Guard, { kind: "counter" }> {
  return { kind: "counter", counter: runsOpenOf(org), max: runLimitOf(settings, org) };
}

/** No step waits for a slot. */
export const noSlotWaitersGuard = (org: string): Guard => ({ kind: "counter", counter: slotWaitsOf(org), max: 0 });

/** The limit behind a refused guard; null if another guard refused. */
export async function limitReachedBy(
  engine: Needs<"world">,
  org: string,
  limit: number,
  { guard, value }: Extract<Committed, { kind: "refused" }>,
): Promise<RunLimitReached | null> {
  if (guard.kind !== "counter") return null;
  if (guard.counter.group === RUNS_GROUP) return { kind: "full", current: value, limit };
  if (guard.counter.group !== SLOT_WAITS_GROUP) return null;
  return { kind: "full", current: (await runCountsOf(engine, org)).open, limit, waiting: value };
}

export const runLimitOf = (settings: Settings, org: string): number =>
  settings.orgs[org]?.limits?.concurrentRunsMax ?? settings.limits.concurrentRunsMax;

/** Open runs and waiting steps of an org, read as watched counters of an empty commit. */
export async function runCountsOf({ world: { store, clock } }: Needs<"world">, org: string) {
  const watch = [runsOpenOf(org), slotWaitsOf(org)];
  const asked = await store.commit({ org, atMs: clock.now(), puts: [], guards: [], sends: [], watch });
  const [open = 0, waiting = 0] = asked.kind === "committed" ? asked.seen : [];
  return { open, waiting };
}

export interface RunLimitReached {
  readonly kind: "full";
  readonly current: number;
  readonly limit: number;
  /** Steps that wait for a slot; a free slot is theirs. Absent if none wait. */
  readonly waiting?: number;
}
