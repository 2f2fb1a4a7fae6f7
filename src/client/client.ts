import type { ClientEvent, StreamFilter } from "./event-stream.ts";
import { type ChangesOptions, Follower, type WaitOptions } from "./follow.ts";
import type { OperationName } from "./operations.ts";
import type { JobDetail, JobEvent, Operations, RunDetail, StartRequest, SubmitRequest } from "./schema.ts";
import { type Arguments, type CallOptions, type ClientParts, Transport, type TransportOptions } from "./transport.ts";

/** A client of one gateway. Fields of requests and responses have the names of docs/openapi.json. */
export class Client {
  /** Base URL of the gateway. */
  readonly url: string;
  readonly jobs: Jobs;
  readonly runs: Runs;
  readonly workflows: Workflows;
  readonly approvals: Approvals;
  readonly deadLetters: DeadLetters;
  readonly policy: Policy;
  readonly #transport: Transport;
  readonly #follower: Follower;

  constructor(parts: ClientParts, options: TransportOptions) {
    const transport = new Transport(parts, options);
    const follower = new Follower(transport);
    this.url = options.url;
    this.#transport = transport;
    this.#follower = follower;
    this.jobs = new Jobs(transport, follower);
    this.runs = new Runs(transport, follower);
    this.workflows = new Workflows(transport);
    this.approvals = new Approvals(transport);
    this.deadLetters = new DeadLetters(transport);
    this.policy = new Policy(transport);
  }

  /** Any operation of the API, for example `request("GET /rollouts/{id}", { path: { id } })`. */
  request<K extends OperationName>(
    name: K,
    args: Arguments<K>,
    options?: CallOptions,
  ): Promise<Operations[K]["response"]> {
    return this.#transport.send(name, args, options);
  }

