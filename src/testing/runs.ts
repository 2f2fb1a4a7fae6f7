import { allPages, type PlaneParts, runLines, untilEnded, type Within } from "./plane-parts.ts";
import type { RequestAs } from "./requests.ts";
import type { Labels, RunExplanationView, RunState, RunView, TimelineLine } from "./views.ts";

/** How a run is started. */
export interface StartOptions extends RequestAs {
  /** Defaults to the latest version. */
  readonly version?: number;
  readonly labels?: Labels;
  readonly priority?: "interactive" | "batch" | "critical";
  readonly actor_id?: string;
  readonly idempotency_key?: string;
}

export interface EventOptions {
  /** For `wait` steps with `correlate`. */
  readonly correlation_key?: string | number;
  /** An event with an id that the run has seen changes nothing. */
  readonly event_id?: string;
}

export interface EventAccepted {
  readonly run_id: string;
  readonly outcome: "delivered" | "kept" | "duplicate";
  readonly step_id: string | null;
}

/** Runs of workflows. */
export class TestRuns {
  readonly #parts: PlaneParts;

  constructor(parts: PlaneParts) {
    this.#parts = parts;
  }

  /** `POST /workflows/{id}/runs`. */
  async start(workflowId: string, input: unknown = {}, options: StartOptions = {}): Promise<TestRun> {
    const { by, tenant, role, person, ...fields } = options;
    const as = callerOf({ by, tenant, role, person });
    const { run_id } = await this.#parts.requests.send<{ readonly run_id: string }>("POST /workflows/:id/runs", {
      params: { id: workflowId },
      body: { input, ...fields },
      as,
      creates: fields.idempotency_key === undefined,
    });
    return new TestRun(this.#parts, run_id, as);
  }

  /** A run by its id, such as a sub-run. */
  get(runId: string, as: RequestAs = {}): TestRun {
    return new TestRun(this.#parts, runId, as);
  }

  /** All runs of the tenant, newest first. */
  list(filter: { readonly state?: RunState } = {}, as?: RequestAs) {
    return allPages<Omit<RunView, "input" | "output" | "steps" | "lock">>(this.#parts, "GET /workflow-runs", {
      query: { ...filter },
      as,
    });
  }
}

/** One run. */
export class TestRun {
  readonly id: string;
  readonly #parts: PlaneParts;
  readonly #as: RequestAs;
  #events = 0;

  constructor(parts: PlaneParts, id: string, as: RequestAs) {
    this.#parts = parts;
    this.id = id;
    this.#as = as;
  }

  /** `GET /workflow-runs/{id}`. */
  get(): Promise<RunView> {
    return this.#send("GET /workflow-runs/:id");
  }

  timeline(): Promise<readonly TimelineLine[]> {
    return allPages(this.#parts, "GET /workflow-runs/:id/timeline", { params: { id: this.id }, as: this.#as });
  }

  /** What the run waits for, until when, and what unblocks it. */
  explain(): Promise<RunExplanationView> {
    return this.#send("GET /workflow-runs/:id/explain");
  }

  cancel(reason?: string): Promise<{ readonly run_id: string; readonly state: RunState }> {
    return this.#control("cancel", reason);
  }

  pause(reason?: string): Promise<{ readonly run_id: string; readonly state: RunState }> {
    return this.#control("pause", reason);
  }

  resume(reason?: string): Promise<{ readonly run_id: string; readonly state: RunState }> {
    return this.#control("resume", reason);
  }

  /** Sends an event: a `wait` step takes it, or the run keeps it until one does. */
  async event(name: string, data: unknown = null, options: EventOptions = {}): Promise<EventAccepted> {
    // An id makes the retries of this call safe.
    this.#events += 1;
    const body = { name, data, event_id: `test-event-${this.#events}`, ...options };
    return this.#send("POST /workflow-runs/:id/events", { body });
  }

  /** Starts a new run that keeps the results before the step. */
  async rerun(fromStep: string, options: { readonly keep_approvals?: boolean } = {}): Promise<TestRun> {
    const started = await this.#send<{ readonly run_id: string }>("POST /workflow-runs/:id/rerun", {
      body: { from_step: fromStep, ...options },
      creates: true,
    });
    return new TestRun(this.#parts, started.run_id, this.#as);
  }

  /** Advances until the run has ended, and returns it. Rejects with what it waits for if it does not end by itself. */
  async finished(within: Within = {}): Promise<RunView> {
    const { work } = this.#parts;
    await this.get();
    const query = {
      what: `run \`${this.id}\``,
      isOpen: () => work.hasRun(this.id),
      isBlocked: () => work.isRunBlocked(this.id),
      explain: async () => runLines(await this.explain()),
    };
    await untilEnded(this.#parts, query, within);
    return this.get();
  }

  #control(verb: string, reason: string | undefined) {
    const body = reason === undefined ? {} : { reason };
    return this.#send<{ readonly run_id: string; readonly state: RunState }>(`POST /workflow-runs/:id/${verb}`, {
      body,
      afterRetry: ({ code, facts }) => (code === "run_ended" ? { run_id: this.id, state: facts.state } : null),
    });
  }

  #send<T>(name: string, request: Omit<Parameters<PlaneParts["requests"]["send"]>[1] & object, "params"> = {}) {
    return this.#parts.requests.send<T>(name, { ...request, params: { id: this.id }, as: this.#as });
  }
}

function callerOf(given: { readonly [K in keyof RequestAs]: RequestAs[K] | undefined }): RequestAs {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
