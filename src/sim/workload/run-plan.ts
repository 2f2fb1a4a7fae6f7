import { compileWorkflow } from "../../core/workflow/definition/compile.ts";
import type { JobPriority } from "../../protocol/packet.ts";
import type { SeededRandom } from "../random.ts";
import type { RefFan, RefStep, RefWorkflow } from "../reference/model.ts";
import type { Order } from "./plan.ts";
import { APPROVAL_TOPIC, DENIED_TOPIC, type WorkerAction } from "./workers.ts";
import { documentOf } from "./workflow-document.ts";

/** The workflows and run orders of one seed. */
export interface RunPlan {
  readonly workflows: readonly SimWorkflow[];
  readonly orders: readonly RunOrder[];
}

export interface SimWorkflow extends RefWorkflow {
  readonly id: string;
  readonly timeoutSec: number | null;
  readonly steps: readonly SimStep[];
}

/** A step of the reference model with the fields that its document, workers and operators need. */
export interface SimStep extends RefStep {
  readonly kind: StepKind;
  readonly topic: string;
  /** What workers do with each attempt; children rotate through the lists. */
  readonly actions: readonly (readonly WorkerAction[])[];
  readonly decision: Order["decision"];
  readonly delayMs: number;
  readonly timeoutSec: number | null;
  readonly retriesMax: number | null;
  readonly workflowId: string | null;
  /** Its `compensate`. */
  readonly undo: { readonly topic: string; readonly actions: readonly WorkerAction[] } | null;
}

/** `count`: a transform that carries the number of the iteration. */
type StepKind =
  | "worker"
  | "approval"
  | "delay"
  | "subworkflow"
  | "transform"
  | "notify"
  | "choice"
  | "parallel"
  | "wait"
  | "loop"
  | "count";

/** A planned run. */
export interface RunOrder {
  readonly number: number;
  readonly atMs: number;
  readonly org: string;
  readonly workflowId: string;
  readonly priority: JobPriority | null;
  /** The idempotency key; null: the client does not retry. */
  readonly key: string | null;
  readonly input: { readonly number: number; readonly text: string };
  readonly replayAfterMs: number | null;
  readonly cancelAfterMs: number | null;
  /** The cancellation does not undo the run; it may also come while the run is undone. */
  readonly skipsCompensation: boolean;
  readonly pauseAfterMs: number | null;
  readonly pauseMs: number;
  /** When a client takes the run's lock, which it holds for `lockMs` without a write. */
  readonly lockAfterMs: number | null;
  readonly lockMs: number;
  /** The index of the step to rerun from after the end. */
  readonly rerunFrom: number | null;
  readonly redrivesDeadLetters: boolean;
}

export function drawRuns(random: SeededRandom, count: number, safetyMs: number, orgs: readonly string[]): RunPlan {
  const leaf = drawWorkflow(random, "leaf", null);
  const others = Array.from({ length: 5 }, (_, index) => drawWorkflow(random, `flow-${index}`, leaf.id));
  const workflows = [leaf, ...others];
  const burstMs = random.between(0, safetyMs / 2);
  const keys = new Map<string, number>();
  const orders = Array.from({ length: count }, (_, number) => {
    const isBurst = random.chance(0.3);
    const org = isBurst ? (orgs[0] ?? "") : random.pick(orgs);
    // Orgs share the same keys.
    keys.set(org, (keys.get(org) ?? 0) + 1);
    const hasKey = random.chance(0.8);
    const hold = random.fork(`hold ${number}`);
    const skips = random.fork(`skips ${number}`);
    return {
      number,
      atMs: isBurst ? burstMs + random.between(0, 300) : random.between(0, safetyMs * 0.9),
      org,
      workflowId: random.pick(workflows).id,
      priority: random.pick([null, "batch", "interactive", "critical"] as const),
      key: hasKey ? `run-key-${keys.get(org)}` : null,
      input: { number, text: "x".repeat(random.chance(0.3) ? 300 : 3) },
      replayAfterMs: hasKey && random.chance(0.3) ? random.between(10, 20_000) : null,
      cancelAfterMs: random.chance(0.1) ? random.logarithmic(50, 20_000) : null,
      skipsCompensation: skips.chance(0.3),
      pauseAfterMs: random.chance(0.15) ? random.logarithmic(50, 5_000) : null,
      pauseMs: random.logarithmic(100, 15_000),
      lockAfterMs: hold.chance(0.5) ? hold.logarithmic(50, 10_000) : null,
      lockMs: hold.logarithmic(50, 3_000),
      rerunFrom: random.chance(0.2) ? random.below(6) : null,
      redrivesDeadLetters: random.chance(0.5),
    };
  });
  return { workflows, orders };
}

/** Draws until the workflow compiles; some drawn dependency graphs are invalid. */
function drawWorkflow(random: SeededRandom, id: string, leafId: string | null): SimWorkflow {
  const lists = random.fork(`lists of ${id}`);
  const undos = random.fork(`compensations of ${id}`);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const workflow = drawUndo(undos, drawSteps(random, lists, id, leafId));
    const compiled = compileWorkflow(documentOf(workflow));
    if (compiled.kind === "ok") return inOrder(workflow, compiled.plan.order);
  }
  throw new Error(`no valid workflow \`${id}\` in ${TRIES_MAX} draws: check the problems that the compiler reports`);
}

