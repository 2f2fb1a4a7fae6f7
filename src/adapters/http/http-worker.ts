import { nextDelay, parsePolicy } from "../../core/retry/policies.ts";
import type { Stop } from "../../ports/bus.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { Random } from "../../ports/random.ts";
import { Deadline } from "../../worker/deadline.ts";
import { failureOf, runtimeMsMax } from "../../worker/item.ts";
import type { WorkerOptions } from "../../worker/worker.ts";

/**
 * A worker that comes for its work over HTTP.
 *
 * 1. It asks for as many jobs as it has places free, and waits at the server while there are none.
 * 2. A server that does not answer, or says "later", is asked again after a spread delay: nothing but `stop` ends the
 *    worker once it was let in.
 * 3. Work asks for more time at a third of what is left. A lease that was lost aborts the work's signal, and nothing is
 *    said about it any more.
 * 4. What came of the work is said until it was heard, or until the lease is over.
 */
export interface HttpOptions {
  /** Of the gateway, such as `http://127.0.0.1:8081`. */
  readonly url: string;
  readonly apiKey?: string;
  readonly tenant?: string;
  /** How long one request may wait at the server. */
  readonly waitMs?: number;
}

export interface HttpParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly fetch: typeof fetch;
  readonly log: Log;
}

/** Rejects when the server says that this worker may not work here; a server that is away is waited for. */
export async function startHttpWorker(parts: HttpParts, http: HttpOptions, options: WorkerOptions): Promise<Stop> {
  const worker = new HttpWorker(parts, http, options);
  await worker.greet();
  const polling = worker.poll();
  return async () => {
    worker.stop();
    await polling;
    await worker.finished();
  };
}

/** The server says that this worker has no business here: asking again does not help. */
export class NotWelcome extends Error {
  override readonly name = "NotWelcome";
}

class HttpWorker {
  readonly #parts: HttpParts;
  readonly #http: HttpOptions;
  readonly #options: WorkerOptions;
  readonly #stopping = new AbortController();
  readonly #working = new Set<Promise<void>>();
  #onPlace = (): void => {};
  /** How far the server's clock is ahead of ours, where that is more than a header can be wrong by. */
  #aheadMs = 0;

  constructor(parts: HttpParts, http: HttpOptions, options: WorkerOptions) {
    this.#parts = parts;
    this.#http = http;
    this.#options = options;
  }

  /** Takes what is there, without waiting. */
  async greet(): Promise<void> {
    try {
      for (const job of await this.#lease(this.#options.concurrency, 0)) this.#begin(job);
    } catch (error) {
      if (error instanceof NotWelcome) throw error;
      this.#parts.log.write("warn", "worker_waits_for_server", { error: String(error) });
    }
  }

  async poll(): Promise<void> {
    let failures = 0;
    while (!this.#stopping.signal.aborted) {
      const free = this.#options.concurrency - this.#working.size;
      if (free <= 0) {
        await new Promise<void>((resolve) => (this.#onPlace = resolve));
        continue;
      }
      try {
        for (const job of await this.#lease(free, this.#http.waitMs ?? WAIT_MS)) this.#begin(job);
        failures = 0;
      } catch (error) {
        failures++;
        this.#parts.log.write("warn", "lease_failed", { error: String(error) });
        await this.#pause(failures);
      }
    }
  }

  stop(): void {
    this.#stopping.abort();
    this.#onPlace();
  }

  async finished(): Promise<void> {
    while (this.#working.size > 0) await Promise.all(this.#working);
  }

  async #lease(free: number, waitMs: number): Promise<readonly Leased[]> {
    const { id, topics, capabilities, pool } = this.#options;
    const body = { worker_id: id, topics, max: Math.min(free, LEASE_MAX), wait_ms: waitMs, capabilities, pool };
    const answer = await this.#post("/worker/lease", body, this.#stopping.signal).catch((error: unknown) => {
      if (this.#stopping.signal.aborted) return null;
      throw error;
    });
    if (answer === null || answer.status === 204) return [];
    const aheadMs = Date.parse(answer.headers.get("date") ?? "") - this.#parts.clock.now();
    this.#aheadMs = Math.abs(aheadMs) > HEADER_WRONG_BY_MS ? aheadMs : 0;
    if (answer.status === 200) return ((await answer.json()) as { jobs: readonly Leased[] }).jobs;
    const why = `the lease was answered ${answer.status}: ${(await answer.text()).slice(0, 500)}`;
    // Too many, too early, or not now; anything else of the 400s stays as it is.
    if (answer.status >= 400 && answer.status < 500 && answer.status !== 429 && answer.status !== 408) {
      throw new NotWelcome(why);
    }
    throw new Error(why);
  }

  #begin(job: Leased): void {
    const working = this.#work(job).finally(() => {
      this.#working.delete(working);
      this.#onPlace();
    });
    this.#working.add(working);
  }

