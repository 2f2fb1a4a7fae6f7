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
import type { TableWrite } from "../adapters/memory-store.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import { clockToleranceMs } from "../faults.ts";
import { RunReferenceChecker, redrivenIn } from "../reference/reference-checker.ts";
import { dependenciesOf } from "../reference/run-reference.ts";
import type { Plan } from "../workload/plan.ts";
import type { SimStep, SimWorkflow } from "../workload/run-plan.ts";
import type { Violations } from "./violations.ts";

/** Checks every write of a run and of a step's job at the instant of the commit. */
export class RunChecker {
  readonly #net: SimNet;
  readonly #plan: Plan;
  readonly #violations: Violations;
  readonly #open = new Map<string, Set<string>>();
  /** Step jobs that wait for a run slot, by org. */
  readonly #waits = new Map<string, Set<string>>();
  /** The job of each step or child. */
  readonly #jobOf = new Map<string, string>();

  constructor(net: SimNet, plan: Plan, violations: Violations) {
    this.#net = net;
    this.#plan = plan;
    this.#violations = violations;
    const { store } = net;
    store.observeTable(JOBS, (write) => {
      this.#updateSlotWaits(write);
      this.#checkJob(write);
    });
    store.observe((change, before) => {
      this.#checkSlotWaitCounters();
      for (const [index, { table, id, value }] of change.puts.entries()) {
        if (table !== RUNS.name) continue;
        const redriven = redrivenIn(change, before, id);
        const restart = redriven === null ? null : redriven.step?.isCompensation ? "ENDING" : "RUNNING";
        this.#checkRun((before[index]?.value ?? null) as Run | null, value as Run | null, id, restart);
      }
    });
    const reference = new RunReferenceChecker(plan.runs, violations);
    store.observe((change, before) => reference.committed(change, before));
  }

