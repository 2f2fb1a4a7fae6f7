import type { Job } from "../../model/job.ts";
import { type Fan, stepJobId } from "../../model/run.ts";
import type { Writable } from "../../model/table.ts";
import type { WireError } from "../../retry/intent.ts";
import type { ForEach, OutputSize, PlanStep } from "../definition/plan.ts";
import { bytesOf, type Draft, fault, tooLarge } from "./run-draft.ts";
import { cancelStep, settleStep } from "./settle.ts";
import { failStep, type Item, inlineResult, inputOf, isInline, madeFault, startOf } from "./start-step.ts";

/**
 * `for_each`.
 *
 * 1. The list is evaluated once, when the step starts. Children are separate jobs, created in order: at most
 *    `max_parallel` open at once and `startsMax` per commit.
 * 2. The run keeps counts and a pointer to larger lists: the cost per child does not depend on their number (L45).
 * 3. Steps that need no time run inline, without children (`runInline`).
 * 4. The size of the inputs of all children is bounded. A child whose input exceeds the limit, alone or with what the inputs
 *    of the later children have in common with it, is not created, and the step fails.
 */
export function startFan(draft: Draft, step: PlanStep, each: ForEach, cause: number | undefined): void {
  const items = each.items.evaluate(draft.scope(step, each.items.refs));
  if (items.kind === "bad") {
    failStep(draft, step, "ExpressionFailed", `\`for_each\`: ${items.problem}`, cause);
    return;
  }
  const list = items.value;
  if (!Array.isArray(list)) {
    failStep(draft, step, "ExpressionFailed", "`for_each` is not a list", cause);
    return;
  }
  if (list.length > ITEMS_MAX) {
    const problem = `\`for_each\` has ${list.length} items; at most ${ITEMS_MAX} are allowed`;
    failStep(draft, step, "TooManyItems", problem, cause);
    return;
  }
  const payload = draft.store(list);
  if (!payload) {
    settleStep(draft, step, "FAILED", { error: tooLarge("the list of `for_each`"), cause });
    return;
  }
  const line = draft.addLine("step_started", { stepId: step.id, why: `${list.length} items`, cause });
  if (isInline(step)) {
    draft.setStep(step.id, { state: "RUNNING", startedMs: draft.nowMs, line });
    runInline(draft, step, each, list);
    return;
  }
  const fan = { items: payload, count: list.length, spawned: 0, open: 0, succeeded: 0, failed: 0, cancelled: 0 };
  const due = step.timeoutMs === null ? {} : { dueMs: draft.nowMs + step.timeoutMs };
  const iteration = draft.iterationOf(step);
  const inLoop = iteration === undefined ? {} : { iteration };
  draft.setStep(step.id, { state: "RUNNING", startedMs: draft.nowMs, line, fan: { ...fan, ...due, ...inLoop } });
  spawn(draft, step, each);
}

/** Creates children up to the limits, and ends the step after the last one. */
export function spawn(draft: Draft, step: PlanStep, each: ForEach): void {
  for (;;) {
    const fan = draft.step(step.id)?.fan;
    if (!fan || draft.stateOf(step.id) !== "RUNNING") return;
    if (fan.endsAs !== undefined || fan.spawned >= fan.count) {
      settleFan(draft, step, each, fan);
      return;
    }
    // The step's deadline has passed and its timer is due: a new child would have no time left.
    if (fan.open >= each.parallelMax || draft.run.state !== "RUNNING" || isExpired(draft, fan)) return;
    if (draft.starts.length + draft.failedStarts >= draft.limits.startsMax) {
      draft.hasMore = true;
      return;
    }
    spawnOne(draft, step, each, fan);
  }
}

function spawnOne(draft: Draft, step: PlanStep, each: ForEach, fan: Fan): void {
  const index = fan.spawned;
  const items = draft.valueOf(fan.items, step.id);
  const child = { item: items.kind === "ok" ? (items.value as readonly unknown[])[index] : null, index };
  const input =
    items.kind === "ok"
      ? inputOf(draft, step, child)
      : ({ kind: "bad", name: items.error.name ?? "Error", problem: items.error.message } as const);
  const size = input.kind === "ok" ? step.input?.sizeOfLast?.() : undefined;
  const excess = size && inputExcess(draft, step, fan, size);
  if (excess) {
    setFan(draft, step, { ...fan, endsAs: "FAILED", error: excess });
    return;
  }
  const spawned: Writable<Fan> = { ...fan, spawned: index + 1 };
  if (size) spawned.inputBytes = (fan.inputBytes ?? 0) + size.bytes;
  const start = input.kind === "bad" ? null : startOf(draft, step, input.value, child);
  if (input.kind === "bad" || start === null || "problem" in start) {
    const { problem = "", name = "ExpressionFailed" } =
      input.kind === "bad" ? input : start && "problem" in start ? start : {};
    const error = fault(name, `item ${index}: ${problem}`);
    draft.failedStarts += 1;
    countChild(draft, step, each, { ...spawned, open: spawned.open + 1 }, index, error);
    return;
  }
  setFan(draft, step, { ...spawned, open: spawned.open + 1 });
  // Children share the step's deadline.
  draft.starts.push(fan.dueMs === undefined ? start : { ...start, timeoutMs: fan.dueMs - draft.nowMs });
}

