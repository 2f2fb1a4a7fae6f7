import type { Job } from "../model/job.ts";
import type { Block, ExplainContext, Unblock, WaitReason } from "./explain.ts";

/** Reasons that only workflow steps have: a delay, a run slot, a sub-run. */
export function stepReasonOf({ step, state, wait }: Job): WaitReason | null {
  if (step?.kind === "delay") return "timer";
  if (step?.kind !== "subworkflow") return null;
  if (state === "RUNNING") return "sub_run";
  if (wait === null) return state === "PENDING" ? "run_slot" : null;
  // After a failure the step waits for its retry like any other job.
  return wait.retryClass === "throttled" ? "run_slot" : null;
}

export function explainStep(job: Job, context: ExplainContext): Block | null {
  const reason = stepReasonOf(job);
  const at = { sinceMs: job.createdMs, untilMs: job.dueMs, setBy: "the workflow" };
  switch (reason) {
    case "timer": {
      const until = new Date(job.dueMs).toISOString();
      const sentence = `delay step: ends in ${secondsTo(job.dueMs, context)} s, at ${until}`;
      return { ...at, reason, sentence, unblocks: [] };
    }
    case "run_slot": {
      const sentence = `run of \`${job.step?.workflowId ?? ""}\` not started: ${notStartedReason(job, context)}`;
      return { ...at, reason, sentence, unblocks: job.wait && !job.wait.forSlot ? [seeRun(job)] : moreSlots(job) };
    }
    case "sub_run": {
      const runId = job.step?.subRunId ?? "";
      const sentence = `waiting for run \`${runId}\` of \`${job.step?.workflowId ?? ""}\` to end`;
      return {
        ...at,
        reason,
        sentence,
        unblocks: [{ what: "explain that run", command: `cordum run explain ${runId}` }],
      };
    }
    default:
      return null;
  }
}

function notStartedReason(job: Job, context: ExplainContext): string {
  if (job.wait === null) return "about to start";
  const again = `next try in ${secondsTo(job.dueMs, context)} s`;
  const { slots } = context;
  if (slots === null) return `${job.wait.reason}; ${again}`;
  const { used, max, waiting } = slots;
  const line = waiting > 1 ? `${waiting} steps wait for a slot, oldest first` : "no other step waits for a slot";
  const open = `${used} of ${max} run slots of \`${job.org}\` in use, including its own run`;
  return `${open}; ${line}, ahead of new runs; retried when a run ends; ${again}`;
}

function moreSlots({ org, step }: Job): readonly Unblock[] {
  const unblocks: Unblock[] = [
    { what: "list the runs that hold slots", command: "cordum run list --state RUNNING" },
    { what: `raise \`orgs.${org}.limits.max_concurrent_runs\``, command: "cordum config explain" },
  ];
  if (step?.index !== undefined) {
    unblocks.push({
      what: `run fewer items at once: lower \`max_parallel\` of step \`${step.stepId}\``,
      command: null,
    });
  }
  return unblocks;
}

function seeRun({ step }: Job): Unblock {
  return { what: "explain its run", command: `cordum run explain ${step?.runId ?? ""}` };
}

const secondsTo = (dueMs: number, { nowMs }: ExplainContext): number => Math.max(0, Math.ceil((dueMs - nowMs) / 1_000));
