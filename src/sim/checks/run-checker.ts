import { isFinal, JOBS, type Job, SLOT_WAITS_GROUP } from "../../core/model/job.ts";
import {
  isRunFinal,
  isStepSettled,
  RUN_MOVES,
  RUNS,
  RUNS_GROUP,
  type Run,
  type RunState,
} from "../../core/model/run.ts";
import { runLimitOf } from "../../engine/runs/index.ts";
import type { Change } from "../../ports/store.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import { RunReferenceChecker, redrivenIn } from "../reference/reference-checker.ts";
import { dependenciesOf } from "../reference/run-reference.ts";
import type { Plan } from "../workload/plan.ts";
import type { SimStep, SimWorkflow } from "../workload/run-plan.ts";
import type { Violations } from "./violations.ts";

/** Looks at every write of a run and of a step's job, at the instant of the write. */
export class RunChecker {
  readonly #net: SimNet;
  readonly #plan: Plan;
  readonly #violations: Violations;
  readonly #mirror: RunReferenceChecker;
  readonly #open = new Map<string, Set<string>>();
  /** The steps' jobs that wait for a slot, by org. */
  readonly #waits = new Map<string, Set<string>>();
  /** The job of each step, or of each child of it. */
  readonly #jobOf = new Map<string, string>();

  constructor(net: SimNet, plan: Plan, violations: Violations) {
    this.#net = net;
    this.#plan = plan;
    this.#violations = violations;
    this.#mirror = new RunReferenceChecker(plan.runs, violations);
    net.store.observe((change, before) => {
      for (const [index, put] of change.puts.entries()) {
        if (put.table !== JOBS.name) continue;
        this.#seeWait(valueIn<Job>(before[index]), put.value as Job | null, put.id);
        this.#seeJob(change, valueIn<Job>(before[index]), put.value as Job | null);
      }
      this.#countWaits();
      for (const [index, put] of change.puts.entries()) {
        if (put.table !== RUNS.name) continue;
        const isRejoined = redrivenIn(change, before, put.id) !== null;
        this.#seeRun(valueIn<Run>(before[index]), put.value as Run | null, put.id, isRejoined);
      }
      this.#mirror.committed(change, before);
    });
  }

