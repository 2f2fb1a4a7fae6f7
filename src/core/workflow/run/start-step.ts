import type { Payload } from "../../model/job.ts";
import { fitsWithin } from "../../model/json.ts";
import { stepJobId } from "../../model/run.ts";
import type { WireError } from "../../retry/intent.ts";
import { parseTime } from "../definition/fields.ts";
import { WORKFLOW_LIMITS } from "../definition/limits.ts";
import type { Act, Evaluated, PlanStep, Template } from "../definition/plan.ts";
import { bytesOf, type Draft, fault, type Start, tooLarge } from "./run-draft.ts";
import { settleStep } from "./settle.ts";

/**
 * Starts a step. Steps that need no time complete at once; others become a job (`StepRef` in `model/job.ts`). Errors in
 * expressions or input fail the step.
 */
export function startStep(draft: Draft, step: PlanStep, cause: number | undefined): void {
  const input = inputOf(draft, step, null);
  if (input.kind === "bad") {
    failStep(draft, step, input.name, input.problem, cause);
    return;
  }
  if (isInline(step)) {
    completeInline(draft, step, input.value, cause);
    return;
  }
  if (step.act.type === "parallel") {
    const line = draft.addLine("step_started", { stepId: step.id, cause });
    const due = step.timeoutMs === null ? {} : { dueMs: draft.nowMs + step.timeoutMs };
    draft.setStep(step.id, { state: "RUNNING", startedMs: draft.nowMs, line, ...due });
    return;
  }
  const start = startOf(draft, step, input.value, null);
  if ("problem" in start) {
    failStep(draft, step, start.name ?? "ExpressionFailed", start.problem, cause);
    return;
  }
  const jobId = stepJobId(draft.run.id, step.id, null, start);
  const line = draft.addLine("step_started", { stepId: step.id, jobId, cause });
  draft.setStep(step.id, { state: "RUNNING", startedMs: draft.nowMs, jobId, line });
  draft.starts.push(start);
}

function completeInline(draft: Draft, step: PlanStep, input: unknown, cause: number | undefined): void {
  const line = draft.addLine("step_started", { stepId: step.id, cause });
  draft.setStep(step.id, { state: "RUNNING", startedMs: draft.nowMs, line });
  const done = inlineResult(draft, step, input, null);
  if (done.kind === "bad") {
    failStep(draft, step, "ExpressionFailed", done.problem, line);
    return;
  }
  const { arm, value } = done;
  const problem = madeFault(draft, step, value);
  if (problem) {
    settleStep(draft, step, "FAILED", { error: problem });
    return;
  }
  if (arm !== undefined) draft.addLine("arm_chosen", { stepId: step.id, why: arm, cause: line });
  const output = draft.store(value);
  if (output) settleStep(draft, step, "SUCCEEDED", { output, arm });
  else settleStep(draft, step, "FAILED", { error: tooLarge("the output") });
}

export function failStep(draft: Draft, step: PlanStep, name: string, problem: string, cause: number | undefined): void {
  settleStep(draft, step, "FAILED", { error: fault(name, problem), cause });
}

/** Why an output fails its step, or its item of a list. The output of a job was measured when it was accepted. */
export function outputFault({ outputSchema }: PlanStep, output: unknown): WireError | null {
  const problems = outputSchema?.problemsOf(output) ?? [];
  if (problems.length === 0) return null;
  return fault("OutputInvalid", `output does not match its schema: ${problems.join("; ")}`);
}

/** The same for the output of a job. */
export function outputProblem(draft: Draft, step: PlanStep, output: Payload | null): WireError | null {
  if (!step.outputSchema) return null;
  const read = output === null ? NOTHING : draft.valueOf(output, step.id);
  return read.kind === "bad" ? read.error : outputFault(step, read.value);
}

/** The same for an output that no job made. */
export function madeFault({ limits }: Draft, step: PlanStep, output: unknown): WireError | null {
  const max = step.outputBytesMax ?? limits.outputBytesMax;
  // Larger values are refused when they are stored.
  if (max >= limits.blobBytesMax || fitsWithin(output, max)) return outputFault(step, output);
  const origin = step.outputBytesMax === null ? "`limits.step_output_bytes_max`" : "`max_output_bytes`";
  const bytes = bytesOf(JSON.stringify(output ?? null));
  return fault("TooLarge", `output has ${bytes} bytes; ${origin} of step \`${step.id}\` is ${max}`);
}

