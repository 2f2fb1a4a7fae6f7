import { bareTopic } from "../model/canonical.ts";
import { JOB_STATES, type Job, type JobState } from "../model/job.ts";
import { jobsOf, waitPhase } from "../model/lists/job-lists.ts";
import { labelPart } from "../model/lists/labels.ts";
import { RETRY_CLASSES, type RetryClass } from "../retry/retry-classes.ts";

/** Every combination is answered by the union of at most `WAITING_STATES × RETRY_CLASSES` disjoint lists. */
export interface JobFilter {
  readonly state?: JobState | undefined;
  /** Without `job.`. */
  readonly topic?: string | undefined;
  /** A job is listed under its first `INDEXED_LABELS_MAX` labels. */
  readonly label?: { readonly key: string; readonly value: string } | undefined;
  /** Jobs that wait for a retry, whatever their state. */
  readonly isRetrying?: boolean | undefined;
  /** The class of that retry. */
  readonly retryClass?: RetryClass | undefined;
}

/** The lists of the jobs that match, in the states `among`. */
export function jobLists(
  org: string,
  { state, topic, label, isRetrying, retryClass }: JobFilter,
  among: readonly JobState[] = JOB_STATES,
): readonly string[] {
  const states = among.filter((one) => state === undefined || state === one);
  const part = label === undefined ? undefined : labelPart(label.key, label.value);
  return phasesOf(states, isRetrying === true, retryClass).map((phase) => jobsOf(org, phase, topic, part));
}

function phasesOf(states: readonly JobState[], isRetrying: boolean, retryClass: RetryClass | undefined) {
  if (!isRetrying && retryClass === undefined) return states;
  const classes = RETRY_CLASSES.filter((one) => retryClass === undefined || retryClass === one);
  return states
    .filter((state) => WAITING_STATES.includes(state))
    .flatMap((state) => classes.map((one) => waitPhase(state, one)));
}

export function matchesJob({ state, topic, label, isRetrying, retryClass }: JobFilter, job: Job): boolean {
  return (
    (state === undefined || job.state === state) &&
    (topic === undefined || bareTopic(job.topic) === topic) &&
    (label === undefined || job.labels[label.key] === label.value) &&
    (isRetrying !== true || job.wait !== null) &&
    (retryClass === undefined || job.wait?.retryClass === retryClass)
  );
}

/** A job of another state has no `wait`: every transition clears it. */
export const WAITING_STATES: readonly JobState[] = ["PENDING", "RETRYING"];
