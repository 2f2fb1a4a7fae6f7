/** The settings and figures of `cordum lab safety-outage`, for simulated and live rows. */
import { settingsFrom } from "../../config/config.ts";
import { checkSubmission, type Submission } from "../../core/jobs/submission.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { interval, parsePolicy } from "../../core/retry/policies.ts";
import type { Settings } from "../../core/settings.ts";
import type { MemoryStore } from "../../sim/adapters/memory-store.ts";
import type { Row } from "../experiment.ts";
import { spreadOf } from "../spread.ts";
import { ascending, binned, percentiles, sampled } from "../statistics.ts";
import { LEAD_MS } from "./report.ts";

export interface RowSpec {
  readonly policy: string;
  readonly hasBreaker: boolean;
  readonly binMs: number;
}

export function settingsOf({ policy, hasBreaker }: Pick<RowSpec, "policy" | "hasBreaker">): Settings {
  return settingsFrom({
    ...UNLIMITED,
    "retry.safety_unavailable.policy": policy,
    ...(hasBreaker ? {} : { "safety.breaker.failures": NEVER }),
  });
}

/** No limit other than the kernel applies, and no attempt times out. */
const UNLIMITED = { "dispatch.window_max": 100_000, "dispatch.deadline_ms": 24 * 3_600_000 } as const;
const NEVER = 1_000_000_000;

export const TOPIC = "lab.work";
export const SUBMISSION: Submission = submissionOf({ topic: TOPIC });

function submissionOf(raw: Record<string, unknown>): Submission {
  const checked = checkSubmission(raw);
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
}