const NOTHING = { kind: "ok", value: null } as const;

export interface Item {
  readonly item: unknown;
  readonly index: number;
}

type Child = Item | null;

type Rendered =
  | { readonly kind: "ok"; readonly value: unknown }
  | { readonly kind: "bad"; readonly name: string; readonly problem: string };

/** The rendered and validated input of the step or of one child. */
export function inputOf(draft: Draft, step: PlanStep, child: Child): Rendered {
  const rendered = rawInputOf(draft, step, child);
  if (rendered.kind === "bad")
    return { kind: "bad", name: "ExpressionFailed", problem: `\`input\`: ${rendered.problem}` };
  const problems = step.inputSchema?.problemsOf(rendered.value) ?? [];
  if (problems.length === 0) return rendered;
  return { kind: "bad", name: "InputInvalid", problem: `input does not match its schema: ${problems.join("; ")}` };
}

function rawInputOf(draft: Draft, step: PlanStep, child: Child): Evaluated {
  if (step.input) return step.input.render(draft.scope(step, step.input.refs, child));
  if (child) return { kind: "ok", value: child.item };
  const needsInput = step.act.type === "worker" || step.act.type === "subworkflow" || step.act.type === "transform";
  const input = needsInput ? draft.valueOf(draft.run.input, "") : ({ kind: "ok", value: null } as const);
  return input.kind === "ok" ? input : { kind: "bad", problem: input.error.message };
}

type Done =
  | { readonly kind: "done"; readonly value: unknown; readonly arm?: string }
  | { readonly kind: "bad"; readonly problem: string };

/** Steps that complete without a job. */
export const isInline = ({ act: { type } }: PlanStep): boolean =>
  type === "transform" || type === "notify" || type === "condition" || type === "switch";

/** The result of such a step, after it has started. */
export function inlineResult(draft: Draft, step: PlanStep, input: unknown, child: Child): Done {
  const { act } = step;
  switch (act.type) {
    case "transform":
      return { kind: "done", value: input };
    case "notify": {
      const message = act.message.render(draft.scope(step, act.message.refs, child));
      if (message.kind === "bad") return { kind: "bad", problem: `\`message\`: ${message.problem}` };
      const text = asText(message.value);
      draft.notifications.push({ stepId: step.id, level: act.level, message: text.slice(0, NOTIFICATION_LENGTH_MAX) });
      if (!child || child.index < CHILD_LINES_MAX) {
        const cause = draft.step(step.id)?.line;
        draft.addLine("notified", { stepId: step.id, why: text, index: child?.index, cause });
      }
      return { kind: "done", value: { message: text } };
    }
    case "condition": {
      const answer = act.question.evaluate(draft.scope(step, act.question.refs, child));
      if (answer.kind === "bad") return { kind: "bad", problem: `\`condition\`: ${answer.problem}` };
      if (typeof answer.value !== "boolean") return { kind: "bad", problem: "`condition` is not a boolean" };
      return { kind: "done", value: answer.value, arm: answer.value ? "then" : "else" };
    }
    case "switch": {
      const value = act.value.evaluate(draft.scope(step, act.value.refs, child));
      if (value.kind === "bad") return { kind: "bad", problem: `\`switch\`: ${value.problem}` };
      const text = asText(value.value);
      const arm = act.cases.includes(text) ? text : "default";
      return { kind: "done", value: arm, arm };
    }
    case "worker":
    case "approval":
    case "delay":
    case "parallel":
    case "subworkflow":
    case "wait":
    case "loop":
      return { kind: "bad", problem: `a \`${act.type}\` step needs a job` };
    default:
      return act satisfies never;
  }
}

/** Why no job can be created; `name` defaults to `ExpressionFailed`. */
interface Refused {
  readonly problem: string;
  readonly name?: string;
}

/** The job spec of a step, or of one child. */
export function startOf(draft: Draft, step: PlanStep, input: unknown, child: Child): Start | Refused {
  const start = specOf(draft, step, input, child);
  return step.loopOf === null || "problem" in start ? start : { ...start, iteration: draft.iterationOf(step) ?? 1 };
}

