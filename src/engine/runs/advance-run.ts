import { cancelJob } from "../../core/jobs/lifecycle.ts";
import { JOBS, openChildrenOf } from "../../core/model/job.ts";
import { copyRun, isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import { isStoreAway } from "../../core/retry/failure.ts";
import { retryAfter } from "../../core/retry/intent.ts";
import { nextDelay } from "../../core/retry/policies.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import type { RunEvent } from "../../core/workflow/run/advance.ts";
import { markSubRunLeft } from "../../core/workflow/run/step-job.ts";
import type { LockLease } from "../../ports/locks.ts";
import { type Guard, type Put, put, type Versioned } from "../../ports/store.ts";
import { ConflictError } from "../commit.ts";
import { decisionContext } from "../context.ts";
import { settleJobAlone } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { storedBytesGuard } from "../quotas.ts";
import { commitRun, type Ended } from "./commit-run.ts";
import { decideRun, type RunDecision, STOPPED_MAX } from "./decide-run.ts";
import { measureBatch } from "./measure-batch.ts";
import type { PendingRunEvent } from "./run-inbox.ts";
import { cachedPlan, planOf } from "./workflows.ts";

/**
 * Processes one batch of run events under the run lock: load, decide, commit, resolve each event. Returns true if the
 * run has more to do at once. "locked": a lock-free commit was refused because the lock is held or the run changed; no
 * event was resolved.
 */
export async function advanceRun(
  engine: DispatchContext & Needs<"audit" | "planCache" | "runCache" | "runEffects">,
  runId: string,
  batch: readonly PendingRunEvent[],
  lock: HeldLock,
): Promise<boolean | "locked"> {
  let waiting = firstPerJob(batch);
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    // A cached run is confirmed by the commit. That a run has ended is not, so the store is asked.
    const found = engine.runCache.recallRun(runId) ?? (await engine.world.store.load(RUNS, runId));
    if (!found || isRunFinal(found.value.state)) {
      await settleWithoutRun(engine, waiting, found?.value ?? null);
      return false;
    }
    const plan = cachedPlan(engine, found.value) ?? (await planFor(engine, found.value));
    if (!plan && lock.isLockFree) return "locked";
    const outcome = plan
      ? await decideAndCommit(engine, plan, found, waiting, lock, tries)
      : await abandon(engine, found, lock);
    if (outcome.kind === "abandoned") continue;
    if (outcome.kind === "written") {
      for (const { queued, resolve } of waiting) {
        const answer = queued.kind === "event" ? outcome.answers.get(queued.event) : undefined;
        resolve({ kind: "done", run: outcome.run, ...(answer && { answer }) });
      }
      return outcome.hasMore;
    }
    if (outcome.id === runId) engine.runCache.recordRecall(false);
    engine.runCache.forgetRun(runId);
    if (lock.isLockFree) return "locked";
    if (outcome.id !== runId) waiting = await dropStale(engine, waiting, outcome.id);
    if (waiting.length === 0 && batch.length > 0) return true;
  }
  throw new ConflictError(`run \`${runId}\` changed ${TRIES_MAX} times during the decision`);
}

/** An acquired lock, or the reserved fence of a lock-free commit. */
export interface HeldLock extends Pick<LockLease, "key" | "fence" | "waitedMs" | "attempts"> {
  readonly isLockFree?: boolean;
}

/** A stale commit names one record; others may be stale too. Events whose job changed resolve as "stale". */
async function dropStale(
  engine: Needs<"world">,
  waiting: readonly PendingRunEvent[],
  oldId: string,
): Promise<readonly PendingRunEvent[]> {
  const { store } = engine.world;
  const isTrue = await Promise.all(
    waiting.map(async ({ queued }) => {
      if (queued.kind !== "job") return true;
      if (queued.found.id === oldId) return false;
      return (await store.load(JOBS, queued.found.id))?.version === queued.found.version;
    }),
  );
  waiting.forEach(({ resolve }, at) => {
    if (!isTrue[at]) resolve({ kind: "stale" });
  });
  return waiting.filter((_, at) => isTrue[at]);
}

