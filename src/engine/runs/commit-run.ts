import { dispatchJob } from "../../core/jobs/attempt.ts";
import { DEAD_LETTERS, type DeadLetter, letterOf } from "../../core/model/dead-letter.ts";
import {
  backlogGroupOf,
  backlogOf,
  backlogOfOrg,
  IN_FLIGHT_GROUP,
  isFinal,
  JOBS,
  type Job,
  slotWaitsOf,
} from "../../core/model/job.ts";
import { isRunFinal, RUNS, type Run, TIMELINE, timelineKey } from "../../core/model/run.ts";
import { leaveSubRun } from "../../core/workflow/run/step-job.ts";
import type { Message } from "../../ports/bus.ts";
import { type Committed, type Guard, type Put, put, type Versioned } from "../../ports/store.ts";
import { auditedVerdicts, decisionLine, noteAudit } from "../audit/audit-log.ts";
import { apply } from "../commit.ts";
import { guardsOf } from "../dispatch/capacity-guards.ts";
import { drain } from "../dispatch/drain-backlog.ts";
import { held } from "../dispatch/select-target.ts";
import { dispatch } from "../dispatch/send-job.ts";
import { type Flow, given } from "../engine.ts";
import { deadLetterMessage, submitMessage } from "../packets.ts";
import { afterRun } from "./commit-effects.ts";
import type { Decided } from "./decide-run.ts";
import { offerSlots } from "./run-slots.ts";

/**
 * A run and everything that follows from the news about it, in one commit: jobs that ended with their dead letters, the
 * run, the jobs that come next, those that are stopped.
 *
 * 1. The verdicts on the jobs that come next stand in the audit log; of a run that is refused it is said that it was not made.
 * 2. Jobs that may go are sent at once where there is room, like any other job (see `place.ts`); else they join the
 *    backlog, in the same commit.
 * 3. What can only be done afterwards (telling workers, people, another run) is repaired by the sweeper if this process
 *    dies before.
 */
export interface RunChange {
  /** null: the run is made by this commit. */
  readonly before: Versioned<Run> | null;
  readonly decided: Decided;
  readonly ended: readonly Ended[];
  readonly besides: readonly Put[];
  readonly guards: readonly Guard[];
  readonly sends?: readonly Message[];
}

export interface Ended {
  readonly found: Versioned<Job>;
  readonly next: Job;
}

export async function commitRun(flow: Flow, change: RunChange): Promise<Committed> {
  const { before, decided, ended, guards } = change;
  const { run } = decided;
  const moment = given(flow);
  const leave = ({ found, next }: Ended): Ended => ({ found, next: leaveSubRun(next, moment) });
  const stopped = decided.stopped.map(leave);
  const ends = ended.map(leave);
  const letters: DeadLetter[] = [];
  // Of the jobs as they ended: that one has to come back soon, to stop another run, is no matter of its letter.
  for (const { next } of ended) letters.push(...lettersOf(next));
  for (const job of decided.made) letters.push(...lettersOf(job));
  const fixed: Put[] = [...change.besides, put(RUNS, run.id, before, run)];
  for (const { found, next } of ends) fixed.push(put(JOBS, found.id, found, next));
  for (const { found, next } of stopped) fixed.push(put(JOBS, found.id, found, next));
  fixed.push(...verdictsOn(flow, change, decided.made.filter(isJudged)));
  for (const letter of letters) fixed.push(put(DEAD_LETTERS, letter.id, null, letter));
  for (const lines of decided.pages) {
    fixed.push(put(TIMELINE, timelineKey(run.id, lines[0]?.seq ?? 0), null, { runId: run.id, lines }));
  }
  const sends = [...(change.sends ?? []), ...sendsOf(flow, ends, decided.made)];
  // Room has come with every job that ended.
  const freed: string[] = [];
  for (const { next } of [...ends, ...stopped]) {
    if (next.step?.kind === "worker" && !freed.includes(next.topic)) freed.push(next.topic);
  }
  for (let full: ReadonlySet<string> = NONE; ; ) {
    const going = decided.made.filter((job) => !full.has(job.topic) && mayGo(flow, job, decided.made));
    const sent = new Map<string, Job>();
    for (const job of going) sent.set(job.id, dispatchJob(job, given(flow)));
    const committed = await apply(flow, {
      org: run.org,
      puts: [...fixed, ...decided.made.map((job) => put(JOBS, job.id, null, sent.get(job.id) ?? job))],
      guards: [...guards, ...roomFor(flow, going)],
      sends,
      watch: [...freed.map(backlogOf), ...(isRunFinal(run.state) ? [slotWaitsOf(run.org)] : [])],
    });
    if (committed.kind === "refused" && !guards.includes(committed.guard) && going.length > 0) {
      full = new Set([...full, ...refusedTopics(flow, committed.guard, going)]);
      continue;
    }
    if (committed.kind === "committed") {
      const version = (before?.version ?? 0) + 1;
      if (isRunFinal(run.state)) flow.runs.forgetRun(run.id);
      else flow.runs.rememberRun({ id: run.id, version, value: run });
      for (const job of sent.values()) dispatch(flow, { id: job.id, version: 1, value: job });
      for (const [at, topic] of freed.entries()) if ((committed.seen[at] ?? 0) > 0) drain(flow, topic);
      // Its slot has come free: it is for those who wait, if there are any.
      if ((committed.seen[freed.length] ?? 0) > 0) offerSlots(flow, run.org);
      const queued = decided.made.filter((job) => job.state === "SCHEDULED" && !sent.has(job.id));
      for (const topic of new Set(queued.map((job) => job.topic))) drain(flow, topic);
      count(flow, ends, decided, letters);
      afterRun(flow, { ...change, ended: ends }, stopped);
    }
    return committed;
  }
}