  /** `restart`: the state in which a redriven job reopens an ended run in the same commit; null: none is redriven. */
  #checkRun(before: Run | null, after: Run | null, id: string, restart: RunState | null): void {
    const isRejoined = restart !== null;
    const { timeline, trace } = this.#net;
    trace.note(timeline.nowMs, "run", after?.state ?? "removed", id);
    this.#checkSlots(before, after, id);
    if (after !== null && (before === null ? !after.parent : isRunFinal(before.state) && isRejoined)) {
      const waiting = this.#waits.get(after.org)?.size ?? 0;
      if (waiting > 0) this.#add("slots", id, `admitted while ${waiting} steps of ${after.org} wait for a slot`);
    }
    if (after === null) {
      if (before !== null && !isRunFinal(before.state)) this.#add("run_end", id, `removed while ${before.state}`);
      return;
    }
    if (before && isRunFinal(before.state) && !isRejoined) this.#checkEnded(before, after);
    else this.#checkMoves(before, after, restart);
    this.#checkStepTimeouts(before, after);
    this.#checkLoops(after);
  }

  /** Timeouts of lists and `parallel` steps fire on time, and the run's timer covers them. */
  #checkStepTimeouts(before: Run | null, after: Run): void {
    const isActive = after.state === "RUNNING" || after.state === "PAUSED";
    for (const drawn of this.#plan.runs.workflows.find(({ id }) => id === after.workflowId)?.steps ?? []) {
      const { state, startedMs = 0, fan, dueMs = fan?.dueMs ?? Number.NaN } = after.steps[drawn.id] ?? {};
      if (drawn.timeoutSec === null || (!TIMED.includes(drawn.act) && !fan)) continue;
      const id = `${after.id} ${drawn.id}`;
      if (state === "RUNNING" && isActive && fan?.endsAs === undefined && !(after.dueMs <= dueMs))
        this.#add("timer", id, `is due at ${dueMs}, but its run at ${after.dueMs}`);
      if (state !== "TIMEOUT" || before?.steps[drawn.id]?.state === "TIMEOUT") continue;
      const earlyMs =
        startedMs + drawn.timeoutSec * 1_000 - serverNow(this.#net) - clockToleranceMs(this.#plan.faults.process);
      if (earlyMs > 1) this.#add("timer", id, `timed out ${Math.round(earlyMs)} ms too early`);
    }
  }

  /** Recounts the open runs at every commit. */
  #checkSlots(before: Run | null, after: Run | null, id: string): void {
    const org = after?.org ?? before?.org ?? "";
    const open = this.#open.get(org) ?? new Set();
    this.#open.set(org, open);
    if (after !== null && !isRunFinal(after.state)) open.add(id);
    else open.delete(id);
    const limit = runLimitOf(this.#plan.settings, org);
    const counted = this.#net.store.count(RUNS_GROUP, org);
    if (open.size > limit) this.#add("slots", org, `${open.size} runs are open, the limit is ${limit}; last ${id}`);
    if (counted !== open.size)
      this.#add("slots", org, `${open.size} runs are open, the counter is ${counted}; last ${id}`);
  }

  #updateSlotWaits({ id, before, after }: TableWrite<Job>): void {
    if (!before?.wait?.forSlot && !after?.wait?.forSlot) return;
    const org = after?.org ?? before?.org ?? "";
    const waits = this.#waits.get(org) ?? new Set();
    this.#waits.set(org, waits);
    if (after?.wait?.forSlot && !isFinal(after.state)) waits.add(id);
    else waits.delete(id);
  }

  #checkSlotWaitCounters(): void {
    for (const [org, { size }] of this.#waits) {
      const counted = this.#net.store.count(SLOT_WAITS_GROUP, org);
      if (counted !== size) this.#add("slots", org, `${size} steps wait for a slot, the counter is ${counted}`);
    }
  }

  /** After its end a run only records that its parent was notified. */
  #checkEnded(before: Run, after: Run): void {
    const outcome = ({ state, steps, output, error, lineCount }: Run) => [state, output, error, lineCount, steps];
    const isUnset = before.isParentTold === true && after.isParentTold !== true;
    if (JSON.stringify(outcome(before)) !== JSON.stringify(outcome(after)) || isUnset) {
      this.#add("run_end", before.id, `was ${before.state}, changed to ${after.state}`);
    }
  }

  #checkMoves(before: Run | null, after: Run, restart: RunState | null): void {
    const resumes = after.lines.some(({ event, seq }) => event === "run_resumed" && seq >= (before?.lineCount ?? 0));
    // A run may resume and end in one commit.
    const from: RunState = resumes ? "RUNNING" : (before?.state ?? "RUNNING");
    // A rejoined run may end in the same commit.
    const begun = restart !== null && isRunFinal(from) ? restart : from;
    const legal: readonly RunState[] = RUN_MOVES[begun];
    const isSame = after.state === begun;
    if (!isSame && !legal.includes(after.state)) {
      this.#add("run_moves", after.id, `went from ${from} to ${after.state}`);
    }
    if (restart !== null) return;
    const workflow = this.#plan.runs.workflows.find(({ id }) => id === after.workflowId);
    for (const [stepId, { state }] of Object.entries(before?.steps ?? {})) {
      const now = after.steps[stepId]?.state ?? "PENDING";
      const isLegal =
        state === now || (state === "RUNNING" && isStepSettled(now)) || isRepeated(workflow, stepId, before, after);
      if (!isLegal) this.#add("run_moves", after.id, `step ${stepId} went from ${state} to ${now}`);
    }
  }

  /** A loop stays within its bound, and its next iteration reads the state that the one before left. */
  #checkLoops(after: Run): void {
    for (const { id, loop } of this.#plan.runs.workflows.find((one) => one.id === after.workflowId)?.steps ?? []) {
      const { state, loop: is } = after.steps[id] ?? {};
      if (!loop || !is || state !== "RUNNING") continue;
      const about = `${after.id} ${id}`;
      if (is.iteration > loop.iterationsMax)
        this.#add("loop", about, `is in iteration ${is.iteration} of at most ${loop.iterationsMax}`);
      const output = is.previous?.[loop.body[0] ?? ""]?.output;
      // Beyond its limit the record has pointers.
      if (output?.kind === "pointer") continue;
      const carried = output?.kind === "inline" ? (output.value as { readonly n?: number }).n : undefined;
      if (is.iteration > 1 && carried !== is.iteration - 1)
        this.#add("loop", about, `iteration ${is.iteration} carries ${carried} from the one before`);
    }
  }

  #checkJob({ change, before, after }: TableWrite<Job>): void {
    const { step } = after ?? {};
    if (after === null || step === undefined) return;
    const workflow = this.#plan.runs.workflows.find(({ id }) => id === after.labels.workflow_id);
    const drawn = workflow?.steps.find(({ id }) => id === step.stepId);
    if (workflow === undefined || drawn === undefined) {
      this.#add("step_order", after.id, "a job for an unknown step");
      return;
    }
    if (before === null) this.#checkNew(change, workflow, drawn, after);
    else this.#checkAbandonedSubRun(before, after);
    if (step.kind === "delay" && after.state === "SUCCEEDED" && before?.state !== "SUCCEEDED") {
      const earlyMs =
        after.createdMs + drawn.delayMs - serverNow(this.#net) - clockToleranceMs(this.#plan.faults.process);
      if (earlyMs > 1) this.#add("timer", after.id, `ended ${Math.round(earlyMs)} ms before it was due`);
      if (before !== null && isFinal(before.state)) this.#add("timer", after.id, "ended twice");
    }
  }

  /** A job may drop its sub-run only after the sub-run was stopped: no other job would stop it. */
  #checkAbandonedSubRun(before: Job, after: Job): void {
    const left = before.step?.subRunId;
    const isStopped = before.step?.isSubRunLeft && !after.step?.isSubRunLeft;
    if (left === undefined || (left === after.step?.subRunId && !isStopped)) return;
    const { state = "CANCELLED", lines = [] } = this.#net.store.load(RUNS, left)?.value ?? {};
    // A redrive may have reopened the sub-run by itself.
    if (isRunFinal(state) || state === "ENDING" || lines.some(({ event }) => event === "run_rejoined")) return;
    this.#add("run_left", left, `is ${state}, but ${after.id} dropped it`);
  }

  /** A step's job is created once, in a commit of its run, after all its dependencies are settled. */
  #checkNew(change: Change, workflow: SimWorkflow, drawn: SimStep, job: Job): void {
    const { runId = "", stepId = "", index, iteration } = job.step ?? {};
    const isCompensation = job.step?.isCompensation === true;
    const key = `${runId}/${stepId}/${index ?? ""}/${iteration ?? ""}${isCompensation ? " undo" : ""}`;
    const known = this.#jobOf.get(key);
    if (known !== undefined) this.#add("step_order", key, `has job ${known} already, and got ${job.id}`);
    this.#jobOf.set(key, job.id);
    const run = change.puts.find(({ table, id }) => table === RUNS.name && id === runId)?.value as Run | undefined;
    if (!run) {
      this.#add("step_order", job.id, "created without its run");
      return;
    }
    if (run.state === "PAUSED") this.#add("step_order", job.id, "created while its run is paused");
    if (!run.steps[stepId]) this.#add("step_order", job.id, "created, but its run has no such step");
    if (isCompensation) {
      if (!isStepSettled(run.steps[stepId]?.state ?? "PENDING"))
        this.#add("step_order", job.id, "undoes a step that has not ended");
      return;
    }
    for (const id of dependenciesOf(workflow, drawn)) {
      const state = run.steps[id]?.state ?? "PENDING";
      const around = workflow.steps.find((step) => step.id === id);
      const isBranch = around?.branches.includes(stepId) || around?.loop?.body.includes(stepId);
      if (isStepSettled(state) || (isBranch && state === "RUNNING")) continue;
      this.#add("step_order", job.id, `created while its dependency ${id} is ${state}`);
    }
  }

  #add(checker: Parameters<Violations["add"]>[0], id: string, hint: string): void {
    this.#violations.add(checker, id, hint);
  }
}

/** Steps without a job that have a deadline. */
const TIMED: readonly string[] = ["parallel", "wait", "loop"];

/** A step of a loop starts again with the next iteration. */
function isRepeated(workflow: SimWorkflow | undefined, stepId: string, before: Run | null, after: Run): boolean {
  const loop = workflow?.steps.find((step) => step.loop?.body.includes(stepId))?.id ?? "";
  return (after.steps[loop]?.loop?.iteration ?? 0) > (before?.steps[loop]?.loop?.iteration ?? 0);
}
