import { setTimeout as delay } from "node:timers/promises";
import { http, type Transport, worker } from "../../../src/worlds/worker-sdk.ts";
import type { History, JobView } from "./history.ts";

/** Clients and workers of a deployment. They record what they see, and retry until they get an answer. */
export class Load {
  readonly #url: string;
  readonly #apiKey: string;
  readonly #history: History;
  readonly #lanes: Promise<unknown>;
  #stopWorkers: readonly (() => Promise<void>)[] = [];
  #isStopped = false;
  #isPaused = false;
  #busy = 0;

  constructor(url: string, apiKey: string, name: string, history: History) {
    this.#url = url;
    this.#apiKey = apiKey;
    this.#history = history;
    const submitters = Array.from({ length: LANES }, (_, lane) => this.#submitAll(`${name}-${lane}`));
    this.#lanes = Promise.all([...submitters, this.#readAll()]);
  }

  async startWorkers(transports: readonly Transport[]): Promise<void> {
    const all = [http({ url: this.#url, apiKey: this.#apiKey }), ...transports];
    this.#stopWorkers = await Promise.all(
      all.map((transport, at) =>
        worker({
          ...{ id: `worker-${at}`, topics: [TOPIC], transport, concurrency: 32 },
          handle: async ({ jobId, input }) => {
            const result = { done: (input as { key: string }).key };
            this.#history.executed(jobId, result);
            return result;
          },
        }),
      ),
    );
  }

  /** No request is under way until `resume`. */
  async pause(): Promise<void> {
    this.#isPaused = true;
    while (this.#busy > 0) await delay(10);
  }

  resume(): void {
    this.#isPaused = false;
  }

  /** Ends the submissions and reads every job until it has ended, or the time is over. */
  async drain(forMs: number): Promise<void> {
    this.#isStopped = true;
    await this.#lanes;
    const untilMs = performance.now() + forMs;
    while (this.#history.open.length > 0 && performance.now() < untilMs) {
      await this.readJobs(this.#history.open);
      await delay(200);
    }
    await this.readJobs(this.#history.jobs);
    await Promise.all(this.#stopWorkers.map((stop) => stop()));
  }

  async readJobs(ids: readonly string[]): Promise<void> {
    const left = [...ids];
    const lane = async (): Promise<void> => {
      for (let id = left.pop(); id !== undefined; id = left.pop()) await this.#read(id);
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  }

  /** Reads each job while the load is paused, and returns how many reads failed. */
  async probe(ids: readonly string[]): Promise<number> {
    let failed = 0;
    for (const id of ids) {
      const answer = await this.#call(`/jobs/${id}`, {}).catch(() => null);
      if (answer === null || answer.status >= 500) failed += 1;
      else this.#record(id, answer);
    }
    return failed;
  }

  /** The answer to a read while the load is paused; null if it was refused. */
  async view(id: string): Promise<string | null> {
    const answer = await this.#call(`/jobs/${id}`, {}).catch(() => null);
    return answer === null || answer.status >= 500 ? null : JSON.stringify(answer);
  }

  async #submitAll(name: string): Promise<void> {
    for (let count = 0; !this.#isStopped; count++) {
      const key = `${name}-${count}`;
      const body = JSON.stringify({ topic: TOPIC, input: { key }, idempotency_key: key });
      const answer = await this.#untilAnswered("/jobs", { method: "POST", body, headers: JSON_TYPE });
      if (answer.status === 200) this.#history.acknowledged(key, String(answer.body.job_id));
      else throw new Error(`${key} was refused with ${answer.status}: ${JSON.stringify(answer.body)}`);
      await delay(THINK_MS);
    }
  }

  /** Reads jobs again after their end, which must not change. */
  async #readAll(): Promise<void> {
    while (!this.#isStopped) {
      const { jobs } = this.#history;
      await this.readJobs(jobs.slice(0, 1));
      await this.readJobs(jobs.slice(-READ_AHEAD).slice(0, 2));
      await delay(THINK_MS);
    }
  }

  async #read(id: string): Promise<void> {
    this.#record(id, await this.#untilAnswered(`/jobs/${id}`, {}));
  }

  #record(id: string, { status, body }: Answer): void {
    if (status === 404) this.#history.read(id, null);
    else if (status === 200) this.#history.read(id, body as unknown as JobView);
    else throw new Error(`reading ${id} failed with ${status}: ${JSON.stringify(body)}`);
  }

  /** Retries while the deployment is not available. */
  async #untilAnswered(path: string, init: RequestInit): Promise<Answer> {
    for (;;) {
      while (this.#isPaused) await delay(10);
      this.#busy += 1;
      try {
        const answer = await this.#call(path, init);
        if (answer.status < 500 && answer.status !== 429) return answer;
      } catch {
        // Not reachable, no answer in time, or half an answer.
      } finally {
        this.#busy -= 1;
      }
      await delay(50 + Math.random() * 150);
    }
  }

  async #call(path: string, init: RequestInit): Promise<Answer> {
    const headers = { ...init.headers, "x-api-key": this.#apiKey };
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const response = await fetch(`${this.#url}/api/v1${path}`, { ...init, headers, signal });
    return { status: response.status, body: (await response.json()) as Answer["body"] };
  }
}

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

const TOPIC = "load.echo";
const JSON_TYPE = { "content-type": "application/json" };
const LANES = 6;
/** Enough for jobs in every state at each fault; more of them only cost CPU time. */
const THINK_MS = 120;
const READ_AHEAD = 40;
const ANSWER_MS_MAX = 3_000;
