import { waitReasonOf } from "../core/jobs/explain.ts";
import { bareTopic } from "../core/model/canonical.ts";
import { isFinal, JOBS, type Job } from "../core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../core/model/run.ts";
import type { MemoryStore } from "../sim/adapters/memory-store.ts";

/** The jobs and runs that have not ended, followed by the commits of the store. */
export class OpenWork {
  readonly #jobs = new Map<string, Job>();
  readonly #runs = new Map<string, Run>();
  readonly #canServe: (job: Job) => boolean;
  #jobsCreated = 0;
  /** Called after each write of a job or a run. */
  onChange: () => void = () => {};

  constructor(store: MemoryStore, canServe: (job: Job) => boolean) {
    this.#canServe = canServe;
    store.observeTable(JOBS, ({ id, before, after }) => {
      if (before === null) this.#jobsCreated += 1;
      if (after === null || isFinal(after.state)) this.#jobs.delete(id);
      else this.#jobs.set(id, after);
      this.onChange();
    });
    store.observeTable(RUNS, ({ id, after }) => {
      if (after === null || isRunFinal(after.state)) this.#runs.delete(id);
      else this.#runs.set(id, after);
      this.onChange();
    });
  }

  get jobsCreated(): number {
    return this.#jobsCreated;
  }

  hasJob(id: string): boolean {
    return this.#jobs.has(id);
  }

  hasRun(id: string): boolean {
    return this.#runs.has(id);
  }

  /** Whether no job is checked, queued for a worker or worked on. */
  get isCalm(): boolean {
    for (const job of this.#jobs.values()) if (this.#isMoving(job)) return false;
    return true;
  }

  /** Whether nothing ends without an action from outside: an approval, an event, a worker, a resume. */
  get isBlocked(): boolean {
    for (const job of this.#jobs.values()) if (job.step === undefined && !this.isJobBlocked(job.id)) return false;
    for (const run of this.#runs.values()) if (run.parent === undefined && !this.isRunBlocked(run.id)) return false;
    return true;
  }

  isJobBlocked(id: string): boolean {
    const job = this.#jobs.get(id);
    return job !== undefined && (waitReasonOf(job) === "approval" || this.#lacksWorker(job));
  }

  /** Whether every open job of the run and of its sub-runs is blocked, or there is none because the run is paused or waits for an event. */
  isRunBlocked(runId: string): boolean {
    const run = this.#runs.get(runId);
    if (run === undefined) return false;
    let blocked = run.state === "PAUSED" ? 1 : 0;
    for (const step of Object.values(run.steps)) if (step.state === "RUNNING" && step.awaits) blocked += 1;
    for (const job of this.#jobs.values()) {
      if (job.step?.runId !== runId) continue;
      const { subRunId } = job.step;
      const isSubRun = waitReasonOf(job) === "sub_run" && subRunId !== undefined;
      if (isSubRun ? !this.isRunBlocked(subRunId) : !this.isJobBlocked(job.id)) return false;
      blocked += 1;
    }
    return blocked > 0;
  }

  #lacksWorker(job: Job): boolean {
    const reason = waitReasonOf(job);
    return (reason === "turn" || reason === "no_worker") && !this.#canServe(job);
  }

  #isMoving(job: Job): boolean {
    return MOVING.has(waitReasonOf(job) ?? "") && !this.#lacksWorker(job);
  }
}

/** Whether the handlers of a plane serve the job. */
export function servedBy(topics: readonly string[], capabilities: readonly string[]): (job: Job) => boolean {
  return ({ topic, requires }) =>
    topics.includes(bareTopic(topic)) && requires.every((name) => capabilities.includes(name));
}

const MOVING: ReadonlySet<string> = new Set(["safety_check", "turn", "dispatched", "running", "run_slot"]);