  /** Never rejects. */
  async #work(job: Leased): Promise<void> {
    const { clock } = this.#parts;
    const untilMs = clock.now() + Math.min(this.#options.extendsForMs ?? EXTENDS_FOR_MS, runtimeMsMax(job.constraints));
    const deadline = new Deadline(clock, this.#ours(job.deadline));
    const stopAsking = this.#askForMore(job, deadline, untilMs);
    try {
      const output = await this.#options.handle(this.#itemOf(job, deadline));
      await this.#tell(job, deadline, "complete", { result: output ?? null });
    } catch (error) {
      const { errorMessage, status, retryAfterMs } = failureOf(error);
      const retryable = status === "failed_retryable";
      await this.#tell(job, deadline, "fail", {
        error: errorMessage || "error",
        retryable,
        retry_after_ms: retryAfterMs,
      });
    } finally {
      stopAsking();
      deadline.over();
    }
  }

  #itemOf(job: Leased, deadline: Deadline) {
    return {
      jobId: job.job_id,
      topic: job.topic,
      org: job.tenant_id,
      attempt: job.attempt,
      input: job.input,
      labels: job.labels ?? {},
      constraints: job.constraints,
      traceparent: job.traceparent,
      get signal() {
        return deadline.signal;
      },
      progress: (percent: number | null, message?: string) => {
        const news = { ...(percent === null ? {} : { percent }), ...(message === undefined ? {} : { message }) };
        this.#say(job, deadline, "progress", news).catch(() => undefined);
      },
    };
  }

  /** At a third of what is left, again and again; the answer says how much there is then. */
  #askForMore(job: Leased, deadline: Deadline, untilMs: number): () => void {
    const { clock } = this.#parts;
    let cancel = (): void => {};
    let isOver = false;
    const arm = (leftMs: number) => {
      if (!isOver) cancel = clock.after(Math.max(leftMs / 3, ASK_MS_MIN), ask);
    };
    let endMs = this.#ours(job.deadline);
    const ask = async () => {
      if (clock.now() >= untilMs || deadline.isEnded) return;
      try {
        const answer = await this.#say(job, deadline, "extend", {});
        if (answer?.deadline) endMs = this.#ours(answer.deadline);
        deadline.moveTo(endMs);
      } catch {
        // Asked again below, while there is time.
      }
      arm(endMs - clock.now());
    };
    arm(endMs - clock.now());
    return () => {
      isOver = true;
      cancel();
    };
  }

  /** A time of the server's, by our clock. */
  #ours(time: string): number {
    return Date.parse(time) - this.#aheadMs;
  }

  /** Until it was heard, or nobody wants to hear it. */
  async #tell(job: Leased, deadline: Deadline, what: "complete" | "fail", news: object): Promise<void> {
    for (let tries = 1; tries <= TELL_TRIES_MAX && !deadline.isEnded; tries++) {
      try {
        await this.#say(job, deadline, what, news);
        return;
      } catch {
        await this.#pause(tries);
      }
    }
  }

  /** Rejects when it may be tried again; null when nobody wants to hear it. */
  async #say(job: Leased, deadline: Deadline, what: string, news: object): Promise<{ deadline?: string } | null> {
    if (deadline.isEnded) return null;
    const body = { lease_id: job.lease_id, ...news };
    const answer = await this.#post(`/worker/jobs/${encodeURIComponent(job.job_id)}/${what}`, body);
    if (answer.ok) return (await answer.json()) as { deadline?: string };
    const why = (await answer.text()).slice(0, 500);
    if (answer.status === 409 || answer.status === 404) {
      deadline.end(new Error(`the lease was lost: ${why}`));
      return null;
    }
    if (answer.status >= 500 || answer.status === 429 || answer.status === 408) throw new Error(why);
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

  #pause(tries: number): Promise<void> {
    const { clock, random } = this.#parts;
    const delayMs = nextDelay(PAUSE_POLICY, tries, () => random.next());
    const { signal } = this.#stopping;
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        signal.removeEventListener("abort", end);
        resolve();
      };
      const cancel = clock.after(delayMs, end);
      signal.addEventListener("abort", end);
    });
  }
}

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
/** As many as the server gives at once. */
const LEASE_MAX = 100;
const HEADER_WRONG_BY_MS = 2_000;
const ASK_MS_MIN = 100;
const EXTENDS_FOR_MS = 3_600_000;
const TELL_TRIES_MAX = 20;
const PAUSE_POLICY = parsePolicy("full:200ms:10s");
