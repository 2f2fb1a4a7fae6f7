import { applyResult } from "../../core/jobs/attempt.ts";
import { isHeldByAnother, reportProblem } from "../../core/jobs/submission.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import type { RetryState, RetryUsage } from "../../core/retry/budget.ts";
import type { Versioned } from "../../ports/store.ts";
import type { JobResult, Packet } from "../../protocol/packet.ts";
import { versionProblem } from "../../protocol/signature.ts";
import { retryOnConflict } from "../commit.ts";
import { decisionContext } from "../context.ts";
import { type AcceptedOutput, acceptResult, discardOutput, recordSuccess, settleJob } from "../dispatch/index.ts";
import type { DispatchContext } from "../engine.ts";
import { refused, resultIn } from "../packets.ts";

/** Handler of `sys.job.result`: the job ends or waits for its next attempt; the end of a step's job advances its run. */
export function handleResult(engine: DispatchContext, packet: Packet, retryState: RetryState = {}): Promise<void> {
  const result = resultIn(packet);
  const busy = retryState.lock_busy ?? null;
  return retryOnConflict(`job \`${result.jobId}\``, () => {
    const recalled = engine.jobCache.recallSent(result.jobId);
    if (recalled) return settleResult(engine, recalled, packet, result, busy, "stale");
    return engine.world.store.load(JOBS, result.jobId).then((found) => {
      // Unknown: removed after its retention, or never a job of this control plane.
      return found ? settleResult(engine, found, packet, result, busy, undefined) : undefined;
    });
  });
}

/**
 * `unchanged` is the outcome for a result that changes nothing. For a cached record it is "stale": the cache may be old, so
 * the record is loaded before the result is ignored.
 */
function settleResult(
  engine: DispatchContext,
  found: Versioned<Job>,
  packet: Packet,
  result: JobResult,
  busy: RetryUsage | null,
  unchanged: "stale" | undefined,
): Promise<"stale" | undefined> | "stale" | undefined {
  if (isFinal(found.value.state) || isHeldByAnother(packet, found.value)) return unchanged;
  const problem = reportProblem(packet, found.value.org, engine.settings.current);
  if (problem !== null) {
    if (unchanged === "stale") return unchanged;
    throw refused("PERMISSION_DENIED", problem);
  }
  const settle = (accepted: AcceptedOutput) => settleAccepted(engine, found, result, accepted, busy, unchanged);
  const accepted = packet.otherVersion === undefined ? acceptResult(engine, found.value, result) : ofOther(packet);
  return accepted instanceof Promise ? accepted.then(settle) : settle(accepted);
}

function settleAccepted(
  engine: DispatchContext,
  found: Versioned<Job>,
  result: JobResult,
  accepted: AcceptedOutput,
  busy: RetryUsage | null,
  unchanged: "stale" | undefined,
): Promise<"stale" | undefined> | "stale" | undefined {
  const next =
    accepted.kind === "accepted"
      ? applyResult(found.value, result, accepted.output, decisionContext(engine, found.value))
      : applyResult(found.value, refusal(result, accepted.why), null, decisionContext(engine, found.value));
  if (!next) return unchanged;
  if (next.state === "SUCCEEDED" && found.value.dispatchedMs !== null) {
    const seconds = (next.updatedMs - found.value.dispatchedMs) / 1_000;
    const labels = engine.settings.labelled(NO_LABELS, found.value.arms);
    engine.world.metrics.observe("cordum_job_result_latency_seconds", Math.max(0, seconds), labels);
    // Before the commit, which drains the backlog.
    recordSuccess(engine, found.value, result);
  }
  return settleJob(engine, found, next, [], { busy }).then((isWritten) => {
    if (!isWritten) return "stale";
    if (result.resultPtr) discardOutput(engine, result);
    return undefined;
  });
}

const NO_LABELS = {} as const;

const ofOther = ({ otherVersion = 0 }: Packet): AcceptedOutput => ({
  kind: "refused",
  why: `result refused: ${versionProblem(otherVersion)}`,
});

const refusal = (result: JobResult, message: string): JobResult => ({
  ...result,
  status: "failed_fatal",
  error: { name: "ResultRefused", message },
});
