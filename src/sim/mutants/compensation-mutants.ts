import { JOBS, type Job } from "../../core/model/job.ts";
import { RUNS, type Run } from "../../core/model/run.ts";
import type { StepCompensation } from "../../core/model/runs/compensation.ts";
import { type Change, type Put, put } from "../../ports/store.ts";
import { withCommit, withValues } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in the compensation of runs. */
export const COMPENSATION_MUTANTS: readonly Mutant[] = [
  {
    name: "compensation-skipped",
    about: "a step counts as undone, but no job was created for it",
    caughtBy: ["run_outcome"],
    world: withCommit((change, commit) => commit(withoutUndo(change))),
  },
  {
    name: "compensation-run-twice",
    about: "a compensation gets a second job with another id",
    caughtBy: ["step_order", "run_outcome"],
    world: withCommit((change, commit) => commit({ ...change, puts: [...change.puts, ...secondUndos(change)] })),
  },
  {
    name: "compensation-in-order-of-completion",
    about: "the first step to complete is undone first",
    caughtBy: ["run_outcome"],
    world: withCommit((change, commit) => commit(firstUndoSwapped(change))),
  },
  {
    name: "compensation-not-awaited",
    about: "a run ends before its compensations",
    caughtBy: ["run_outcome", "run_left"],
    world: withValues(
      RUNS,
      (run) => {
        if (run.state !== "ENDING" || run.compensation === undefined || run.endsAs === undefined) return run;
        return { ...run, state: run.endsAs.state, error: run.endsAs.error };
      },
      "reindex",
    ),
  },
  {
    name: "failed-compensation-counted-as-undone",
    about: "a step whose compensation failed counts as undone",
    caughtBy: ["compensation"],
    world: withValues(RUNS, (run) =>
      withCompensations(run, (own) => (own.state === "FAILED" ? { ...own, state: "SUCCEEDED" } : own)),
    ),
  },
];

const isNewUndo = ({ table, value, expect }: Put): boolean =>
  table === JOBS.name && expect === 0 && (value as Job | null)?.step?.isCompensation === true;

/** The run records the compensations of this commit as done. It is due at once, because no job will advance it. */
function withoutUndo(change: Change): Change {
  const skipped = new Set(change.puts.filter(isNewUndo).map(({ id }) => id));
  if (skipped.size === 0) return change;
  const puts = change.puts.flatMap((one): readonly Put[] => {
    if (skipped.has(one.id)) return [];
    if (one.table !== RUNS.name || one.value === null) return [one];
    const run = withCompensations(one.value as Run, (own) =>
      own.jobId !== undefined && skipped.has(own.jobId) ? { ...own, state: "SUCCEEDED" } : own,
    );
    const value = { ...run, dueMs: run.updatedMs };
    return [{ ...one, value, to: RUNS.placement(value) }];
  });
  return { ...change, puts };
}

function secondUndos({ puts }: Change): readonly Put[] {
  return puts.filter(isNewUndo).map(({ value }) => {
    const job = value as Job;
    const id = job.id.replace(/@1$/, "@2");
    return put(JOBS, id, null, { ...job, id });
  });
}

/** When the first of several compensations starts, the one of the step that completed first starts instead. */
function firstUndoSwapped(change: Change): Change {
  const run = change.puts.find(({ table, value }) => table === RUNS.name && value !== null)?.value as Run | undefined;
  const order = run?.compensation?.order ?? [];
  const [last = ""] = order;
  const first = order.at(-1) ?? "";
  const isBegin = order.length > 1 && order.every((id) => id === last || run?.steps[id]?.compensation === undefined);
  if (!isBegin || run?.steps[first]?.fan !== undefined) return change;
  const swap = (id: string): string => id.replace(`:${last}.undo@`, `:${first}.undo@`);
  const puts = change.puts.map((one): Put => {
    if (!isNewUndo(one) || one.id === swap(one.id)) return one;
    const job = one.value as Job;
    const id = swap(one.id);
    return put(JOBS, id, null, { ...job, id, step: { ...(job.step as NonNullable<Job["step"]>), stepId: first } });
  });
  return { ...change, puts };
}

function withCompensations(run: Run, change: (own: StepCompensation) => StepCompensation): Run {
  const steps = Object.entries(run.steps).map(([id, step]) => {
    const { compensation } = step;
    return [id, compensation === undefined ? step : { ...step, compensation: change(compensation) }] as const;
  });
  return { ...run, steps: Object.fromEntries(steps) };
}
