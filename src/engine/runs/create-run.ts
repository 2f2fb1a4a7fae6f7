import { isFinal } from "../../core/model/job.ts";
import { RUNS, type Run } from "../../core/model/run.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import type { Put } from "../../ports/store.ts";
import { notStartedLine, recordAudit } from "../audit/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { backlogGuard, storedBytesGuard, throwIfExceeded } from "../quotas.ts";
import { commitRun } from "./commit-run.ts";
import { decideRun, type RunDecision } from "./decide-run.ts";
import { payloadsOf } from "./remove-run.ts";
import { limitReachedBy, noSlotWaitersGuard, type RunLimitReached, slotGuard } from "./run-limit.ts";

/**
 * Creates a run with its slot and first steps in one commit. The slot is a guard of that commit, so no race exceeds the
 * limit. Waiting steps of open runs come first: while one waits for a slot, no other run is created (`slot-waiters.ts`).
 */
export type RunCreation =
  | { readonly kind: "created"; readonly run: Run }
  | RunLimitReached
  /** A record beside the run was stale. */
  | { readonly kind: "stale"; readonly table: string };

export async function createRun(
  engine: DispatchContext & Needs<"audit" | "runCache" | "runEffects">,
  plan: Plan,
  opened: Run,
  extraPuts: readonly Put[],
): Promise<RunCreation> {
  const fresh = enrolled(engine, opened);
  const settings = engine.settings.current;
  const bytes = payloadsOf(fresh).reduce((sum, payload) => sum + payload.bytes, 0);
  const counted = bytes === 0 ? fresh : { ...fresh, bytes };
  const decided = await decideRun(engine, plan, counted, [{ kind: "time" }], new Set());
  const slot = slotGuard(settings, fresh.org);
  // The quotas admitted the parent of a sub-run.
  const isRoot = fresh.parent === undefined;
  const jobs = decided.created.filter(({ state }) => !isFinal(state)).length;
  const quotas = isRoot ? [backlogGuard(settings, fresh.org, jobs), storedBytesGuard(settings, fresh.org)] : [];
  const guards = isRoot ? [slot, noSlotWaitersGuard(fresh.org), ...quotas] : [slot];
  const committed = await commitRun(engine, { before: null, decided, ended: [], extraPuts, guards });
  switch (committed.kind) {
    case "committed":
      if (decided.hasMore) engine.runInbox.continueRun(decided.run);
      return { kind: "created", run: decided.run };
    case "stale":
      discard(engine, decided, "a concurrent start was committed first");
      return { kind: "stale", table: committed.table };
    case "refused": {
      if (quotas.some((quota) => quota === committed.guard)) discard(engine, decided, "tenant quota exceeded");
      throwIfExceeded(engine, fresh.org, quotas, committed);
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

/** The run with its arms. Starts, reruns and sub-runs are units of their own. */
function enrolled({ rollouts }: Needs<"rollouts">, run: Run): Run {
  const arms = rollouts.enrolRun(run.org, run.id, run.createdMs);
  return arms === undefined ? run : { ...run, arms: { ...run.arms, ...arms } };
}

/** Deletes the payloads of a run that was not created. */
function discard(
  engine: Needs<"world" | "commit" | "tasks" | "audit">,
  { run, created: made }: RunDecision,
  why: string,
): void {
  if (run.parent === undefined && made.length > 0) recordAudit(engine, notStartedLine(run, why));
  const keys = new Set(payloadsOf(run).map(({ ptr }) => ptr));
  for (const { input } of made) if (input.kind === "pointer") keys.add(input.ptr);
  const gone = Promise.all([...keys].map((key) => engine.world.blobs.delete(key))).catch((error: unknown) =>
    engine.world.log.write("warn", "blob_delete_failed", { run: run.id, error: String(error) }),
  );
  engine.tasks.track(gone);
}
