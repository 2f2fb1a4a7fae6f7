import { dispatchJob, waitForRule } from "../../core/jobs/attempt.ts";
import { backlogOfOrg, inFlightOf, isFinal, JOBS, type Job, type JobState, limitOfRule } from "../../core/model/job.ts";
import { type Guard, type Put, put, type Total, type Versioned } from "../../ports/store.ts";
import { apply } from "../commit.ts";
import { type Flow, given } from "../engine.ts";
import { noteLeaseOver } from "../safety/fail-open.ts";
import { guardsOf, refusedBy } from "./capacity-guards.ts";
import { drain } from "./drain-backlog.ts";
import { held } from "./select-target.ts";
import { dispatch } from "./send-job.ts";
import { settle } from "./settle-job.ts";

/**
 * Station 4: a job that may run gets a place.
 *
 * 1. It is sent at once if there is room and nobody of its org waits before it; else it joins the backlog. Either is one
 *    commit with whatever else belongs to it.
 * 2. Room is a guard of the commit (see `room.ts`), so that no race can exceed it.
 * 3. A job that no known worker is fit for waits on its own (see `aim.ts`), so that it does not stand in the way of others.
 */
export async function place(
  flow: Flow,
  before: Versioned<Job> | null,
  job: Job,
  puts: readonly Put[] = [],
  guards: readonly Guard[] = [],
  totals: readonly Total[] = [],
): Promise<JobState | "stale"> {
  const holding = job.state === "SCHEDULED" ? held(flow, job) : null;
  if (holding?.kind === "waits") return settleInStore(flow, before, holding.job, puts, guards, totals);
  if (job.state === "SCHEDULED" && !holding && mayGoAtOnce(flow, job)) {
    const sent = dispatchJob(job, given(flow));
    const first: Guard = { kind: "counter", counter: backlogOfOrg(job.topic, job.org), max: 0 };
    const committed = await apply(flow, {
      org: job.org,
      puts: [...puts, put(JOBS, job.id, before, sent)],
      guards: [...guards, first, ...guardsOf(job, flow.settings.current)],
      totals,
    });
    switch (committed.kind) {
      case "committed":
        dispatch(flow, { id: job.id, version: (before?.version ?? 0) + 1, value: sent });
        return sent.state;
      case "stale":
        return "stale";
      case "refused":
        if (guards.includes(committed.guard)) return "stale";
        switch (refusedBy(committed.guard, job)) {
          case "rule":
            return settleInStore(
              flow,
              before,
              waitForRule(job, limitOfRule(job) ?? 0, given(flow)),
              puts,
              guards,
              totals,
            );
          case "window":
            flow.desk.markFull(job.topic);
            break;
          case "lease":
            noteLeaseOver(flow, job);
        }
        break;
      default:
        committed satisfies never;
    }
  }
  return settleInStore(flow, before, job, puts, guards, totals);
}

/** Into the backlog, or to the end that the decision was. */
async function settleInStore(
  flow: Flow,
  before: Versioned<Job> | null,
  job: Job,
  puts: readonly Put[],
  guards: readonly Guard[],
  totals: readonly Total[],
): Promise<JobState | "stale"> {
  if (before && job.step && isFinal(job.state)) {
    return (await settle(flow, before, job, puts, { guards })) ? job.state : "stale";
  }
  const committed = await apply(flow, {
    org: job.org,
    puts: [...puts, put(JOBS, job.id, before, job)],
    guards,
    totals,
    watch: [inFlightOf(job.topic)],
  });
  if (committed.kind !== "committed") return "stale";
  if (isFinal(job.state)) flow.world.metrics.add("cordum_jobs_total", { state: job.state });
  // Everything in flight may have finished between the refusal and now: then nobody else would come for this job.
  else if (job.state === "SCHEDULED" && (committed.seen[0] ?? 0) < flow.settings.current.dispatch.windowMax)
    drain(flow, job.topic);
  return job.state;
}

function mayGoAtOnce(flow: Flow, job: Job): boolean {
  return !flow.desk.isFull(job.topic) && !flow.desk.isIdle(job.topic, flow.world.clock.now());
}
