import { compileWorkflow } from "../../core/workflow/definition/compile.ts";
import type { JobPriority } from "../../protocol/packet.ts";
import type { SeededRandom } from "../random.ts";
import type { RefFan, RefStep, RefWorkflow } from "../reference/run-reference.ts";
import { type Act, ASKED_TOPIC, DENIED_TOPIC } from "./acts.ts";
import type { Order } from "./plan.ts";
import { documentOf } from "./run-document.ts";

/** The runs of one seed: which workflows there are, who starts which of them, and what is done to them. Plain data. */
export interface RunPlan {
  readonly workflows: readonly SimWorkflow[];
  readonly orders: readonly RunOrder[];
}

export interface SimWorkflow extends RefWorkflow {
  readonly id: string;
  readonly timeoutSec: number | null;
  readonly steps: readonly SimStep[];
}

/** What the reference knows of a step, and what its document and those who work on it need besides. */
export interface SimStep extends RefStep {
  readonly kind: "worker" | "approval" | "delay" | "subworkflow" | "transform" | "notify" | "choice" | "parallel";
  readonly topic: string;
  /** What workers do, attempt by attempt; children take turns with these. */
  readonly acts: readonly (readonly Act[])[];
  readonly answer: Order["answer"];
  readonly delayMs: number;
  readonly timeoutSec: number | null;
  readonly retriesMax: number | null;
  readonly workflowId: string | null;
}

/** One wish for a run. */
export interface RunOrder {
  readonly number: number;
  readonly atMs: number;
  readonly org: string;
  readonly workflowId: string;
  readonly priority: JobPriority | null;
  /** `none` tries once. */
  readonly key: string | null;
  readonly input: { readonly number: number; readonly text: string };
  readonly replayAfterMs: number | null;
  readonly cancelAfterMs: number | null;
  readonly pauseAfterMs: number | null;
  /** How long it stays paused. */
  readonly pauseMs: number;
  /** Somebody takes its lock, thinks for so long, and writes nothing: as who finds that there is nothing to be done. */
  readonly heldAfterMs: number | null;
  readonly heldMs: number;
  /** Somebody runs it again, from the step of this number, once it has ended. */
  readonly rerunFrom: number | null;
  /** Somebody tries its dead letters again. */
  readonly isRetried: boolean;
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
    // The keys of one org are those of the others, too.
    keys.set(org, (keys.get(org) ?? 0) + 1);
    const hasKey = random.chance(0.8);
    const hold = random.fork(`hold ${number}`);
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
      pauseAfterMs: random.chance(0.15) ? random.logarithmic(50, 5_000) : null,
      pauseMs: random.logarithmic(100, 15_000),
      heldAfterMs: hold.chance(0.5) ? hold.logarithmic(50, 10_000) : null,
      heldMs: hold.logarithmic(50, 3_000),
      rerunFrom: random.chance(0.2) ? random.below(6) : null,
      isRetried: random.chance(0.5),
    };
  });
  return { workflows, orders };
}

/** Drawn again until it is one that can be applied: some hang together in ways that nobody may write. */
function drawWorkflow(random: SeededRandom, id: string, leafId: string | null): SimWorkflow {
  const lists = random.fork(`lists of ${id}`);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const workflow = drawSteps(random, lists, id, leafId);
    const compiled = compileWorkflow(documentOf(workflow));
    if (compiled.kind === "ok") return inOrder(workflow, compiled.plan.order);
  }
  throw new Error(`no workflow \`${id}\` could be drawn in ${TRIES_MAX} tries: look at what the compiler says`);
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
    relate(random, step, steps);
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
    if (step.kind === "choice") choose(lists, step);
    if (step.kind === "parallel") repeat(lists, step, steps);
  }
  return { id, timeoutSec: random.chance(0.3) ? 4 + random.below(40) : null, steps };
}

/** Some are asked for each item of a list. What is no case of its own is the default. */
function choose(random: SeededRandom, step: Draft): void {
  const { arms } = step;
  const isEach = random.chance(0.5);
  const chosen = isEach ? Array.from({ length: random.below(5) }, () => random.pick(Object.keys(arms))) : step.chosen;
  const caseOf = (arm: string): string => ("default" in arms && arms[arm]?.length === 0 ? "default" : arm);
  step.chosen = typeof chosen === "object" ? chosen.map(caseOf) : caseOf(chosen);
}

/** Some have a list, which is that of their branches then, and some have a time. */
function repeat(random: SeededRandom, step: Draft, steps: readonly Draft[]): void {
  step.timeoutSec = random.chance(0.4) ? 2 + random.below(20) : null;
  if (!random.chance(0.4)) return;
  step.fan = drawFan(random, "parallel");
  for (const branch of steps) if (step.branches.includes(branch.id)) branch.fan = null;
}

/** What an earlier step is to this one. */
function relate(random: SeededRandom, step: Draft, earlier: readonly Draft[]): void {
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
    acts: Array.from({ length: fan ? 3 : 1 }, () => drawStepActs(random)),
    answer: random.pick(["approve", "approve", "approve", "reject", "both", "forget"] as const),
    delayMs: Math.round(random.logarithmic(100, 15_000)),
    // A sub-run that gets no slot would wait for as long as its parent may.
    timeoutSec: kind === "subworkflow" ? 20 + random.below(30) : random.chance(0.1) ? 3 + random.below(20) : null,
    retriesMax: random.chance(0.7) ? random.below(3) : null,
    workflowId: kind === "subworkflow" ? leafId : null,
  };
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

function drawStepActs(random: SeededRandom): readonly Act[] {
  if (random.chance(0.75)) return ["ok"];
  if (random.chance(0.4)) return [random.pick(["fatal", "throw"] as const)];
  return [random.pick(["retry", "throw", "hang", "late", "twice", "die"] as const), "ok"];
}

const TOPICS = ["work.alpha", "work.beta", "work.beta", "work.alpha", "work.beta", "slow.delta", ASKED_TOPIC] as const;
const KINDS: readonly SimStep["kind"][] = [
  ...(["worker", "worker", "worker", "worker", "worker", "worker", "worker", "worker"] as const),
  ...(["approval", "delay", "subworkflow", "transform", "notify", "choice", "choice", "parallel"] as const),
];
const BRANCH_KINDS: readonly SimStep["kind"][] = ["worker", "worker", "worker", "delay", "approval", "transform"];
const ACT_OF: Readonly<Record<SimStep["kind"], RefStep["act"]>> = {
  ...{ worker: "job", approval: "job", delay: "job", subworkflow: "job" },
  ...{ transform: "instant", notify: "instant", choice: "choice", parallel: "parallel" },
};
const TRIES_MAX = 100;
