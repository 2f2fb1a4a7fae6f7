import { nextDelay, parsePolicy } from "../../core/retry/policies.ts";
import type { Stop } from "../../ports/bus.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { Random } from "../../ports/random.ts";
import type { Usage } from "../../protocol/packet.ts";
import { detailsFromJson } from "../../protocol/request-json.ts";
import { usageToJson } from "../../protocol/usage.ts";
import { Deadline } from "../../worker/deadline.ts";
import { AttemptItem, failureOf, runtimeMsMax, UsageReport } from "../../worker/item.ts";
import type { WorkerOptions } from "../../worker/worker.ts";

/**
 * A worker that long-polls the gateway for jobs.
 *
 * 1. It requests as many jobs as it has free capacity, and waits at the server if there are none.
 * 2. After the first successful request only `stop` ends it: an unavailable server or a 429 is retried with jitter.
 * 3. An attempt requests an extension when a third of the remaining time has passed. A lost lease aborts the signal, and
 *    nothing more is sent for the attempt.
 * 4. The result is sent again until the server has accepted it or the lease has ended.
 */
export interface HttpOptions {
  /** Base URL of the gateway, for example `http://127.0.0.1:8081`. */
  readonly url: string;
  /** By default the start-up token of a gateway on this machine, from `CORDUM_DATA_DIR` or `.cordum`. */
  readonly apiKey?: string;
  readonly tenant?: string;
  /** Long-poll timeout. */
  readonly waitMs?: number;
}

export interface HttpParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly fetch: typeof fetch;
  readonly log: Log;
}

/** Rejects if the server rejects the worker. An unavailable server is retried. */
export async function startHttpWorker(parts: HttpParts, http: HttpOptions, options: WorkerOptions): Promise<Stop> {
  const worker = new HttpWorker(parts, http, options);
  await worker.register();
  const polling = worker.poll();
  return async () => {
    worker.stop();
    await polling;
    await worker.finished();
  };
}

/** The server rejected the worker with a 4xx status: a retry does not help. */
export class WorkerRejectedError extends Error {
  override readonly name = "WorkerRejectedError";
}

class HttpWorker {
  readonly #parts: HttpParts;
  readonly #http: HttpOptions;
  readonly #options: WorkerOptions;
  readonly #stopping = new AbortController();
  readonly #working = new Set<Promise<void>>();
  /** Ends the current delays. A listener of `#stopping` for each would be reported as a leak: many results are retried at once. */
  readonly #backoffs = new Set<() => void>();
  #onCapacity = (): void => {};
  /** Clock offset of the server; 0 if within the precision of the `date` header. */
  #clockOffsetMs = 0;

  constructor(parts: HttpParts, http: HttpOptions, options: WorkerOptions) {
    this.#parts = parts;
    this.#http = http;
    this.#options = options;
  }

  /** First request, without waiting. */
  async register(): Promise<void> {
    try {
      for (const job of await this.#lease(this.#options.concurrency, 0)) this.#begin(job);
    } catch (error) {
      if (error instanceof WorkerRejectedError) throw error;
      this.#parts.log.write("warn", "worker_start_delayed", { error: String(error) });
    }
  }

  async poll(): Promise<void> {
    let failures = 0;
    while (!this.#stopping.signal.aborted) {
      const free = this.#options.concurrency - this.#working.size;
      if (free <= 0) {
        await new Promise<void>((resolve) => (this.#onCapacity = resolve));
        continue;
      }
      try {
        for (const job of await this.#lease(free, this.#http.waitMs ?? WAIT_MS)) this.#begin(job);
        failures = 0;
      } catch (error) {
        failures++;
        this.#parts.log.write("warn", "lease_failed", { error: String(error) });
        await this.#backoff(failures);
      }
    }
  }

  stop(): void {
    this.#stopping.abort();
    this.#onCapacity();
    for (const end of this.#backoffs) end();
  }

  async finished(): Promise<void> {
    while (this.#working.size > 0) await Promise.all(this.#working);
  }

  async #lease(free: number, waitMs: number): Promise<readonly Leased[]> {
    const { id, topics, capabilities, pool } = this.#options;
    const body = { worker_id: id, topics, max: Math.min(free, LEASE_MAX), wait_ms: waitMs, capabilities, pool };
    const response = await this.#post("/worker/lease", body, this.#stopping.signal).catch((error: unknown) => {
      if (this.#stopping.signal.aborted) return null;
      throw error;
    });
    if (response === null || response.status === 204) return [];
    const offsetMs = Date.parse(response.headers.get("date") ?? "") - this.#parts.clock.now();
    this.#clockOffsetMs = Math.abs(offsetMs) > CLOCK_TOLERANCE_MS ? offsetMs : 0;
    if (response.status === 200) return ((await response.json()) as { jobs: readonly Leased[] }).jobs;
    const message = `lease request failed with ${response.status}: ${(await response.text()).slice(0, 500)}`;
    // 429 and 408 are temporary; other 4xx statuses are permanent.
    if (response.status >= 400 && response.status < 500 && response.status !== 429 && response.status !== 408) {
      throw new WorkerRejectedError(message);
    }
    throw new Error(message);
  }

  #begin(job: Leased): void {
    const working = this.#work(job).finally(() => {
      this.#working.delete(working);
      this.#onCapacity();
    });
    this.#working.add(working);
  }

  /** Never rejects. */
  async #work(job: Leased): Promise<void> {
    const { clock } = this.#parts;
    const untilMs = clock.now() + Math.min(this.#options.extendsForMs ?? EXTENDS_FOR_MS, runtimeMsMax(job.constraints));
    const deadline = new Deadline(clock, this.#toLocalMs(job.deadline));
    const stopExtending = this.#extendPeriodically(job, deadline, untilMs);
    const usage = new UsageReport();
    try {
      const output = await this.#options.handle(this.#itemOf(job, deadline, usage));
      await this.#sendResult(job, deadline, "complete", { result: output ?? null, ...usageField(usage) });
    } catch (error) {
      const { errorMessage, status, retryAfterMs } = failureOf(error);
      const retryable = status === "failed_retryable";
      await this.#sendResult(job, deadline, "fail", {
        error: errorMessage || "error",
        retryable,
        retry_after_ms: retryAfterMs,
        ...usageField(usage),
      });
    } finally {
      stopExtending();
      deadline.dispose();
    }
  }

