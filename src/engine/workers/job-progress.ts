import { recordProgress } from "../../core/jobs/attempt.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { put } from "../../ports/store.ts";
import type { JobProgress, Packet } from "../../protocol/packet.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";

/**
 * What workers on the bus say of their work: still at it, how far, how much longer.
 *
 * 1. The latest word of a job is written, once a second and job at most.
 * 2. Every process hears it and one has to write it: who finds it written already writes nothing.
 */
export class ProgressBuffer {
  readonly #engine: Needs<"world" | "settings" | "commit" | "tasks">;
  readonly #news = new Map<string, News>();
  /** When this process last wrote, by job. */
  readonly #wroteMs = new Map<string, number>();
  #isStopped = false;

  constructor(engine: Needs<"world" | "settings" | "commit" | "tasks">) {
    this.#engine = engine;
  }

  hear({ body, senderId }: Packet): void {
    if (body.kind !== "job_progress" || this.#isStopped) return;
    const { clock, random } = this.#engine.world;
    const isAwaited = this.#news.has(body.jobId);
    if (!isAwaited && this.#news.size >= NEWS_MAX) return;
    this.#news.set(body.jobId, { ...body, workerId: senderId, heardMs: clock.now() });
    if (isAwaited) return;
    const restMs = (this.#wroteMs.get(body.jobId) ?? Number.NEGATIVE_INFINITY) + EVERY_MS - clock.now();
    const delayMs = Math.max(0, restMs) + random.next() * SPREAD_MS;
    this.#engine.tasks.after(clock, delayMs, () => this.#engine.tasks.track(this.#write(body.jobId)));
  }

  stop(): void {
    this.#isStopped = true;
    this.#news.clear();
  }

  async #write(jobId: string): Promise<void> {
    const news = this.#news.get(jobId);
    this.#news.delete(jobId);
    if (!news || this.#isStopped) return;
    const { clock, log, store } = this.#engine.world;
    if (this.#wroteMs.size >= NEWS_MAX) this.#wroteMs.clear();
    this.#wroteMs.set(jobId, clock.now());
    try {
      const found = await store.load(JOBS, jobId);
      if (!found || !isAbout(found.value, news)) return;
      const next = recordProgress(found.value, told(news, found.value), decisionContext(this.#engine));
      if (!next || isSaid(found.value, next)) return;
      // Stale: another process has written it, or the job has moved on.
      await this.#engine.commit({ org: next.org, puts: [put(JOBS, jobId, found, next)] });
    } catch (error) {
      log.write("warn", "progress_not_written", { job: jobId, error: String(error) });
    }
  }
}

interface News extends JobProgress {
  readonly workerId: string;
  readonly heardMs: number;
}

/** A word about an earlier attempt says nothing of this one. Workers of others do not count attempts. */
function isAbout(job: Job, { attempt }: News): boolean {
  return job.leaseId === undefined && (attempt === undefined || attempt === job.attempt);
}

/** What was not said this time stays as it was said before. */
function told({ workerId, percent, message, extendMs }: News, job: Job) {
  return {
    workerId: workerId || (job.workerId ?? "unknown"),
    percent: percent ?? (message === undefined ? null : (job.progress?.percent ?? null)),
    message: message ?? (percent === undefined ? null : (job.progress?.message ?? null)),
    extendMs: extendMs ?? null,
  };
}

/** The same word, and a deadline that is nearly the same: another process was first. */
function isSaid(before: Job, next: Job): boolean {
  return (
    before.state === next.state &&
    before.progress?.percent === next.progress?.percent &&
    before.progress?.message === next.progress?.message &&
    next.dueMs - before.dueMs < EVERY_MS
  );
}

const EVERY_MS = 1_000;
const SPREAD_MS = 50;
const NEWS_MAX = 10_000;
