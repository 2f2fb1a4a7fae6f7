import type { RefEnd, RefFan, RefStep, RefWorkflow } from "../../../src/sim/reference/model.ts";

/**
 * Enumerates small workflows: a relation for each pair of steps (earlier, later) and an outcome for each step. Steps
 * are in topological order.
 */
export interface Case {
  readonly name: string;
  readonly workflow: RefWorkflow;
  /** How the step's job ends; children of a `for_each` have their own. */
  readonly ends: ReadonlyMap<string, RefEnd>;
}

/** The relation of an earlier step to a later one. */
export const RELATIONS = ["none", "dep", "then", "else", "handler", "branch"] as const;
export type Relation = (typeof RELATIONS)[number];

/** How a step turns out: `job` and `end` go together, all others follow from the definition. */
export interface Mood {
  readonly name: string;
  readonly end: RefEnd;
  readonly onError: "fail" | "continue";
  readonly when?: boolean | "fault";
  readonly isInstant?: boolean;
  readonly fan?: RefFan & { readonly ends: readonly RefEnd[] };
}

export const PLAIN_MOODS: readonly Mood[] = [
  { name: "ok", end: "ok", onError: "fail" },
  { name: "fail", end: "fail", onError: "fail" },
  { name: "fail+", end: "fail", onError: "continue" },
];

export const MOODS: readonly Mood[] = [
  ...PLAIN_MOODS,
  { name: "off", end: "ok", onError: "fail", when: false },
  { name: "now", end: "ok", onError: "fail", isInstant: true },
];

const fan = (ends: readonly RefEnd[], parallelMax: number, isFailFast: boolean, failuresMax: number) => ({
  ...{ count: ends.length, parallelMax, isFailFast, failuresMax, ends },
});

/** For `for_each`, faults and rare ends. */
export const RARE_MOODS: readonly Mood[] = [
  { name: "ok", end: "ok", onError: "fail" },
  { name: "denied", end: "denied", onError: "fail" },
  { name: "timeout+", end: "timeout", onError: "continue" },
  { name: "cancelled+", end: "cancelled", onError: "continue" },
  { name: "fault", end: "ok", onError: "fail", when: "fault" },
  { name: "fault+", end: "ok", onError: "continue", when: "fault" },
  { name: "fan0", end: "ok", onError: "fail", fan: fan([], 1, true, 0) },
  { name: "fan3/1", end: "ok", onError: "fail", fan: fan(["ok", "ok", "ok"], 1, true, 0) },
  { name: "fast", end: "ok", onError: "continue", fan: fan(["ok", "fail", "ok"], 2, true, 0) },
  { name: "all", end: "ok", onError: "continue", fan: fan(["ok", "fail", "ok"], 2, false, 0) },
  { name: "tolerant", end: "ok", onError: "fail", fan: fan(["timeout", "ok"], 9, false, 1) },
];

/** All pairs of steps: earlier, later. */
export const pairsOf = (size: number): readonly (readonly [number, number])[] => PAIRS[size] ?? [];

const PAIRS = [0, 1, 2, 3, 4].map((size) =>
  Array.from({ length: size }, (_, later) => Array.from({ length: later }, (__, i) => [i, later] as const)).flat(),
);

/** All sequences of `choices` of the given length. */
export function* product<T>(choices: readonly T[], times: number): Generator<readonly T[]> {
  if (times === 0) {
    yield [];
    return;
  }
  for (const rest of product(choices, times - 1)) for (const choice of choices) yield [...rest, choice];
}