type Outcome =
  | ({ readonly kind: "written" } & Pick<RunDecision, "run" | "hasMore" | "answers">)
  /** The run has ended; pending jobs end without it. */
  | { readonly kind: "abandoned" }
  /** The id of the stale record. */
  | { readonly kind: "stale"; readonly id: string };

async function decideAndCommit(
  engine: DispatchContext & Needs<"audit" | "runCache" | "runEffects">,
  plan: Plan,
  found: Versioned<Run>,
  waiting: readonly PendingRunEvent[],
  lock: HeldLock,
  tries: number,
  isOverQuota = false,
): Promise<Outcome> {
  const { id, value: before } = found;
  const { fence, waitedMs, attempts } = lock;
  const own = guardsOf(id, lock);
  const events: RunEvent[] = [];
  const ended: Ended[] = [];
  const ids = new Set<string>();
  const extraPuts: Put[] = [];
  const guards: Guard[] = [...own];
  for (const { queued } of waiting) {
    extraPuts.push(...queued.puts);
    if (queued.kind === "event") {
      events.push(queued.event);
      continue;
    }
    events.push({ kind: "job_ended", job: queued.next });
    ended.push(queued);
    ids.add(queued.found.id);
    guards.push(...queued.guards);
  }
  if (events.length === 0) events.push({ kind: "time" });
  const held = copyRun(before);
  held.lock = { holder: engine.world.name, fence, waitedMs, attempts };
  if (before.arms !== undefined) measureBatch(engine, held, waiting);
  const decided = await decideRun(engine, plan, held, events, ids, tries, isOverQuota);
  const storesInput = decided.created.some(({ bytes }) => bytes !== undefined);
  const room = storesInput ? storedBytesGuard(engine.settings.current, before.org) : null;
  if (room !== null) guards.push(room);
  const committed = await commitRun(engine, { before: found, decided, ended, extraPuts, guards });
  switch (committed.kind) {
    case "committed":
      return { ...decided, kind: "written", hasMore: decided.hasMore && hasProgress(before, decided) };
    case "stale":
      return { kind: "stale", id: committed.id };
    case "refused":
      if (committed.guard === room) return decideAndCommit(engine, plan, found, waiting, lock, tries, true);
      if (own.includes(committed.guard))
        return lock.isLockFree ? { kind: "stale", id } : Promise.reject(lostLock(engine, before));
      // The guard of a job that was decided under its own lock.
      return { kind: "stale", id: "id" in committed.guard ? committed.guard.id : "" };
    default:
      return committed satisfies never;
  }
}

function guardsOf(id: string, { key, fence, isLockFree }: HeldLock): readonly Guard[] {
  const guard: Guard = { kind: "fence", table: RUNS.name, id, fence };
  return isLockFree ? [guard, { kind: "free", lock: key }] : [guard];
}

/** A round without progress is not repeated at once; the run's due time repeats it. */
function hasProgress(before: Run, { created: made, stopped, run }: RunDecision): boolean {
  if (made.length + stopped.length > 0 || run.lineCount > before.lineCount) return true;
  return spawnedIn(run) > spawnedIn(before);
}

/** Children that were created, and children that their compensation passed. */
const spawnedIn = ({ steps }: Run): number =>
  Object.values(steps).reduce((sum, { fan, compensation }) => {
    const { spawned = 0 } = fan ?? {};
    return sum + spawned + (compensation?.fan ? spawned - compensation.fan.left : 0);
  }, 0);

/** Null if the definition is gone or cannot be compiled by this version. */
async function planFor(
  engine: Needs<"world" | "planCache">,
  { id, org, workflowId, version }: Run,
): Promise<Plan | null> {
  try {
    return await planOf(engine, org, workflowId, version);
  } catch (error) {
    if (isStoreAway(error)) throw error;
    engine.world.log.write("error", "definition_compile_failed", { run: id, error: String(error) });
    return null;
  }
}

/**
 * Ends a run whose definition is gone, and frees its slot (L37). Jobs that wait for a sub-run are cancelled first, so
 * that the sub-run is stopped and frees its slot too.
 */
