import type {
  Act,
  Compensate,
  Expression,
  ForEach,
  OnError,
  Plan,
  PlanStep,
  Refs,
  StepMeta,
} from "../../../src/core/workflow/definition/plan.ts";
import type { RefStep, RefWorkflow } from "../../../src/sim/reference/model.ts";
import { dependenciesOf } from "../../../src/sim/reference/run-reference.ts";

/** A plan made by hand: the compiler's plan of the same workflow must lead to the same runs. */
export function planByHand(workflow: RefWorkflow): Plan {
  return {
    id: "small",
    name: null,
    timeoutMs: null,
    inputSchema: null,
    output: null,
    within: (_, work) => work(),
    order: workflow.steps.map(({ id }) => id),
    steps: new Map(workflow.steps.map((step) => [step.id, stepByHand(workflow, step)])),
  };
}

function stepByHand(workflow: RefWorkflow, step: RefStep): PlanStep {
  const around = workflow.steps.find(({ branches }) => branches.includes(step.id));
  return {
    id: step.id,
    act: actOf(step),
    dependsOn: dependenciesOf(workflow, step),
    dependents: workflow.steps.filter((other) => dependenciesOf(workflow, other).includes(step.id)).map(({ id }) => id),
    ancestors: new Set(),
    branchOf: around?.id ?? null,
    loopOf: null,
    handles: workflow.steps.filter(({ onError }) => onError === step.id).map(({ id }) => id),
    arms: workflow.steps.flatMap(({ id, arms }) => {
      const own = Object.keys(arms).filter((arm) => arms[arm]?.includes(step.id));
      return own.length === 0 ? [] : [{ stepId: id, arms: own }];
    }),
    condition: step.when === null ? null : saying(step.when),
    forEach: forEachOf(step, around),
    onError: onErrorOf(step.onError),
    timeoutMs: step.act === "parallel" ? PARALLEL_MS : null,
    ...{ outputPath: null, inputSchema: null, outputSchema: null, input: null, retry: null },
    outputBytesMax: null,
    compensate: step.isCompensated ? UNDO : null,
    meta: NO_META,
  };
}

const NO_META: StepMeta = {
  ...{ priority: null, labels: {}, riskTags: [], requires: [] },
  ...{ capability: null, actorId: null, actorType: null, packId: null },
};

/** Timeout of a `parallel` step; other steps have none. */
export const PARALLEL_MS = 60_000;

function forEachOf({ act, chosen, fan: own }: RefStep, around: RefStep | undefined): ForEach | null {
  if (typeof chosen === "object") {
    return { items: saying(chosen), parallelMax: 64, mode: "fail_fast", failuresMax: 0 };
  }
  const fan = act === "parallel" ? null : (around?.fan ?? own);
  return (
    fan && {
      items: saying(Array.from({ length: fan.count }, (_, index) => index)),
      parallelMax: fan.parallelMax,
      mode: fan.isFailFast ? "fail_fast" : "wait_all",
      failuresMax: fan.failuresMax,
    }
  );
}

function actOf({ act, chosen, branches, need }: RefStep): Act {
  switch (act) {
    case "job":
      return { type: "worker", topic: "work.alpha" };
    case "instant":
      return { type: "transform" };
    case "choice":
      if (typeof chosen === "object") return { type: "condition", question: askedOfEach(chosen) };
      return { type: "condition", question: saying(chosen === "fault" ? "fault" : chosen === "then") };
    case "parallel":
      return { type: "parallel", branches, need };
    case "wait":
    case "loop":
      throw new Error("not enumerated: the simulator covers waits and loops");
    default:
      return act satisfies never;
  }
}

function onErrorOf(onError: string): OnError {
  if (onError === "fail" || onError === "continue") return { kind: onError };
  return { kind: "step", stepId: onError };
}

const NONE: ReadonlySet<string> = new Set();
const NOTHING: Refs = { steps: NONE, input: false, context: false, own: NONE, previous: NONE, iteration: false };

const UNDO: Compensate = {
  topic: "work.undo",
  input: { refs: NOTHING, render: () => ({ kind: "ok", value: null }) },
  ...{ timeoutMs: null, retry: null, meta: NO_META },
};

function saying(value: unknown): Expression {
  return {
    refs: NOTHING,
    evaluate: () => (value === "fault" ? { kind: "bad", problem: "no such thing" } : { kind: "ok", value }),
  };
}

const askedOfEach = (chosen: readonly string[]): Expression => ({
  refs: NOTHING,
  evaluate: ({ index = 0 }) => ({ kind: "ok", value: chosen[index] === "then" }),
});