/** Null if the definition rules exclude the workflow. */
export function caseOf(relations: readonly Relation[], moods: readonly Mood[], isThen = true): Case | null {
  const ids = moods.map((_, index) => "abcdef"[index] ?? "");
  const pairs = pairsOf(moods.length);
  const seek = (index: number, relation: Relation, side: 0 | 1): readonly string[] => {
    const found: string[] = [];
    for (const [at, pair] of pairs.entries()) {
      if (pair[side] === index && relations[at] === relation) found.push(ids[pair[1 - side] ?? 0] ?? "");
    }
    return found;
  };
  const related = (index: number, relation: Relation): readonly string[] => seek(index, relation, 0);
  const before = (index: number, relation: Relation): readonly string[] => seek(index, relation, 1);
  const steps: RefStep[] = [];
  const ends = new Map<string, RefEnd>();
  for (const [index, own] of moods.entries()) {
    const around = moods[ids.indexOf(before(index, "branch")[0] ?? "")];
    const mood = around?.fan ? ofList(own, around.fan, related(index, "branch")) : own;
    if (mood === null) return null;
    const step = stepOf(ids[index] ?? "", mood, before(index, "dep"), (relation) => related(index, relation), isThen);
    const isBranch = before(index, "branch").length > 0;
    const isSpoilt = isBranch && (step?.onError !== "fail" || isBranchOfMore(index, before, related));
    if (step === null || isSpoilt) return null;
    // The `parallel` step declares the list.
    steps.push(around?.fan ? { ...step, fan: null } : step);
    if (!mood.fan) ends.set(step.id, mood.end);
    for (const [child, end] of mood.fan?.ends.entries() ?? []) ends.set(`${step.id}.${child}`, end);
  }
  const name = `${relations.join(",")} ${moods.map((mood) => mood.name).join(",")}`;
  return { name, workflow: { steps }, ends };
}

/** A branch of a `parallel` step with a list: all children end alike, or as the list says. */
function ofList(mood: Mood, list: NonNullable<Mood["fan"]>, branches: readonly string[]): Mood | null {
  if (mood.fan || branches.length > 0) return null;
  return { ...mood, fan: { ...list, ends: list.ends.map((end) => (mood.end === "ok" ? end : mood.end)) } };
}

function stepOf(
  id: string,
  mood: Mood,
  dependsOn: readonly string[],
  related: (relation: Relation) => readonly string[],
  isThen: boolean,
): RefStep | null {
  const [then, otherwise, branches, handlers] = (["then", "else", "branch", "handler"] as const).map(related);
  const isChoice = (then?.length ?? 0) + (otherwise?.length ?? 0) > 0;
  const isParallel = (branches?.length ?? 0) > 0;
  const handler = handlers?.[0];
  if ((handlers?.length ?? 0) > 1 || (isChoice && isParallel)) return null;
  // The outcome of a choice is its own; it has no job.
  if ((isChoice || isParallel) && mood.isInstant) return null;
  if (isChoice && (mood.when !== undefined || !["ok", "fail"].includes(mood.end))) return null;
  if (isParallel && mood.end !== "ok") return null;
  if (handler !== undefined && mood.onError === "continue") return null;
  return {
    id,
    act: isChoice ? "choice" : isParallel ? "parallel" : mood.isInstant ? "instant" : "job",
    dependsOn,
    onError: handler ?? mood.onError,
    when: mood.when ?? null,
    arms: isChoice ? bothArms(then ?? [], otherwise ?? []) : {},
    chosen: mood.fan && isChoice ? chosenBy(mood.fan.ends, isThen) : mood.end === "fail" ? "fault" : armOf(isThen),
    branches: branches ?? [],
    // `then` for choices, `all` for joins.
    need: isThen ? (branches?.length ?? 0) : 1,
    fan: isChoice ? null : (mood.fan ?? null),
  };
}

const armOf = (isThen: boolean): string => (isThen ? "then" : "else");
/** Items choose by the outcome their children would have. */
const chosenBy = (ends: readonly RefEnd[], isThen: boolean): readonly string[] =>
  ends.map((end) => armOf((end === "ok") === isThen));

const bothArms = (...ids: readonly (readonly string[])[]): RefStep["arms"] =>
  Object.fromEntries(["then", "else"].map((arm, index) => [arm, ids[index] ?? []]));

/** A branch depends only on its `parallel` step, and nothing depends on it. */
function isBranchOfMore(
  index: number,
  before: (index: number, relation: Relation) => readonly string[],
  related: (index: number, relation: Relation) => readonly string[],
): boolean {
  if (before(index, "branch").length > 1) return true;
  const others = ["dep", "then", "else", "handler"] as const;
  return others.some((relation) => before(index, relation).length + related(index, relation).length > 0);
}

/** The definition as a user would write it. */
export function documentOf({ steps }: RefWorkflow): Record<string, unknown> {
  return { id: "small", steps: Object.fromEntries(steps.map((step) => [step.id, documentOfStep(step)])) };
}