function sendsOf(flow: Flow, ends: readonly Ended[], made: readonly Job[]): readonly Message[] {
  const { name, safety } = flow.world;
  const sends: Message[] = [];
  for (const job of [...ends.map(({ next }) => next), ...made]) {
    if (letterOf(job)) sends.push(deadLetterMessage(name, job));
  }
  if (safety.local) return sends;
  // Elsewhere decided: announced, like any job that waits for its check.
  for (const job of made) {
    if (job.state === "PENDING" && job.step?.kind === "worker") sends.push(submitMessage(name, job));
  }
  return sends;
}

/**
 * A sub-run asks for its slot again and again, so its verdicts stand in the commit that makes it. All others are too many for
 * a record of the audit log each: their lines are written beside the commit.
 */
function verdictsOn(flow: Flow, { before, decided }: RunChange, judged: readonly Job[]): readonly Put[] {
  if (before === null && decided.run.parent !== undefined) return auditedVerdicts(flow, judged);
  for (const job of judged) noteAudit(flow, decisionLine(job));
  return [];
}

/** The policy has decided on it here; what a workflow asks people for is no decision of the policy. */
const isJudged = ({ step, safety }: Job): boolean => step?.kind === "worker" && safety !== null;

/** Few jobs are sent with the commit that makes them; many go through the backlog, which knows whose turn it is. */
function mayGo(flow: Flow, job: Job, made: readonly Job[]): boolean {
  if (job.state !== "SCHEDULED" || made.length > AT_ONCE_MAX) return false;
  const { desk, world } = flow;
  if (desk.isFull(job.topic) || desk.isIdle(job.topic, world.clock.now())) return false;
  return held(flow, job) === null;
}

/** Which of them have to wait: those of a topic without room, or all, where a limit of their tenant or rule is reached. */
function refusedTopics(flow: Flow, guard: Guard, going: readonly Job[]): readonly string[] {
  const topics = going.map(({ topic }) => topic);
  if (guard.kind !== "counter") return topics;
  const { group, name } = guard.counter;
  if (group === IN_FLIGHT_GROUP) {
    flow.desk.markFull(name);
    return [name];
  }
  const waiting = topics.filter((topic) => backlogGroupOf(topic) === group);
  return waiting.length > 0 ? waiting : topics;
}

function roomFor(flow: Flow, going: readonly Job[]): readonly Guard[] {
  const guards: Guard[] = [];
  for (const job of going) {
    guards.push({ kind: "counter", counter: backlogOfOrg(job.topic, job.org), max: 0 });
    guards.push(...guardsOf(job, flow.settings.current));
  }
  return guards;
}

function count(
  flow: Flow,
  ends: readonly Ended[],
  { made, stopped, run }: Decided,
  letters: readonly DeadLetter[],
): void {
  const { metrics } = flow.world;
  for (const { next } of [...ends, ...stopped]) metrics.add("cordum_jobs_total", { state: next.state });
  for (const { state } of made) if (isFinal(state)) metrics.add("cordum_jobs_total", { state });
  for (const { reason } of letters) metrics.add("cordum_dead_letters_total", { reason });
  if (ends.length > 0) metrics.add("cordum_run_results_total", {}, ends.length);
  if (isRunFinal(run.state)) metrics.add("cordum_runs_total", { state: run.state });
}

function lettersOf(job: Job): readonly DeadLetter[] {
  const letter = letterOf(job);
  return letter ? [letter] : [];
}

const NONE: ReadonlySet<string> = new Set();
const AT_ONCE_MAX = 32;
