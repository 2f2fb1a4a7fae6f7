import { dispatchJob } from "../jobs/life.ts";
import { backlogOfOrg, inFlightOf, isFinal, JOBS, type Job, type JobState } from "../model/job.ts";
import { type Guard, type Put, put, type Versioned } from "../ports/store.ts";
import { apply } from "./apply.ts";
import { dispatch } from "./dispatch.ts";
import { drain } from "./drain.ts";
import { type Flow, given } from "./flow.ts";

/**
 * Station 4: a job that may run gets a place.
 *
 * 1. It is sent at once if its topic's window has room and nobody of its org waits before it; else it joins the backlog.
 *    Either is one commit with whatever else belongs to it.
 * 2. The window is a guard of the commit, so that no race can exceed it.
 */
export async function place(
  flow: Flow,
  before: Versioned<Job> | null,
  job: Job,
  puts: readonly Put[] = [],
  guards: readonly Guard[] = [],
): Promise<JobState | "stale"> {
  if (job.state === "SCHEDULED" && mayGoAtOnce(flow, job)) {
    const sent = dispatchJob(job, given(flow));
    const window = roomFor(flow, job);
    const committed = await apply(flow, {
      org: job.org,
      puts: [...puts, put(JOBS, job.id, before, sent)],
      guards: [...guards, ...window],
    });
    switch (committed.kind) {
      case "committed":
        dispatch(flow, { id: job.id, version: (before?.version ?? 0) + 1, value: sent });
        return sent.state;
      case "stale":
        return "stale";
      case "refused":
        if (guards.includes(committed.guard)) return "stale";
        flow.desk.markFull(job.topic);
        break;
      default:
        committed satisfies never;
    }
  }
  return settleInStore(flow, before, job, puts, guards);
}

/** Into the backlog, or to the end that the decision was. */
async function settleInStore(
  flow: Flow,
  before: Versioned<Job> | null,
  job: Job,
  puts: readonly Put[],
  guards: readonly Guard[],
): Promise<JobState | "stale"> {
  const committed = await apply(flow, {
    org: job.org,
    puts: [...puts, put(JOBS, job.id, before, job)],
    guards,
    watch: [inFlightOf(job.topic)],
  });
  if (committed.kind !== "committed") return "stale";
  if (isFinal(job.state)) flow.world.metrics.add("cordum_jobs_total", { state: job.state });
  // Everything in flight may have finished between the refusal and now: then nobody else would come for this job.
  else if ((committed.seen[0] ?? 0) < flow.settings.current.dispatch.windowMax) drain(flow, job.topic);
  return job.state;
}

function roomFor(flow: Flow, job: Job): readonly Guard[] {
  return [
    { kind: "counter", counter: backlogOfOrg(job.topic, job.org), max: 0 },
    { kind: "counter", counter: inFlightOf(job.topic), max: flow.settings.current.dispatch.windowMax },
  ];
}

function mayGoAtOnce(flow: Flow, job: Job): boolean {
  return !flow.desk.isFull(job.topic) && !flow.desk.isIdle(job.topic, flow.world.clock.now());
}
