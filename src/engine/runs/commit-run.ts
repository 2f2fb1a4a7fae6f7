import { DEAD_LETTERS, type DeadLetter, deadLetterOf } from "../../core/model/dead-letter.ts";
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
import { markSubRunLeft } from "../../core/workflow/run/step-job.ts";
import type { Message } from "../../ports/bus.ts";
import { type Committed, type Guard, type Put, put, type Versioned } from "../../ports/store.ts";
import { decisionPuts, recordDecision } from "../audit/index.ts";
import { decisionContext } from "../context.ts";
import { capacityGuards, dispatchBlock, dispatched, drainBacklog, sendJob, windowOf } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { releaseSlots } from "../limits/index.ts";
import { failureMessage, submitMessage } from "../packets.ts";
import type { RunDecision } from "./decide-run.ts";

/**
 * One commit for a run and everything that follows from its events: ended jobs with their dead letters, the run,
 * created jobs, stopped jobs.
 *
 * 1. The decisions on created jobs are in the audit log. If the run is refused, the log says that it was not started.
 * 2. Created jobs are dispatched at once where there is capacity, as in `place-job.ts`; otherwise they enter the
 *    backlog in the same commit.
 * 3. Effects after the commit are repaired by the sweeper if this process dies (`commit-effects.ts`).
 */
export interface RunChange {
  /** Null if this commit creates the run. */
  readonly before: Versioned<Run> | null;
  readonly decided: RunDecision;
  readonly ended: readonly Ended[];
  readonly extraPuts: readonly Put[];
  readonly guards: readonly Guard[];
  readonly sends?: readonly Message[];
}

export interface Ended {
  readonly found: Versioned<Job>;
  readonly next: Job;
}

export async function commitRun(
  engine: DispatchContext & Needs<"audit" | "runCache" | "runEffects">,
  change: RunChange,
): Promise<Committed> {
  const { before, decided, ended, guards } = change;
  const { run } = decided;
  const context = decisionContext(engine, run);
  const leave = ({ found, next }: Ended): Ended => ({ found, next: markSubRunLeft(next, context) });
  const stopped = decided.stopped.map(leave);
  const ends = ended.map(leave);
  const deadLetters: DeadLetter[] = [];
  // Dead letters describe the job as it ended, before `leaveSubRun` changes its due time.
  for (const { next } of ended) deadLetters.push(...deadLettersFrom(next));
  for (const job of decided.created) deadLetters.push(...deadLettersFrom(job));
  const fixed: Put[] = [...change.extraPuts, put(RUNS, run.id, before, run)];
  for (const { found, next } of ends) fixed.push(put(JOBS, found.id, found, next));
  for (const { found, next } of stopped) fixed.push(put(JOBS, found.id, found, next));
  fixed.push(...verdictsOn(engine, change, decided.created.filter(isJudged)));
  for (const deadLetter of deadLetters) fixed.push(put(DEAD_LETTERS, deadLetter.id, null, deadLetter));
  for (const lines of decided.pages) {
    fixed.push(put(TIMELINE, timelineKey(run.id, lines[0]?.seq ?? 0), null, { runId: run.id, lines }));
  }
  const sends = [...(change.sends ?? []), ...sendsOf(engine, ends, decided.created)];
  // Every ended job frees capacity of its topic.
  const freed: string[] = [];
  for (const { next } of [...ends, ...stopped]) {
    if (next.step?.kind === "worker" && !freed.includes(next.topic)) freed.push(next.topic);
  }
  for (let full: ReadonlySet<string> = NONE; ; ) {
    const going = decided.created.filter((job) => !full.has(job.topic) && mayGo(engine, job, decided.created));
    const sent = new Map<string, Job>();
    for (const job of going) sent.set(job.id, dispatched(engine, job));
    const committed = await engine.commit({
      org: run.org,
      puts: [...fixed, ...decided.created.map((job) => put(JOBS, job.id, null, sent.get(job.id) ?? job))],
      guards: [...guards, ...roomFor(engine, [...sent.values()])],
      sends,
      watch: [...freed.map(backlogOf), ...(isRunFinal(run.state) ? [slotWaitsOf(run.org)] : [])],
    });
    if (committed.kind === "refused" && !guards.includes(committed.guard) && going.length > 0) {
      full = new Set([...full, ...refusedTopics(engine, committed.guard, going)]);
      continue;
    }
    if (committed.kind === "committed") {
      const version = (before?.version ?? 0) + 1;
      if (isRunFinal(run.state)) engine.runCache.forgetRun(run.id);
      else engine.runCache.rememberRun({ id: run.id, version, value: run });
      for (const { found, next } of [...ends, ...stopped]) if (isFinal(next.state)) releaseSlots(engine, found.value);
      for (const job of sent.values()) sendJob(engine, { id: job.id, version: 1, value: job });
      for (const [at, topic] of freed.entries()) if ((committed.seen[at] ?? 0) > 0) drainBacklog(engine, topic);
      // The freed slot belongs to the waiting steps first.
      if ((committed.seen[freed.length] ?? 0) > 0) engine.runEffects.slotFreed(run.org);
      const queued = decided.created.filter((job) => job.state === "SCHEDULED" && !sent.has(job.id));
      for (const topic of new Set(queued.map((job) => job.topic))) drainBacklog(engine, topic);
      count(engine, ends, decided, deadLetters);
      engine.runEffects.committed({ ...change, ended: ends }, stopped);
    }
    return committed;
  }
}