  #itemOf(job: Leased, deadline: Deadline, usage: UsageReport): AttemptItem {
    const fields = {
      jobId: job.job_id,
      topic: job.topic,
      org: job.tenant_id,
      attempt: job.attempt,
      input: job.input,
      labels: job.labels ?? {},
      constraints: job.constraints,
      traceparent: job.traceparent,
      progress: (percent: number | null, message?: string) => {
        const body = { ...(percent === null ? {} : { percent }), ...(message === undefined ? {} : { message }) };
        this.#send(job, deadline, "progress", body).catch(() => undefined);
      },
      reportUsage: (used: Usage) => usage.add(used),
    };
    return new AttemptItem(fields, deadline, () => detailsFromJson(job));
  }

  /** Requests an extension whenever a third of the remaining time has passed. The response has the new deadline. */
  #extendPeriodically(job: Leased, deadline: Deadline, untilMs: number): () => void {
    const { clock } = this.#parts;
    let cancel = (): void => {};
    let isOver = false;
    const schedule = (leftMs: number) => {
      if (!isOver) cancel = clock.after(Math.max(leftMs / 3, EXTEND_MS_MIN), extend);
    };
    let endMs = this.#toLocalMs(job.deadline);
    const extend = async () => {
      if (clock.now() >= untilMs || deadline.isCancelled) return;
      try {
        const response = await this.#send(job, deadline, "extend", {});
        if (response?.deadline) endMs = this.#toLocalMs(response.deadline);
        deadline.extendTo(endMs);
      } catch {
        // Retried by the next timer.
      }
      schedule(endMs - clock.now());
    };
    schedule(endMs - clock.now());
    return () => {
      isOver = true;
      cancel();
    };
  }

  /** Converts a time of the server to the local clock. */
  #toLocalMs(time: string): number {
    return Date.parse(time) - this.#clockOffsetMs;
  }

  /** Retries until the server accepts the result or the lease has ended. */
  async #sendResult(job: Leased, deadline: Deadline, action: "complete" | "fail", fields: object): Promise<void> {
    for (let tries = 1; tries <= RESULT_TRIES_MAX && !deadline.isCancelled; tries++) {
      try {
        await this.#send(job, deadline, action, fields);
        return;
      } catch {
        await this.#backoff(tries);
      }
    }
  }

  /** Rejects if a retry makes sense. Null: the lease is lost, or the server rejected the request. */
  async #send(job: Leased, deadline: Deadline, action: string, fields: object): Promise<{ deadline?: string } | null> {
    if (deadline.isCancelled) return null;
    const body = { lease_id: job.lease_id, ...fields };
    const response = await this.#post(`/worker/jobs/${encodeURIComponent(job.job_id)}/${action}`, body);
    if (response.ok) return (await response.json()) as { deadline?: string };
    const text = (await response.text()).slice(0, 500);
    if (response.status === 409 || response.status === 404) {
      deadline.cancel(new Error(`lease lost: ${text}`));
      return null;
    }
    if (response.status >= 500 || response.status === 429 || response.status === 408) throw new Error(text);
    return null;
  }

  #post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
    const { url, apiKey, tenant } = this.#http;
    return this.#parts.fetch(`${url.replace(/\/+$/, "")}/api/v1${path}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(apiKey === undefined ? {} : { "x-api-key": apiKey }),
        ...(tenant === undefined ? {} : { "x-tenant-id": tenant }),
      },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  #backoff(tries: number): Promise<void> {
    const { clock, random } = this.#parts;
    const delayMs = nextDelay(BACKOFF_POLICY, tries, () => random.next());
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        this.#backoffs.delete(end);
        resolve();
      };
      const cancel = clock.after(delayMs, end);
      this.#backoffs.add(end);
    });
  }
}

const usageField = ({ total }: UsageReport): object => (total === undefined ? {} : { usage: usageToJson(total) });

interface Leased {
  readonly job_id: string;
  readonly attempt: number;
  readonly lease_id: string;
  readonly topic: string;
  readonly tenant_id: string;
  readonly input: unknown;
  readonly labels?: Readonly<Record<string, string>>;
  readonly constraints: unknown;
  readonly deadline: string;
  readonly traceparent: string | null;
}

const WAIT_MS = 20_000;
/** Limit of the server. */
const LEASE_MAX = 100;
const CLOCK_TOLERANCE_MS = 2_000;
const EXTEND_MS_MIN = 100;
const EXTENDS_FOR_MS = 3_600_000;
const RESULT_TRIES_MAX = 20;
const BACKOFF_POLICY = parsePolicy("full:200ms:10s");
