import { DEAD_LETTERS } from "../../core/model/dead-letter.ts";
import { JOBS } from "../../core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import { defaultRunRequest, type RunRequest, rerun, startRun } from "../../engine/intake/index.ts";
import { redriveDeadLetter } from "../../engine/maintenance/index.ts";
import { applyWorkflow, cancelRun, deleteWorkflow, pauseRun, resumeRun, runLockKey } from "../../engine/runs/index.ts";
import { withLock } from "../../engine/with-lock.ts";
import type { SimNet } from "../adapters/world.ts";
import type { Violations } from "../checks/violations.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";
import { sendRequest } from "./request.ts";
import { documentOf } from "./run-document.ts";
import type { RunOrder, RunPlan } from "./run-plan.ts";

/**
 * Those who want runs: they apply workflows, start runs with their keys until they are told, cancel, pause, resume and
 * hold them, run them again, and try their dead letters again. They are outside, as all clients are.
 */
export class RunClients {
  readonly #net: SimNet;
  readonly #plan: RunPlan;
  readonly #orgs: readonly string[];
  readonly #system: System;
  readonly #random: SeededRandom;
  readonly #violations: Violations;
  /** Order → the run that its client was told of. */
  readonly told = new Map<number, string>();
  /** Orders whose clients still try. */
  readonly trying = new Set<number>();
  readonly #letters = new Set<string>();
  readonly #reruns = new Map<number, string | null>();
  #busy = 0;
  #isOver = false;

  constructor(net: SimNet, plan: RunPlan, system: System, random: SeededRandom, violations: Violations) {
    this.#net = net;
    this.#plan = plan;
    this.#orgs = [...new Set(plan.orders.map(({ org }) => org))];
    this.#system = system;
    this.#random = random;
    this.#violations = violations;
  }

