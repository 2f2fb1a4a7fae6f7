import type { Job } from "../model/job.ts";
import type { Blocked, Surroundings, WaitReason } from "./explain.ts";

/** Steps of runs that wait for something that other jobs do not wait for: the clock, a slot, another run. */
export function stepReasonOf({ step, state }: Job): WaitReason | null {
  if (step?.kind === "delay") return "timer";
  if (step?.kind !== "subworkflow") return null;
  if (state === "RUNNING") return "sub_run";
  return state === "PENDING" ? "run_slot" : null;
}

export function explainStep(job: Job, { nowMs }: Surroundings): Blocked | null {
  const reason = stepReasonOf(job);
  const at = { sinceMs: job.createdMs, untilMs: job.dueMs, setBy: "the workflow" };
  const inSeconds = Math.max(0, Math.ceil((job.dueMs - nowMs) / 1_000));
  switch (reason) {
    case "timer": {
      const sentence = `it is a delay, and ends in ${inSeconds} s, at ${new Date(job.dueMs).toISOString()}`;
      return { ...at, reason, sentence, unblocks: [] };
    }
    case "run_slot": {
      const why = job.wait ? `${job.wait.reason}; asked again in ${inSeconds} s` : "it is about to start";
      const sentence = `it is a run of \`${job.step?.workflowId ?? ""}\` that waits to begin: ${why}`;
      const what = `raise \`orgs.${job.org}.limits.max_concurrent_runs\``;
      return {
        ...at,
        reason,
        sentence,
        unblocks: [
          { what: "see which runs hold the slots", command: "cordum run list --state RUNNING" },
          { what, command: "cordum config explain" },
        ],
      };
    }
    case "sub_run": {
      const runId = job.step?.subRunId ?? "";
      const sentence = `it waits for run \`${runId}\` of \`${job.step?.workflowId ?? ""}\` to end`;
      return {
        ...at,
        reason,
        sentence,
        unblocks: [{ what: "see why that one waits", command: `cordum run explain ${runId}` }],
      };
    }
    default:
      return null;
  }
}
