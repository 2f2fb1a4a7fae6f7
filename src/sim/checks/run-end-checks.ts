import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { isRunFinal, RUNS, type Run, stepJobId } from "../../core/model/run.ts";
import type { Ended } from "./end-checks.ts";

export function areRunsIdle({ net, runClients }: Ended): boolean {
  if (!runClients.isDone) return false;
  for (const { value } of net.store.rows(RUNS)) if (isUnfinished(value)) return false;
  for (const { value } of net.store.rows(JOBS)) if (value.step?.isSubRunLeft) return false;
  return true;
}

export function checkRuns(ended: Ended): void {
  const { net, violations } = ended;
  checkRunClients(ended);
  checkRunsOfOrders(ended);
  const runs = new Map([...net.store.rows(RUNS)].map(({ id, value }) => [id, value]));
  const jobs = [...net.store.rows(JOBS)].map(({ value }) => value).filter(({ step }) => step !== undefined);
  for (const run of runs.values()) {
    if (isUnfinished(run)) violations.add("run_left", run.id, describeUnfinished(run));
  }
  for (const job of jobs) {
    const problem = problemOf(job, runs);
    if (problem !== null) violations.add("run_left", job.id, problem);
  }
  checkChildren(ended, runs, jobs);
  checkCompensations(ended, runs, jobs);
  checkSubRuns(ended, runs, jobs);
}

const isUnfinished = (run: Run): boolean => !isRunFinal(run.state) || (run.parent !== undefined && !run.isParentTold);

function describeUnfinished(run: Run): string {
  if (isRunFinal(run.state)) return `${run.state}, but its parent ${run.parent?.jobId} was not notified`;
  const steps = Object.entries(run.steps).map(([id, { state }]) => `${id} ${state}`);
  return `still ${run.state}, due ${run.dueMs}, deadline ${run.deadlineMs}: ${steps.join(", ")}`;
}

function checkRunClients({ net, plan, runClients, violations }: Ended): void {
  for (const number of runClients.pending) {
    violations.add("acknowledged", `run order ${number}`, "its client got no reply");
  }
  for (const [number, runId] of runClients.acknowledged) {
    const order = plan.runs.orders[number];
    const run = net.store.load(RUNS, runId)?.value;
    if (run === undefined)
      violations.add("acknowledged", runId, `run order ${number} was acknowledged, but the run does not exist`);
    else if (run.org !== order?.org || run.workflowId !== order.workflowId || run.labels.run_order !== String(number)) {
      violations.add("run_idempotency", runId, `run order ${number} of ${order?.org} got a run of ${run.org}`);
    }
  }
}

/** Each order creates one run, however often it is sent. */
function checkRunsOfOrders({ net, plan, violations }: Ended): void {
  const made = new Map<string, string>();
  for (const { id, value } of net.store.rows(RUNS)) {
    if (value.parent || value.schedule) continue;
    const number = value.labels.run_order ?? "";
    const request = `${value.rerunOf ? "rerun of " : ""}run order ${number}`;
    const known = made.get(request);
    if (known !== undefined && plan.runs.orders[Number(number)]?.key !== null) {
      violations.add("run_idempotency", request, `created ${known} and ${id}`);
    }
    made.set(request, id);
  }
}

function problemOf(job: Job, runs: ReadonlyMap<string, Run>): string | null {
  const run = runs.get(job.step?.runId ?? "");
  if (!run) return "its run does not exist";
  if (isRunFinal(run.state) && !isFinal(job.state)) return `${job.state}, but its run is ${run.state}`;
  if (job.step?.isSubRunLeft) return "its abandoned sub-run was not stopped";
  return null;
}