/** `size`: of the next input. */
function inputExcess({ limits }: Draft, step: PlanStep, fan: Fan, { bytes, itemBytes }: OutputSize): WireError | null {
  const { inputBytes = 0, count, spawned } = fan;
  const atLeast = inputBytes + bytes + (bytes - itemBytes) * (count - spawned - 1);
  const max = limits.listInputBytesMax;
  if (atLeast <= max) return null;
  const problem =
    `the inputs of the ${count} items of step \`${step.id}\` have at least ${atLeast} bytes; the limit is ${max} bytes ` +
    "(`limits.list_input_bytes_max`); pass `item` instead of a value that all items share, or a pointer to that value";
  return fault("TooLarge", problem);
}

/** Ends the step as TIMEOUT at its deadline. */
export function expireFan(draft: Draft, step: PlanStep, each: ForEach): void {
  const fan = draft.step(step.id)?.fan;
  if (!fan || draft.stateOf(step.id) !== "RUNNING" || fan.endsAs !== undefined || !isExpired(draft, fan)) return;
  const expired: Fan = { ...fan, endsAs: "TIMEOUT" };
  setFan(draft, step, expired);
  settleFan(draft, step, each, expired);
}

const isExpired = ({ nowMs }: Draft, { dueMs }: Fan): boolean => dueMs !== undefined && nowMs >= dueMs;

/** `problem`: the child succeeded, but its output does not match the step's schema. */
export function endChild(draft: Draft, step: PlanStep, each: ForEach, job: Job, problem: WireError | null): void {
  const fan = draft.step(step.id)?.fan;
  if (!fan || draft.stateOf(step.id) !== "RUNNING") return;
  const index = job.step?.index ?? 0;
  const error = problem ?? (job.state === "SUCCEEDED" ? null : (job.error ?? fault("StepFailed", job.state)));
  // Children share the step's deadline: a child that timed out at that time means the step did, too.
  const isTimeout = job.state === "TIMEOUT" && isExpired(draft, fan) && fan.endsAs === undefined;
  countChild(draft, step, each, isTimeout ? { ...fan, endsAs: "TIMEOUT" } : fan, index, error);
  // The step ends with its last child, before later events of the batch.
  const ended = draft.step(step.id)?.fan;
  if (ended && (ended.endsAs !== undefined || ended.spawned >= ended.count)) settleFan(draft, step, each, ended);
}

export function stopChildren(draft: Draft, step: PlanStep, each: ForEach, count: number): void {
  const fan = draft.step(step.id)?.fan;
  if (!fan) return;
  const stopped = { ...fan, open: fan.open - count, cancelled: fan.cancelled + count };
  setFan(draft, step, stopped);
  settleFan(draft, step, each, stopped);
}

function countChild(
  draft: Draft,
  step: PlanStep,
  each: ForEach,
  fan: Fan,
  index: number,
  error: WireError | null,
): void {
  const ended = { ...fan, open: fan.open - 1 };
  if (error === null) {
    setFan(draft, step, { ...ended, succeeded: ended.succeeded + 1 });
    return;
  }
  if (ended.failed < FAILURE_LINES_MAX) {
    draft.addLine("child_failed", {
      stepId: step.id,
      index,
      jobId: stepJobId(draft.run.id, step.id, index, fan),
      why: error.message,
      cause: draft.step(step.id)?.line,
    });
  }
  const failed = { ...ended, failed: ended.failed + 1, error: ended.error ?? error };
  const isOver = each.mode === "fail_fast" && failed.failed > each.failuresMax && failed.endsAs === undefined;
  setFan(draft, step, isOver ? { ...failed, endsAs: "FAILED" } : failed);
}

