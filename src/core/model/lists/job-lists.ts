import type { RetryClass } from "../../retry/retry-classes.ts";
import { bareTopic } from "../canonical.ts";
import type { Job, JobState } from "../job.ts";
import type { Entry } from "../table.ts";
import { indexedLabels } from "./labels.ts";
import { sharedName } from "./shared-name.ts";

/** Of a job of an earlier version. */
export const unfilteredLists = ({ org, state, createdMs: score }: Job): Entry[] => [
  { name: unindexedJobsOf(org), score },
  { name: jobsOf(org, state), score },
];

/**
 * One list for each combination of topic and label, by state, and again by state and retry class while the job waits for a
 * retry. A filter without a state reads the lists of all states (`core/jobs/job-filter.ts`): a job has no list that is
 * not about its state, and jobs without labels have two.
 */
export function filterLists({ org, state, topic, labels, wait, createdMs: score }: Job): Entry[] {
  const lists = [{ name: jobsOf(org, state), score }];
  const pairs = indexedLabels(labels);
  for (const phase of wait === null ? [state] : [state, waitPhase(state, wait.retryClass)]) {
    if (phase !== state) lists.push({ name: jobsOf(org, phase), score });
    lists.push({ name: jobsOf(org, phase, bareTopic(topic)), score });
    for (const pair of pairs) {
      lists.push(
        { name: jobsOf(org, phase, "", pair), score },
        { name: jobsOf(org, phase, bareTopic(topic), pair), score },
      );
    }
  }
  return lists;
}

/** By state or `waitPhase`, topic (without `job.`; "" for any) and label (`labelPart`, which clients choose and is last). */
export function jobsOf(org: string, phase: string, topic = "", label = ""): string {
  return label === "" ? unlabelledName(org, phase, topic) : `jobs/${org}/${phase}/${topic}/${label}`;
}
const unlabelledName = sharedName((org, phase, topic) =>
  topic === "" ? `jobs/${org}/${phase}` : `jobs/${org}/${phase}/${topic}`,
);
export const waitPhase = (state: JobState, retryClass: RetryClass): string => `${state}~${retryClass}`;
/** The jobs of earlier versions that have no lists for filters yet. */
export const unindexedJobsOf = (org: string): string => `jobs/${org}`;
