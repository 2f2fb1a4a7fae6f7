import { AUDIT_PENDING, type PendingAudit } from "../../core/model/audit.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { isRunFinal, RUN_RESERVATIONS, RUNS, RUNS_GROUP, type Run, type StepRun } from "../../core/model/run.ts";
import { type Change, type Put, put } from "../../ports/store.ts";
import { type Decorator, withCommit, withGuards, withPuts, withStore, withValues } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in runs: slots, idempotency keys, steps, timers, and sub-runs. */
export const RUN_MUTANTS: readonly Mutant[] = [
  {
    name: "slot-not-guarded",
    about: "the commit that starts a run does not guard the run limit",
    caughtBy: ["slots"],
    world: withGuards((guard) => guard.kind !== "counter" || guard.counter.group !== RUNS_GROUP),
  },
  {
    name: "slot-leaks",
    about: "a run that ends does not free its slot",
    caughtBy: ["slots"],
    world: withPuts((one) => {
      const isEnd = one.table === RUNS.name && one.value !== null && isRunFinal((one.value as Run).state);
      return isEnd ? { ...one, from: { ...one.from, counters: [] } } : one;
    }),
  },
  {
    name: "rerun-keeps-approval",
    about: "a rerun does not wait for the approval that it asks for again",
    caughtBy: ["run_outcome"],
    world: withValues(RUNS, (run) => {
      const asked = Object.entries(run.steps).filter(([id]) => run.rerunOf?.asks?.includes(id));
      const given = asked.map(([id, step]) => [id, { ...step, state: "SUCCEEDED" as const }]);
      return given.length === 0 ? run : { ...run, steps: { ...run.steps, ...Object.fromEntries(given) } };
    }),
  },
  {
    name: "approvals-kept-unaudited",
    about: "a rerun that keeps the approvals of the earlier run has no audit entry",
    caughtBy: ["run_outcome"],
    world: withPuts((one) => {
      if (one.table !== AUDIT_PENDING.name || one.value === null) return one;
      const pending = one.value as PendingAudit;
      return { ...one, value: { ...pending, lines: pending.lines.filter(({ what }) => what !== "approvals kept") } };
    }),
  },
  {
    name: "step-made-twice",
    about: "a step gets a second job with another id",
    caughtBy: ["step_order", "run_outcome"],
    world: withCommit((change, commit) => commit({ ...change, puts: [...change.puts, ...secondJobs(change)] })),
  },
  {
    name: "step-made-without-its-run",
    about: "the jobs of the next steps are committed before the run",
    caughtBy: ["step_order"],
    world: withCommit(async (change, commit) => {
      const jobs = change.puts.filter(isNewStepJob);
      if (jobs.length === 0) return commit(change);
      const first = await commit({ ...change, puts: jobs, guards: [], sends: [], watch: [] });
      if (first.kind !== "committed") return first;
      return commit({ ...change, puts: change.puts.filter((one) => !isNewStepJob(one)) });
    }),
  },
  {
    name: "run-version-not-checked",
    about: "runs are written without a version and without a fence",
    caughtBy: ["run_outcome", "run_end", "run_moves", "run_left"],
    world: withCommit((change, commit) =>
      commit({
        ...change,
        guards: change.guards.filter((guard) => guard.kind !== "fence" || guard.table !== RUNS.name),
        puts: change.puts.map((one) => (one.table === RUNS.name ? { ...one, expect: null } : one)),
      }),
    ),
  },
  {
    name: "lock-not-asked-for",
    about: "a lock-free commit of a run checks another lock",
    caughtBy: ["two_holders"],
    world: withCommit((change, commit) =>
      commit({
        ...change,
        guards: change.guards.map((guard) => (guard.kind === "free" ? { kind: "free", lock: "another" } : guard)),
      }),
    ),
  },
  {
    name: "ended-run-lives-on",
    about: "a run that has notified its parent is written as RUNNING again",
    caughtBy: ["run_end"],
    world: withValues(RUNS, (run) => (run.isParentTold ? { ...run, state: "RUNNING" as const } : run), "reindex"),
  },
  {
    name: "step-runs-again",
    about: "a succeeded step is written as RUNNING again",
    caughtBy: ["run_moves"],
    world: withSteps((step, { updatedMs }) => {
      const isOld = step.state === "SUCCEEDED" && (step.endedMs ?? 0) < updatedMs;
      return isOld ? { ...step, state: "RUNNING" } : step;
    }),
  },
  {
    name: "delay-cut-short",
    about: "a delay ends at the next sweep instead of when it is due",
    caughtBy: ["timer"],
    world: withStore((store) => ({
      due: async (query) => {
        const due = await store.due({ ...query, untilMs: query.untilMs + 60_000 });
        return due.map((one) => (isDelay(one) ? { ...one, dueMs: query.nowMs, value: soon(one.value as Job) } : one));
      },
    })),
  },
  {
    name: "parallel-cut-short",
    about: "a parallel step times out as soon as it starts",
    caughtBy: ["timer"],
    world: withValues(RUNS, (run) => withDueTimes(run, ({ startedMs = 0 }) => startedMs), "reindex"),
  },
  {
    name: "parallel-never-late",
    about: "the timer of a run ignores the timeouts of its parallel steps",
    caughtBy: ["timer"],
    world: withValues(RUNS, (run) => withDueTimes(run, () => null), "reindex"),
  },
  {
    name: "failure-forgotten",
    about: "a step whose job failed counts as succeeded",
    caughtBy: ["run_outcome"],
    world: withSteps((step) => (step.state === "FAILED" ? { ...step, state: "SUCCEEDED" } : step)),
  },
  {
    name: "parent-not-told",
    about: "an ended sub-run is marked as reported to its parent without a notification",
    caughtBy: ["run_left"],
    world: withValues(RUNS, (run) => (run.isParentTold === false ? { ...run, isParentTold: true } : run), "reindex"),
  },
  {
    name: "child-counted-twice",
    about: "a succeeded child of a step is counted twice",
    caughtBy: ["run_left"],
    world: withSteps((step, run) => {
      const { fan } = step;
      if (!isRunFinal(run.state) || fan === undefined || fan.succeeded === 0) return step;
      return { ...step, fan: { ...fan, succeeded: fan.succeeded + 1 } };
    }),
  },
  {
    name: "replay-given-a-new-run",
    about: "the idempotency key of a run is not stored",
    caughtBy: ["run_idempotency"],
    world: withCommit((change, commit) =>
      commit({ ...change, puts: change.puts.filter(({ table }) => table !== RUN_RESERVATIONS.name) }),
    ),
  },
  {
    name: "key-shared-by-tenants",
    about: "idempotency keys are looked up without the tenant",
    caughtBy: ["run_idempotency"],
    world: withStore((store) => ({
      load: (table, id) => store.load(table, table.name === RUN_RESERVATIONS.name ? withoutTenant(id) : id),
      commit: (change) =>
        store.commit({
          ...change,
          puts: change.puts.map((one) =>
            one.table === RUN_RESERVATIONS.name ? { ...one, id: withoutTenant(one.id) } : one,
          ),
        }),
    })),
  },
];

