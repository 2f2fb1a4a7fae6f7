import fc from "fast-check";
import { expect, test } from "vitest";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";

/** Links point forward, so that there are no cycles. */
interface Step {
  readonly isQuestion: boolean;
  /** Evaluated for each item of a list. */
  readonly isEach: boolean;
  readonly dependsOn: readonly number[];
  readonly yes: readonly number[];
  readonly no: readonly number[];
  /** A later step, or null. */
  readonly handler: number | null;
  readonly goesOn: boolean;
}

const COUNT = 6;
const steps = fc.tuple(...Array.from({ length: COUNT }, (_, at) => stepAt(at)));

function stepAt(at: number): fc.Arbitrary<Step> {
  const before = fc.uniqueArray(fc.nat({ max: Math.max(0, at - 1) }), { maxLength: at === 0 ? 0 : 2 });
  const after = fc.uniqueArray(fc.integer({ min: Math.min(at + 1, COUNT - 1), max: COUNT - 1 }), {
    maxLength: at === COUNT - 1 ? 0 : 2,
  });
  return fc.record({
    isQuestion: fc.boolean(),
    isEach: fc.boolean(),
    dependsOn: before,
    yes: after,
    no: after,
    handler: at === COUNT - 1 ? fc.constant(null) : fc.option(fc.integer({ min: at + 1, max: COUNT - 1 }), { freq: 1 }),
    goesOn: fc.boolean(),
  });
}

const id = (at: number) => `s${at}`;
const THEN = "then";

function documentOf(all: readonly Step[]) {
  const entries = all.map(({ isQuestion, isEach, dependsOn, yes, no, handler, goesOn }, at) => {
    const each = isEach ? { for_each: "[1, 2]" } : {};
    const arms = { type: "condition", condition: "true", [THEN]: yes.map(id), else: no.map(id), ...each };
    const onError = handler === null ? (goesOn ? "continue" : "fail") : id(handler);
    return [id(at), { ...(isQuestion ? arms : { topic: "x" }), depends_on: dependsOn.map(id), on_error: onError }];
  });
  return { id: "w", steps: Object.fromEntries(entries) };
}

/** The outcome of a step that runs. */
type Fate = "fails" | "yes" | "no" | "both";
const FATES: readonly Fate[] = ["fails", "yes", "no"];
const fateOf = ({ isEach }: Step, fate: Fate): Fate => (isEach && fate === "no" ? "both" : fate);

/** Which steps run, given the outcome of each, by the rules in order. */
function play(all: readonly Step[], fates: readonly Fate[]): ReadonlySet<number> {
  const ran = new Set<number>();
  const hasFailed = (at: number) => ran.has(at) && fates[at] === "fails";
  for (const [at, step] of all.entries()) {
    const handles = [...all.keys()].filter((other) => all[other]?.handler === at);
    const questions = [...all.keys()].filter((other) => {
      const { isQuestion = false, yes = [], no = [] } = all[other] ?? {};
      return isQuestion && (yes.includes(at) || no.includes(at));
    });
    const before = new Set([...step.dependsOn, ...handles, ...questions]);
    if (handles.length > 0 && !handles.some(hasFailed)) continue;
    const isStopped = (other: number) => {
      const { handler = null, goesOn = false } = all[other] ?? {};
      return hasFailed(other) && !handles.includes(other) && (handler !== null || !goesOn);
    };
    if ([...before].some(isStopped)) continue;
    const isChosen = (other: number) => {
      const { yes = [], no = [] } = all[other] ?? {};
      const none: readonly number[] = [];
      const chosen = { fails: none, yes, no, both: [...yes, ...no] }[fates[other] ?? "no"];
      return ran.has(other) && chosen.includes(at);
    };
    if (!questions.every(isChosen)) continue;
    if (before.size > 0 && ![...before].some((other) => ran.has(other))) continue;
    ran.add(at);
  }
  return ran;
}

test("a step reported as unreachable never runs", () => {
  let named = 0;
  fc.assert(
    fc.property(steps, (all) => {
      const compiled = compileWorkflow(documentOf(all));
      const problems = compiled.kind === "bad" ? compiled.problems : [];
      const never = problems.flatMap((problem) => /^steps\.s(\d): unreachable/.exec(problem)?.[1] ?? []).map(Number);
      expect(problems).toHaveLength(never.length);
      if (never.length === 0) return;
      named += 1;
      for (let number = 0; number < FATES.length ** COUNT; number += 1) {
        const fates = all.map((step, at) =>
          fateOf(step, FATES[Math.floor(number / FATES.length ** at) % FATES.length] ?? "no"),
        );
        const ran = play(all, fates);
        for (const at of never) expect(ran.has(at)).toBe(false);
      }
    }),
    { numRuns: 500, seed: 7 },
  );
  expect(named).toBeGreaterThan(20);
});
