import type { Job } from "../../model/job.ts";
import { type Fan, stepJobId } from "../../model/run.ts";
import type { WireError } from "../../retry/intent.ts";
import type { ForEach, PlanStep } from "../definition/plan.ts";
import { fail, inputOf, isAtOnce, startOf } from "./begin-step.ts";
import { doAll, FAILURES_TOLD } from "./expand-inline.ts";
import { type Draft, fault, tooLarge } from "./run-draft.ts";
import { cancelStep, settleStep } from "./settle-step.ts";

/**
 * `for_each`.
 *
 * 1. The list is evaluated once, when the step starts. Children are separate jobs, created in order: at most
 *    `max_parallel` open at once and `startsMax` per commit.
 * 2. The run keeps counts and a pointer to larger lists: the cost per child does not depend on their number (L45).
 * 3. Steps that need no time run inline, without children (`runInline`).
 */
export function beginFan(draft: Draft, step: PlanStep, each: ForEach, cause: number | undefined): void {
  const items = each.items.evaluate(draft.scope(step, each.items.refs));
  if (items.kind === "bad") {
    fail(draft, step, "ExpressionFailed", `\`for_each\`: ${items.problem}`, cause);
    return;
  }
  const list = items.value;
  if (!Array.isArray(list)) {
    fail(draft, step, "ExpressionFailed", "`for_each` is not a list", cause);
    return;
  }
  if (list.length > ITEMS_MAX) {
    const problem = `\`for_each\` has ${list.length} items; at most ${ITEMS_MAX} are taken`;
    fail(draft, step, "TooManyItems", problem, cause);
    return;
  }
  const payload = draft.keep(list, `ctx:${stepJobId(draft.run.id, step.id, null)}`);
  if (!payload) {
    settleStep(draft, step, "FAILED", { error: tooLarge("the list of `for_each`"), cause });
    return;
  }
  const line = draft.note("step_started", { stepId: step.id, why: `${list.length} items`, cause });
  if (isAtOnce(step)) {
    draft.setStep(step.id, { state: "RUNNING", startedMs: draft.nowMs, line });
    doAll(draft, step, each, list);
    return;
  }
  const fan = { items: payload, count: list.length, spawned: 0, open: 0, succeeded: 0, failed: 0, cancelled: 0 };
  const due = step.timeoutMs === null ? {} : { dueMs: draft.nowMs + step.timeoutMs };
  draft.setStep(step.id, { state: "RUNNING", startedMs: draft.nowMs, line, fan: { ...fan, ...due } });
  spawn(draft, step, each);
}

/** Creates children up to the limits, and ends the step after the last one. */
export function spawn(draft: Draft, step: PlanStep, each: ForEach): void {
  for (;;) {
    const fan = draft.step(step.id)?.fan;
    if (!fan || draft.stateOf(step.id) !== "RUNNING") return;
    if (fan.endsAs !== undefined || fan.spawned >= fan.count) {
      judge(draft, step, each, fan);
      return;
    }
    // The step's deadline has passed and its timer is due: a new child would have no time left.
    if (fan.open >= each.parallelMax || draft.run.state !== "RUNNING" || isLate(draft, fan)) return;
    if (draft.starts.length + draft.unmade >= draft.limits.startsMax) {
      draft.hasMore = true;
      return;
    }
    spawnOne(draft, step, each, fan);
  }
}

function spawnOne(draft: Draft, step: PlanStep, each: ForEach, fan: Fan): void {
  const index = fan.spawned;
  const items = draft.valueOf(fan.items, step.id) as readonly unknown[];
  const child = { item: items[index], index };
  const spawned = { ...fan, spawned: index + 1 };
  const input = inputOf(draft, step, child);
  const start = input.kind === "bad" ? null : startOf(draft, step, input.value, child);
  if (input.kind === "bad" || start === null || "problem" in start) {
    const { problem = "", name = "ExpressionFailed" } =
      input.kind === "bad" ? input : start && "problem" in start ? start : {};
    const error = fault(name, `item ${index}: ${problem}`);
    draft.unmade += 1;
    countEnd(draft, step, each, { ...spawned, open: spawned.open + 1 }, index, error);
    return;
  }
  setFan(draft, step, { ...spawned, open: spawned.open + 1 });
  // Children share the step's deadline.
  draft.starts.push(fan.dueMs === undefined ? start : { ...start, timeoutMs: fan.dueMs - draft.nowMs });
}

