import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { SimNet } from "../adapters/world.ts";
import type { Plan } from "../workload/plan.ts";
import type { RunClients } from "../workload/run-clients.ts";
import type { Violations } from "./violations.ts";

/** What is looked at of runs when the faults have stopped and the system has had its time. */
export interface EndedRuns {
  readonly net: SimNet;
  readonly plan: Plan;
  readonly runClients: RunClients;
  readonly violations: Violations;
}

/** Whether no run has anything left to be done. */
export function areRunsQuiet({ net, runClients }: EndedRuns): boolean {
  if (!runClients.isDone) return false;
  for (const { value } of net.store.rows(RUNS)) if (isLeft(value)) return false;
  for (const { value } of net.store.rows(JOBS)) if (value.step?.isSubRunLeft) return false;
  return true;
}

export function checkRuns(ended: EndedRuns): void {
  const { net, violations } = ended;
  checkRunClients(ended);
  checkRunsOfOrders(ended);
  const runs = new Map([...net.store.rows(RUNS)].map(({ id, value }) => [id, value]));
  const jobs = [...net.store.rows(JOBS)].map(({ value }) => value).filter(({ step }) => step !== undefined);
  for (const run of runs.values()) {
    if (isLeft(run)) violations.add("run_left", run.id, leftover(run));
  }
  for (const job of jobs) {
    const problem = problemOf(job, runs);
    if (problem !== null) violations.add("run_left", job.id, problem);
  }
  checkChildren(ended, runs, jobs);
  checkSubRuns(ended, runs, jobs);
}

const isLeft = (run: Run): boolean => !isRunFinal(run.state) || (run.parent !== undefined && !run.isParentTold);

function leftover(run: Run): string {
  if (isRunFinal(run.state)) return `${run.state}, and its parent ${run.parent?.jobId} was never told`;
  const steps = Object.entries(run.steps).map(([id, { state }]) => `${id} ${state}`);
  return `still ${run.state}, due ${run.dueMs}, deadline ${run.deadlineMs}: ${steps.join(", ")}`;
}

function checkRunClients({ net, plan, runClients, violations }: EndedRuns): void {
  for (const number of runClients.trying) {
    violations.add("acknowledged", `run order ${number}`, "its client was never told");
  }
  for (const [number, runId] of runClients.told) {
    const order = plan.runs.orders[number];
    const run = net.store.load(RUNS, runId)?.value;
    if (run === undefined)
      violations.add("acknowledged", runId, `run order ${number} was acknowledged, it is not there`);
    else if (run.org !== order?.org || run.workflowId !== order.workflowId || run.labels.run_order !== String(number)) {
      violations.add("run_idempotency", runId, `run order ${number} of ${order?.org} was given a run of ${run.org}`);
    }
  }
}

/** One wish, one run: whoever asked how often. */
function checkRunsOfOrders({ net, plan, violations }: EndedRuns): void {
  const made = new Map<string, string>();
  for (const { id, value } of net.store.rows(RUNS)) {
    if (value.parent) continue;
    const number = value.labels.run_order ?? "";
    const request = `${value.rerunOf ? "rerun of " : ""}run order ${number}`;
    const known = made.get(request);
    if (known !== undefined && plan.runs.orders[Number(number)]?.key !== null) {
      violations.add("run_idempotency", request, `made ${known}, and ${id} as well`);
    }
    made.set(request, id);
  }
}

function problemOf(job: Job, runs: ReadonlyMap<string, Run>): string | null {
  const run = runs.get(job.step?.runId ?? "");
  if (!run) return "its run is gone";
  if (isRunFinal(run.state) && !isFinal(job.state)) return `${job.state}, and its run is ${run.state}`;
  if (job.step?.isSubRunLeft) return "it left a run behind, and nobody stopped that";
  return null;
}

/** No child is lost, none is there twice, and each was counted as what it ended as. */
function checkChildren({ violations }: EndedRuns, runs: ReadonlyMap<string, Run>, jobs: readonly Job[]): void {
  const counts = new Map<string, Map<string, number>>();
  for (const { step, state } of jobs) {
    if (step?.index === undefined) continue;
    const key = `${step.runId} ${step.stepId}`;
    const own = counts.get(key) ?? new Map<string, number>();
    const as = state === "SUCCEEDED" ? "succeeded" : isFinal(state) ? "ended" : "open";
    own.set(as, (own.get(as) ?? 0) + 1);
    counts.set(key, own);
  }
  for (const run of runs.values()) {
    for (const [stepId, { fan }] of Object.entries(run.steps)) {
      if (!fan) continue;
      const own = counts.get(`${run.id} ${stepId}`);
      const [succeeded, ended] = [own?.get("succeeded") ?? 0, own?.get("ended") ?? 0];
      // One that was stopped by the commit that would have made it was never there.
      // Nor was a delay that would have ended after its run.
      const isMade = fan.error?.name !== "DelayTooLong";
      const isCounted = (ended >= fan.failed || !isMade) && ended <= fan.failed + fan.cancelled;
      if (fan.open === 0 && succeeded === fan.succeeded && isCounted) continue;
      const hint = `says ${fan.succeeded} done, ${fan.failed} failed, ${fan.cancelled} stopped, ${fan.open} open`;
      violations.add("run_left", `${run.id} ${stepId}`, `${hint}; there are ${succeeded} done and ${ended} others`);
    }
  }
}

/** A sub-run has one job that waits for it, and that one ended as it did. */
function checkSubRuns({ violations }: EndedRuns, runs: ReadonlyMap<string, Run>, jobs: readonly Job[]): void {
  const made = new Map<string, number>();
  for (const { parent } of runs.values()) if (parent) made.set(parent.jobId, (made.get(parent.jobId) ?? 0) + 1);
  for (const job of jobs) {
    if (job.step?.kind !== "subworkflow") continue;
    const { subRunId } = job.step;
    const times = made.get(job.id) ?? 0;
    const lives = 1 + job.history.filter(({ event }) => event === "revived").length;
    if (times > job.attempt * lives)
      violations.add("run_left", job.id, `${times} sub-runs for ${job.attempt} attempts`);
    const sub = subRunId === undefined ? undefined : runs.get(subRunId);
    if (subRunId !== undefined && sub?.parent?.jobId !== job.id) {
      violations.add("run_left", job.id, `its sub-run ${subRunId} is not there, or another's`);
    } else if (job.state === "SUCCEEDED" && sub?.state !== "SUCCEEDED") {
      violations.add("run_left", job.id, `SUCCEEDED, and its sub-run is ${sub?.state ?? "not there"}`);
    }
  }
}
