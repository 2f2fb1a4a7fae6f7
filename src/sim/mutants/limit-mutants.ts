import { JOBS } from "../../core/model/job.ts";
import { entriesOf, type StoredWindow, toStored, WINDOWS } from "../../core/policy/limits/window.ts";
import { isBudgetGuard } from "../../engine/limits/index.ts";
import type { Store, Versioned } from "../../ports/store.ts";
import { withCommit, withGuards, withStore, withValues } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in limits and budgets of the policy. */
export const LIMIT_MUTANTS: readonly Mutant[] = [
  {
    name: "velocity-counted-after-the-commit",
    about: "the windows of a limit are written after the commit of the decision, whatever was written since",
    caughtBy: ["limit"],
    world: (world) =>
      withCommit(async (change, commit) => {
        const windows = change.puts.filter(({ table }) => table === WINDOWS.name);
        if (windows.length === 0) return commit(change);
        const committed = await commit({ ...change, puts: change.puts.filter((put) => !windows.includes(put)) });
        if (committed.kind !== "committed") return committed;
        for (const put of windows) {
          const found = await world.store.load(WINDOWS, put.id);
          const from = found === null ? put.from : WINDOWS.placement(found.value);
          const late = { ...put, expect: found?.version ?? 0, before: found?.value ?? null, from };
          await commit({ ...change, puts: [late], guards: [], sends: [], watch: [], totals: [] });
        }
        return committed;
      })(world),
  },
  {
    name: "window-forgotten-at-restart",
    about: "a process does not see what was counted before its start",
    caughtBy: ["limit"],
    world: (world) => {
      const startMs = world.clock.now();
      const load: Store["load"] = async (table, id) => {
        const found = await world.store.load(table, id);
        if (table.name !== WINDOWS.name || found === null) return found;
        const { value, ...rest } = found as unknown as Versioned<StoredWindow>;
        const entries = entriesOf(value).filter(({ atMs }) => atMs >= startMs);
        return {
          ...rest,
          value: { ...value, ...toStored(entries, { ...value, withinMs: 0 }), dueMs: value.dueMs },
        } as never;
      };
      return withStore(() => ({ load }))(world);
    },
  },
  {
    name: "budget-not-guarded",
    about: "two concurrent reservations of a budget exceed it",
    caughtBy: ["spend"],
    world: withGuards((guard) => !isBudgetGuard(guard)),
  },
  {
    name: "reservation-not-released",
    about: "the reservation of a failed or lost attempt stays with the job",
    caughtBy: ["spend"],
    world: withValues(
      JOBS,
      (job) =>
        job.state === "RETRYING" && job.budgets !== undefined
          ? { ...job, budgets: job.budgets.map((hold) => ({ ...hold, spent: { tokens: 4_000 } })) }
          : job,
      "reindex",
    ),
  },
];
