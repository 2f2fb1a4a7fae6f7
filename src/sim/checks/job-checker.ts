import { DEAD_LETTERS, type DeadLetter } from "../../core/model/dead-letter.ts";
import { isFinal, JOB_MOVES, JOBS, type Job, type JobState, queueOf, REDRIVABLE } from "../../core/model/job.ts";
import { quotaOf } from "../../core/model/quota.ts";
import { jobLimitOf } from "../../engine/dispatch/index.ts";
import type { Change } from "../../ports/store.ts";
import type { TableWrite } from "../adapters/memory-store.ts";
import { latestNow, serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import { clockToleranceMs } from "../faults.ts";
import type { Plan } from "../workload/plan.ts";
import type { Violations } from "./violations.ts";

/** Checks every write of a job at the instant of the commit. */
export class JobChecker {
  readonly #net: SimNet;
  readonly #plan: Plan;
  readonly #violations: Violations;
  readonly #failures: ReadonlySet<string>;
  readonly #wasKilled: (org: string) => boolean;
  readonly #inFlight = new Map<string, number>();
  readonly #running = new Map<string, number>();
  readonly #openJobs = new Map<string, number>();
  readonly #jobOfOrder = new Map<number, string>();
  readonly #waiting = new Map<string, Map<string, Waiting>>();

  /** `failures`: `job@attempt` of every attempt that a worker reported as failed. */
  constructor(
    net: SimNet,
    plan: Plan,
    violations: Violations,
    failures: ReadonlySet<string>,
    wasKilled: (org: string) => boolean,
  ) {
    this.#wasKilled = wasKilled;
    this.#failures = failures;
    this.#net = net;
    this.#plan = plan;
    this.#violations = violations;
    net.store.observeTable(JOBS, (write) => this.#check(write));
  }

  #check({ change, id, before, after }: TableWrite<Job>): void {
    const { timeline, trace } = this.#net;
    trace.note(timeline.nowMs, "job", after?.state ?? "removed", id);
    if (after === null) {
      if (before !== null && !isFinal(before.state)) this.#add("terminal", id, `removed while ${before.state}`);
    } else {
      if (before === null) this.#checkNew(after);
      else if (!isRedriven(change, before, after)) this.#checkMove(before, after);
      if (isFinal(after.state) && (before === null || !isFinal(before.state))) this.#checkEnd(change, after);
    }
    this.#checkLimits(before, after);
    this.#checkFairness(before, after);
  }

  #checkNew(job: Job): void {
    if (!NEW_STATES.includes(job.state)) this.#add("moves", job.id, `created as ${job.state}`);
    if (job.step) return;
    const number = Number(job.labels.order);
    const known = this.#jobOfOrder.get(number);
    if (known !== undefined && this.#plan.orders[number]?.by !== "none") {
      this.#add("idempotency", job.id, `order ${number} had already created job ${known}`);
    }
    this.#jobOfOrder.set(number, job.id);
  }

  #checkMove(before: Job, after: Job): void {
    if (isFinal(before.state)) {
      // A stopped sub-run and the retention time are bookkeeping, not changes of the outcome.
      if (before.step && before.state === after.state && before.history === after.history) return;
      this.#add("terminal", before.id, `was ${before.state}, became ${after.state}`);
      return;
    }
    if (!isLegal(before.state, after.state))
      this.#add("moves", before.id, `went from ${before.state} to ${after.state}`);
    const started = isSubRun(after) ? "RUNNING" : "DISPATCHED";
    const dispatches = after.state === started && before.state !== started ? 1 : 0;
    // A job that returns to its queue reached no worker, so its attempt does not count.
    const returns = isInFlight(before) && after.state === "SCHEDULED" ? 1 : 0;
    if (after.attempt !== before.attempt + dispatches - returns) {
      this.#add(
        "moves",
        before.id,
        `attempt ${before.attempt} became ${after.attempt} in the transition to ${after.state}`,
      );
    }
    // A verdict applies whenever it arrives: the check may have been sent before the job started to wait.
    const isVerdict = before.state === "PENDING" && after.safety !== null && after.safety.snapshot !== "";
    if (before.wait !== null && !isVerdict && (after.state === "SCHEDULED" || after.state === "DISPATCHED")) {
      const earlyMs = before.wait.untilMs - latestNow(this.#net) - clockToleranceMs(this.#plan.faults.process);
      if (earlyMs > 1)
        this.#add("early", before.id, `left ${before.state} ${Math.round(earlyMs)} ms before it was due`);
    }
    if (isInFlight(before) && (after.state === "RETRYING" || after.state === "FAILED")) {
      this.#checkFailure(before, after);
    }
    if (after.state === "TIMEOUT" && !mayTimeOut(before, after, this.#plan)) {
      this.#add("outcome", after.id, "TIMEOUT before its deadline with attempts left");
    }
  }

  /** A failure belongs to the attempt in flight, and an attempt is lost only after its deadline. */
  #checkFailure(before: Job, after: Job): void {
    const outcome = after.history.at(-1)?.event;
    const isLost = outcome === "lost";
    const earlyMs = before.dueMs - latestNow(this.#net) - clockToleranceMs(this.#plan.faults.process);
    if (isLost && earlyMs > 1) {
      this.#add("early", before.id, `attempt ${before.attempt} lost ${Math.round(earlyMs)} ms before its deadline`);
    }
    // A worker without capacity, or with a payload it could not transfer, reports no failure of the job.
    if (outcome === "failed" && !isSubRun(before) && !this.#failures.has(`${before.id}@${before.attempt}`)) {
      this.#add("outcome", before.id, `attempt ${before.attempt} failed, but no worker reported it`);
    }
  }

  #checkEnd(change: Change, job: Job): void {
    const deadLetter = change.puts.find(({ table, id }) => table === DEAD_LETTERS.name && id === job.id)?.value;
    if (job.state === "FAILED" || job.state === "TIMEOUT") {
      if (!isComplete(deadLetter as DeadLetter | undefined, job)) {
        this.#add("letter", job.id, `${job.state} without a dead letter with its payload and history`);
      }
    } else if (deadLetter) {
      this.#add("letter", job.id, `${job.state} with a dead letter`);
    }
  }

  #checkLimits(before: Job | null, after: Job | null): void {
    this.#checkQuota(before, after);
    if (isInFlight(before)) {
      this.#inFlight.set(before.topic, (this.#inFlight.get(before.topic) ?? 0) - 1);
      this.#running.set(before.org, (this.#running.get(before.org) ?? 0) - 1);
    }
    if (!isInFlight(after)) return;
    const inFlight = (this.#inFlight.get(after.topic) ?? 0) + 1;
    this.#inFlight.set(after.topic, inFlight);
    const running = (this.#running.get(after.org) ?? 0) + 1;
    this.#running.set(after.org, running);
    const limit = this.#limitOf(after.org);
    if (running > limit)
      this.#add("tenant", after.org, `${running} in flight, the limit is ${limit}; last ${after.id}`);
    const { windowMax } = this.#plan.settings.dispatch;
    if (inFlight > windowMax)
      this.#add("window", after.topic, `${inFlight} in flight, the window is ${windowMax}; last ${after.id}`);
  }

  /** Only a submission is refused; what was admitted may exceed the quota. */
  #checkQuota(before: Job | null, after: Job | null): void {
    const job = after ?? before;
    if (job === null) return;
    const isOpen = (state: Job | null) => state !== null && !isFinal(state.state);
    const delta = Number(isOpen(after)) - Number(isOpen(before));
    const open = (this.#openJobs.get(job.org) ?? 0) + delta;
    this.#openJobs.set(job.org, open);
    const limit = quotaOf(this.#plan.settings, job.org, "backlogMax");
    if (before === null && delta > 0 && !job.step && open > limit)
      this.#add("tenant", job.org, `${open} open jobs, the quota is ${limit}; last ${job.id}`);
  }

  /** Counts how often other orgs were dispatched while an org waited on the same topic. */
  #checkFairness(before: Job | null, after: Job | null): void {
    const job = after ?? before;
    if (job === null) return;
    let orgs = this.#waiting.get(job.topic);
    if (orgs === undefined) {
      orgs = new Map();
      this.#waiting.set(job.topic, orgs);
    }
    const delta = Number(after?.state === "SCHEDULED") - Number(before?.state === "SCHEDULED");
    let own = orgs.get(job.org);
    if (own === undefined) {
      own = { jobs: 0, passedOver: 0 };
      orgs.set(job.org, own);
    }
    own.jobs += delta;
    if (after?.state !== "DISPATCHED") return;
    own.passedOver = 0;
    if (before?.state !== "SCHEDULED" && own.jobs > 0) {
      this.#add("fairness", job.id, `dispatched before ${own.jobs} queued jobs of ${job.org} on ${job.topic}`);
    }
    for (const [org, waiting] of orgs) {
      if (org === job.org) continue;
      if (waiting.jobs === 0 || this.#wasKilled(org) || (this.#running.get(org) ?? 0) >= this.#limitOf(org))
        waiting.passedOver = 0;
      // Entries claimed by a crashed process cannot be dispatched before the claim expires.
      else if (this.#net.store.hasVisible(JOBS.name, queueOf(job.topic, org), serverNow(this.#net)))
        waiting.passedOver += 1;
      if (waiting.passedOver <= PASSED_OVER_MAX) continue;
      this.#add(
        "fairness",
        `${job.topic}/${org}`,
        `${waiting.jobs} queued, others were dispatched ${waiting.passedOver} times`,
      );
    }
  }

  #limitOf(org: string): number {
    return jobLimitOf(this.#plan.settings, org) ?? Number.POSITIVE_INFINITY;
  }

  #add(checker: Parameters<Violations["add"]>[0], id: string, hint: string): void {
    this.#violations.add(checker, id, hint);
  }
}

