import { applyResult } from "../../core/jobs/attempt.ts";
import { DEAD_LETTERS, deadLetterOf } from "../../core/model/dead-letter.ts";
import { backlogOf, isFinal, JOBS, type Job } from "../../core/model/job.ts";
import type { RetryState, RetryUsage } from "../../core/retry/budget.ts";
import { leaveSubRun } from "../../core/workflow/run/step-job.ts";
import { type Guard, type Put, put, type Versioned } from "../../ports/store.ts";
import type { JobResult, Packet } from "../../protocol/packet.ts";
import { commit, retryOnConflict } from "../commit.ts";
import { decisionContext, type Engine } from "../engine.ts";
import { armTimer } from "../maintenance/due-timers.ts";
import { deadLetterMessage, outputOf, resultIn } from "../packets.ts";
import { enqueueRunEvent, type RunPath } from "../runs/run-lock.ts";
import { drainBacklog } from "./drain-backlog.ts";

/**
 * Station 7: a result. The job ends or waits for its next attempt, in one commit with its dead letter; a run goes on with
 * it (stations `with-run`, `advance-run`).
 */
export function handleResult(engine: Engine, packet: Packet, retryState: RetryState = {}): Promise<void> {
  const result = resultIn(packet);
  const busy = retryState.lock_busy ?? null;
  return retryOnConflict(`job \`${result.jobId}\``, () => {
    const recalled = engine.jobCache.recallSent(result.jobId);
    if (recalled) return settleResult(engine, recalled, result, busy, "stale");
    return engine.world.store.load(JOBS, result.jobId).then((found) => {
      // Removed after its retention, or never ours: nothing can follow from it.
      return found ? settleResult(engine, found, result, busy, undefined) : undefined;
    });
  });
}

/**
 * `otherwise` is said of a job that the result changes nothing of: memory may decide what the commit confirms, never that
 * nothing is to be done.
 */
function settleResult(
  engine: Engine,
  found: Versioned<Job>,
  result: JobResult,
  busy: RetryUsage | null,
  otherwise: "stale" | undefined,
): Promise<"stale" | undefined> | "stale" | undefined {
  const next = applyResult(found.value, result, outputOf(result), decisionContext(engine));
  if (!next) return otherwise;
  if (next.state === "SUCCEEDED" && found.value.dispatchedMs !== null) {
    const seconds = (next.updatedMs - found.value.dispatchedMs) / 1_000;
    engine.world.metrics.observe("cordum_job_result_latency_seconds", Math.max(0, seconds));
  }
  return settleJob(engine, found, next, [], { busy }).then((isWritten) => (isWritten ? undefined : "stale"));
}

/**
 * Writes what became of a job, with what belongs to it. True if it was written; then room for the next one may have come.
 * The end of a step's job moves its run on, in the same commit and under the run's lock.
 */
export function settleJob(
  engine: Engine,
  found: Versioned<Job>,
  next: Job,
  besides: readonly Put[] = [],
  { guards = [], path = "engine", busy = null }: SettleOptions = {},
): Promise<boolean> {
  if (!next.step || !isFinal(next.state)) return settleJobAlone(engine, found, next, besides, guards);
  const key = { org: next.org, runId: next.step.runId, path };
  return enqueueRunEvent(engine, key, { kind: "job", found, next, besides, guards, busy }).then(
    ({ kind }) => kind === "done",
  );
}

export interface SettleOptions {
  readonly guards?: readonly Guard[];
  readonly path?: RunPath;
  /** How often the run's lock was busy before, by the account of the message: the next delay and the figures follow from it. */
  readonly busy?: RetryUsage | null;
}

/** A job that is of no run, does not end, or has outlived its run. */
export async function settleJobAlone(
  engine: Engine,
  found: Versioned<Job>,
  next: Job,
  besides: readonly Put[],
  guards: readonly Guard[],
): Promise<boolean> {
  const deadLetter = deadLetterOf(next);
  const puts = [...besides, put(JOBS, found.id, found, leaveSubRun(next, decisionContext(engine)))];
  const committed = await commit(engine, {
    org: next.org,
    puts: deadLetter ? [...puts, put(DEAD_LETTERS, deadLetter.id, null, deadLetter)] : puts,
    guards,
    sends: deadLetter ? [deadLetterMessage(engine.world.name, next)] : [],
    watch: [backlogOf(next.topic)],
  });
  if (committed.kind !== "committed") return false;
  if (isFinal(next.state)) engine.world.metrics.add("cordum_jobs_total", { state: next.state });
  if (deadLetter) engine.world.metrics.add("cordum_dead_letters_total", { reason: deadLetter.reason });
  if ((committed.seen[0] ?? 0) > 0) drainBacklog(engine, next.topic);
  if (next.state === "RETRYING") armTimer(engine, { id: found.id, version: found.version + 1, value: next });
  return true;
}
