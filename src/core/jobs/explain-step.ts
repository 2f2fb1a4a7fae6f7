import type { Job } from "../model/job.ts";
import type { Blocked, Surroundings, Unblock, WaitReason } from "./explain.ts";

/** Steps of runs that wait for something that other jobs do not wait for: the clock, a slot, another run. */
export function stepReasonOf({ step, state, wait }: Job): WaitReason | null {
  if (step?.kind === "delay") return "timer";
  if (step?.kind !== "subworkflow") return null;
  if (state === "RUNNING") return "sub_run";
  if (wait === null) return state === "PENDING" ? "run_slot" : null;
  // One that has failed waits for its next try like any other job.
  return wait.retryClass === "throttled" ? "run_slot" : null;
}

export function explainStep(job: Job, around: Surroundings): Blocked | null {
  const reason = stepReasonOf(job);
  const at = { sinceMs: job.createdMs, untilMs: job.dueMs, setBy: "the workflow" };
  switch (reason) {
    case "timer": {
      const until = new Date(job.dueMs).toISOString();
      const sentence = `it is a delay, and ends in ${secondsTo(job.dueMs, around)} s, at ${until}`;
      return { ...at, reason, sentence, unblocks: [] };
    }
    case "run_slot": {
      const sentence = `it is a run of \`${job.step?.workflowId ?? ""}\` that waits to begin: ${whyNotYet(job, around)}`;
      return { ...at, reason, sentence, unblocks: job.wait && !job.wait.forSlot ? [seeRun(job)] : moreSlots(job) };
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

function whyNotYet(job: Job, around: Surroundings): string {
  if (job.wait === null) return "it is about to start";
  const again = `asked again in ${secondsTo(job.dueMs, around)} s`;
  const { slots } = around;
  if (slots === null) return `${job.wait.reason}; ${again}`;
  const { used, max, waiting } = slots;
  const line =
    waiting > 1
      ? `${waiting} steps wait for a slot, and are given one in the order of their age`
      : "no other step waits for a slot";
  const open = `${used} of ${max} runs of \`${job.org}\` are open, its own among them`;
  return `${open}; ${line}, before any new run; woken when a run ends, and ${again}`;
}

function moreSlots({ org, step }: Job): readonly Unblock[] {
  const unblocks: Unblock[] = [
    { what: "see which runs hold the slots", command: "cordum run list --state RUNNING" },
    { what: `raise \`orgs.${org}.limits.max_concurrent_runs\``, command: "cordum config explain" },
  ];
  if (step?.index !== undefined) {
    unblocks.push({
      what: `have fewer of the list at once: \`max_parallel\` of step \`${step.stepId}\``,
      command: null,
    });
  }
  return unblocks;
}

function seeRun({ step }: Job): Unblock {
  return { what: "see what holds up its run", command: `cordum run explain ${step?.runId ?? ""}` };
}

const secondsTo = (dueMs: number, { nowMs }: Surroundings): number => Math.max(0, Math.ceil((dueMs - nowMs) / 1_000));