/** A redrive writes the job in the commit that removes its dead letter. */
function isRedriven(change: Change, before: Job, after: Job): boolean {
  if (!REDRIVABLE.includes(before.state) || !after.history.some(({ event }) => event === "revived")) return false;
  return change.puts.some(({ table, id, value }) => table === DEAD_LETTERS.name && id === after.id && value === null);
}

interface Waiting {
  jobs: number;
  passedOver: number;
}

/** The number of other orgs times the number of processes, each with its own round-robin, plus a margin. */
const PASSED_OVER_MAX = 40;

/** Admission, safety check and dispatch may be one commit. */
const NEW_STATES: readonly JobState[] = ["PENDING", "APPROVAL_REQUIRED", "SCHEDULED", "DISPATCHED", "DENIED"];

const isInFlight = (job: Job | null): job is Job =>
  job !== null && !isSubRun(job) && (job.state === "DISPATCHED" || job.state === "RUNNING");

/** A job without a worker: it waits for a sub-run. */
const isSubRun = ({ step }: Job): boolean => step?.kind === "subworkflow";

/** One transition, two in one commit through SCHEDULED, or none when only the wait was updated. */
function isLegal(from: JobState, to: JobState): boolean {
  const moves: readonly JobState[] = JOB_MOVES[from];
  if (from === to || moves.includes(to)) return true;
  if (from === "SCHEDULED" || from === "DISPATCHED" || from === "RUNNING" || !moves.includes("SCHEDULED")) return false;
  return to === "DISPATCHED" || to === "PENDING" || to === "RETRYING";
}

function mayTimeOut(before: Job, after: Job, plan: Plan): boolean {
  const slackMs = clockToleranceMs(plan.faults.process);
  if (after.updatedMs + slackMs >= before.deadlineMs) return true;
  if (before.state === "APPROVAL_REQUIRED") return after.updatedMs + slackMs >= (before.approval?.expiresMs ?? 0);
  const { budget } = plan.settings.retry.unclassified;
  if (before.step?.retry) return isInFlight(before) && after.attempt > before.step.retry.retriesMax;
  return isInFlight(before) && budget.kind === "count" && after.attempt >= budget.max;
}

function isComplete(deadLetter: DeadLetter | undefined, job: Job): boolean {
  if (deadLetter?.source.kind !== "job") return false;
  return deadLetter.source.input === job.input && deadLetter.history === job.history;
}
