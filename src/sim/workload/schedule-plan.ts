import type { Overlap } from "../../core/schedule/schedule.ts";
import type { SeededRandom } from "../random.ts";
import type { RunPlan, SimStep, SimWorkflow } from "./run-plan.ts";

/** A schedule that an operator applies, and what operators do with it afterwards. */
export interface SchedulePlan {
  readonly atMs: number;
  readonly org: string;
  readonly document: ScheduleDocument;
  readonly actions: readonly { readonly afterMs: number; readonly action: ScheduleAction }[];
}

interface ScheduleDocument {
  readonly id: string;
  readonly workflow_id: string;
  readonly every?: string;
  readonly cron?: string;
  readonly time_zone?: string;
  readonly overlap: Overlap;
  readonly jitter_ms: number;
  readonly catch_up_ms: number;
}

const ACTIONS = ["pause", "pause", "trigger", "trigger", "backfill", "backfill", "apply", "retime", "delete"] as const;
export type ScheduleAction = (typeof ACTIONS)[number] | "resume";

/** The role in the names of their operators. */
export const SCHEDULE_OPERATOR = "schedule-operator";

/** Two thirds of the seeds have no schedule. */
export function drawSchedules(random: SeededRandom, safetyMs: number, { orders }: RunPlan): readonly SchedulePlan[] {
  // Their tenants have workflows.
  const orgs = [...new Set(orders.map(({ org }) => org))];
  if (orgs.length === 0 || !random.chance(1 / 3)) return [];
  return Array.from({ length: 2 + random.below(3) }, (_, index) => drawSchedule(random, safetyMs, index, orgs));
}

function drawSchedule(random: SeededRandom, safetyMs: number, index: number, orgs: readonly string[]): SchedulePlan {
  const everySec = 3 + random.below(8);
  const isCron = random.chance(0.2);
  const gapMs = isCron ? 60_000 : everySec * 1_000;
  const jitterMs = Math.round(random.between(0, 0.8) * gapMs);
  return {
    atMs: random.between(0, 5_000),
    org: random.pick(orgs),
    document: {
      id: `schedule-${index}`,
      workflow_id: random.pick(SCHEDULED_WORKFLOWS).id,
      ...(isCron ? { cron: "* * * * *", time_zone: "Europe/Berlin" } : { every: `${everySec}s` }),
      overlap: random.pick(["skip", "skip", "queue", "queue", "cancel", "allow"] as const),
      jitter_ms: random.chance(0.4) ? jitterMs : 0,
      catch_up_ms: Math.round(random.logarithmic(500, 30_000)),
    },
    actions: drawActions(random, safetyMs),
  };
}

function drawActions(random: SeededRandom, safetyMs: number): SchedulePlan["actions"] {
  return Array.from({ length: random.below(4) }).flatMap(() => {
    const action = random.pick(ACTIONS);
    const afterMs = random.between(5_000, safetyMs * 0.8);
    const laterMs = afterMs + random.between(2_000, 20_000);
    // Otherwise a seed would have few slots.
    const after = ({ pause: "resume", delete: "apply" } as const)[action as "pause" | "delete"];
    return [{ afterMs, action }, ...(after === undefined ? [] : [{ afterMs: laterMs, action: after }])];
  });
}

/** One delay each: shorter than the interval of a schedule, about equal, and longer. */
export const SCHEDULED_WORKFLOWS: readonly SimWorkflow[] = [600, 4_000, 12_000].map((delayMs) => ({
  id: `delay-${delayMs}`,
  timeoutSec: null,
  steps: [delayStep(delayMs)],
}));

function delayStep(delayMs: number): SimStep {
  return {
    id: "s0",
    kind: "delay",
    act: "job",
    dependsOn: [],
    onError: "fail",
    when: null,
    arms: {},
    chosen: "fault",
    branches: [],
    need: 0,
    fan: null,
    topic: "",
    actions: [["ok"]],
    decision: "approve",
    delayMs,
    timeoutSec: null,
    retriesMax: null,
    workflowId: null,
    undo: null,
  };
}
