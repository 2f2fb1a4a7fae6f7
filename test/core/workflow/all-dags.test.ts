import { describe, expect, it } from "vitest";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";
import type { Plan, PlanStep } from "../../../src/core/workflow/definition/plan.ts";
import { advance } from "../../../src/core/workflow/run/advance.ts";
import { type Case, documentOf, mixedCases, plainCases, rareCases, someCases, undoCases } from "./enumerate.ts";
import { planByHand } from "./enumerate-plan.ts";
import { type Engine, walk } from "./reference-walk.ts";

/**
 * Compares the engine with a reference implementation (`run-reference.ts`), which shares no code with it, in every
 * state of all small workflows.
 */
describe("the engine and the reference agree", () => {
  it.each([
    { about: "all 64 graphs of 4 steps, done, failed or failed and carried on", cases: plainCases, count: 5_184 },
    { about: "arms, handlers, joins and conditions among 3 steps", cases: mixedCases, count: 14_376 },
    { about: "lists, faults, refusals and timeouts among 2 and 3 steps", cases: rareCases, count: 3_339 },
    { about: "compensations in a fifth of them", cases: undoCases, count: 1_829 },
  ])("in $count cases and more orders: $about", ({ cases, count }) => {
    const found = compare(cases(), advance);
    expect(found.problems).toEqual([]);
    expect(found.cases).toBe(count);
    expect(found.moments).toBeGreaterThan(3 * count);
  });
});

describe("the comparison detects a wrong engine", () => {
  it.each<{ readonly about: string; readonly cases: () => Iterable<Case>; readonly engine: Engine }>([
    { about: "starts a step one dependency early", cases: plainCases, engine: withSteps(oneDependencyLess) },
    { about: "does not propagate skips", cases: someCases, engine: forgetsSkips },
    { about: "ignores failures", cases: plainCases, engine: withSteps(contentWithFailures) },
    { about: "leaves jobs open when the run ends", cases: plainCases, engine: leavesOpen },
    {
      about: "always runs handlers",
      cases: someCases,
      engine: withSteps((step) => ({ ...step, handles: [] })),
    },
    { about: "takes both arms", cases: someCases, engine: withSteps((step) => ({ ...step, arms: [] })) },
    { about: "requires one branch less", cases: someCases, engine: withSteps(oneBranchLess) },
    { about: "opens too many children", cases: rareCases, engine: withSteps(widerFan) },
    { about: "evaluates an item condition once", cases: rareCases, engine: withSteps(askedOnce) },
    { about: "runs a repeated branch once", cases: rareCases, engine: withSteps(branchOnce) },
    {
      about: "ignores timeouts of parallel steps",
      cases: someCases,
      engine: withSteps((step) => ({ ...step, timeoutMs: null })),
    },
    { about: "applies only the first of several ends", cases: plainCases, engine: takesOnlyFirst },
    { about: "creates a job twice", cases: plainCases, engine: startsAgain },
    { about: "undoes the first step first", cases: undoCases, engine: undoesFirstFirst },
    {
      about: "does not undo the last step",
      cases: undoCases,
      engine: withSteps((step) => (step.dependents.length === 0 ? { ...step, compensate: null } : step)),
    },
    {
      about: "undoes the items of a list at once",
      cases: undoCases,
      engine: withSteps((step) => (step.compensate ? widerFan(step) : step)),
    },
    { about: "ends a run before its compensations", cases: undoCases, engine: endsEarly },
  ])("that $about", ({ cases, engine }) => {
    expect(firstProblem(cases(), engine)).not.toBeNull();
  });
});

describe("the compiler and the handmade plan agree", () => {
  it("on dependencies, for every relation between three steps", () => {
    let compared = 0;
    for (const { workflow, name } of [...someCases(), ...rareCases()]) {
      if (/fail|denied|timeout|cancelled|now/.test(name)) continue;
      const compiled = compileWorkflow(documentOf(workflow));
      // Unreachable steps are rejected; the compiler's own tests cover that.
      if (compiled.kind === "bad") {
        expect(`${name}: ${compiled.problems.join("; ")}`).toMatch(/unreachable|itself|cannot be a branch/);
        continue;
      }
      expect(shapeOf(compiled.plan), name).toEqual(shapeOf(planByHand(workflow)));
      compared += 1;
    }
    expect(compared).toBeGreaterThan(200);
  });
});

