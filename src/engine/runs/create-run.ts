import { SLOT_WAITS_GROUP, slotWaitsOf } from "../../core/model/job.ts";
import { RUNS, RUNS_GROUP, type Run, runsOpenOf } from "../../core/model/run.ts";
import type { Settings } from "../../core/settings.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import type { Committed, Guard, Put } from "../../ports/store.ts";
import { inputKey } from "../../protocol/pointer.ts";
import { notStartedLine, recordAudit } from "../audit/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { commitRun } from "./commit-run.ts";
import { decideRun, type RunDecision } from "./decide-run.ts";
import { keysOf } from "./remove-run.ts";

/**
 * Creates a run with its slot and first steps in one commit. The slot is a guard of that commit, so no race exceeds the
 * limit. Waiting steps of open runs come first: while one waits for a slot, no other run is created (`run-slots.ts`).
 */
export type RunCreation =
  | { readonly kind: "created"; readonly run: Run }
  | RunLimitReached
  /** A record beside the run was stale. */
  | { readonly kind: "stale"; readonly table: string };

export interface RunLimitReached {
  readonly kind: "full";
  readonly current: number;
  readonly limit: number;
  /** Steps that wait for a slot; a free slot is theirs. Absent if none wait. */
  readonly waiting?: number;
}

export async function createRun(
  engine: DispatchContext & Needs<"audit" | "runCache" | "runEffects">,
  plan: Plan,
  fresh: Run,
  extraPuts: readonly Put[],
): Promise<RunCreation> {
  const decided = await decideRun(engine, plan, fresh, [{ kind: "time" }], new Set());
  const slot = slotGuard(engine.settings.current, fresh.org);
  const guards = fresh.parent === undefined ? [slot, noSlotWaitersGuard(fresh.org)] : [slot];
  const committed = await commitRun(engine, { before: null, decided, ended: [], extraPuts, guards });
  switch (committed.kind) {
    case "committed":
      if (decided.hasMore) engine.runInbox.continueRun(decided.run);
      return { kind: "created", run: decided.run };
    case "stale":
      discard(engine, decided, "a concurrent start was committed first");
      return { kind: "stale", table: committed.table };
    case "refused": {
      const full = await limitReachedBy(engine, fresh.org, slot.max, committed);
      discard(
        engine,
        decided,
        full?.waiting === undefined ? "tenant run limit reached" : "steps of open runs wait for a slot",
      );
      return full ?? { kind: "stale", table: RUNS.name };
    }
    default:
      return committed satisfies never;
  }
}

/** Deletes the payloads of a run that was not created. */
function discard(
  engine: Needs<"world" | "commit" | "tasks" | "audit">,
  { run, created: made }: RunDecision,
  why: string,
): void {
  if (run.parent === undefined && made.length > 0) recordAudit(engine, notStartedLine(run, why));
  const keys = new Set(keysOf(run));
  for (const { id, input } of made) if (input.kind === "pointer") keys.add(input.ptr).add(inputKey(id));
  const gone = Promise.all([...keys].map((key) => engine.world.blobs.delete(key))).catch((error: unknown) =>
    engine.world.log.write("warn", "blob_delete_failed", { run: run.id, error: String(error) }),
  );
  engine.tasks.track(gone);
}

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
