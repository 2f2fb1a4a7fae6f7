import { permanent, retryAfter } from "../../core/retry/intent.ts";
import type { World } from "../../ports/world.ts";
import { RESULT } from "../../protocol/subjects.ts";
import { startWorker, type WorkItem } from "../../worker/worker.ts";
import { type SimNet, simWorld } from "../adapters/world.ts";
import type { SafetyChecker } from "../checks/safety-checker.ts";
import type { Violations } from "../checks/violations.ts";
import { Host, type Process } from "../process.ts";
import type { SeededRandom } from "../random.ts";
import type { Plan, WorkerPlan } from "./plan.ts";

/** What a worker does with one attempt. */
export const WORKER_ACTIONS = ["ok", "retry", "throw", "fatal", "hang", "late", "twice", "die"] as const;
export type WorkerAction = (typeof WORKER_ACTIONS)[number];

/** All policies deny this topic. */
export const DENIED_TOPIC = "danger.wipe";
/** All policies require an approval for this topic. */
export const APPROVAL_TOPIC = "ask.human";

export interface WorkerContext {
  readonly net: SimNet;
  readonly plan: Plan;
  readonly random: SeededRandom;
  readonly violations: Violations;
  readonly safety: SafetyChecker;
  /** `job@attempt` of every attempt that a worker reported as failed. */
  readonly failures: Set<string>;
  /** Numbers of the orders whose job a worker finished without an error. */
  readonly succeeded: Set<number>;
  /** After the faults have stopped, workers neither hang nor crash. */
  areFaultsStopped: boolean;
  crash(host: Host): void;
}

/** A host that runs the shipped worker with the planned actions. */
export function workerHost(context: WorkerContext, worker: WorkerPlan): Host {
  const { net, random } = context;
  const host: Host = new Host(net.timeline, random, {
    name: worker.name,
    skewMs: worker.skewMs,
    boot: (process) => {
      const world = simWorld(net, process, { safety: "remote" });
      void startWorker(world, {
        id: worker.name,
        topics: worker.topics,
        concurrency: worker.concurrency,
        // Without extensions `late` and `hang` exceed the dispatch deadline.
        extendsForMs: 0,
        handle: (item) => work(context, host, process, world, item),
      });
    },
  });
  return host;
}

async function work(
  context: WorkerContext,
  host: Host,
  process: Process,
  world: World,
  item: WorkItem,
): Promise<unknown> {
  const { net, plan } = context;
  const number = Number(item.labels.order ?? item.labels.run_order);
  const isStep = item.labels.run_id !== undefined;
  checkItem(context, item, number);
  const actions = isStep ? actionsOfStep(plan, item) : (plan.orders[number]?.actions ?? ["ok"]);
  const planned = actions[Math.min(item.attempt, actions.length) - 1] ?? "ok";
  const isFault = planned === "hang" || planned === "die" || planned === "late";
  const action: WorkerAction = context.areFaultsStopped && isFault ? "ok" : planned;
  net.trace.note(net.timeline.nowMs, process.name, action, item.jobId);
  if (action !== "ok" && action !== "late") context.failures.add(`${item.jobId}@${item.attempt}`);
  const workMs = WORK_MS[action]?.(plan.settings.dispatch.deadlineMs) ?? process.random.exponential(40);
  await new Promise<void>((resolve) => world.clock.after(workMs, resolve));
  switch (action) {
    case "ok":
    case "late":
      break;
    case "retry":
      throw retryAfter(new Error("not now"), process.random.between(0, 4_000));
    case "throw":
    case "hang":
      throw new Error("it broke");
    case "fatal":
      throw permanent(new Error("it can never work"));
    case "die":
      context.crash(host);
      // `crash` has no effect after the faults have stopped; the attempt then succeeds.
      break;
    case "twice":
      await publishSecondResult(world, item);
      break;
    default:
      action satisfies never;
  }
  if (!isStep) context.succeeded.add(number);
  return { number };
}

function checkItem({ safety, violations }: WorkerContext, item: WorkItem, number: number): void {
  const { jobId, attempt, labels, topic } = item;
  const input = item.input as { readonly number?: number; readonly step?: string } | null;
  if (input?.number !== number || input.step !== labels.step_id) {
    violations.add("payload", jobId, `a worker got the input of another order than ${number}`);
  }
  const isBypassed = labels.safety_bypassed === "true";
  if (!safety.isPermitted(jobId, attempt) || (topic === DENIED_TOPIC && !isBypassed)) {
    violations.add("denied", jobId, `a worker got attempt ${attempt}, which was not permitted`);
  }
}

/** The children of a step rotate through the planned actions. */
function actionsOfStep({ runs }: Plan, { labels, jobId }: WorkItem): readonly WorkerAction[] {
  const steps = runs.workflows.find(({ id }) => id === labels.workflow_id)?.steps;
  const step = steps?.find(({ id }) => id === labels.step_id);
  if (/\.undo@\d+$/.test(jobId)) return step?.undo?.actions ?? ["ok"];
  const actions = step?.actions ?? [];
  const index = Number(/\.(\d+)@/.exec(jobId)?.[1] ?? 0);
  return actions[index % actions.length] ?? ["ok"];
}

/** Both exceed the dispatch deadline; `hang` occupies the worker for several attempts of other jobs. */
const WORK_MS: Partial<Record<WorkerAction, (deadlineMs: number) => number>> = {
  late: (deadlineMs) => deadlineMs * 1.5,
  hang: (deadlineMs) => deadlineMs * 4,
};

/** A second result with its own message id that reports a failure; only one of the two results may count. */
function publishSecondResult(world: World, { jobId, attempt }: WorkItem): Promise<void> {
  const body = { kind: "job_result", jobId, status: "failed_retryable", workerId: world.name, attempt } as const;
  const packet = { traceId: jobId, senderId: world.name, createdAtMs: world.clock.now(), body };
  return world.bus
    .publish({ id: `again:${jobId}@${attempt}:${world.random.id()}`, subject: RESULT, packet })
    .catch(() => undefined);
}
