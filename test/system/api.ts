/** A client of the HTTP API as a test needs it: every answer with its status, and waiting for what is said there. */
export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: what the server says is looked at, not computed with.
  readonly body: any;
}

export class Api {
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.url = url;
    this.#headers = headers;
  }

  /** The same door for somebody else. */
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

  /** Bytes as they are. */
  send(path: string, body: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return this.#call(path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
  }

  /** Submits a job that is taken; its id. */
  async submit(topic: string, input: unknown = null, more: object = {}): Promise<string> {
    const { status, body } = await this.post("/jobs", { topic, input, ...more });
    if (status !== 200) throw new Error(`the job was answered ${status}: ${JSON.stringify(body)}`);
    return body.job_id;
  }

  job(id: string): Promise<Answer["body"]> {
    return this.get(`/jobs/${id}`).then(({ body }) => body);
  }

  /** The job once it is in this state; an end that is another one is an error. */
  async ended(id: string, state: string): Promise<Answer["body"]> {
    const { body } = await this.until(`/jobs/${id}`, (seen) => ENDS.includes(seen.body.state));
    if (body.state === state) return body;
    throw new Error(`job \`${id}\` has not ended as ${state}: ${JSON.stringify(body)}`);
  }

  /** Asks until the answer is as it should be. The bound is for a system that hangs, not for one that is slow. */
  async until(path: string, isIt: (answer: Answer) => boolean): Promise<Answer> {
    const untilMs = Date.now() + WAIT_MS_MAX;
    for (;;) {
      const answer = await this.get(path);
      if (isIt(answer)) return answer;
      if (Date.now() > untilMs) throw new Error(`${path} stayed ${answer.status} ${JSON.stringify(answer.body)}`);
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_MS));
    }
  }

  async #call(path: string, init: RequestInit): Promise<Answer> {
    const headers = { ...this.#headers, ...(init.headers as Record<string, string>) };
    const response = await fetch(`${this.url}/api/v1${path}`, { ...init, headers });
    const text = await response.text();
    return { status: response.status, body: text === "" ? null : JSON.parse(text) };
  }
}

const ENDS = ["SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"];
const WAIT_MS_MAX = 60_000;
/** Between two questions, so that the asking does not take the time of those who work. */
const BETWEEN_MS = 20;
