import { DEAD_LETTERS } from "../../core/model/dead-letter.ts";
import { JOBS } from "../../core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import { defaultRunRequest, type RunRequest, rerun, startRun } from "../../engine/intake/index.ts";
import { redriveDeadLetter } from "../../engine/maintenance/index.ts";
import { applyWorkflow, cancelRun, deleteWorkflow, pauseRun, resumeRun, runLockKey } from "../../engine/runs/index.ts";
import { withLock } from "../../engine/with-lock.ts";
import type { SimNet } from "../adapters/world.ts";
import type { ActionOutcome, HumanActions } from "../checks/audit-checker.ts";
import { EventChecker } from "../checks/event-checker.ts";
import type { Violations } from "../checks/violations.ts";
import type { SeededRandom } from "../random.ts";
import { dependenciesOf } from "../reference/run-reference.ts";
import type { System } from "../system.ts";
import { EventClients } from "./event-clients.ts";
import { sendRequest } from "./request.ts";
import type { RunOrder, RunPlan, SimStep } from "./run-plan.ts";
import { documentOf } from "./workflow-document.ts";

/**
 * Clients of runs. They apply workflows, start runs with their idempotency keys until they get a reply, cancel, pause,
 * resume, lock and rerun them, and redrive their dead letters.
 */
export class RunClients {
  readonly #net: SimNet;
  readonly #plan: RunPlan;
  readonly #orgs: readonly string[];
  readonly #system: System;
  readonly #random: SeededRandom;
  readonly #violations: Violations;
  readonly #actions: HumanActions;
  readonly #events: EventClients;
  readonly #eventChecker: EventChecker;
  /** The acknowledged run of each order. */
  readonly acknowledged = new Map<number, string>();
  /** Orders without a reply. */
  readonly pending = new Set<number>();
  readonly #redriven = new Set<string>();
  readonly #reruns = new Map<number, string | null>();
  /** Requests that are retried until they are done. */
  #retrying = 0;
  #isStopped = false;

  constructor(
    net: SimNet,
    plan: RunPlan,
    system: System,
    random: SeededRandom,
    violations: Violations,
    actions: HumanActions,
  ) {
    this.#actions = actions;
    this.#net = net;
    this.#plan = plan;
    this.#orgs = [...new Set(plan.orders.map(({ org }) => org))];
    this.#system = system;
    this.#random = random;
    this.#violations = violations;
    this.#events = new EventClients(net, plan, system, random.fork("events"));
    this.#eventChecker = new EventChecker(net, plan, violations);
  }

