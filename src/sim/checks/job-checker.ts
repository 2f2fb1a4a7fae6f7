import { DEAD_LETTERS, type DeadLetter } from "../../core/model/dead-letter.ts";
import { isFinal, JOB_MOVES, JOBS, type Job, type JobState, queueOf, REDRIVABLE } from "../../core/model/job.ts";
import { jobLimitOf } from "../../engine/dispatch/index.ts";
import type { Change, Put, Versioned } from "../../ports/store.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import type { Plan } from "../workload/plan.ts";
import type { Violations } from "./violations.ts";

/** Looks at every write of a job, at the instant of the write. */
export class JobChecker {
  readonly #net: SimNet;
  readonly #plan: Plan;
  readonly #violations: Violations;
  readonly #failures: ReadonlySet<string>;
  readonly #inFlight = new Map<string, number>();
  readonly #running = new Map<string, number>();
  readonly #jobOfOrder = new Map<number, string>();
  readonly #waiting = new Map<string, Map<string, Waiting>>();

  /** `failures`: `job@attempt` of every attempt that a worker has called failed. */
  constructor(net: SimNet, plan: Plan, violations: Violations, failures: ReadonlySet<string>) {
    this.#failures = failures;
    this.#net = net;
    this.#plan = plan;
    this.#violations = violations;
    net.store.observe((change, before) => {
      for (const [index, put] of change.puts.entries()) {
        if (put.table === JOBS.name) this.#see(change, put, (before[index] ?? null) as Versioned<Job> | null);
      }
    });
  }