function drawUndo(random: SeededRandom, workflow: SimWorkflow): SimWorkflow {
  const bodies = workflow.steps.flatMap(({ loop }) => loop?.body ?? []);
  const steps = workflow.steps.map((step): SimStep => {
    if (bodies.includes(step.id)) return step;
    if ((step.kind !== "worker" && step.kind !== "subworkflow") || !random.chance(0.4)) return step;
    const topic = random.chance(0.04) ? DENIED_TOPIC : random.pick(TOPICS);
    return { ...step, undo: { topic, actions: drawStepActions(random) }, isCompensated: true };
  });
  return { ...workflow, steps };
}

const inOrder = (workflow: SimWorkflow, order: readonly string[]): SimWorkflow => ({
  ...workflow,
  steps: order.flatMap((id) => workflow.steps.find((step) => step.id === id) ?? []),
});

type Draft = { -readonly [K in keyof SimStep]: SimStep[K] } & { isBranch: boolean };

function drawSteps(random: SeededRandom, lists: SeededRandom, id: string, leafId: string | null): SimWorkflow {
  const steps: Draft[] = [];
  const size = leafId === null ? 1 + random.below(2) : 1 + random.below(6);
  while (steps.length < size) {
    const step = drawStep(random, `s${steps.length}`, leafId);
    drawDependencies(random, step, steps);
    steps.push(step);
    if (step.kind !== "parallel") continue;
    const branches = Array.from({ length: 2 + random.below(2) }, (_, index) => {
      const branch = drawStep(random, `s${steps.length + index}`, leafId, BRANCH_KINDS);
      return { ...branch, isBranch: true };
    });
    step.branches = branches.map((branch) => branch.id);
    step.need = 1 + random.below(branches.length);
    steps.push(...branches);
  }
  for (const step of steps) {
    if (step.kind === "choice") drawChoice(lists, step);
    if (step.kind === "parallel") drawParallel(lists, step, steps);
  }
  const timeoutSec = random.chance(0.3) ? 4 + random.below(40) : null;
  // Forked, so that the other draws do not depend on them.
  drawWaitsAndLoops(random.fork(`waits and loops of ${id}`), steps);
  return { id, timeoutSec, steps };
}

function drawWaitsAndLoops(random: SeededRandom, steps: Draft[]): void {
  if (random.chance(0.4)) steps.push(...drawLoop(random, steps));
  for (let index = 0; index < 2 && random.chance(0.5); index += 1) {
    const wait = drawStep(random, `w${index}`, null, ["wait"]);
    drawDependencies(random, wait, steps);
    steps.push(wait);
  }
}

/** A step of its body is never a list of many items: each iteration creates its jobs again. */
function drawLoop(random: SeededRandom, earlier: readonly Draft[]): readonly Draft[] {
  const step = drawStep(random, "l", null, ["loop"]);
  drawDependencies(random, step, earlier);
  const count = { ...drawStep(random, "lc", null, ["count"]), when: null };
  const body: Draft[] = [count];
  while (body.length < 2 + random.below(2)) {
    const inner = drawStep(random, `l${body.length}`, null, BODY_KINDS);
    const isList = inner.fan !== null && random.chance(0.5);
    body.push({ ...inner, fan: isList ? { ...drawFan(random, "parallel"), parallelMax: 2 } : null, isBranch: true });
    inner.dependsOn = [];
  }
  const last = body.at(-1);
  if (last && random.chance(0.5)) last.dependsOn = body.slice(0, -1).map(({ id }) => id);
  const ids = body.map(({ id }) => id);
  step.loop = { body: ids, untilIteration: 1 + random.below(4), iterationsMax: 1 + random.below(4) };
  return [step, ...body.map((one) => ({ ...one, isBranch: true }))];
}

/** Some choices are evaluated for each item of a list. An arm without steps maps to the default. */
function drawChoice(random: SeededRandom, step: Draft): void {
  const { arms } = step;
  const isEach = random.chance(0.5);
  const chosen = isEach ? Array.from({ length: random.below(5) }, () => random.pick(Object.keys(arms))) : step.chosen;
  const caseOf = (arm: string): string => ("default" in arms && arms[arm]?.length === 0 ? "default" : arm);
  step.chosen = typeof chosen === "object" ? chosen.map(caseOf) : caseOf(chosen);
}

/** Some parallel steps have a timeout, and some a list that applies to their branches. */
function drawParallel(random: SeededRandom, step: Draft, steps: readonly Draft[]): void {
  step.timeoutSec = random.chance(0.4) ? 2 + random.below(20) : null;
  if (!random.chance(0.4)) return;
  step.fan = drawFan(random, "parallel");
  for (const branch of steps) if (step.branches.includes(branch.id)) branch.fan = null;
}