function documentOfStep(step: RefStep): Record<string, unknown> {
  const { dependsOn, onError, fan: each } = step;
  return {
    ...typeOf(step),
    ...(dependsOn.length > 0 && { depends_on: dependsOn }),
    ...(onError !== "fail" && { on_error: onError }),
    ...(step.act !== "choice" && step.when !== null && { condition: questionOf(step.when) }),
    ...(typeof step.chosen === "object" && { for_each: JSON.stringify(step.chosen) }),
    ...(each && {
      for_each: `[${Array.from({ length: each.count }, (_, index) => index).join(", ")}]`,
      max_parallel: each.parallelMax,
      failure: each.isFailFast ? "fail_fast" : each.failuresMax === 0 ? "wait_all" : { tolerate: each.failuresMax },
    }),
  };
}

function typeOf({ act, arms, chosen, branches, need }: RefStep): Record<string, unknown> {
  switch (act) {
    case "job":
      return { type: "worker", topic: "work.alpha" };
    case "instant":
      return { type: "transform", input: { at: "once" } };
    case "choice": {
      const answer = chosen === "fault" ? "fault" : chosen === "then";
      const question = typeof chosen === "object" ? "item == 'then'" : questionOf(answer);
      return { type: "condition", condition: question, ...withoutEmpty(arms) };
    }
    case "parallel":
      return { type: "parallel", branches, join: "n_of_m", n: need };
    case "wait":
    case "loop":
      throw new Error("not enumerated: the simulator covers waits and loops");
    default:
      return act satisfies never;
  }
}

const questionOf = (answer: boolean | "fault"): string => (answer === "fault" ? "input.nothing.there" : `${answer}`);

function withoutEmpty(arms: Readonly<Record<string, readonly string[]>>): Record<string, readonly string[]> {
  return Object.fromEntries(Object.entries(arms).filter(([, ids]) => ids.length > 0));
}

/** Every graph of four steps with every outcome of each. */
export function* plainCases(): Generator<Case> {
  for (const relations of product(["none", "dep"] as const, pairsOf(4).length)) {
    for (const moods of product(PLAIN_MOODS, 4)) yield* context(caseOf(relations, moods));
  }
}

/** Every relation between three steps. */
export function* mixedCases(): Generator<Case> {
  for (const relations of product(RELATIONS, pairsOf(3).length)) {
    for (const moods of product(MOODS, 3)) yield* bothWays(relations, moods);
  }
}

/** A sample of them. */
export function* someCases(): Generator<Case> {
  let number = 0;
  for (const each of mixedCases()) {
    number += 1;
    if (number % 23 === 0) yield each;
  }
}

/** All pairs, and some of the triples, which are hundreds of times as many. */
export function* rareCases(): Generator<Case> {
  for (const relation of RELATIONS) {
    for (const moods of product(RARE_MOODS, 2)) yield* bothWays([relation], moods);
  }
  const moods = [...product(RARE_MOODS, 3)];
  let next = 0;
  for (const relations of product(RELATIONS, pairsOf(3).length)) {
    for (let times = 0; times < RARE_TIMES; times += 1) {
      yield* bothWays(relations, moods[next % moods.length] ?? []);
      next += RARE_STRIDE;
    }
  }
}

/** Some of them with steps that are undone. Every other one has a compensation that fails. */
export function* undoCases(): Generator<Case> {
  let number = 0;
  for (const cases of [someCases(), rareCases(), plainCases()]) {
    for (const { name, workflow, ends } of cases) {
      number += 1;
      if (number % 5 !== 0) continue;
      const steps = workflow.steps.map((step) => ({ ...step, isCompensated: step.act === "job" }));
      const failing = number % 2 === 0 ? [["undo:a", "fail"] as const] : [];
      yield { name: `undo ${name}`, workflow: { steps }, ends: new Map([...ends, ...failing]) };
    }
  }
}

function* bothWays(relations: readonly Relation[], moods: readonly Mood[]): Generator<Case> {
  yield* context(caseOf(relations, moods, true));
  const isQuestion = relations.some((relation) => ["then", "else", "branch"].includes(relation));
  if (isQuestion) yield* context(caseOf(relations, moods, false));
}

const context = (found: Case | null): readonly Case[] => (found === null ? [] : [found]);

/** Coprime to the number of triples, so that each is used equally often. */
const RARE_STRIDE = 7;
const RARE_TIMES = 30;