  /** All items of any list, for example `list("GET /audit", {})`. */
  list<K extends ListName>(
    name: K,
    args: Arguments<K>,
    options?: CallOptions,
  ): AsyncGenerator<Item<K>, void, undefined> {
    return pages(this.#transport, name, args, options);
  }

  /** Live events; reconnects. Events between two connections are lost: read the lists after each `connected`. */
  stream(
    filter: StreamFilter = {},
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<ClientEvent, void> {
    return this.#follower.events(filter, options.signal);
  }

  status(options?: CallOptions): Promise<Operations["GET /status"]["response"]> {
    return this.#transport.send("GET /status", {}, options);
  }
}

class Resource {
  protected readonly transport: Transport;

  constructor(transport: Transport) {
    this.transport = transport;
  }
}

class Jobs extends Resource {
  readonly #follower: Follower;

  constructor(transport: Transport, follower: Follower) {
    super(transport);
    this.#follower = follower;
  }

  /** Retries repeat the idempotency key, so that one call creates at most one job. */
  submit(job: SubmitRequest, options?: CallOptions) {
    return this.transport.send("POST /jobs", { body: job }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.transport.send("GET /jobs/{id}", { path: { id } }, options);
  }

  list(query: Operations["GET /jobs"]["query"] = {}, options?: CallOptions) {
    return pages(this.transport, "GET /jobs", { query }, options);
  }

  /** Why the job is in its state, and what it waits for. */
  explain(id: string, options?: CallOptions) {
    return this.transport.send("GET /jobs/{id}/explain", { path: { id } }, options);
  }

  decisions(id: string, options?: CallOptions) {
    return this.transport.send("GET /jobs/{id}/decisions", { path: { id } }, options);
  }

  cancel(id: string, body: Operations["POST /jobs/{id}/cancel"]["body"] = {}, options?: CallOptions) {
    return this.transport.send("POST /jobs/{id}/cancel", { path: { id }, body }, options);
  }

  remediate(id: string, body: Operations["POST /jobs/{id}/remediate"]["body"] = {}, options?: CallOptions) {
    return this.transport.send("POST /jobs/{id}/remediate", { path: { id }, body }, options);
  }

  /** The job now and after each change, until it has ended. */
  watch(id: string, options: WaitOptions = {}): AsyncGenerator<JobDetail, void, undefined> {
    return this.#follower.job(id, options);
  }

  /** The job in its final state, also if that is not `SUCCEEDED`. */
  wait(id: string, options: WaitOptions = {}): Promise<JobDetail> {
    return lastOf(this.watch(id, options));
  }

  /** Changes of jobs, without end. After a reconnection the list supplies the latest state of jobs changed since. */
  changes(options: ChangesOptions = {}): AsyncGenerator<JobEvent, void, undefined> {
    return this.#follower.jobChanges(options);
  }
}

class Runs extends Resource {
  readonly #follower: Follower;

  constructor(transport: Transport, follower: Follower) {
    super(transport);
    this.#follower = follower;
  }

  /** Retries repeat the idempotency key, so that one call starts at most one run. */
  start(workflowId: string, body: StartRequest = {}, options?: CallOptions) {
    return this.transport.send("POST /workflows/{id}/runs", { path: { id: workflowId }, body }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.transport.send("GET /workflow-runs/{id}", { path: { id } }, options);
  }

  list(query: Operations["GET /workflow-runs"]["query"] = {}, options?: CallOptions) {
    return pages(this.transport, "GET /workflow-runs", { query }, options);
  }

  explain(id: string, options?: CallOptions) {
    return this.transport.send("GET /workflow-runs/{id}/explain", { path: { id } }, options);
  }

  timeline(id: string, options?: CallOptions) {
    return pages(this.transport, "GET /workflow-runs/{id}/timeline", { path: { id } }, options);
  }

  /** The jobs of a `for_each` step in item order, or of a step in a loop by iteration. */
  children(id: string, step: string, { iteration, ...options }: CallOptions & { readonly iteration?: number } = {}) {
    const args = { path: { id, step }, query: { iteration } };
    return pages(this.transport, "GET /workflow-runs/{id}/steps/{step}/children", args, options);
  }

  cancel(id: string, body: Operations["POST /workflow-runs/{id}/cancel"]["body"] = {}, options?: CallOptions) {
    return this.transport.send("POST /workflow-runs/{id}/cancel", { path: { id }, body }, options);
  }

  pause(id: string, body: Operations["POST /workflow-runs/{id}/pause"]["body"] = {}, options?: CallOptions) {
    return this.transport.send("POST /workflow-runs/{id}/pause", { path: { id }, body }, options);
  }

  resume(id: string, body: Operations["POST /workflow-runs/{id}/resume"]["body"] = {}, options?: CallOptions) {
    return this.transport.send("POST /workflow-runs/{id}/resume", { path: { id }, body }, options);
  }

  /** A `wait` step takes the event, or it is kept until one does. Pass `event_id` to repeat the call safely. */
  sendEvent(id: string, body: Operations["POST /workflow-runs/{id}/events"]["body"], options?: CallOptions) {
    return this.transport.send("POST /workflow-runs/{id}/events", { path: { id }, body }, options);
  }

  rerun(id: string, body: Operations["POST /workflow-runs/{id}/rerun"]["body"], options?: CallOptions) {
    return this.transport.send("POST /workflow-runs/{id}/rerun", { path: { id }, body }, options);
  }

  delete(id: string, options?: CallOptions) {
    return this.transport.send("DELETE /workflow-runs/{id}", { path: { id } }, options);
  }

  /** The run now and after each change, until it has ended. */
  watch(id: string, options: WaitOptions = {}): AsyncGenerator<RunDetail, void, undefined> {
    return this.#follower.run(id, options);
  }

  /** The run in its final state, also if that is not `SUCCEEDED`. */
  wait(id: string, options: WaitOptions = {}): Promise<RunDetail> {
    return lastOf(this.watch(id, options));
  }
}

class Workflows extends Resource {
  /** A definition, or `{ source }` with its YAML text. An existing id creates a new version. */
  apply(definition: Operations["POST /workflows"]["body"], options?: CallOptions) {
    return this.transport.send("POST /workflows", { body: definition }, options);
  }

  get(id: string, query: Operations["GET /workflows/{id}"]["query"] = {}, options?: CallOptions) {
    return this.transport.send("GET /workflows/{id}", { path: { id }, query }, options);
  }

  list(options?: CallOptions) {
    return pages(this.transport, "GET /workflows", {}, options);
  }

  versions(id: string, options?: CallOptions) {
    return pages(this.transport, "GET /workflows/{id}/versions", { path: { id } }, options);
  }

  dryRun(id: string, body: Operations["POST /workflows/{id}/dry-run"]["body"] = {}, options?: CallOptions) {
    return this.transport.send("POST /workflows/{id}/dry-run", { path: { id }, body }, options);
  }

  delete(id: string, options?: CallOptions) {
    return this.transport.send("DELETE /workflows/{id}", { path: { id } }, options);
  }
}

class Approvals extends Resource {
  list(options?: CallOptions) {
    return pages(this.transport, "GET /approvals", {}, options);
  }

  approve(jobId: string, body: Operations["POST /approvals/{id}/approve"]["body"] = {}, options?: CallOptions) {
    return this.transport.send("POST /approvals/{id}/approve", { path: { id: jobId }, body }, options);
  }

  reject(jobId: string, body: Operations["POST /approvals/{id}/reject"]["body"], options?: CallOptions) {
    return this.transport.send("POST /approvals/{id}/reject", { path: { id: jobId }, body }, options);
  }

  reveal(jobId: string, body: Operations["POST /approvals/{id}/reveal"]["body"], options?: CallOptions) {
    return this.transport.send("POST /approvals/{id}/reveal", { path: { id: jobId }, body }, options);
  }
}

class DeadLetters extends Resource {
  list(query: Operations["GET /dlq"]["query"] = {}, options?: CallOptions) {
    return pages(this.transport, "GET /dlq", { query }, options);
  }

  get(id: string, options?: CallOptions) {
    return this.transport.send("GET /dlq/{id}", { path: { id } }, options);
  }

  retry(id: string, options?: CallOptions) {
    return this.transport.send("POST /dlq/{id}/retry", { path: { id } }, options);
  }

  drop(id: string, options?: CallOptions) {
    return this.transport.send("DELETE /dlq/{id}", { path: { id } }, options);
  }
}

class Policy extends Resource {
  evaluate(body: Operations["POST /policy/evaluate"]["body"], options?: CallOptions) {
    return this.transport.send("POST /policy/evaluate", { body }, options);
  }

  explain(body: Operations["POST /policy/explain"]["body"], options?: CallOptions) {
    return this.transport.send("POST /policy/explain", { body }, options);
  }

  simulate(body: Operations["POST /policy/simulate"]["body"], options?: CallOptions) {
    return this.transport.send("POST /policy/simulate", { body }, options);
  }

  test(body: Operations["POST /policy/test"]["body"], options?: CallOptions) {
    return this.transport.send("POST /policy/test", { body }, options);
  }

  diff(body: Operations["POST /policy/diff"]["body"], options?: CallOptions) {
    return this.transport.send("POST /policy/diff", { body }, options);
  }

  publish(body: Operations["POST /policy/publish"]["body"], options?: CallOptions) {
    return this.transport.send("POST /policy/publish", { body }, options);
  }

  rollback(body: Operations["POST /policy/rollback"]["body"] = {}, options?: CallOptions) {
    return this.transport.send("POST /policy/rollback", { body }, options);
  }

  rules(options?: CallOptions) {
    return this.transport.send("GET /policy/rules", {}, options);
  }

  snapshots(options?: CallOptions) {
    return pages(this.transport, "GET /policy/snapshots", {}, options);
  }
}

interface Page {
  readonly items: readonly unknown[];
  readonly next_cursor: string | null;
}

/** Operations that return pages. */
type ListName = { [K in OperationName]: Operations[K]["response"] extends Page ? K : never }[OperationName];

type Item<K extends ListName> = Operations[K]["response"]["items"][number];

/** Requests the next page when the items of the last are consumed. */
async function* pages<K extends ListName>(
  transport: Transport,
  name: K,
  args: Arguments<K>,
  options?: CallOptions,
): AsyncGenerator<Item<K>, void, undefined> {
  const { query, ...rest } = args as { query?: object };
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const more = cursor === undefined ? {} : { cursor };
    const next = { ...rest, query: { ...query, ...more } } as Arguments<K>;
    const page: Page = await transport.send(name, next, options);
    yield* page.items as readonly Item<K>[];
    cursor = page.next_cursor;
  }
}

async function lastOf<T>(snapshots: AsyncGenerator<T, void, undefined>): Promise<T> {
  let last: T | undefined;
  for await (const snapshot of snapshots) last = snapshot;
  return last as T;
}