/** Makes earlier steps dependencies, choices or error sources of this step. */
function drawDependencies(random: SeededRandom, step: Draft, earlier: readonly Draft[]): void {
  const dependsOn: string[] = [];
  for (const before of earlier.filter(({ isBranch }) => !isBranch)) {
    if (before.kind === "choice" && random.chance(0.6)) {
      const arm = random.pick(Object.keys(before.arms));
      before.arms = { ...before.arms, [arm]: [...(before.arms[arm] ?? []), step.id] };
    } else if (random.chance(0.4)) dependsOn.push(before.id);
    else if (before.onError === "fail" && before.kind !== "choice" && random.chance(0.15)) before.onError = step.id;
  }
  step.dependsOn = dependsOn;
}

function drawStep(
  random: SeededRandom,
  id: string,
  leafId: string | null,
  kinds: readonly SimStep["kind"][] = KINDS,
): Draft {
  const drawn = random.pick(kinds);
  const kind = drawn === "subworkflow" && leafId === null ? "worker" : drawn;
  const isBranch = kinds === BRANCH_KINDS;
  const canFan = kind === "worker" || kind === "delay" || kind === "subworkflow";
  const fan = canFan && random.chance(kind === "worker" ? 0.2 : 0.1) ? drawFan(random, kind) : null;
  const arms = kind === "choice" ? drawArms(random) : {};
  const topic = random.chance(0.04) ? DENIED_TOPIC : random.pick(TOPICS);
  return {
    id,
    kind,
    isBranch,
    act: ACT_OF[kind],
    dependsOn: [],
    onError: !isBranch && random.chance(0.3) ? "continue" : "fail",
    when: kind !== "choice" && random.chance(0.15) ? random.pick([true, false, false, "fault"] as const) : null,
    arms,
    chosen: random.pick([...Object.keys(arms), ...Object.keys(arms), "fault"]),
    branches: [],
    need: 0,
    fan,
    topic,
    actions: Array.from({ length: fan ? 3 : 1 }, () => drawStepActions(random)),
    decision: random.pick(["approve", "approve", "approve", "reject", "both", "forget"] as const),
    delayMs: Math.round(random.logarithmic(100, 15_000)),
    ...(kind === "wait" && { awaits: { event: random.pick(EVENT_NAMES), key: random.chance(0.4) ? "own" : null } }),
    // Without a timeout a sub-run without a slot would wait until the deadline of its parent.
    timeoutSec: drawTimeoutSec(random, kind),
    retriesMax: random.chance(0.7) ? random.below(3) : null,
    workflowId: kind === "subworkflow" ? leafId : null,
    undo: null,
  };
}

function drawTimeoutSec(random: SeededRandom, kind: StepKind): number | null {
  switch (kind) {
    case "subworkflow":
      return 20 + random.below(30);
    case "wait":
      return 2 + random.below(12);
    case "loop":
      return 5 + random.below(40);
    default:
      return random.chance(0.1) ? 3 + random.below(20) : null;
  }
}

/** `then` and `else`, or the cases of a switch. */
function drawArms(random: SeededRandom): Record<string, readonly string[]> {
  const names = random.chance(0.6) ? ["then", "else"] : ["red", "blue", "default"];
  return Object.fromEntries(names.map((name) => [name, []]));
}

function drawFan(random: SeededRandom, kind: SimStep["kind"]): RefFan {
  const isFailFast = random.chance(0.5);
  return {
    count:
      kind === "subworkflow" || kind === "parallel"
        ? random.below(4)
        : Math.round(random.logarithmic(1, 30)) - random.below(2),
    parallelMax: random.pick([1, 2, 4, 8, 256]),
    isFailFast,
    failuresMax: isFailFast ? 0 : random.below(3),
  };
}

function drawStepActions(random: SeededRandom): readonly WorkerAction[] {
  if (random.chance(0.75)) return ["ok"];
  if (random.chance(0.4)) return [random.pick(["fatal", "throw"] as const)];
  return [random.pick(["retry", "throw", "hang", "late", "twice", "die"] as const), "ok"];
}

const TOPICS = [
  "work.alpha",
  "work.beta",
  "work.beta",
  "work.alpha",
  "work.beta",
  "slow.delta",
  APPROVAL_TOPIC,
] as const;
const KINDS: readonly SimStep["kind"][] = [
  ...(["worker", "worker", "worker", "worker", "worker", "worker", "worker", "worker"] as const),
  ...(["approval", "delay", "subworkflow", "transform", "notify", "choice", "choice", "parallel"] as const),
];
const BODY_KINDS: readonly StepKind[] = ["worker", "worker", "delay", "approval", "wait", "notify"];
export const EVENT_NAMES = ["news", "reply"] as const;
const BRANCH_KINDS: readonly SimStep["kind"][] = ["worker", "worker", "worker", "delay", "approval", "transform"];
const ACT_OF: Readonly<Record<SimStep["kind"], RefStep["act"]>> = {
  ...{ worker: "job", approval: "job", delay: "job", subworkflow: "job" },
  ...{ transform: "instant", notify: "instant", choice: "choice", parallel: "parallel" },
  ...{ wait: "wait", loop: "loop", count: "instant" },
};
const TRIES_MAX = 100;
