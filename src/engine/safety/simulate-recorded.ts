import { JOB_STATES, JOBS, type Job } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import { jobsOf } from "../../core/model/lists/job-lists.ts";
import type { PolicyDocument } from "../../core/policy/document.ts";
import { type FlipGroup, FlipGroups, type RecordedDecision } from "../../core/policy/recorded.ts";
import type { Busy } from "../../ports/evaluator.ts";
import type { Page } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";
import { policyRequestOf } from "./check-job.ts";
import { RecordedReplay, type ReplayedLimits } from "./replay-recorded.ts";

/**
 * Evaluates a policy for the recorded decisions of a tenant and lists those that it would flip.
 *
 * 1. The record of a decision is its job: request, decision, rule, time and snapshot. It is kept as long as the job, and
 *    is complete, not a sample. Earlier decisions about the same job are not listed.
 * 2. A request reads at most `limit` jobs, and ends before with a cursor once `STEPS_MAX` evaluation steps are used. Jobs are
 *    read in pages, and evaluated off the event loop.
 * 3. Limits and budgets are replayed over the records of one request (`replay-recorded.ts`): the next one starts its counts
 *    anew.
 */
export interface RecordedQuery {
  readonly org: string;
  /** Null: the policy in force. */
  readonly text: string | null;
  readonly inForce: PolicyDocument;
  /** Of the submission of the job; inclusive. */
  readonly fromMs: number;
  readonly untilMs: number;
  readonly limit: number;
  readonly cursor?: string | undefined;
}

export interface RecordedFlips {
  readonly snapshot: string;
  readonly checked: number;
  /** Jobs without a decision, and jobs that were dispatched without one. */
  readonly undecided: number;
  readonly bypassed: number;
  readonly flipped: number;
  readonly groups: readonly FlipGroup[];
  /** Flips of further groups. */
  readonly ungrouped: number;
  /** Null: the policy has no limit or budget for these records. */
  readonly limits: ReplayedLimits | null;
  readonly cursor: string | null;
}

export type SimulatedRecords =
  | { readonly kind: "ok"; readonly flips: RecordedFlips }
  | { readonly kind: "bad"; readonly problems: readonly string[] }
  | { readonly kind: "over"; readonly why: string }
  | Busy;

export async function simulateRecorded(
  engine: Needs<"world" | "settings">,
  query: RecordedQuery,
): Promise<SimulatedRecords> {
  const { org, text, inForce } = query;
  const groups = new FlipGroups();
  const replay = new RecordedReplay(org);
  let [read, checked, undecided, bypassed, flipped, steps] = [0, 0, 0, 0, 0, 0];
  let cursor = query.cursor ?? null;
  let snapshot = "";
  let next = readPage(engine, query, cursor, query.limit);
  do {
    const page = await next;
    read += page.items.length;
    const isLast = page.cursor === null || read >= query.limit;
    // The next page is read while this one is evaluated.
    if (!isLast) next = readPage(engine, query, page.cursor, query.limit - read);
    const jobs = page.items.map(({ value }) => value);
    const decided = jobs.filter(isDecided);
    const records = decided.map(recordOf);
    const outcome = await engine.world.evaluator.run(org, "evaluateRecorded", { text, inForce, records });
    if (outcome.kind !== "answered" || outcome.answer.kind === "bad") {
      if (!isLast) next.catch(() => {});
      return outcome.kind === "answered"
        ? (outcome.answer as Extract<typeof outcome.answer, { kind: "bad" }>)
        : outcome;
    }
    const { answer } = outcome;
    for (const { at, to } of answer.flips) {
      const [job, record] = [decided[at], records[at]];
      if (job && record) groups.add(record.decided, to, job.topic, clientJobId(org, job.id));
    }
    for (const { at, ...limited } of answer.limited) {
      const [job, record] = [decided[at], records[at]];
      if (job && record) replay.add(job, record.decided, limited);
    }
    checked += decided.length;
    bypassed += jobs.filter(isBypassed).length;
    undecided += jobs.filter((job) => job.safety === null && isChecked(job)).length;
    flipped += answer.flips.length;
    steps += answer.steps;
    snapshot = answer.snapshot;
    cursor = page.cursor;
    if (isLast || steps >= STEPS_MAX) {
      if (!isLast) await next;
      break;
    }
  } while (cursor !== null);
  const limits = await replay.run(engine, groups, cursor === null ? Math.max(query.fromMs, keptFromMs(engine)) : null);
  flipped += limits?.flipped ?? 0;
  const largest = groups.largest(GROUPS_MAX);
  const ungrouped = flipped - largest.reduce((sum, { count }) => sum + count, 0);
  const flips = { snapshot, checked, undecided, bypassed, flipped, groups: largest, ungrouped, limits, cursor };
  return { kind: "ok", flips };
}

function readPage(
  { world }: Needs<"world">,
  { org, fromMs: scoreMin, untilMs: scoreMax }: RecordedQuery,
  cursor: string | null,
  limit: number,
): Promise<Page<Job>> {
  const index = JOB_STATES.map((state) => jobsOf(org, state));
  const query = { index, scoreMin, scoreMax, limit: Math.min(limit, PAGE_JOBS) };
  return world.store.list(JOBS, cursor === null ? query : { ...query, cursor });
}

/** Jobs that ended before are removed. */
const keptFromMs = ({ world, settings }: Needs<"world" | "settings">): number =>
  world.clock.now() - settings.current.retention.jobsMs;

/** Steps that wait for time, a person or a sub-run are not checked. */
const isChecked = ({ step }: Job): boolean => step === undefined || step.kind === "worker";
const isBypassed = ({ safety, bypass }: Job): boolean => bypass !== undefined && safety?.snapshot === "";
const isDecided = (job: Job): boolean => job.safety !== null && isChecked(job) && !isBypassed(job);

function recordOf(job: Job): RecordedDecision {
  const { effect = "deny", ruleId = null, atMs = job.createdMs } = job.safety ?? {};
  return { request: policyRequestOf(job, atMs), decided: { effect, ruleId } };
}

/** The worst conditions of that many jobs take some seconds, the limit of a task. */
const PAGE_JOBS = 500;
/** Some seconds. */
const STEPS_MAX = 20_000_000;
const GROUPS_MAX = 100;
export const RECORDED_JOBS = { default: 10_000, max: 20_000, publisherMax: 100_000 } as const;
