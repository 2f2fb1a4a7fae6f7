import { RUNS, type Run, runsOpenOf } from "../model/run.ts";
import type { Guard, Put } from "../ports/store.ts";
import type { Settings } from "../settings.ts";
import { inputKey } from "../wire/pointer.ts";
import type { Plan } from "../workflow/plan.ts";
import { noteAudit, notStartedLine } from "./audit.ts";
import { commitRun } from "./commit-run.ts";
import { type Decided, decideRun } from "./decide-run.ts";
import type { Flow } from "./flow.ts";
import { keysOf } from "./remove-run.ts";
import { goOn } from "./with-run.ts";

/**
 * A run is made, with its slot and its first steps, in one commit: a crash leaves all of them or none, and no race can
 * exceed the limit, since the slot is a guard of that commit. Nobody waits for anybody.
 */
export type Created =
  | { readonly kind: "created"; readonly run: Run }
  | { readonly kind: "full"; readonly current: number; readonly limit: number }
  /** Something beside the run was not as expected. */
  | { readonly kind: "stale"; readonly table: string };

export async function createRun(flow: Flow, plan: Plan, fresh: Run, besides: readonly Put[]): Promise<Created> {
  const decided = await decideRun(flow, plan, fresh, [{ kind: "time" }], new Set());
  const slot = slotGuard(flow.settings.current, fresh.org);
  const committed = await commitRun(flow, { before: null, decided, ended: [], besides, guards: [slot] });
  switch (committed.kind) {
    case "committed":
      if (decided.hasMore) goOn(flow, decided.run);
      return { kind: "created", run: decided.run };
    case "stale":
      discard(flow, decided, "another start was faster");
      return { kind: "stale", table: committed.table };
    case "refused":
      discard(flow, decided, "all slots are taken");
      if (committed.guard === slot) return { kind: "full", current: committed.value, limit: slot.max };
      return { kind: "stale", table: RUNS.name };
    default:
      return committed satisfies never;
  }
}

/** What was kept for a run that was not made: nobody will ever point at it, and who is refused comes again and again. */
function discard(flow: Flow, { run, made }: Decided, why: string): void {
  if (run.parent === undefined && made.length > 0) noteAudit(flow, notStartedLine(run, why));
  const keys = new Set(keysOf(run));
  for (const { id, input } of made) if (input.kind === "pointer") keys.add(input.ptr).add(inputKey(id));
  const gone = Promise.all([...keys].map((key) => flow.world.blobs.delete(key))).catch((error: unknown) =>
    flow.world.log.write("warn", "blobs_left_to_their_ttl", { run: run.id, error: String(error) }),
  );
  flow.desk.track(gone);
}

export function slotGuard(settings: Settings, org: string): Extract<Guard, { kind: "counter" }> {
  return { kind: "counter", counter: runsOpenOf(org), max: runLimitOf(settings, org) };
}

export const runLimitOf = (settings: Settings, org: string): number =>
  settings.orgs[org]?.limits?.concurrentRunsMax ?? settings.limits.concurrentRunsMax;

/** How many runs of an org are open: by its name, in a change that changes nothing. */
export async function openRunsOf({ world: { store, clock } }: Flow, org: string): Promise<number> {
  const watch = [runsOpenOf(org)];
  const asked = await store.commit({ org, atMs: clock.now(), puts: [], guards: [], sends: [], watch });
  return asked.kind === "committed" ? (asked.seen[0] ?? 0) : 0;
}
