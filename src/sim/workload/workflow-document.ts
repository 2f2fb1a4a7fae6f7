import { listOf } from "../reference/run-reference.ts";
import type { SimStep, SimWorkflow } from "./run-plan.ts";

/** A drawn workflow as a workflow document. */
export function documentOf(workflow: SimWorkflow): Record<string, unknown> {
  const { id, timeoutSec, steps } = workflow;
  const written = steps.map((step) => [step.id, stepOf(step, listOf(workflow, step) !== null)] as const);
  const bodies = steps.flatMap(({ loop }) => loop?.body ?? []);
  for (const { id: loopId, loop } of steps) {
    const own = written.find(([other]) => other === loopId)?.[1];
    if (loop && own) own.steps = Object.fromEntries(written.filter(([other]) => loop.body.includes(other)));
  }
  return {
    id,
    ...(timeoutSec !== null && { timeout_sec: timeoutSec }),
    steps: Object.fromEntries(written.filter(([other]) => !bodies.includes(other))),
  };
}

function stepOf(step: SimStep, hasItem: boolean): Record<string, unknown> {
  const { fan, chosen } = step;
  return {
    ...typeOf(step, hasItem),
    ...(step.dependsOn.length > 0 && { depends_on: step.dependsOn }),
    ...(step.onError !== "fail" && { on_error: step.onError }),
    ...(step.when !== null && { condition: expressionOf(step.when) }),
    ...(step.timeoutSec !== null && { timeout_sec: step.timeoutSec }),
    ...(typeof chosen === "object" && { for_each: JSON.stringify(chosen.map(itemOf)) }),
    ...(fan && {
      for_each: `[${Array.from({ length: fan.count }, (_, index) => index).join(", ")}]`,
      max_parallel: fan.parallelMax,
      failure: fan.isFailFast ? "fail_fast" : fan.failuresMax === 0 ? "wait_all" : { tolerate: fan.failuresMax },
    }),
    ...(step.undo && {
      compensate: {
        topic: step.undo.topic,
        input: { ...inputOf(step, hasItem), output: "${step.output}" },
        ...UNDO_RETRY,
      },
    }),
  };
}

const UNDO_RETRY = { retry: { max_retries: 1, initial_backoff_sec: 1, max_backoff_sec: 3 } };

function typeOf(step: SimStep, hasItem: boolean): Record<string, unknown> {
  switch (step.kind) {
    case "worker":
      return { type: "worker", topic: step.topic, input: inputOf(step, hasItem), ...retryOf(step) };
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
    case "wait":
      return {
        type: "wait",
        event: step.awaits?.event,
        ...(step.awaits?.key && { correlate: "string(input.number)" }),
      };
    case "count":
      return { type: "transform", input: { n: `\${iteration == 1 ? 1 : previous["${step.id}"].output.n + 1}` } };
    case "loop": {
      const { body = [], untilIteration = 1, iterationsMax: max_iterations = 1 } = step.loop ?? {};
      return { type: "loop", until: `steps["${body[0]}"].output.n >= ${untilIteration}`, max_iterations };
    }
    default:
      return step.kind satisfies never;
  }
}

/** The input identifies order and step, for the payload checker. */
function inputOf({ id }: SimStep, hasItem: boolean): Record<string, unknown> {
  return { number: "${input.number}", step: id, text: "${input.text}", ...(hasItem && { index: "${index}" }) };
}

function retryOf({ retriesMax }: SimStep): Record<string, unknown> {
  if (retriesMax === null) return {};
  return { retry: { max_retries: retriesMax, initial_backoff_sec: 1, max_backoff_sec: 3 } };
}

function choiceOf({ arms, chosen }: SimStep): Record<string, unknown> {
  if ("then" in arms) {
    const answer = chosen === "fault" ? "fault" : chosen === "then";
    const condition = typeof chosen === "object" ? "item == 'then'" : expressionOf(answer);
    return { type: "condition", condition, ...nonEmpty(arms) };
  }
  const { default: otherwise = [], ...cases } = arms;
  return {
    type: "switch",
    switch: typeof chosen === "object" ? "item" : chosen === "fault" ? "input.nothing.there" : `'${itemOf(chosen)}'`,
    cases: nonEmpty(cases),
    ...(otherwise.length > 0 && { default: otherwise }),
  };
}

/** The value that selects an arm; any value without a case selects `default`. */
const itemOf = (arm: string): string => (arm === "default" ? "green" : arm);
const expressionOf = (answer: boolean | "fault"): string => (answer === "fault" ? "input.nothing.there" : `${answer}`);

function nonEmpty(arms: Readonly<Record<string, readonly string[]>>): Record<string, readonly string[]> {
  return Object.fromEntries(Object.entries(arms).filter(([, ids]) => ids.length > 0));
}
