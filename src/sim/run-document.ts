import type { SimStep, SimWorkflow } from "./run-plan.ts";

/** A drawn workflow as somebody would have written it. */
export function documentOf({ id, timeoutSec, steps }: SimWorkflow): Record<string, unknown> {
  return {
    id,
    ...(timeoutSec !== null && { timeout_sec: timeoutSec }),
    steps: Object.fromEntries(steps.map((step) => [step.id, stepOf(step)])),
  };
}

function stepOf(step: SimStep): Record<string, unknown> {
  const { fan } = step;
  return {
    ...typeOf(step),
    ...(step.dependsOn.length > 0 && { depends_on: step.dependsOn }),
    ...(step.onError !== "fail" && { on_error: step.onError }),
    ...(step.when !== null && { condition: questionOf(step.when) }),
    ...(step.timeoutSec !== null && step.act === "job" && { timeout_sec: step.timeoutSec }),
    ...(fan && {
      for_each: `[${Array.from({ length: fan.count }, (_, index) => index).join(", ")}]`,
      max_parallel: fan.parallelMax,
      failure: fan.isFailFast ? "fail_fast" : fan.failuresMax === 0 ? "wait_all" : { tolerate: fan.failuresMax },
    }),
  };
}

function typeOf(step: SimStep): Record<string, unknown> {
  switch (step.kind) {
    case "worker":
      return { type: "worker", topic: step.topic, input: inputOf(step), ...retryOf(step) };
    case "approval":
      return { type: "approval", reason: `may \`${step.id}\` go on?` };
    case "delay":
      return { type: "delay", delay_sec: step.delayMs / 1_000 };
    case "subworkflow":
      return { type: "subworkflow", workflow: step.workflowId, input: "${input}" };
    case "transform":
      return { type: "transform", input: { seen: "${input.number}" } };
    case "notify":
      return { type: "notify", message: "number ${input.number}" };
    case "choice":
      return choiceOf(step);
    case "parallel":
      return { type: "parallel", branches: step.branches, join: "n_of_m", n: step.need };
    default:
      return step.kind satisfies never;
  }
}

/** Every worker sees whose input it has got. */
function inputOf({ id, fan }: SimStep): Record<string, unknown> {
  return { number: "${input.number}", step: id, text: "${input.text}", ...(fan && { index: "${index}" }) };
}

function retryOf({ retriesMax }: SimStep): Record<string, unknown> {
  if (retriesMax === null) return {};
  return { retry: { max_retries: retriesMax, initial_backoff_sec: 1, max_backoff_sec: 3 } };
}

function choiceOf({ arms, chosen }: SimStep): Record<string, unknown> {
  if ("then" in arms) {
    const answer = chosen === "fault" ? "fault" : chosen === "then";
    return { type: "condition", condition: questionOf(answer), ...filled(arms) };
  }
  const { default: otherwise = [], ...cases } = arms;
  return {
    type: "switch",
    switch: chosen === "fault" ? "input.nothing.there" : `'${chosen === "default" ? "green" : chosen}'`,
    cases: filled(cases),
    ...(otherwise.length > 0 && { default: otherwise }),
  };
}

const questionOf = (answer: boolean | "fault"): string => (answer === "fault" ? "input.nothing.there" : `${answer}`);

function filled(arms: Readonly<Record<string, readonly string[]>>): Record<string, readonly string[]> {
  return Object.fromEntries(Object.entries(arms).filter(([, ids]) => ids.length > 0));
}