/** The child counts of a step equal the final states of its children. */
function checkChildren({ plan, violations }: Ended, runs: ReadonlyMap<string, Run>, jobs: readonly Job[]): void {
  const counts = new Map<string, Map<string, number>>();
  for (const { step, state } of jobs) {
    if (step?.index === undefined || step.isCompensation) continue;
    // The run has the counts of the last iteration.
    if (step.iteration !== runs.get(step.runId)?.steps[step.stepId]?.fan?.iteration) continue;
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
      // Children stopped by the commit that would have created them, and delays longer than the run, have no job.
      const steps = plan.runs.workflows.find(({ id }) => id === run.workflowId)?.steps;
      const isDelay = steps?.find(({ id }) => id === stepId)?.kind === "delay";
      const isCounted = (ended >= fan.failed || isDelay) && ended <= fan.failed + fan.cancelled;
      if (fan.open === 0 && succeeded === fan.succeeded && isCounted) continue;
      const hint = `counts ${fan.succeeded} succeeded, ${fan.failed} failed, ${fan.cancelled} cancelled, ${fan.open} open`;
      violations.add(
        "run_left",
        `${run.id} ${stepId}`,
        `${hint}; the records have ${succeeded} succeeded and ${ended} others`,
      );
    }
  }
}

/** Each job that completed a step has one that undid it, if the run did not succeed; the record says whether it did. */
function checkCompensations({ plan, violations }: Ended, runs: ReadonlyMap<string, Run>, jobs: readonly Job[]): void {
  const undone = new Map(jobs.flatMap((job) => (job.step?.isCompensation ? [[job.id, job] as const] : [])));
  for (const { step, state, labels } of jobs) {
    const run = runs.get(step?.runId ?? "");
    const drawn = plan.runs.workflows.find(({ id }) => id === labels.workflow_id)?.steps;
    const isCompensated = drawn?.find(({ id }) => id === step?.stepId)?.isCompensated === true;
    if (!run || !step || step.isCompensation || !isCompensated || state !== "SUCCEEDED") continue;
    const id = stepJobId(run.id, step.stepId, step.index ?? null, { isCompensation: true });
    const undo = undone.get(id);
    undone.delete(id);
    const isDue = run.state !== "SUCCEEDED" && run.compensation?.isStopped !== true;
    if (isDue && undo === undefined) violations.add("compensation", id, `was not created; the run is ${run.state}`);
    if (run.state === "SUCCEEDED" && undo !== undefined)
      violations.add("compensation", id, "created, but the run succeeded");
    const recorded = run.steps[step.stepId]?.compensation?.state;
    if (undo !== undefined && undo.state !== "SUCCEEDED" && recorded !== "FAILED")
      violations.add("compensation", id, `is ${undo.state}, but the step is recorded as ${recorded}`);
  }
  for (const [id, { state }] of undone) violations.add("compensation", id, `${state}, but it undoes nothing`);
}

/** Each sub-run has one parent job, which ended as the sub-run did. */
function checkSubRuns({ violations }: Ended, runs: ReadonlyMap<string, Run>, jobs: readonly Job[]): void {
  const made = new Map<string, number>();
  for (const { parent } of runs.values()) if (parent) made.set(parent.jobId, (made.get(parent.jobId) ?? 0) + 1);
  for (const job of jobs) {
    if (job.step?.kind !== "subworkflow") continue;
    const { subRunId } = job.step;
    const times = made.get(job.id) ?? 0;
    const redrives = 1 + job.history.filter(({ event }) => event === "revived").length;
    if (times > job.attempt * redrives)
      violations.add("run_left", job.id, `${times} sub-runs for ${job.attempt} attempts`);
    const sub = subRunId === undefined ? undefined : runs.get(subRunId);
    if (subRunId !== undefined && sub?.parent?.jobId !== job.id) {
      violations.add("run_left", job.id, `its sub-run ${subRunId} does not exist or has another parent`);
    } else if (job.state === "SUCCEEDED" && sub?.state !== "SUCCEEDED") {
      violations.add("run_left", job.id, `SUCCEEDED, but its sub-run is ${sub?.state ?? "missing"}`);
    }
  }
}