/** Ends the step as TIMEOUT at its deadline. */
export function expireFan(draft: Draft, step: PlanStep, each: ForEach): void {
  const fan = draft.step(step.id)?.fan;
  if (!fan || draft.stateOf(step.id) !== "RUNNING" || fan.endsAs !== undefined || !isLate(draft, fan)) return;
  const expired: Fan = { ...fan, endsAs: "TIMEOUT" };
  setFan(draft, step, expired);
  judge(draft, step, each, expired);
}

const isLate = ({ nowMs }: Draft, { dueMs }: Fan): boolean => dueMs !== undefined && nowMs >= dueMs;

/** `problem`: the child succeeded, but its output does not match the step's schema. */
export function endChild(draft: Draft, step: PlanStep, each: ForEach, job: Job, problem: WireError | null): void {
  const fan = draft.step(step.id)?.fan;
  if (!fan || draft.stateOf(step.id) !== "RUNNING") return;
  const index = job.step?.index ?? 0;
  const error = problem ?? (job.state === "SUCCEEDED" ? null : (job.error ?? fault("StepFailed", job.state)));
  // Children share the step's deadline: a child that timed out at that time means the step did, too.
  const isExpired = job.state === "TIMEOUT" && isLate(draft, fan) && fan.endsAs === undefined;
  countEnd(draft, step, each, isExpired ? { ...fan, endsAs: "TIMEOUT" } : fan, index, error);
}

export function stopChildren(draft: Draft, step: PlanStep, each: ForEach, count: number): void {
  const fan = draft.step(step.id)?.fan;
  if (!fan) return;
  const stopped = { ...fan, open: fan.open - count, cancelled: fan.cancelled + count };
  setFan(draft, step, stopped);
  judge(draft, step, each, stopped);
}

function countEnd(draft: Draft, step: PlanStep, each: ForEach, fan: Fan, index: number, error: WireError | null): void {
  const ended = { ...fan, open: fan.open - 1 };
  if (error === null) {
    setFan(draft, step, { ...ended, succeeded: ended.succeeded + 1 });
    return;
  }
  if (ended.failed < FAILURES_TOLD) {
    draft.note("child_failed", {
      stepId: step.id,
      index,
      jobId: stepJobId(draft.run.id, step.id, index),
      why: error.message,
      cause: draft.step(step.id)?.line,
    });
  }
  const failed = { ...ended, failed: ended.failed + 1, error: ended.error ?? error };
  const isOver = each.mode === "fail_fast" && failed.failed > each.failuresMax && failed.endsAs === undefined;
  setFan(draft, step, isOver ? { ...failed, endsAs: "FAILED" } : failed);
}

/** Ends the step when no child is open and none is left to create. */
function judge(draft: Draft, step: PlanStep, each: ForEach, fan: Fan): void {
  if (fan.open > 0) return;
  const error = fan.error ?? fault("StepFailed", `children of step \`${step.id}\` failed`);
  const cause = draft.run.endsAs?.line;
  if (fan.endsAs === "CANCELLED") cancelStep(draft, step, draft.step(step.id)?.why ?? "the run ended", cause);
  else if (fan.endsAs === "TIMEOUT") settleStep(draft, step, "TIMEOUT", { error: lateFault(fan) });
  else if (fan.endsAs !== undefined || fan.failed > each.failuresMax) settleStep(draft, step, "FAILED", { error });
  else settleStep(draft, step, "SUCCEEDED", { output: { kind: "children", count: fan.count } });
}

function lateFault({ count, succeeded }: Fan): WireError {
  return fault("DeadlineExceeded", `${succeeded} of ${count} items were done in time`);
}

function setFan(draft: Draft, step: PlanStep, fan: Fan): void {
  const before = draft.step(step.id);
  if (before) draft.setStep(step.id, { ...before, fan });
}

export const ITEMS_MAX = 10_000;