function sendsOf(engine: Needs<"world">, ends: readonly Ended[], made: readonly Job[]): readonly Message[] {
  const { name } = engine.world;
  const sends: Message[] = [];
  for (const job of [...ends.map(({ next }) => next), ...made]) {
    const message = failureMessage(name, job);
    if (message) sends.push(message);
  }
  // A job that was not decided with its creation is announced, like any job that waits for its check.
  for (const job of made) {
    if (job.state === "PENDING" && job.wait === null && job.step?.kind === "worker")
      sends.push(submitMessage(name, job));
  }
  return sends;
}

/**
 * A sub-run may be refused a slot many times, so its decisions are part of the commit that creates it. Other decisions
 * are too frequent for one audit record each and are written beside the commit.
 */
function verdictsOn(
  engine: Needs<"world" | "commit" | "tasks" | "audit">,
  { before, decided }: RunChange,
  judged: readonly Job[],
): readonly Put[] {
  if (before === null && decided.run.parent !== undefined) return decisionPuts(engine, judged);
  for (const job of judged) recordDecision(engine, job);
  return [];
}

/** Decided by the policy. Approval steps are requested by the workflow, not by the policy. */
const isJudged = ({ step, safety }: Job): boolean => step?.kind === "worker" && safety !== null;

/** A few jobs are dispatched with the commit that creates them; many go through the backlog for fair sharing. */
function mayGo(
  engine: Needs<"world" | "settings" | "jobCache" | "registry" | "pools" | "safety">,
  job: Job,
  made: readonly Job[],
): boolean {
  if (job.state !== "SCHEDULED" || made.length > AT_ONCE_MAX) return false;
  const { jobCache, world } = engine;
  if (jobCache.isFull(job.topic) || jobCache.isIdle(job.topic, world.clock.now())) return false;
  return dispatchBlock(engine, job) === null;
}

/** The topics that have to wait: those without capacity, or all of them if a tenant or rule limit is reached. */
function refusedTopics(engine: Needs<"jobCache">, guard: Guard, going: readonly Job[]): readonly string[] {
  const topics = going.map(({ topic }) => topic);
  if (guard.kind !== "counter") return topics;
  const { group, name } = guard.counter;
  if (group === IN_FLIGHT_GROUP) {
    engine.jobCache.markFull(name);
    return [name];
  }
  const waiting = topics.filter((topic) => backlogGroupOf(topic) === group);
  return waiting.length > 0 ? waiting : topics;
}

function roomFor(
  engine: Needs<"world" | "settings" | "jobCache" | "registry">,
  going: readonly Job[],
): readonly Guard[] {
  const guards: Guard[] = [];
  for (const job of going) {
    guards.push({ kind: "counter", counter: backlogOfOrg(job.topic, job.org), max: 0 });
    guards.push(...capacityGuards(job, engine.settings.current, windowOf(engine, job.topic)));
  }
  return guards;
}

function count(
  engine: Needs<"world" | "settings">,
  ends: readonly Ended[],
  { created: made, stopped, run }: RunDecision,
  deadLetters: readonly DeadLetter[],
): void {
  const { metrics } = engine.world;
  for (const { next } of [...ends, ...stopped]) metrics.add("cordum_jobs_total", { state: next.state });
  for (const { state } of made) if (isFinal(state)) metrics.add("cordum_jobs_total", { state });
  for (const { reason, arms } of deadLetters) {
    metrics.add("cordum_dead_letters_total", engine.settings.labelled({ reason }, arms));
  }
  if (ends.length > 0) metrics.add("cordum_run_results_total", {}, ends.length);
  if (isRunFinal(run.state)) metrics.add("cordum_runs_total", { state: run.state });
}

function deadLettersFrom(job: Job): readonly DeadLetter[] {
  const deadLetter = deadLetterOf(job);
  return deadLetter ? [deadLetter] : [];
}

const NONE: ReadonlySet<string> = new Set();
const AT_ONCE_MAX = 32;
