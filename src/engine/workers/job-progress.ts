import { recordProgress } from "../../core/jobs/attempt.ts";
import { canonical } from "../../core/jobs/idempotency.ts";
import { isHeldByAnother, reportProblem } from "../../core/jobs/submission.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { progressDetailsOf } from "../../core/model/job-details.ts";
import { put } from "../../ports/store.ts";
import type { JobProgress, Packet } from "../../protocol/packet.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";

/**
 * Progress reports of workers on the bus.
 *
 * 1. The latest report of a job is written, at most once a second per job.
 * 2. Every process receives a report; a process that finds it written writes nothing.
 */
export class ProgressBuffer {
  readonly #engine: Needs<"world" | "settings" | "commit" | "tasks">;
  readonly #reports = new Map<string, Report>();
  /** Last write of this process, by job. */
  readonly #wroteMs = new Map<string, number>();
  #isStopped = false;

  constructor(engine: Needs<"world" | "settings" | "commit" | "tasks">) {
    this.#engine = engine;
  }

  receive({ body, senderId, origin }: Packet): void {
    if (body.kind !== "job_progress" || this.#isStopped) return;
    const { clock, random } = this.#engine.world;
    const isAwaited = this.#reports.has(body.jobId);
    if (!isAwaited && this.#reports.size >= REPORTS_MAX) return;
    this.#reports.set(body.jobId, {
      ...body,
      workerId: senderId,
      receivedMs: clock.now(),
      ...(origin === undefined ? {} : { origin }),
    });
    if (isAwaited) return;
    const restMs = (this.#wroteMs.get(body.jobId) ?? Number.NEGATIVE_INFINITY) + EVERY_MS - clock.now();
    const delayMs = Math.max(0, restMs) + random.next() * SPREAD_MS;
    this.#engine.tasks.after(clock, delayMs, () => this.#engine.tasks.track(this.#write(body.jobId)));
  }

  stop(): void {
    this.#isStopped = true;
    this.#reports.clear();
  }

  async #write(jobId: string): Promise<void> {
    const report = this.#reports.get(jobId);
    this.#reports.delete(jobId);
    if (!report || this.#isStopped) return;
    const { clock, log, store } = this.#engine.world;
    if (this.#wroteMs.size >= REPORTS_MAX) this.#wroteMs.clear();
    this.#wroteMs.set(jobId, clock.now());
    try {
      const found = await store.load(JOBS, jobId);
      if (!found || !isAbout(found.value, report)) return;
      const problem = reportProblem(report, found.value.org, this.#engine.settings.current);
      if (problem !== null) {
        log.write("warn", "progress_refused", { job: jobId, error: problem });
        return;
      }
      const next = recordProgress(
        found.value,
        mergeReport(report, found.value),
        decisionContext(this.#engine, found.value),
      );
      if (!next || isRecorded(found.value, next)) return;
      // Stale: written by another process, or the job has changed.
      await this.#engine.commit({ org: next.org, puts: [put(JOBS, jobId, found, next)] });
    } catch (error) {
      log.write("warn", "progress_write_failed", { job: jobId, error: String(error) });
    }
  }
}

interface Report extends JobProgress, Pick<Packet, "origin"> {
  readonly workerId: string;
  readonly receivedMs: number;
}

/** Reports about an earlier attempt are ignored. Third-party workers do not send an attempt. */
function isAbout(job: Job, report: Report): boolean {
  const { attempt } = report;
  return !isHeldByAnother(report, job) && (attempt === undefined || attempt === job.attempt);
}

/** Fields that the report omits keep their value. */
function mergeReport(report: Report, job: Job) {
  const { workerId, percent, message, extendMs } = report;
  const details = progressDetailsOf(report);
  const isEmpty = percent === undefined && message === undefined && details === undefined;
  const before = isEmpty ? undefined : job.progress;
  return {
    workerId: workerId || (job.workerId ?? "unknown"),
    percent: percent ?? before?.percent ?? null,
    message: message ?? before?.message ?? null,
    extendMs: extendMs ?? null,
    details: details ?? before?.details,
  };
}

/** The report is already on the record, and the deadline is nearly the same. */
function isRecorded(before: Job, next: Job): boolean {
  return (
    before.state === next.state &&
    before.progress?.percent === next.progress?.percent &&
    before.progress?.message === next.progress?.message &&
    canonical(before.progress?.details) === canonical(next.progress?.details) &&
    next.dueMs - before.dueMs < EVERY_MS
  );
}

const EVERY_MS = 1_000;
const SPREAD_MS = 50;
const REPORTS_MAX = 10_000;
