/**
 * Looks at one history of `cordum lab lock-busy`: when each result came for the first time, when it held the lock, when it
 * was applied, and who asked for the lock when. It sees what crosses the ports; the flow does not know of it.
 */
import { DEAD_LETTERS, type DeadLetter } from "../../core/model/dead-letter.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { RUNS } from "../../core/model/run.ts";
import type { Change } from "../../ports/store.ts";
import type { Figures, Row } from "../experiment.ts";
import { binned, mean, percentiles } from "../statistics.ts";
import type { Contender } from "./stage.ts";

export interface Course {
  readonly runId: string;
  /** How often it was brought: by the bus, or by a client that was told to come back. */
  deliveries: number;
  firstMs: number | null;
  /** When the lock was held under which it was applied. */
  heldMs: number | null;
  appliedMs: number | null;
  isDead: boolean;
}

export class Probe {
  readonly courses: ReadonlyMap<string, Course>;
  /** Resolves once every result was applied, or is a dead letter. */
  readonly done: Promise<void>;
  /** Jobs that were ended more than once. */
  readonly twice: string[] = [];
  commits = 0;
  busy = 0;
  held = 0;
  readonly #now: () => number;
  readonly #asksMs: number[] = [];
  readonly #returnsMs: number[] = [];
  /** Fence → since when. Fences of one org are never given twice. */
  readonly #heldSinceMs = new Map<number, number>();
  #open: number;
  #isDone: () => void = () => undefined;

  constructor(contenders: readonly Contender[], now: () => number) {
    this.#now = now;
    this.courses = new Map(contenders.map(({ jobId, runId }): [string, Course] => [jobId, freshCourse(runId)]));
    this.#open = contenders.length;
    this.done = new Promise((resolve) => {
      this.#isDone = resolve;
    });
  }

  delivered(jobId: string): void {
    const course = this.courses.get(jobId);
    if (course === undefined) return;
    course.deliveries += 1;
    course.firstMs ??= this.#now();
    if (course.deliveries > 1) this.#returnsMs.push(this.#now());
  }

  asked(): void {
    this.#asksMs.push(this.#now());
  }

  answered(fence: number | null): void {
    if (fence === null) this.busy += 1;
    else {
      this.held += 1;
      this.#heldSinceMs.set(fence, this.#now());
    }
  }

  committed(change: Change): void {
    let fence: number | null = null;
    for (const guard of change.guards) if (guard.kind === "fence" && guard.table === RUNS.name) fence = guard.fence;
    if (fence !== null) this.commits += 1;
    for (const { table, value } of change.puts) {
      if (value === null) continue;
      if (table === JOBS.name) this.#jobWritten(value as Job, fence);
      else if (table === DEAD_LETTERS.name) this.#letterWritten(value as DeadLetter);
    }
  }

  figures({ binMs, idealMs }: { readonly binMs: number; readonly idealMs: number }): Omit<Row, "key"> {
    const all = [...this.courses.values()];
    const startMs = minOf(all.map(({ firstMs }) => firstMs ?? Number.POSITIVE_INFINITY));
    const applied = all.filter(({ appliedMs }) => appliedMs !== null);
    const since = (from: Course, toMs: number | null): number => (toMs ?? 0) - (from.firstMs ?? 0);
    const waitsMs = applied.filter(({ heldMs }) => heldMs !== null).map((one) => since(one, one.heldMs));
    const latenciesMs = applied.map((one) => since(one, one.appliedMs));
    const drainMs = applied.length === 0 ? null : maxOf(applied.map(({ appliedMs }) => appliedMs ?? 0)) - startMs;
    const cameBack = all.filter(({ deliveries }) => deliveries > 1);
    const atOnce = cameBack.filter(({ deliveries, appliedMs }) => deliveries === 2 && appliedMs !== null);
    const arrivals = binned(this.#asksMs, binMs, startMs);
    const returns = binned(this.#returnsMs, binMs, startMs);
    const figures: Figures = {
      drain_ms: drainMs,
      ideal_ms: idealMs,
      ratio: drainMs === null ? null : drainMs / idealMs,
      busy_retries: this.busy,
      attempts_per_acquisition: this.held === 0 ? null : this.#asksMs.length / this.held,
      first_retry_success: cameBack.length === 0 ? null : atOnce.length / cameBack.length,
      wait_ms: percentiles(waitsMs),
      result_latency_ms: percentiles(latenciesMs),
      arrivals: { bin_ms: binMs, peak: maxOf(arrivals), mean: mean(arrivals) },
      returns: returns.length === 0 ? null : { bin_ms: binMs, peak: maxOf(returns), mean: mean(returns) },
      commits: this.commits,
      applied: applied.length,
      deliveries_max: maxOf(all.map(({ deliveries }) => deliveries)),
      dead_lettered: all.filter(({ isDead }) => isDead).length,
    };
    return { figures, series: { arrivals, waits_ms: thinned(waitsMs), latencies_ms: thinned(latenciesMs) } };
  }

  #jobWritten({ id, state }: Job, fence: number | null): void {
    const course = this.courses.get(id);
    if (course === undefined || !isFinal(state)) return;
    if (course.appliedMs !== null) {
      // Not thrown: it would be the flow's to handle, and it would try again.
      this.twice.push(id);
      return;
    }
    course.appliedMs = this.#now();
    course.heldMs = fence === null ? null : (this.#heldSinceMs.get(fence) ?? null);
    this.#settleOne();
  }

  #letterWritten({ source }: DeadLetter): void {
    const course = source.kind === "message" ? this.courses.get(jobIdIn(source.messageId)) : undefined;
    if (course === undefined || course.isDead || course.appliedMs !== null) return;
    course.isDead = true;
    this.#settleOne();
  }

  #settleOne(): void {
    this.#open -= 1;
    if (this.#open === 0) this.#isDone();
  }
}

/** The id of the message that brings a job's result; a message that was parked carries more behind it. */
export const messageIdOf = (jobId: string): string => `lab:${jobId}`;
const jobIdIn = (messageId: string): string => messageId.replace(/^lab:/, "").replace(/~back\d+$/, "");

const freshCourse = (runId: string): Course => ({
  ...{ runId, deliveries: 0, firstMs: null, heldMs: null, appliedMs: null, isDead: false },
});

function maxOf(values: readonly number[]): number {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

function minOf(values: readonly number[]): number {
  let least = Number.POSITIVE_INFINITY;
  for (const value of values) if (value < least) least = value;
  return least;
}

/** As many as a picture can show, from the least to the most. */
function thinned(values: readonly number[]): readonly number[] {
  const sorted = values.toSorted((a, b) => a - b);
  if (sorted.length <= SAMPLES_MAX) return sorted;
  const step = (sorted.length - 1) / (SAMPLES_MAX - 1);
  return Array.from({ length: SAMPLES_MAX }, (_, index) => sorted[Math.round(index * step)] ?? 0);
}

const SAMPLES_MAX = 500;
