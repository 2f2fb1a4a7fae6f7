import type { Job } from "../model/job.ts";
import { retryOrEnd } from "./attempt.ts";
import { chooseDelay, type DecisionContext, waitFor } from "./transitions.ts";

/**
 * A step that is a run, and cannot begin yet.
 *
 * It is woken when a slot comes free; its time comes by itself as well, in case nobody lived to wake it. Others are kept
 * waiting because of it, so that is soon, whatever the policy of its class says.
 */
export function waitForSlot(job: Job, reason: string, context: DecisionContext): Job {
  const next = waitToBegin(job, reason, context);
  return { ...next, wait: next.wait === null ? null : { ...next.wait, forSlot: true } };
}

/** It is not for want of a slot that it cannot begin: nobody has to wait because of it. */
export function waitToBegin(job: Job, reason: string, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "throttled", undefined, context);
  const soonMs = Math.min(delayMs, ASKED_EVERY_MS);
  return { ...job, ...waitFor(job, "throttled", "throttled", reason, soonMs, setBy, context) };
}

/** Everybody waits for a slot, and nobody will give one back: this one fails, so that the others can go on. */
export function refuseSlot(job: Job, openRuns: number, context: DecisionContext): Job {
  const who = openRuns === 1 ? "the only open run of" : `all ${openRuns} open runs of`;
  const verb = openRuns === 1 ? "waits" : "wait";
  const message =
    `${who} \`${job.org}\` ${verb} for a slot for a sub-workflow: ` +
    "raise `limits.max_concurrent_runs`, or nest less";
  return retryOrEnd(job, "failed", { name: "SubworkflowRefused", message }, "unclassified", undefined, context);
}

const ASKED_EVERY_MS = 30_000;