  #seeRun(before: Run | null, after: Run | null, id: string, isRejoined: boolean): void {
    const { timeline, trace } = this.#net;
    trace.note(timeline.nowMs, "run", after?.state ?? "removed", id);
    this.#countSlots(before, after, id);
    if (after !== null && (before === null ? !after.parent : isRunFinal(before.state) && isRejoined)) {
      const waiting = this.#waits.get(after.org)?.size ?? 0;
      if (waiting > 0) this.#add("slots", id, `let in while ${waiting} steps of ${after.org} wait for a slot`);
    }
    if (after === null) {
      if (before !== null && !isRunFinal(before.state)) this.#add("run_end", id, `removed while ${before.state}`);
      return;
    }
    if (before && isRunFinal(before.state) && !isRejoined) this.#checkEnded(before, after);
    else this.#checkMoves(before, after, isRejoined);
    this.#checkTimes(before, after);
  }

  /** Lists and `parallel` steps that have a time: it is not cut short, and somebody comes when it is up. */
  #checkTimes(before: Run | null, after: Run): void {
    const isAtWork = after.state === "RUNNING" || after.state === "PAUSED";
    for (const drawn of this.#plan.runs.workflows.find(({ id }) => id === after.workflowId)?.steps ?? []) {
      const { state, startedMs = 0, fan, dueMs = fan?.dueMs ?? Number.NaN } = after.steps[drawn.id] ?? {};
      if (drawn.timeoutSec === null || (drawn.act !== "parallel" && !fan)) continue;
      const id = `${after.id} ${drawn.id}`;
      if (state === "RUNNING" && isAtWork && fan?.endsAs === undefined && !(after.dueMs <= dueMs))
        this.#add("timer", id, `is due at ${dueMs}, and its run at ${after.dueMs}`);
      if (state !== "TIMEOUT" || before?.steps[drawn.id]?.state === "TIMEOUT") continue;
      const earlyMs = startedMs + drawn.timeoutSec * 1_000 - serverNow(this.#net) - this.#plan.faults.process.skewMsMax;
      if (earlyMs > 1) this.#add("timer", id, `was late ${Math.round(earlyMs)} ms before its time was up`);
    }
  }

  /** Counted from the records alone, at every commit. */
  #countSlots(before: Run | null, after: Run | null, id: string): void {
    const org = after?.org ?? before?.org ?? "";
    const open = this.#open.get(org) ?? new Set();
    this.#open.set(org, open);
    if (after !== null && !isRunFinal(after.state)) open.add(id);
    else open.delete(id);
    const limit = runLimitOf(this.#plan.settings, org);
    const counted = this.#net.store.count(RUNS_GROUP, org);
    if (open.size > limit) this.#add("slots", org, `${open.size} runs are open, its limit is ${limit}; last ${id}`);
    if (counted !== open.size)
      this.#add("slots", org, `${open.size} runs are open, ${counted} are counted; last ${id}`);
  }

  #seeWait(before: Job | null, after: Job | null, id: string): void {
    if (!before?.wait?.forSlot && !after?.wait?.forSlot) return;
    const org = after?.org ?? before?.org ?? "";
    const waits = this.#waits.get(org) ?? new Set();
    this.#waits.set(org, waits);
    if (after?.wait?.forSlot && !isFinal(after.state)) waits.add(id);
    else waits.delete(id);
  }

  #countWaits(): void {
    for (const [org, { size }] of this.#waits) {
      const counted = this.#net.store.count(SLOT_WAITS_GROUP, org);
      if (counted !== size) this.#add("slots", org, `${size} steps wait for a slot, ${counted} are counted`);
    }
  }

  /** What has ended is told to a parent, and otherwise left alone. */
  #checkEnded(before: Run, after: Run): void {
    const bare = ({ state, steps, output, error, lineCount }: Run) => [state, output, error, lineCount, steps];
    const isToldBack = before.isParentTold === true && after.isParentTold !== true;
    if (JSON.stringify(bare(before)) !== JSON.stringify(bare(after)) || isToldBack) {
      this.#add("run_end", before.id, `was ${before.state}, and was changed to ${after.state}`);
    }
  }

  #checkMoves(before: Run | null, after: Run, isRejoined: boolean): void {
    const resumes = after.lines.some(({ event, seq }) => event === "run_resumed" && seq >= (before?.lineCount ?? 0));
    // It may go on and end in one commit.
    const from: RunState = resumes ? "RUNNING" : (before?.state ?? "RUNNING");
    // A rejoined run begins anew; what follows from its second life may be in the same commit.
    const legal: readonly RunState[] = RUN_MOVES[isRejoined && isRunFinal(from) ? "RUNNING" : from];
    const isSame = after.state === (isRejoined && isRunFinal(from) ? "RUNNING" : from);
    if (!isSame && !legal.includes(after.state)) {
      this.#add("run_moves", after.id, `went from ${from} to ${after.state}`);
    }
    if (isRejoined) return;
    for (const [stepId, { state }] of Object.entries(before?.steps ?? {})) {
      const now = after.steps[stepId]?.state ?? "PENDING";
      const isLegal = state === now || (state === "RUNNING" && isStepSettled(now));
      if (!isLegal) this.#add("run_moves", after.id, `step ${stepId} went from ${state} to ${now}`);
    }
  }

  #seeJob(change: Change, before: Job | null, after: Job | null): void {
    const { step } = after ?? {};
    if (after === null || step === undefined) return;
    const workflow = this.#plan.runs.workflows.find(({ id }) => id === after.labels.workflow_id);
    const drawn = workflow?.steps.find(({ id }) => id === step.stepId);
    if (workflow === undefined || drawn === undefined) {
      this.#add("step_order", after.id, "a job for a step that no workflow has");
      return;
    }
    if (before === null) this.#checkNew(change, workflow, drawn, after);
    else this.#checkLeft(before, after);
    if (step.kind === "delay" && after.state === "SUCCEEDED" && before?.state !== "SUCCEEDED") {
      const earlyMs = after.createdMs + drawn.delayMs - serverNow(this.#net) - this.#plan.faults.process.skewMsMax;
      if (earlyMs > 1) this.#add("timer", after.id, `ended ${Math.round(earlyMs)} ms before its time`);
      if (before !== null && isFinal(before.state)) this.#add("timer", after.id, "ended once more");
    }
  }

  /** Who forgets a run that it waited for cannot stop it any more: nobody would, until its own end. */
  #checkLeft(before: Job, after: Job): void {
    const left = before.step?.subRunId;
    const isStopped = before.step?.isSubRunLeft && !after.step?.isSubRunLeft;
    if (left === undefined || (left === after.step?.subRunId && !isStopped)) return;
    const { state = "CANCELLED", lines = [] } = this.#net.store.load(RUNS, left)?.value ?? {};
    // Somebody has taken it up again since, by itself.
    if (isRunFinal(state) || state === "ENDING" || lines.some(({ event }) => event === "run_rejoined")) return;
    this.#add("run_left", left, `is ${state}, and ${after.id} left it`);
  }

  /** A step's job comes with its run, once, and after everything that it hangs on. */
  #checkNew(change: Change, workflow: SimWorkflow, drawn: SimStep, job: Job): void {
    const { runId = "", stepId = "", index } = job.step ?? {};
    const key = `${runId}/${stepId}/${index ?? ""}`;
    const known = this.#jobOf.get(key);
    if (known !== undefined) this.#add("step_order", key, `has the job ${known} already, and got ${job.id}`);
    this.#jobOf.set(key, job.id);
    const run = change.puts.find(({ table, id }) => table === RUNS.name && id === runId)?.value as Run | undefined;
    if (!run) {
      this.#add("step_order", job.id, "made without its run");
      return;
    }
    if (run.state === "PAUSED") this.#add("step_order", job.id, "made while its run is paused");
    if (!run.steps[stepId]) this.#add("step_order", job.id, "made, and its run knows nothing of it");
    for (const id of dependenciesOf(workflow, drawn)) {
      const state = run.steps[id]?.state ?? "PENDING";
      const isBranch = workflow.steps.some(({ id: around, branches }) => around === id && branches.includes(stepId));
      if (isStepSettled(state) || (isBranch && state === "RUNNING")) continue;
      this.#add("step_order", job.id, `made while ${id}, which it hangs on, is ${state}`);
    }
  }

  #add(checker: Parameters<Violations["add"]>[0], id: string, hint: string): void {
    this.#violations.add(checker, id, hint);
  }
}

function valueIn<T>(record: { readonly value: unknown } | null | undefined): T | null {
  return (record?.value ?? null) as T | null;
}