function specOf(draft: Draft, step: PlanStep, input: unknown, child: Child): Start | Refused {
  const { act, meta, retry, timeoutMs } = step;
  const index = child?.index ?? null;
  const stepId = step.id;
  // Hot path: a literal instead of spreads.
  if (act.type === "worker") {
    const start: Start = { stepId, index, kind: "worker", topic: act.topic, input, meta, retry, timeoutMs };
    return step.outputBytesMax === null ? start : { ...start, outputBytesMax: step.outputBytesMax };
  }
  const sized = step.outputBytesMax === null ? {} : { outputBytesMax: step.outputBytesMax };
  const common = { stepId, index, input, meta, retry, timeoutMs, ...sized } as const;
  switch (act.type) {
    case "approval": {
      const reason = renderText(draft, step, act.reason, child, `step \`${step.id}\` requires approval`);
      if (reason.kind === "bad") return { problem: `\`reason\`: ${reason.problem}` };
      return {
        ...common,
        kind: "approval",
        topic: TOPICS.approval,
        reason: reason.value,
        bySubmitter: act.bySubmitter,
      };
    }
    case "delay": {
      const until = untilOf(draft, step, act, child);
      return until.kind === "bad" ? until : { ...common, kind: "delay", topic: TOPICS.delay, untilMs: until.value };
    }
    case "subworkflow": {
      const { workflowId, version } = act;
      const which = { workflowId, ...(version === null ? {} : { version }) };
      return { ...common, kind: "subworkflow", topic: TOPICS.subworkflow, ...which };
    }
    case "transform":
    case "notify":
    case "condition":
    case "switch":
    case "parallel":
    case "wait":
    case "loop":
      return { problem: `a \`${act.type}\` step needs no job` };
    default:
      return act satisfies never;
  }
}

/** Topics of step jobs that are never sent to workers. */
export const TOPICS = {
  approval: "cordum.approval",
  delay: "cordum.delay",
  subworkflow: "cordum.subworkflow",
} as const;

function untilOf(draft: Draft, step: PlanStep, act: Extract<Act, { type: "delay" }>, child: Child): Until {
  const template = act.forSec ?? act.until;
  if (!template) return { kind: "bad", problem: "neither `delay_sec` nor `delay_until`" };
  const rendered = template.render(draft.scope(step, template.refs, child));
  if (rendered.kind === "bad") return rendered;
  const { value } = rendered;
  const untilMs = act.forSec ? afterSec(draft, value) : parseTime(value);
  if (untilMs === null || untilMs > draft.nowMs + UNTIL_MS_MAX) {
    const what = act.forSec
      ? `\`delay_sec\` must be from 0 to ${WORKFLOW_LIMITS.timeoutSec}`
      : "`delay_until` must be a time such as `2030-01-01T00:00:00Z`, at most a year ahead";
    return { kind: "bad", problem: `${what}, got ${asText(value)}` };
  }
  const { deadlineMs } = draft.run;
  if (untilMs > draft.nowMs && untilMs >= deadlineMs) {
    const [end, deadline] = [untilMs, deadlineMs].map((ms) => new Date(ms).toISOString());
    const problem = `the delay ends at ${end}, after the run deadline ${deadline}; raise \`timeout_sec\` of the workflow`;
    return { kind: "bad", name: "DelayTooLong", problem };
  }
  return { kind: "ok", value: Math.max(untilMs, draft.nowMs) };
}

function afterSec(draft: Draft, value: unknown): number | null {
  const sec = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof sec !== "number" || !(sec >= 0 && sec <= WORKFLOW_LIMITS.timeoutSec)) return null;
  return Math.ceil(draft.nowMs + sec * 1_000);
}

type Until = { readonly kind: "ok"; readonly value: number } | ({ readonly kind: "bad" } & Refused);

function renderText(
  draft: Draft,
  step: PlanStep,
  template: Template | null,
  child: Child,
  fallback: string,
): { readonly kind: "ok"; readonly value: string } | { readonly kind: "bad"; readonly problem: string } {
  if (!template) return { kind: "ok", value: fallback };
  const rendered = template.render(draft.scope(step, template.refs, child));
  return rendered.kind === "bad" ? rendered : { kind: "ok", value: asText(rendered.value).slice(0, REASON_LENGTH_MAX) };
}

const asText = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? "null"));

/** Brokers may refuse larger messages; the step's output holds the full text. */
const NOTIFICATION_LENGTH_MAX = 10_000;
/** Notifications of a `for_each` shown in the timeline. */
const CHILD_LINES_MAX = 10;
const UNTIL_MS_MAX = 366 * 24 * 3_600_000;
const REASON_LENGTH_MAX = 1_000;
