import { tokenHeader } from "../cli/run.ts";

/** A test client of the HTTP API. */
export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests only compare response bodies.
  readonly body: any;
}

export class Api {
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.url = url;
    this.#headers = headers;
  }

  /** For an HTTP worker. */
  get apiKey(): { readonly apiKey?: string } {
    const key = tokenHeader(this.url)["x-api-key"];
    return key === undefined ? {} : { apiKey: key };
  }

  /** The same API with another key. */
  as(key: string): Api {
    return new Api(this.url, { ...this.#headers, "x-api-key": key });
  }

  with(headers: Readonly<Record<string, string>>): Api {
    return new Api(this.url, { ...this.#headers, ...headers });
  }

  get(path: string): Promise<Answer> {
    return this.#call(path, {});
  }

  post(path: string, body: unknown = {}): Promise<Answer> {
    const headers = { "content-type": "application/json" };
    return this.#call(path, { method: "POST", headers, body: JSON.stringify(body) });
  }

  /** Posts a raw body. */
  send(path: string, body: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return this.#call(path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
  }

  /** Submits a job and returns its id. */
  async submit(topic: string, input: unknown = null, more: object = {}): Promise<string> {
    const { status, body } = await this.post("/jobs", { topic, input, ...more });
    if (status !== 200) throw new Error(`submit failed with ${status}: ${JSON.stringify(body)}`);
    return body.job_id;
  }

  job(id: string): Promise<Answer["body"]> {
    return this.get(`/jobs/${id}`).then(({ body }) => body);
  }

  /** Waits for the end of a job. Another final state is an error. */
  async ended(id: string, state: string): Promise<Answer["body"]> {
    const { body } = await this.until(`/jobs/${id}`, (answer) => FINAL_STATES.includes(answer.body.state));
    if (body.state === state) return body;
    throw new Error(`job \`${id}\` did not end as ${state}: ${JSON.stringify(body)}`);
  }

  /** Polls until the condition holds. The timeout is for a system that hangs, not for one that is slow. */
  async until(
    path: string,
    isDone: (answer: Answer) => boolean,
    { waitMs = WAIT_MS_MAX, pollMs = POLL_MS } = {},
  ): Promise<Answer> {
    const untilMs = Date.now() + waitMs;
    for (;;) {
      const answer = await this.get(path);
      if (isDone(answer)) return answer;
      if (Date.now() > untilMs) throw new Error(`${path} is still ${answer.status} ${JSON.stringify(answer.body)}`);
      await new Promise((resolve) => setTimeout(resolve, pollMs));
    }
  }

  async #call(path: string, init: RequestInit): Promise<Answer> {
    const headers = { ...tokenHeader(this.url), ...this.#headers, ...(init.headers as Record<string, string>) };
    const response = await fetch(`${this.url}/api/v1${path}`, { ...init, headers });
    const text = await response.text();
    return { status: response.status, body: text === "" ? null : JSON.parse(text) };
  }
}

export const FINAL_STATES = ["SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"];
const WAIT_MS_MAX = 60_000;
const POLL_MS = 20;