/** The parts of a plan that need no evaluation. */
function shapeOf({ steps }: Plan): object {
  return Object.fromEntries(
    [...steps].map(([id, { act, dependsOn, dependents, branchOf, handles, arms, onError, forEach }]) => [
      id,
      {
        ...{ branchOf, arms, onError, act: act.type, need: act.type === "parallel" ? act.need : null },
        dependsOn: [...dependsOn].sort(),
        dependents: [...dependents].sort(),
        handles: [...handles].sort(),
        each: forEach && [forEach.mode, forEach.parallelMax, forEach.failuresMax],
      },
    ]),
  );
}

function compare(cases: Iterable<Case>, engine: Engine): { cases: number; moments: number; problems: string[] } {
  const problems: string[] = [];
  let [count, moments] = [0, 0];
  for (const each of cases) {
    const walked = walk(each, planByHand(each.workflow), engine);
    count += 1;
    moments += walked.moments;
    if (walked.problem !== null && problems.length < 5) problems.push(walked.problem);
  }
  return { cases: count, moments, problems };
}

function firstProblem(cases: Iterable<Case>, engine: Engine): string | null {
  for (const each of cases) {
    const { problem } = walk(each, planByHand(each.workflow), engine);
    if (problem !== null) return problem;
  }
  return null;
}

/** The engine on a modified plan. */
function withSteps(change: (step: PlanStep) => PlanStep): Engine {
  return (plan, ...rest) => {
    const steps = new Map([...plan.steps].map(([id, step]) => [id, change(step)]));
    return advance({ ...plan, steps } satisfies Plan, ...rest);
  };
}

const contentWithFailures = (step: PlanStep): PlanStep => ({ ...step, onError: { kind: "continue" } });
const leavesOpen: Engine = (...all) => ({ ...advance(...all), stops: [] });
const takesOnlyFirst: Engine = (plan, run, events, ...rest) => advance(plan, run, events.slice(0, 1), ...rest);

function oneDependencyLess(step: PlanStep): PlanStep {
  return step.dependsOn.length < 2 ? step : { ...step, dependsOn: step.dependsOn.slice(1) };
}

function oneBranchLess(step: PlanStep): PlanStep {
  const { act } = step;
  return act.type === "parallel" && act.need > 1 ? { ...step, act: { ...act, need: act.need - 1 } } : step;
}

function widerFan(step: PlanStep): PlanStep {
  return step.forEach ? { ...step, forEach: { ...step.forEach, parallelMax: 1_000 } } : step;
}

const askedOnce = (step: PlanStep): PlanStep => (step.act.type === "condition" ? { ...step, forEach: null } : step);
const branchOnce = (step: PlanStep): PlanStep => (step.branchOf === null ? step : { ...step, forEach: null });

/** Later lines count as earlier ones. */
const undoesFirstFirst: Engine = (plan, run, ...rest) => {
  const steps = Object.entries(run.steps).map(([id, step]) => {
    const { line = 0 } = step;
    return [id, line > LINE_MAX ? step : { ...step, line: 2 * LINE_MAX - line }] as const;
  });
  return advance(plan, { ...run, steps: Object.fromEntries(steps) }, ...rest);
};
const LINE_MAX = 10_000;

function endsEarly(...all: Parameters<Engine>): ReturnType<Engine> {
  const advanced = advance(...all);
  const { endsAs, compensation } = advanced.run;
  if (endsAs === undefined || compensation === undefined) return advanced;
  return { ...advanced, run: { ...advanced.run, state: endsAs.state } };
}

function forgetsSkips(...all: Parameters<Engine>): ReturnType<Engine> {
  const advanced = advance(...all);
  const kept = Object.entries(advanced.run.steps).filter(([, { why }]) => !why?.startsWith("all its dependencies"));
  return { ...advanced, run: { ...advanced.run, steps: Object.fromEntries(kept) } };
}

function startsAgain(...all: Parameters<Engine>): ReturnType<Engine> {
  const advanced = advance(...all);
  const [, , events] = all;
  const isEnd = events.some(({ kind }) => kind === "job_ended");
  const first = advance(all[0], { ...all[1], steps: {} }, [], all[3], all[4]).starts;
  return isEnd && advanced.run.state === "RUNNING" ? { ...advanced, starts: [...advanced.starts, ...first] } : advanced;
}