/** Ends the step when no child is open and none is left to create. */
function settleFan(draft: Draft, step: PlanStep, each: ForEach, fan: Fan): void {
  if (fan.open > 0) return;
  const error = fan.error ?? fault("StepFailed", `children of step \`${step.id}\` failed`);
  const cause = draft.run.endsAs?.line;
  if (fan.endsAs === "CANCELLED") cancelStep(draft, step, draft.step(step.id)?.why ?? "the run ended", cause);
  else if (fan.endsAs === "TIMEOUT") settleStep(draft, step, "TIMEOUT", { error: timeoutFault(fan) });
  else if (fan.endsAs !== undefined || fan.failed > each.failuresMax) settleStep(draft, step, "FAILED", { error });
  else {
    const output = { kind: "children", count: fan.count } as const;
    const { iteration } = fan;
    settleStep(draft, step, "SUCCEEDED", { output: iteration === undefined ? output : { ...output, iteration } });
  }
}

function timeoutFault({ count, succeeded }: Fan): WireError {
  return fault("DeadlineExceeded", `${succeeded} of ${count} items completed before the deadline`);
}

function setFan(draft: Draft, step: PlanStep, fan: Fan): void {
  const before = draft.step(step.id);
  if (before) draft.setStep(step.id, { ...before, fan });
}

export const ITEMS_MAX = 10_000;

/**
 * `for_each` over a step that needs no time: all items run in the commit that starts it, without child jobs.
 *
 * 1. `failure` applies as for children: a failed item has the output null and chooses no arm.
 * 2. The total cost is bounded, because it blocks the event loop.
 */
export function runInline(draft: Draft, step: PlanStep, each: ForEach, list: readonly unknown[]): void {
  const outputs: unknown[] = [];
  const arms = new Set<string>();
  let [bytes, steps, failed] = [0, 0, 0];
  let error: WireError | undefined;
  for (const [index, item] of list.entries()) {
    const done = runItem(draft, step, { item, index });
    steps += costOfItem(step);
    if (steps > COST_MAX) {
      error = fault("ExpressionFailed", `evaluation limit exceeded at item ${index}; use a worker step`);
      settleStep(draft, step, "FAILED", { error });
      return;
    }
    if ("error" in done) {
      error ??= done.error;
      failed += 1;
      if (each.mode === "fail_fast") break;
      if (failed <= FAILURE_LINES_MAX) addItemFailure(draft, step, index, done.error);
    } else if (done.arm !== undefined) arms.add(done.arm);
    const value = "error" in done ? null : done.value;
    outputs.push(value);
    // Stop early instead of accumulating outputs that exceed the limit.
    bytes += bytesOf(JSON.stringify(value ?? null));
    if (bytes > draft.limits.blobBytesMax) break;
  }
  const isFailed = failed > each.failuresMax;
  const output = isFailed ? null : draft.store(outputs);
  if (!output) {
    settleStep(draft, step, "FAILED", { error: isFailed ? error : tooLarge("the output") });
    return;
  }
  if (arms.size > 0)
    draft.addLine("arm_chosen", { stepId: step.id, why: [...arms].join(", "), cause: draft.step(step.id)?.line });
  settleStep(draft, step, "SUCCEEDED", { output, arms: isChoice(step) ? [...arms] : undefined });
}

type Done = { readonly value: unknown; readonly arm?: string } | { readonly error: WireError };

function runItem(draft: Draft, step: PlanStep, child: Item): Done {
  const failed = (name: string, problem: string) => ({ error: fault(name, `item ${child.index}: ${problem}`) });
  const input = inputOf(draft, step, child);
  if (input.kind === "bad") return failed(input.name, input.problem);
  const done = inlineResult(draft, step, input.value, child);
  if (done.kind === "bad") return failed("ExpressionFailed", done.problem);
  const problem = madeFault(draft, step, done.value);
  return problem ? failed(problem.name ?? "OutputInvalid", problem.message) : done;
}

function addItemFailure(draft: Draft, step: PlanStep, index: number, { message }: WireError): void {
  draft.addLine("child_failed", { stepId: step.id, index, why: message, cause: draft.step(step.id)?.line });
}

const isChoice = ({ act: { type } }: PlanStep): boolean => type === "condition" || type === "switch";

/** Evaluation cost of the last item. */
function costOfItem({ input, act }: PlanStep): number {
  const asked = act.type === "condition" ? act.question : act.type === "switch" ? act.value : null;
  const own = act.type === "notify" ? act.message : asked;
  return (input?.stepsOfLast?.() ?? 0) + (own?.stepsOfLast?.() ?? 0);
}

/** Evaluation steps per step of a workflow, over all its items: a few tenths of a second. */
const COST_MAX = 4_000_000;
/** Failed items shown in the timeline; the others appear in the counts and on their jobs. */
export const FAILURE_LINES_MAX = 10;