  start(): void {
    const { timeline } = this.#net;
    for (const org of this.#orgs) {
      for (const workflow of this.#plan.workflows) {
        this.#persist(async (engine) => {
          const applied = await applyWorkflow(engine, { org, by: "author", document: documentOf(workflow) });
          if (applied.kind === "invalid") this.#refused(workflow.id, applied.problems);
          return true;
        });
      }
    }
    for (const order of this.#plan.orders) {
      this.trying.add(order.number);
      timeline.post(order.atMs, () => this.#start(order));
    }
    this.#lookLater();
  }

  get isDone(): boolean {
    return this.trying.size === 0 && this.#busy === 0;
  }

  /** Nobody looks at anything any more. */
  stop(): void {
    this.#isOver = true;
  }

  /** Workflows stay until somebody takes them away. */
  removeWorkflows(): void {
    for (const org of this.#orgs) {
      for (const { id } of this.#plan.workflows) {
        this.#persist(async (engine) => {
          await deleteWorkflow(engine, { org, id, by: "author" });
          return true;
        });
      }
    }
  }

  #start(order: RunOrder): void {
    const again = (): void => {
      if (order.key === null) this.trying.delete(order.number);
      else this.#net.timeline.post(this.#random.between(100, 3_000), () => this.#start(order));
    };
    this.#ask(
      (engine) => startRun(engine, wishOf(order), "/api/v1/workflows/{id}/runs"),
      again,
      (outcome) => {
        if (outcome.kind === "started" || outcome.kind === "replayed") this.#hear(order, outcome.runId);
        else if (outcome.kind === "full" || outcome.kind === "gate_unavailable" || outcome.kind === "no_workflow")
          again();
        else {
          this.trying.delete(order.number);
          if (outcome.kind === "invalid") this.#refused(`run order ${order.number}`, outcome.problems);
          else this.#confused(order, `the same wish was called a conflict with ${outcome.runId}`);
        }
      },
    );
  }

  #hear(order: RunOrder, runId: string): void {
    const { number, org } = order;
    const known = this.told.get(number);
    if (known !== undefined && known !== runId) this.#confused(order, `told of ${known} first, then of ${runId}`);
    this.told.set(number, runId);
    this.trying.delete(number);
    if (known !== undefined) return;
    const { timeline } = this.#net;
    if (order.replayAfterMs !== null) {
      this.trying.add(number);
      timeline.post(order.replayAfterMs, () => this.#start(order));
    }
    const request = { org, runId, by: "client", why: "not any more" };
    if (order.cancelAfterMs !== null) {
      timeline.post(order.cancelAfterMs, () => this.#once((engine) => cancelRun(engine, request)));
    }
    if (order.pauseAfterMs !== null) {
      timeline.post(order.pauseAfterMs, () => this.#once((engine) => pauseRun(engine, { ...request, why: "wait" })));
    }
    if (order.heldAfterMs !== null) {
      timeline.post(order.heldAfterMs, () => this.#once((engine) => holdRun(engine, org, runId, order.heldMs)));
    }
  }

  #lookLater(): void {
    this.#net.timeline.post(LOOK_EVERY_MS, () => {
      if (this.#isOver) return;
      for (const { value } of this.#net.store.rows(RUNS)) this.#lookAt(value);
      this.#retryLetters();
      this.#lookLater();
    });
  }

  #lookAt(run: Run): void {
    const order = this.#plan.orders[Number(run.labels.run_order)];
    if (order === undefined) return;
    const { org, id: runId } = run;
    if (run.state === "PAUSED") {
      const pausedMs = run.lines.findLast(({ event }) => event === "run_paused")?.atMs ?? 0;
      if (run.updatedMs - pausedMs >= order.pauseMs || this.#random.chance(LOOK_EVERY_MS / order.pauseMs)) {
        this.#once((engine) => resumeRun(engine, { org, runId, by: "client", why: "go on" }));
      }
    }
    const isRerun = order.rerunFrom !== null && isRunFinal(run.state) && !run.parent && !run.rerunOf;
    if (isRerun && !this.#reruns.has(order.number)) this.#rerun(order, run);
  }

  /** Once for each order, whatever becomes of the answer; the key makes asking again harmless. */
  #rerun(order: RunOrder, { org, id: runId, workflowId }: Run): void {
    const steps = this.#plan.workflows.find(({ id }) => id === workflowId)?.steps ?? [];
    const fromStep = steps[(order.rerunFrom ?? 0) % steps.length]?.id ?? "";
    this.#reruns.set(order.number, null);
    this.#persist(async (engine) => {
      const idempotencyKey = `rerun-${order.number}`;
      const outcome = await rerun(engine, { org, runId, fromStep, by: "client", idempotencyKey });
      if (outcome.kind === "started" || outcome.kind === "replayed") {
        const known = this.#reruns.get(order.number) ?? outcome.runId;
        if (known !== outcome.runId) this.#confused(order, `rerun as ${known} first, then as ${outcome.runId}`);
        this.#reruns.set(order.number, outcome.runId);
      }
      return outcome.kind !== "full" && outcome.kind !== "gate_unavailable";
    });
  }

  #retryLetters(): void {
    for (const { id, value } of this.#net.store.rows(DEAD_LETTERS)) {
      if (value.source.kind !== "job" || this.#letters.has(id)) continue;
      const job = this.#net.store.load(JOBS, value.source.jobId)?.value;
      const order = this.#plan.orders[Number(job?.labels.run_order)];
      if (!job?.step || !order?.isRetried || this.#random.chance(0.7)) continue;
      this.#letters.add(id);
      this.#once((engine) => redriveDeadLetter(engine, { org: job.org, id, by: "operator" }));
    }
  }

  #once(request: (engine: Engine) => Promise<unknown>): void {
    this.#ask(
      request,
      () => undefined,
      () => undefined,
    );
  }

  /** Asks until somebody has said that it is done. */
  #persist(request: (engine: Engine) => Promise<boolean>): void {
    this.#busy += 1;
    const attempt = (): void => {
      this.#ask(request, again, (isDone) => {
        if (isDone) this.#busy -= 1;
        else again();
      });
    };
    const again = (): void => this.#net.timeline.post(this.#random.between(100, 3_000), attempt);
    attempt();
  }

  #ask<T>(request: (engine: Engine) => Promise<T>, again: () => void, hear: (answer: T) => void): void {
    sendRequest({ net: this.#net, system: this.#system, random: this.#random }, request, again, hear);
  }

  #confused({ number }: RunOrder, hint: string): void {
    this.#violations.add("run_idempotency", `run order ${number}`, hint);
  }

  #refused(id: string, problems: readonly string[]): void {
    this.#violations.add("run_outcome", id, `refused: ${problems.join("; ")}`);
  }
}

/** Nobody else may write to the run meanwhile, whoever has had it for itself until now. */
function holdRun(engine: Engine, org: string, runId: string, forMs: number): Promise<void> {
  const { ttlMs, gatewayWaitMs: waitMs } = engine.settings.current.runLock;
  const think = (): Promise<void> => new Promise((resolve) => engine.world.clock.after(forMs, resolve));
  return withLock(engine, { key: runLockKey(runId), org, ttlMs, waitMs, path: "gateway" }, think);
}

function wishOf(order: RunOrder): RunRequest {
  const { number, org, workflowId, input, priority, key } = order;
  const labels = { run_order: String(number) };
  return { ...defaultRunRequest(org, workflowId, "client"), input, priority, labels, idempotencyKey: key };
}

const LOOK_EVERY_MS = 900;
