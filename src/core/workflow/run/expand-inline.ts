import type { WireError } from "../../retry/intent.ts";
import type { ForEach, PlanStep } from "../definition/plan.ts";
import { doneAtOnce, type Item, inputOf, outputFault, outputKey } from "./begin-step.ts";
import { bytesOf, type Draft, fault, tooLarge } from "./run-draft.ts";
import { settleStep } from "./settle-step.ts";

/**
 * `for_each` over a step that needs no time: all items run in the commit that starts it, without child jobs.
 *
 * 1. `failure` applies as for children: a failed item has the output null and chooses no arm.
 * 2. The total cost is bounded, because it blocks the event loop.
 */
export function doAll(draft: Draft, step: PlanStep, each: ForEach, list: readonly unknown[]): void {
  const outputs: unknown[] = [];
  const arms = new Set<string>();
  let [bytes, steps, failed] = [0, 0, 0];
  let error: WireError | undefined;
  for (const [index, item] of list.entries()) {
    const done = doOne(draft, step, { item, index });
    steps += stepsOfLast(step);
    if (steps > STEPS_MAX) {
      error = fault("ExpressionFailed", `took too long by item ${index}: let workers do it`);
      settleStep(draft, step, "FAILED", { error });
      return;
    }
    if ("error" in done) {
      error ??= done.error;
      failed += 1;
      if (each.mode === "fail_fast") break;
      if (failed <= FAILURES_TOLD) tell(draft, step, index, done.error);
    } else if (done.arm !== undefined) arms.add(done.arm);
    const value = "error" in done ? null : done.value;
    outputs.push(value);
    // Stop early instead of accumulating outputs that exceed the limit.
    bytes += bytesOf(JSON.stringify(value ?? null));
    if (bytes > draft.limits.blobBytesMax) break;
  }
  const isFailed = failed > each.failuresMax;
  const output = isFailed ? null : draft.keep(outputs, outputKey(draft, step));
  if (!output) {
    settleStep(draft, step, "FAILED", { error: isFailed ? error : tooLarge("its output") });
    return;
  }
  if (arms.size > 0)
    draft.note("arm_chosen", { stepId: step.id, why: [...arms].join(", "), cause: draft.step(step.id)?.line });
  settleStep(draft, step, "SUCCEEDED", { output, arms: isChoice(step) ? [...arms] : undefined });
}

type Done = { readonly value: unknown; readonly arm?: string } | { readonly error: WireError };

function doOne(draft: Draft, step: PlanStep, child: Item): Done {
  const failed = (name: string, problem: string) => ({ error: fault(name, `item ${child.index}: ${problem}`) });
  const input = inputOf(draft, step, child);
  if (input.kind === "bad") return failed(input.name, input.problem);
  const done = doneAtOnce(draft, step, input.value, child);
  if (done.kind === "bad") return failed("ExpressionFailed", done.problem);
  const problem = outputFault(step, done.value);
  return problem ? failed(problem.name ?? "OutputInvalid", problem.message) : done;
}

function tell(draft: Draft, step: PlanStep, index: number, { message }: WireError): void {
  draft.note("child_failed", { stepId: step.id, index, why: message, cause: draft.step(step.id)?.line });
}

const isChoice = ({ act: { type } }: PlanStep): boolean => type === "condition" || type === "switch";

/** Evaluation cost of the last item. */
function stepsOfLast({ input, act }: PlanStep): number {
  const asked = act.type === "condition" ? act.question : act.type === "switch" ? act.value : null;
  const own = act.type === "notify" ? act.message : asked;
  return (input?.stepsOfLast?.() ?? 0) + (own?.stepsOfLast?.() ?? 0);
}

/** Evaluation steps per step of a workflow, over all its items: a few tenths of a second. */
const STEPS_MAX = 4_000_000;
/** Failed items shown in the timeline; the others appear in the counts and on their jobs. */
export const FAILURES_TOLD = 10;