/** Tracks the jobs that are submitted and not dispatched, from the committed records. */
export class WaitingJobs {
  readonly #nowMs: () => number;
  readonly #submittedAtMs = new Map<string, number>();
  readonly #waiting = new Set<string>();
  readonly #dispatchesMs: number[] = [];
  /** The wait of each dispatched job. */
  readonly waitsMs: number[] = [];
  bypassed = 0;
  /** The jobs of `drained` that are still waiting. */
  #left: Set<string> | null = null;
  #onDrained: () => void = () => undefined;
  drainedMs: number | null = null;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Records a committed job. */
  record({ id, state }: Pick<Job, "id" | "state">): void {
    const nowMs = this.#nowMs();
    if (!this.#submittedAtMs.has(id)) {
      this.#submittedAtMs.set(id, nowMs);
      this.#waiting.add(id);
    }
    if (state === "PENDING" || !this.#waiting.delete(id)) return;
    this.#dispatchesMs.push(nowMs);
    this.waitsMs.push(nowMs - (this.#submittedAtMs.get(id) ?? nowMs));
    if (this.#left?.delete(id) === true && this.#left.size === 0) this.#onDrained();
  }

  /** Jobs that waited when `drained` was called and still wait. */
  get left(): number {
    return this.#left?.size ?? 0;
  }

  get submitted(): number {
    return this.#submittedAtMs.size;
  }

  /** Resolves when every job that waits now is dispatched. */
  drained(): Promise<void> {
    this.#left = new Set(this.#waiting);
    return new Promise((resolve) => {
      this.#onDrained = () => {
        this.drainedMs = this.#nowMs();
        resolve();
      };
      if (this.#left?.size === 0) this.#onDrained();
    });
  }

  /** The number of waiting jobs at evenly spaced times. */
  countsBetween(fromMs: number, toMs: number, intervals: number): readonly number[] {
    const submitted = ascending([...this.#submittedAtMs.values()]);
    const dispatched = ascending(this.#dispatchesMs);
    let [submittedSoFar, dispatchedSoFar] = [0, 0];
    return Array.from({ length: intervals + 1 }, (_, index) => {
      const atMs = fromMs + ((toMs - fromMs) * index) / intervals;
      while (submittedSoFar < submitted.length && submitted[submittedSoFar]! <= atMs) submittedSoFar += 1;
      while (dispatchedSoFar < dispatched.length && dispatched[dispatchedSoFar]! <= atMs) dispatchedSoFar += 1;
      return submittedSoFar - dispatchedSoFar;
    });
  }

  /** Throws when a job was dispatched without a decision or a lease. */
  checkClosed(): void {
    const { length } = this.#dispatchesMs;
    if (length > 0) throw new Error(`${length} jobs were dispatched without a safety decision or a lease`);
  }

  /** Throws when a bypassed job lacks its labels or its count, or a checked job has them. */
  checkLabels(store: MemoryStore): void {
    let labelled = 0;
    for (const { value } of store.rows(JOBS)) {
      const { safety_bypassed: isBypassed, safety_bypass_reason: reason } = value.labels;
      if ((value.bypass !== undefined && value.bypass !== null) !== (isBypassed === "true" && Boolean(reason))) {
        throw new Error(`job \`${value.id}\` is bypassed without its labels, or labelled without a bypass`);
      }
      if (isBypassed === "true") labelled += 1;
    }
    const counted = store.total("scheduler:input_fail_open_total");
    if (labelled !== counted) throw new Error(`${labelled} jobs are labelled as bypassed, ${counted} were counted`);
    this.bypassed = labelled;
  }
}

export interface OutageHistory {
  readonly kernel: {
    readonly checksMs: readonly number[];
    /** Checks that the recovered kernel answered after their timeout. */
    readonly late: number;
    /** The first decision after the outage. */
    readonly backMs: number | null;
  };
  readonly jobs: WaitingJobs;
  /** Start and end of the outage. */
  readonly fromMs: number;
  readonly toMs: number;
  /** The first submission. */
  readonly loadMs: number;
  readonly endMs: number;
  /** Checks that failed during the outage, at the kernel or at the breaker. */
  readonly failedChecks: number;
}

/** `skippedMs`: the part of the outage that was not simulated. */
export function measure(
  history: OutageHistory,
  spec: Pick<RowSpec, "policy" | "binMs">,
  skippedMs: number,
): Omit<Row, "key"> {
  return { figures: figuresOf(history, spec.policy), series: seriesOf(history, spec.binMs, skippedMs) };
}

function figuresOf(history: OutageHistory, policy: string): Row["figures"] {
  const { kernel, jobs, toMs, loadMs, failedChecks } = history;
  const drainMs = jobs.drainedMs === null ? null : jobs.drainedMs - toMs;
  const inOutage = kernel.checksMs.filter((atMs) => atMs < toMs);
  const outageS = (toMs - loadMs) / 1_000;
  const [peakPerS = 0] = binned(inOutage, 1_000, loadMs).toSorted((a, b) => b - a);
  return {
    drain_ms: drainMs,
    left: jobs.left,
    submitted: jobs.submitted,
    waiting_max: Math.max(...jobs.countsBetween(history.fromMs, history.endMs, LAG_POINTS)),
    pressure: {
      tries_per_s: failedChecks / outageS,
      checks_per_s: inOutage.length / outageS,
      checks_peak_per_s: peakPerS,
      // Failed checks that did not reach the kernel. Checks in flight have not failed yet, hence the lower bound.
      refused_per_s: Math.max(0, failedChecks - inOutage.length) / outageS,
    },
    recovery_ms: kernel.backMs === null ? null : kernel.backMs - toMs,
    arrivals: kernel.backMs === null ? null : spreadOf(kernel.checksMs, kernel.backMs, windowOf(history, policy)),
    late_checks: kernel.late,
    wait_ms: percentiles(jobs.waitsMs),
    bypassed: jobs.bypassed,
  };
}

/**
 * The window of the peak-to-mean ratio: 15 s, or less when all jobs drain earlier. It is at least the longest delay of the
 * policy: a shorter window would make one short burst look like an even stream.
 */
function windowOf({ kernel, jobs, endMs }: OutageHistory, policy: string): number {
  const longestMs = interval(parsePolicy(policy), Number.MAX_SAFE_INTEGER).hiMs;
  const drainedMs = (jobs.drainedMs ?? endMs) - (kernel.backMs ?? endMs);
  return Math.min(WINDOW_MS, Math.max(longestMs, drainedMs));
}

function seriesOf(history: OutageHistory, binMs: number, skippedMs: number): NonNullable<Row["series"]> {
  const { kernel, jobs, fromMs, toMs, endMs } = history;
  const stepMs = (endMs - fromMs) / LAG_POINTS;
  const leadMs = Math.min(LEAD_MS, toMs - fromMs);
  const near = kernel.checksMs.filter((atMs) => atMs < toMs + ARRIVALS_MS);
  return {
    lag: jobs.countsBetween(fromMs, endMs, LAG_POINTS),
    lag_at_ms: Array.from({ length: LAG_POINTS + 1 }, (_, index) => skippedMs + index * stepMs),
    arrivals: binned(near, binMs, toMs - leadMs),
    waits_ms: sampled(jobs.waitsMs),
  };
}

/** Observed after the recovery of the kernel. */
export const WINDOW_MS = 15_000;
const LAG_POINTS = 400;
const ARRIVALS_MS = 300_000;
