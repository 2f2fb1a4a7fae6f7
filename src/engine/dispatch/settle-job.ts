import { applyResult } from "../../core/jobs/attempt.ts";
import { DEAD_LETTERS, letterOf } from "../../core/model/dead-letter.ts";
import { backlogOf, isFinal, JOBS, type Job } from "../../core/model/job.ts";
import type { Patience, Spent } from "../../core/retry/budget.ts";
import { leaveSubRun } from "../../core/workflow/run/step-job.ts";
import { type Guard, type Put, put, type Versioned } from "../../ports/store.ts";
import type { JobResult, Packet } from "../../protocol/packet.ts";
import { apply, untilFresh } from "../commit.ts";
import { type Flow, given } from "../engine.ts";
import { remind } from "../maintenance/due-timers.ts";
import { deadLetterMessage, outputOf, resultIn } from "../packets.ts";
import { type RunPath, tellRun } from "../runs/run-lock.ts";
import { drain } from "./drain-backlog.ts";

/**
 * Station 7: a result. The job ends or waits for its next attempt, in one commit with its dead letter; a run goes on with
 * it (stations `with-run`, `advance-run`).
 */
export function finish(flow: Flow, packet: Packet, patience: Patience = {}): Promise<void> {
  const result = resultIn(packet);
  const busy = patience.lock_busy ?? null;
  return untilFresh(`job \`${result.jobId}\``, () => {
    const recalled = flow.desk.recallSent(result.jobId);
    if (recalled) return settleResult(flow, recalled, result, busy, "stale");
    return flow.world.store.load(JOBS, result.jobId).then((found) => {
      // Removed after its retention, or never ours: nothing can follow from it.
      return found ? settleResult(flow, found, result, busy, undefined) : undefined;
    });
  });
}

/**
 * `otherwise` is said of a job that the result changes nothing of: memory may decide what the commit confirms, never that
 * nothing is to be done.
 */
function settleResult(
  flow: Flow,
  found: Versioned<Job>,
  result: JobResult,
  busy: Spent | null,
  otherwise: "stale" | undefined,
): Promise<"stale" | undefined> | "stale" | undefined {
  const next = applyResult(found.value, result, outputOf(result), given(flow));
  if (!next) return otherwise;
  if (next.state === "SUCCEEDED" && found.value.dispatchedMs !== null) {
    const seconds = (next.updatedMs - found.value.dispatchedMs) / 1_000;
    flow.world.metrics.observe("cordum_job_result_latency_seconds", Math.max(0, seconds));
  }
  return settle(flow, found, next, [], { busy }).then((isWritten) => (isWritten ? undefined : "stale"));
}

/**
 * Writes what became of a job, with what belongs to it. True if it was written; then room for the next one may have come.
 * The end of a step's job moves its run on, in the same commit and under the run's lock.
 */
export function settle(
  flow: Flow,
  found: Versioned<Job>,
  next: Job,
  besides: readonly Put[] = [],
  { guards = [], path = "engine", busy = null }: SettleOptions = {},
): Promise<boolean> {
  if (!next.step || !isFinal(next.state)) return settleAlone(flow, found, next, besides, guards);
  const key = { org: next.org, runId: next.step.runId, path };
  return tellRun(flow, key, { kind: "job", found, next, besides, guards, busy }).then(({ kind }) => kind === "done");
}

export interface SettleOptions {
  readonly guards?: readonly Guard[];
  readonly path?: RunPath;
  /** How often the run's lock was busy before, by the account of the message: the next delay and the figures follow from it. */
  readonly busy?: Spent | null;
}

/** A job that is of no run, does not end, or has outlived its run. */
export async function settleAlone(
  flow: Flow,
  found: Versioned<Job>,
  next: Job,
  besides: readonly Put[],
  guards: readonly Guard[],
): Promise<boolean> {
  const letter = letterOf(next);
  const puts = [...besides, put(JOBS, found.id, found, leaveSubRun(next, given(flow)))];
  const committed = await apply(flow, {
    org: next.org,
    puts: letter ? [...puts, put(DEAD_LETTERS, letter.id, null, letter)] : puts,
    guards,
    sends: letter ? [deadLetterMessage(flow.world.name, next)] : [],
    watch: [backlogOf(next.topic)],
  });
  if (committed.kind !== "committed") return false;
  if (isFinal(next.state)) flow.world.metrics.add("cordum_jobs_total", { state: next.state });
  if (letter) flow.world.metrics.add("cordum_dead_letters_total", { reason: letter.reason });
  if ((committed.seen[0] ?? 0) > 0) drain(flow, next.topic);
  if (next.state === "RETRYING") remind(flow, { id: found.id, version: found.version + 1, value: next });
  return true;
}