  #see(change: Change, put: Put, found: Versioned<Job> | null): void {
    const before = found?.value ?? null;
    const after = put.value as Job | null;
    const { timeline, trace } = this.#net;
    trace.note(timeline.nowMs, "job", after?.state ?? "removed", put.id);
    if (after === null) {
      if (before !== null && !isFinal(before.state)) this.#add("terminal", put.id, `removed while ${before.state}`);
    } else {
      if (before === null) this.#checkNew(after);
      else if (!isRevived(change, before, after)) this.#checkMove(before, after);
      if (isFinal(after.state) && (before === null || !isFinal(before.state))) this.#checkEnd(change, after);
    }
    this.#count(before, after);
    this.#checkTurns(before, after);
  }

  #checkNew(job: Job): void {
    if (!NEW_STATES.includes(job.state)) this.#add("moves", job.id, `began as ${job.state}`);
    if (job.step) return;
    const number = Number(job.labels.order);
    const known = this.#jobOfOrder.get(number);
    if (known !== undefined && this.#plan.orders[number]?.by !== "none") {
      this.#add("idempotency", job.id, `order ${number} had made job ${known} already`);
    }
    this.#jobOfOrder.set(number, job.id);
  }

  #checkMove(before: Job, after: Job): void {
    if (isFinal(before.state)) {
      // That its sub-run was stopped as well, or how long it is kept, is no change of the job.
      if (before.step && before.state === after.state && before.history === after.history) return;
      this.#add("terminal", before.id, `was ${before.state}, became ${after.state}`);
      return;
    }
    const steps = isLegal(before.state, after.state);
    if (!steps) this.#add("moves", before.id, `went from ${before.state} to ${after.state}`);
    const begun = isSubRun(after) ? "RUNNING" : "DISPATCHED";
    const dispatches = after.state === begun && before.state !== begun ? 1 : 0;
    // Nobody has got what goes back to its place: it was no attempt.
    const returns = isOut(before) && after.state === "SCHEDULED" ? 1 : 0;
    if (after.attempt !== before.attempt + dispatches - returns) {
      this.#add("moves", before.id, `attempt ${before.attempt} became ${after.attempt} on the way to ${after.state}`);
    }
    // A verdict stands whenever it comes: it may have been asked for before the job was told to wait.
    const isVerdict = before.state === "PENDING" && after.safety !== null && after.safety.snapshot !== "";
    if (before.wait !== null && !isVerdict && (after.state === "SCHEDULED" || after.state === "DISPATCHED")) {
      const earlyMs = before.wait.untilMs - serverNow(this.#net) - this.#plan.faults.process.skewMsMax;
      if (earlyMs > 1) this.#add("early", before.id, `left ${before.state} ${Math.round(earlyMs)} ms before its time`);
    }
    if (isOut(before) && (after.state === "RETRYING" || after.state === "FAILED")) {
      this.#checkFailure(before, after);
    }
    if (after.state === "TIMEOUT" && !mayTimeOut(before, after, this.#plan)) {
      this.#add("outcome", after.id, "TIMEOUT before its deadline, and with attempts left");
    }
  }

  /** A failure speaks for the attempt that is out, and an attempt is lost only after its deadline. */
  #checkFailure(before: Job, after: Job): void {
    const outcome = after.history.at(-1)?.event;
    const isLost = outcome === "lost";
    const earlyMs = before.dueMs - serverNow(this.#net) - this.#plan.faults.process.skewMsMax;
    if (isLost && earlyMs > 1) {
      this.#add("early", before.id, `attempt ${before.attempt} lost ${Math.round(earlyMs)} ms before its deadline`);
    }
    // No free place, or a payload that the worker could not fetch or put, is no failure of its own.
    if (outcome === "failed" && !isSubRun(before) && !this.#failures.has(`${before.id}@${before.attempt}`)) {
      this.#add("outcome", before.id, `attempt ${before.attempt} failed, but no worker said so`);
    }
  }

  #checkEnd(change: Change, job: Job): void {
    const letter = change.puts.find(({ table, id }) => table === DEAD_LETTERS.name && id === job.id)?.value;
    if (job.state === "FAILED" || job.state === "TIMEOUT") {
      if (!holds(letter as DeadLetter | undefined, job)) {
        this.#add("letter", job.id, `${job.state} without a dead letter that has its payload and its history`);
      }
    } else if (letter) {
      this.#add("letter", job.id, `${job.state}, and yet a dead letter`);
    }
  }

  #count(before: Job | null, after: Job | null): void {
    if (isOut(before)) {
      this.#inFlight.set(before.topic, (this.#inFlight.get(before.topic) ?? 0) - 1);
      this.#running.set(before.org, (this.#running.get(before.org) ?? 0) - 1);
    }
    if (!isOut(after)) return;
    const out = (this.#inFlight.get(after.topic) ?? 0) + 1;
    this.#inFlight.set(after.topic, out);
    const running = (this.#running.get(after.org) ?? 0) + 1;
    this.#running.set(after.org, running);
    const limit = this.#limitOf(after.org);
    if (running > limit) this.#add("tenant", after.org, `${running} are out, its limit is ${limit}; last ${after.id}`);
    const { windowMax } = this.#plan.settings.dispatch;
    if (out > windowMax)
      this.#add("window", after.topic, `${out} are out, the window is ${windowMax}; last ${after.id}`);
  }

  /** How often others were served while an org waited for one topic. */
  #checkTurns(before: Job | null, after: Job | null): void {
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
      this.#add("fairness", job.id, `sent at once, past ${own.jobs} jobs of ${job.org} that wait on ${job.topic}`);
    }
    for (const [org, waiting] of orgs) {
      if (org === job.org) continue;
      if (waiting.jobs === 0 || (this.#running.get(org) ?? 0) >= this.#limitOf(org)) waiting.passedOver = 0;
      // What a process holds that has just died is nobody's to take before its lease is over.
      else if (this.#net.store.hasVisible(JOBS.name, queueOf(job.topic, org), serverNow(this.#net)))
        waiting.passedOver += 1;
      if (waiting.passedOver <= PASSED_OVER_MAX) continue;
      this.#add(
        "fairness",
        `${job.topic}/${org}`,
        `${waiting.jobs} wait, others were served ${waiting.passedOver} times`,
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

/** Somebody tried its dead letter again: its second life is in the commit that removes the letter. */
function isRevived(change: Change, before: Job, after: Job): boolean {
  if (!REDRIVABLE.includes(before.state) || !after.history.some(({ event }) => event === "revived")) return false;
  return change.puts.some(({ table, id, value }) => table === DEAD_LETTERS.name && id === after.id && value === null);
}

interface Waiting {
  jobs: number;
  passedOver: number;
}

/** With a fair turn it is the other orgs, times the processes that each keep a turn of their own; and some bad luck. */
const PASSED_OVER_MAX = 40;

/** Admission, check and placement may be one commit. */
const NEW_STATES: readonly JobState[] = ["PENDING", "APPROVAL_REQUIRED", "SCHEDULED", "DISPATCHED", "DENIED"];

const isOut = (job: Job | null): job is Job =>
  job !== null && !isSubRun(job) && (job.state === "DISPATCHED" || job.state === "RUNNING");

/** It is with no worker: another run does it. */
const isSubRun = ({ step }: Job): boolean => step?.kind === "subworkflow";

/** One move, or two in one commit by way of SCHEDULED; or none, when only what it waits for was written. */
function isLegal(from: JobState, to: JobState): boolean {
  const moves: readonly JobState[] = JOB_MOVES[from];
  if (from === to || moves.includes(to)) return true;
  if (from === "SCHEDULED" || from === "DISPATCHED" || from === "RUNNING" || !moves.includes("SCHEDULED")) return false;
  return to === "DISPATCHED" || to === "PENDING" || to === "RETRYING";
}

function mayTimeOut(before: Job, after: Job, plan: Plan): boolean {
  const slackMs = plan.faults.process.skewMsMax;
  if (after.updatedMs + slackMs >= before.deadlineMs) return true;
  if (before.state === "APPROVAL_REQUIRED") return after.updatedMs + slackMs >= (before.approval?.expiresMs ?? 0);
  const { budget } = plan.settings.retry.unclassified;
  if (before.step?.retry) return isOut(before) && after.attempt > before.step.retry.retriesMax;
  return isOut(before) && budget.kind === "count" && after.attempt >= budget.max;
}

function holds(letter: DeadLetter | undefined, job: Job): boolean {
  if (letter?.source.kind !== "job") return false;
  return letter.source.input === job.input && letter.history === job.history;
}