  start(): void {
    const { timeline } = this.#net;
    for (const org of this.#orgs) {
      for (const workflow of this.#plan.workflows) {
        this.#sendUntilDone(async (engine) => {
          const document = documentOf(workflow);
          const applied = await this.#perform("author", (by) => applyWorkflow(engine, { org, by, document }));
          if (applied.kind === "invalid") this.#reportInvalid(workflow.id, applied.problems);
          return true;
        });
      }
    }
    for (const order of this.#plan.orders) {
      this.pending.add(order.number);
      timeline.post(order.atMs, () => this.#start(order));
    }
    this.#pollLater();
    this.#events.start();
  }

  get isDone(): boolean {
    return this.pending.size === 0 && this.#retrying === 0 && this.#events.isDone;
  }

  stop(): void {
    this.#isStopped = true;
    this.#events.stop();
    this.#eventChecker.checkEnd(this.#events);
  }

  /** Workflows have no retention time. */
  removeWorkflows(): void {
    for (const org of this.#orgs) {
      for (const { id } of this.#plan.workflows) {
        this.#sendUntilDone(async (engine) => {
          await this.#perform("author", (by) => deleteWorkflow(engine, { org, id, by }));
          return true;
        });
      }
    }
  }

  #start(order: RunOrder): void {
    const retry = (): void => {
      if (order.key === null) this.pending.delete(order.number);
      else this.#net.timeline.post(this.#random.between(100, 3_000), () => this.#start(order));
    };
    this.#send(
      (engine) => startRun(engine, requestOf(order), "/api/v1/workflows/{id}/runs"),
      retry,
      (outcome) => {
        if (outcome.kind === "started" || outcome.kind === "replayed") this.#acknowledge(order, outcome.runId);
        else if (outcome.kind === "full" || outcome.kind === "gate_unavailable" || outcome.kind === "no_workflow")
          retry();
        else {
          this.pending.delete(order.number);
          if (outcome.kind === "invalid") this.#reportInvalid(`run order ${order.number}`, outcome.problems);
          else this.#reportConflict(order, `a retry conflicts with ${outcome.runId}`);
        }
      },
    );
  }

  #acknowledge(order: RunOrder, runId: string): void {
    const { number, org } = order;
    const known = this.acknowledged.get(number);
    if (known !== undefined && known !== runId) this.#reportConflict(order, `got run ${known} first, then ${runId}`);
    this.acknowledged.set(number, runId);
    this.pending.delete(number);
    if (known !== undefined) return;
    const { timeline } = this.#net;
    if (order.replayAfterMs !== null) {
      this.pending.add(number);
      timeline.post(order.replayAfterMs, () => this.#start(order));
    }
    const request = { org, runId, why: "not any more" };
    if (order.cancelAfterMs !== null) {
      const { skipsCompensation } = order;
      timeline.post(order.cancelAfterMs, () =>
        this.#act((engine, by) => cancelRun(engine, { ...request, by, skipsCompensation })),
      );
    }
    if (order.pauseAfterMs !== null) {
      timeline.post(order.pauseAfterMs, () => this.#act((engine, by) => pauseRun(engine, { ...request, by })));
    }
    if (order.lockAfterMs !== null) {
      timeline.post(order.lockAfterMs, () => this.#sendOnce((engine) => holdRunLock(engine, org, runId, order.lockMs)));
    }
  }

  #pollLater(): void {
    this.#net.timeline.post(POLL_MS, () => {
      if (this.#isStopped) return;
      for (const { value } of this.#net.store.rows(RUNS)) this.#resumeOrRerun(value);
      this.#redriveDeadLetters();
      this.#pollLater();
    });
  }

  #resumeOrRerun(run: Run): void {
    const order = this.#plan.orders[Number(run.labels.run_order)];
    if (order === undefined) return;
    const { org, id: runId } = run;
    if (run.state === "PAUSED") {
      const pausedMs = run.lines.findLast(({ event }) => event === "run_paused")?.atMs ?? 0;
      if (run.updatedMs - pausedMs >= order.pauseMs || this.#random.chance(POLL_MS / order.pauseMs)) {
        this.#act((engine, by) => resumeRun(engine, { org, runId, by, why: "go on" }));
      }
    }
    const isRerun = order.rerunFrom !== null && isRunFinal(run.state) && !run.parent && !run.rerunOf;
    if (isRerun && !this.#reruns.has(order.number)) this.#rerun(order, run);
  }

  /** Reruns each order once; the idempotency key makes retries safe. */
  #rerun(order: RunOrder, run: Run): void {
    const { org, id: runId } = run;
    const fromStep = this.#rerunStep(order, run);
    this.#reruns.set(order.number, null);
    this.#sendUntilDone(async (engine) => {
      const idempotencyKey = `rerun-${order.number}`;
      const keepsApprovals = order.number % 2 === 0;
      const outcome = await rerun(engine, { org, runId, fromStep, by: "client", idempotencyKey, keepsApprovals });
      if (outcome.kind === "started" || outcome.kind === "replayed") {
        const known = this.#reruns.get(order.number) ?? outcome.runId;
        if (known !== outcome.runId) this.#reportConflict(order, `rerun as ${known} first, then as ${outcome.runId}`);
        this.#reruns.set(order.number, outcome.runId);
      }
      return outcome.kind !== "full" && outcome.kind !== "gate_unavailable";
    });
  }

  /** A step behind an approval that was given, if there is one: the rerun asks for it again or keeps it. */
  #rerunStep({ rerunFrom }: RunOrder, { workflowId, steps: states }: Run): string {
    const workflow = this.#plan.workflows.find(({ id }) => id === workflowId);
    const steps = workflow?.steps ?? [];
    const given = steps.filter(({ id, kind }) => kind === "approval" && states[id]?.state === "SUCCEEDED");
    const isBehind = (step: SimStep) => workflow && given.some(({ id }) => dependenciesOf(workflow, step).includes(id));
    const behind = steps.filter(isBehind);
    const among = behind.length > 0 ? behind : steps;
    return among[(rerunFrom ?? 0) % among.length]?.id ?? "";
  }

  #redriveDeadLetters(): void {
    for (const { id, value } of this.#net.store.rows(DEAD_LETTERS)) {
      if (value.source.kind !== "job" || this.#redriven.has(id)) continue;
      const job = this.#net.store.load(JOBS, value.source.jobId)?.value;
      const order = this.#plan.orders[Number(job?.labels.run_order)];
      if (!job?.step || !order?.redrivesDeadLetters || this.#random.chance(0.7)) continue;
      this.#redriven.add(id);
      this.#act((engine, by) => redriveDeadLetter(engine, { org: job.org, id, by }));
    }
  }

  #act(request: (engine: Engine, by: string) => Promise<ActionOutcome>): void {
    this.#sendOnce((engine) => this.#perform("client", (by) => request(engine, by)));
  }

  #perform<T extends ActionOutcome>(role: string, act: (by: string) => Promise<T>): Promise<T> {
    return this.#actions.perform(role, act);
  }

  #sendOnce(request: (engine: Engine) => Promise<unknown>): void {
    this.#send(
      request,
      () => undefined,
      () => undefined,
    );
  }

  /** Retries until the reply is true. */
  #sendUntilDone(request: (engine: Engine) => Promise<boolean>): void {
    this.#retrying += 1;
    const attempt = (): void => {
      this.#send(request, retry, (isDone) => {
        if (isDone) this.#retrying -= 1;
        else retry();
      });
    };
    const retry = (): void => this.#net.timeline.post(this.#random.between(100, 3_000), attempt);
    attempt();
  }

  #send<T>(request: (engine: Engine) => Promise<T>, onFailure: () => void, onReply: (reply: T) => void): void {
    sendRequest({ net: this.#net, system: this.#system, random: this.#random }, request, onFailure, onReply);
  }

  #reportConflict({ number }: RunOrder, hint: string): void {
    this.#violations.add("run_idempotency", `run order ${number}`, hint);
  }

  #reportInvalid(id: string, problems: readonly string[]): void {
    this.#violations.add("run_outcome", id, `refused: ${problems.join("; ")}`);
  }
}

/** Holds the run's lock without a write, which contends with the process that advances the run. */
function holdRunLock(engine: Engine, org: string, runId: string, forMs: number): Promise<void> {
  const { ttlMs, gatewayWaitMs: waitMs } = engine.settings.current.runLock;
  const wait = (): Promise<void> => new Promise((resolve) => engine.world.clock.after(forMs, resolve));
  return withLock(engine, { key: runLockKey(runId), org, ttlMs, waitMs, path: "gateway" }, wait);
}

function requestOf(order: RunOrder): RunRequest {
  const { number, org, workflowId, input, priority, key } = order;
  const labels = { run_order: String(number) };
  return { ...defaultRunRequest(org, workflowId, "client"), input, priority, labels, idempotencyKey: key };
}

const POLL_MS = 900;
