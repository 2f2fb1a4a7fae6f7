import { JOBS, type Job } from "../../core/model/job.ts";
import { isRunFinal, RUN_RESERVATIONS, RUNS, RUNS_GROUP, type Run, type StepRun } from "../../core/model/run.ts";
import { type Change, type Put, put } from "../../ports/store.ts";
import { withCommit, withPuts, withStore } from "./decorators.ts";
import type { Mutant } from "./mutants.ts";

/** Bugs in runs: their slots, their keys, their steps, their timers, and what they tell each other. */
export const RUN_MUTANTS: readonly Mutant[] = [
  {
    name: "slot-not-guarded",
    about: "the limit of open runs is not part of the commit that starts one",
    caughtBy: ["slots"],
    world: withCommit((change, commit) => commit({ ...change, guards: change.guards.filter(isNoSlot) })),
  },
  {
    name: "slot-leaks",
    about: "a run that ends is not counted out of its tenant's slots",
    caughtBy: ["slots"],
    world: withPuts((one) => {
      const isEnd = one.table === RUNS.name && one.value !== null && isRunFinal((one.value as Run).state);
      return isEnd ? { ...one, from: { ...one.from, counters: [] } } : one;
    }),
  },
  {
    name: "step-made-twice",
    about: "a step gets a second job, under another id",
    caughtBy: ["step_order", "run_outcome"],
    world: withCommit((change, commit) => commit({ ...change, puts: [...change.puts, ...secondJobs(change)] })),
  },
  {
    name: "step-made-without-its-run",
    about: "the jobs of a run's next steps are written before the run is",
    caughtBy: ["step_order"],
    world: withCommit(async (change, commit) => {
      const made = change.puts.filter(isNewStepJob);
      if (made.length === 0) return commit(change);
      const first = await commit({ ...change, puts: made, guards: [], sends: [], watch: [] });
      if (first.kind !== "committed") return first;
      return commit({ ...change, puts: change.puts.filter((one) => !isNewStepJob(one)) });
    }),
  },
  {
    name: "run-version-not-checked",
    about: "whoever writes a run last wins, whatever was decided meanwhile",
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
    about: "who has a run's lock for a moment looks whether another one is free",
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
    about: "a run that has told its parent is written as running again",
    caughtBy: ["run_end"],
    world: withPuts((one) => {
      const run = one.value as Run | null;
      if (one.table !== RUNS.name || !run?.isParentTold) return one;
      const value: Run = { ...run, state: "RUNNING" };
      return { ...one, value, to: RUNS.placement(value) };
    }),
  },
  {
    name: "step-runs-again",
    about: "a step that is done is written as running again",
    caughtBy: ["run_moves"],
    world: withPuts((one) => {
      const run = one.value as Run | null;
      if (one.table !== RUNS.name || run === null) return one;
      const steps = Object.entries(run.steps).map(([id, step]) => {
        const isOld = step.state === "SUCCEEDED" && (step.endedMs ?? 0) < run.updatedMs;
        return [id, isOld ? { ...step, state: "RUNNING" as const } : step] as const;
      });
      return { ...one, value: { ...run, steps: Object.fromEntries(steps) } };
    }),
  },
  {
    name: "delay-cut-short",
    about: "a delay ends when somebody looks, not when its time has come",
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
    about: "the time of a parallel step is up as soon as it has begun",
    caughtBy: ["timer"],
    world: withPuts((one) => withTimes(one, ({ startedMs = 0 }) => startedMs)),
  },
  {
    name: "parallel-never-late",
    about: "nobody looks at a run when the time of one of its parallel steps is up",
    caughtBy: ["timer"],
    world: withPuts((one) => withTimes(one, () => null)),
  },
  {
    name: "failure-forgotten",
    about: "a step whose job has failed counts as done",
    caughtBy: ["run_outcome"],
    world: withPuts((one) => {
      const run = one.value as Run | null;
      if (one.table !== RUNS.name || run === null) return one;
      const steps = Object.entries(run.steps).map(([id, step]) => {
        return [id, step.state === "FAILED" ? { ...step, state: "SUCCEEDED" as const } : step] as const;
      });
      return { ...one, value: { ...run, steps: Object.fromEntries(steps) } };
    }),
  },
  {
    name: "parent-not-told",
    about: "a sub-run that has ended is taken for one whose parent was told",
    caughtBy: ["run_left"],
    world: withPuts((one) => {
      const run = one.value as Run | null;
      if (one.table !== RUNS.name || run?.isParentTold !== false) return one;
      const value: Run = { ...run, isParentTold: true };
      return { ...one, value, to: RUNS.placement(value) };
    }),
  },
  {
    name: "child-counted-twice",
    about: "a child of a step that is done is counted twice",
    caughtBy: ["run_left"],
    world: withPuts((one) => {
      const run = one.value as Run | null;
      if (one.table !== RUNS.name || run === null || !isRunFinal(run.state)) return one;
      const steps = Object.entries(run.steps).map(([id, step]) => {
        const { fan } = step;
        return [
          id,
          fan && fan.succeeded > 0 ? { ...step, fan: { ...fan, succeeded: fan.succeeded + 1 } } : step,
        ] as const;
      });
      return { ...one, value: { ...run, steps: Object.fromEntries(steps) } };
    }),
  },
  {
    name: "replay-given-a-new-run",
    about: "the key of a run is not kept with it",
    caughtBy: ["run_idempotency"],
    world: withCommit((change, commit) =>
      commit({ ...change, puts: change.puts.filter(({ table }) => table !== RUN_RESERVATIONS.name) }),
    ),
  },
  {
    name: "key-shared-by-tenants",
    about: "a key is looked up without its tenant",
    caughtBy: ["run_idempotency"],
    world: withStore((store) => ({
      load: (table, id) => store.load(table, table.name === RUN_RESERVATIONS.name ? keyAlone(id) : id),
      commit: (change) =>
        store.commit({
          ...change,
          puts: change.puts.map((one) =>
            one.table === RUN_RESERVATIONS.name ? { ...one, id: keyAlone(one.id) } : one,
          ),
        }),
    })),
  },
];

/** Another time for the `parallel` steps that have one; null: none. */
function withTimes(one: Put, timeOf: (step: StepRun) => number | null): Put {
  const run = one.value as Run | null;
  if (one.table !== RUNS.name || run === null || isRunFinal(run.state)) return one;
  const times: number[] = [];
  const steps = Object.entries(run.steps).map(([id, step]) => {
    if (step.dueMs === undefined || step.state !== "RUNNING") return [id, step] as const;
    const { dueMs: _, ...rest } = step;
    const dueMs = timeOf(step);
    times.push(dueMs ?? run.deadlineMs);
    return [id, dueMs === null ? rest : { ...rest, dueMs }] as const;
  });
  if (times.length === 0) return one;
  const value: Run = { ...run, steps: Object.fromEntries(steps), dueMs: Math.min(...times) };
  return { ...one, value, to: RUNS.placement(value) };
}

const isNoSlot = (guard: Change["guards"][number]): boolean =>
  guard.kind !== "counter" || guard.counter.group !== RUNS_GROUP;

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

const keyAlone = (id: string): string => id.slice(id.indexOf("/") + 1);