function withSteps(change: (step: StepRun, run: Run) => StepRun): Decorator {
  return withValues(RUNS, (run) => {
    const steps = Object.entries(run.steps).map(([id, step]) => [id, change(step, run)] as const);
    return { ...run, steps: Object.fromEntries(steps) };
  });
}

/** Replaces the due times of `parallel` steps with a timeout; null removes them. */
function withDueTimes(run: Run, dueOf: (step: StepRun) => number | null): Run {
  if (isRunFinal(run.state)) return run;
  const times: number[] = [];
  const steps = Object.entries(run.steps).map(([id, step]) => {
    if (step.dueMs === undefined || step.state !== "RUNNING") return [id, step] as const;
    const { dueMs: _, ...rest } = step;
    const dueMs = dueOf(step);
    times.push(dueMs ?? run.deadlineMs);
    return [id, dueMs === null ? rest : { ...rest, dueMs }] as const;
  });
  if (times.length === 0) return run;
  return { ...run, steps: Object.fromEntries(steps), dueMs: Math.min(...times) };
}

function isNewStepJob({ table, value, expect }: Put): boolean {
  return table === JOBS.name && expect === 0 && (value as Job | null)?.step !== undefined;
}

function secondJobs({ puts }: Change): readonly Put[] {
  return puts.filter(isNewStepJob).map(({ value }) => {
    const job = value as Job;
    const id = job.id.replace(/@1$/, "@2");
    return put(JOBS, id, null, { ...job, id });
  });
}

function isDelay({ table, value }: { readonly table: string; readonly value: unknown }): boolean {
  return table === JOBS.name && (value as Job).step?.kind === "delay" && (value as Job).state === "PENDING";
}

const soon = (job: Job): Job => ({ ...job, dueMs: job.createdMs });

const withoutTenant = (id: string): string => id.slice(id.indexOf("/") + 1);
