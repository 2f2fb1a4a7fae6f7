import { DEAD_LETTERS, deadLetterOf } from "../../core/model/dead-letter.ts";
import { backlogOf, isFinal, JOBS, type Job } from "../../core/model/job.ts";
import type { RetryUsage } from "../../core/retry/budget.ts";
import { observeUnit } from "../../core/rollout/unit-measures.ts";
import { markSubRunLeft } from "../../core/workflow/run/step-job.ts";
import { type Guard, type Put, put, type Versioned } from "../../ports/store.ts";
import { decisionContext } from "../context.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { releaseSlots } from "../limits/index.ts";
import { failureMessage } from "../packets.ts";
import type { RunPath } from "../runs/index.ts";

/**
 * Commits the next state of a job together with its dead letter, if it has one. False: the record changed meanwhile. The
 * end of a step's job also advances its run, in the same commit under the run lock.
 */
export function settleJob(
  engine: DispatchContext,
  found: Versioned<Job>,
  next: Job,
  extraPuts: readonly Put[] = [],
  { guards = [], path = "engine", busy = null }: SettleOptions = {},
): Promise<boolean> {
  if (!next.step || !isFinal(next.state)) return settleJobAlone(engine, found, next, extraPuts, guards);
  const key = { org: next.org, runId: next.step.runId, path };
  return engine.runInbox
    .enqueue(key, { kind: "job", found, next, puts: extraPuts, guards, busy })
    .then(({ kind }) => kind === "done");
}

export interface SettleOptions {
  readonly guards?: readonly Guard[];
  readonly path?: RunPath;
  /** Earlier `lock_busy` failures of the message; the next delay and the metrics continue from them. */
  readonly busy?: RetryUsage | null;
}

/** For a job without a run, a job that does not end, or a job whose run has ended. */
export async function settleJobAlone(
  engine: DispatchContext,
  found: Versioned<Job>,
  next: Job,
  extraPuts: readonly Put[],
  guards: readonly Guard[],
): Promise<boolean> {
  const deadLetter = deadLetterOf(next);
  const message = failureMessage(engine.world.name, next);
  const settled = next.arms === undefined ? next : measured(engine, found.value, next);
  const puts = [...extraPuts, put(JOBS, found.id, found, markSubRunLeft(settled, decisionContext(engine, next)))];
  const committed = await engine.commit({
    org: next.org,
    puts: deadLetter ? [...puts, put(DEAD_LETTERS, deadLetter.id, null, deadLetter)] : puts,
    guards,
    sends: message ? [message] : [],
    watch: [backlogOf(next.topic)],
  });
  if (committed.kind !== "committed") return false;
  if (isFinal(next.state)) {
    engine.world.metrics.add("cordum_jobs_total", { state: next.state });
    releaseSlots(engine, found.value);
  }
  if (deadLetter) {
    const labels = engine.settings.labelled({ reason: deadLetter.reason }, deadLetter.arms);
    engine.world.metrics.add("cordum_dead_letters_total", labels);
  }
  if ((committed.seen[0] ?? 0) > 0) engine.drain(next.topic);
  if (next.state === "RETRYING") engine.timers.arm({ id: found.id, version: found.version + 1, value: next });
  return true;
}

/** The result of a job without a run is measured on the job. */
function measured({ world }: Needs<"world">, { dispatchedMs }: Job, next: Job): Job {
  if (next.step || next.state !== "SUCCEEDED" || dispatchedMs === null) return next;
  const nowMs = world.clock.now();
  const measures = observeUnit(next.arms, next.measures, { kind: "result", latencyMs: nowMs - dispatchedMs }, nowMs);
  return measures === undefined ? next : { ...next, measures };
}