async function abandon(
  engine: Needs<"world" | "settings" | "commit" | "runCache" | "runEffects">,
  found: Versioned<Run>,
  lock: HeldLock,
): Promise<Outcome> {
  const { id, value: before } = found;
  const guards = guardsOf(id, lock);
  const stopped = await stopSubSteps(engine, before, guards);
  if (stopped !== "done") return stopped;
  const nowMs = engine.world.clock.now();
  const message = `version ${before.version} of workflow \`${before.workflowId}\` no longer exists or cannot be compiled`;
  const line = { seq: before.lineCount, atMs: nowMs, event: "run_failed", why: message } as const;
  const { endsAs: _, ...rest } = before;
  const run: Run = {
    ...rest,
    state: "FAILED",
    error: { name: "DefinitionGone", message },
    lines: [...before.lines, line],
    lineCount: before.lineCount + 1,
    updatedMs: nowMs,
    dueMs: nowMs + (before.parent ? 0 : engine.settings.current.retention.runsMs),
    ...(before.parent ? { isParentTold: false } : {}),
  };
  engine.runCache.forgetRun(id);
  const committed = await engine.commit({ org: run.org, puts: [put(RUNS, id, found, run)], guards });
  if (committed.kind === "refused") throw lostLock(engine, run);
  engine.runEffects.slotFreed(run.org);
  return { kind: "abandoned" };
}

/** In bounded commits. If this process dies, the open run leads back here. */
async function stopSubSteps(
  engine: Needs<"world" | "settings" | "commit">,
  run: Run,
  guards: readonly Guard[],
): Promise<Outcome | "done"> {
  const { store } = engine.world;
  const why = "the definition of its run no longer exists";
  for (const [stepId, { state, jobId, fan }] of Object.entries(run.steps)) {
    if (state !== "RUNNING") continue;
    for (;;) {
      const index = openChildrenOf(run.id, stepId, fan?.iteration);
      const own = jobId === undefined ? null : await store.load(JOBS, jobId);
      const jobs = fan ? (await store.list(JOBS, { index, limit: STOPPED_MAX })).items : own ? [own] : [];
      const puts = jobs.flatMap((job) => {
        const next =
          job.value.step?.kind === "subworkflow"
            ? cancelJob(job.value, `run ${run.id}`, why, decisionContext(engine, job.value))
            : null;
        return next ? [put(JOBS, job.id, job, markSubRunLeft(next, decisionContext(engine, next)))] : [];
      });
      if (puts.length === 0) break;
      const committed = await engine.commit({ org: run.org, puts, guards });
      if (committed.kind === "refused") throw lostLock(engine, run);
      if (committed.kind === "stale") return { kind: "stale", id: committed.id };
    }
  }
  return "done";
}

/** The lock was acquired by another holder: this decision is discarded. */
function lostLock(engine: Needs<"world" | "settings">, { id, arms }: Run): Error {
  const { policy } = engine.settings.for(arms).retry.lock_busy;
  const delayMs = nextDelay(policy, 1, () => engine.world.random.next());
  return retryAfter(new Error(`run lock lost: \`${id}\``), delayMs, "lock_busy");
}

/** A second event of the same job was decided on the same record: it must be decided again. */
function firstPerJob(batch: readonly PendingRunEvent[]): readonly PendingRunEvent[] {
  const seen = new Set<string>();
  return batch.filter(({ queued, resolve }) => {
    if (queued.kind !== "job" || !seen.has(queued.found.id)) {
      if (queued.kind === "job") seen.add(queued.found.id);
      return true;
    }
    resolve({ kind: "stale" });
    return false;
  });
}

/** The run has ended or is gone: its jobs end on their own. */
async function settleWithoutRun(
  engine: DispatchContext,
  waiting: readonly PendingRunEvent[],
  run: Run | null,
): Promise<void> {
  await Promise.all(
    waiting.map(async ({ queued, resolve, reject }) => {
      if (queued.kind === "event") {
        resolve({ kind: "over", run });
        return;
      }
      try {
        const { found, next, puts, guards } = queued;
        const isWritten = await settleJobAlone(engine, found, next, puts, guards);
        resolve(isWritten ? { kind: "done", run } : { kind: "stale" });
      } catch (error) {
        reject(error);
      }
    }),
  );
}

const TRIES_MAX = 8;
