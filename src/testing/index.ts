/// <reference lib="esnext.disposable" preserve="true" />

/**
 * The public API of `cordum/testing`: workflows, policies and handlers on virtual time, in any test runner.
 *
 *   await using plane = await createTestPlane({ workflows: [{ file: "triage.yaml" }], workers: { "ticket.classify": classify } });
 *   const run = await plane.runs.start("triage", { ticket: 7 });
 *   const { output } = await run.finished();
 */
import { builtInKernel } from "../core/policy/kernel.ts";
import { readSource, type Source } from "./documents.ts";
import { HandlerGate } from "./handler-gate.ts";
import { TestApprovals, TestDeadLetters, TestJobs } from "./jobs.ts";
import { OpenWork, servedBy } from "./open-work.ts";
import { type ParsedOptions, parseOptions, type TestPlaneOptions } from "./options.ts";
import { PlaneError } from "./plane-error.ts";
import type { PlaneParts, Within } from "./plane-parts.ts";
import { OPERATOR, type RequestAs, Requests } from "./requests.ts";
import { TestRuns } from "./runs.ts";
import { TestSystem } from "./test-system.ts";
import type { DecisionView, ExplanationView, PolicyCheckRequest } from "./views.ts";
import { type Duration, durationMs } from "./virtual-duration.ts";
import { VirtualTime } from "./virtual-time.ts";

export { permanent, retryAfter } from "../core/retry/intent.ts";
export type { Source } from "./documents.ts";
export type { TestHandler, TestJob } from "./handler-gate.ts";
export type { TestApprovals, TestDeadLetters, TestJobs } from "./jobs.ts";
export type { TestPlaneLimits, TestPlaneOptions } from "./options.ts";
export { PlaneError, type PlaneErrorCode } from "./plane-error.ts";
export type { Within } from "./plane-parts.ts";
export type { RequestAs } from "./requests.ts";
export type { StartOptions, TestRun, TestRuns } from "./runs.ts";
export type {
  ApprovalView,
  DeadLetterView,
  DecisionView,
  ErrorView,
  ExplanationView,
  HistoryLine,
  JobRequest,
  JobState,
  JobStateView,
  JobSummary,
  JobView,
  Labels,
  PolicyCheckRequest,
  RunExplanationView,
  RunState,
  RunView,
  SafetyView,
  StepView,
  SubmittedView,
  TimelineLine,
} from "./views.ts";
export type { Duration } from "./virtual-duration.ts";

/** Opens a plane, publishes the policy and applies the workflows. Rejects with all problems of an invalid definition. */
export async function createTestPlane(options: TestPlaneOptions = {}): Promise<TestPlane> {
  const parts = openParts(parseOptions(options));
  const plane = new TestPlane(parts);
  try {
    if (options.policy !== undefined) await plane.policy.publish(options.policy);
    // Sub-workflows are looked up when they start, so the order does not matter.
    for (const workflow of options.workflows ?? []) await plane.workflows.apply(workflow);
    // Workers announce themselves before the first job, as in a deployment that runs.
    await plane.advance(STARTUP_MS);
  } catch (error) {
    await plane.close();
    throw error;
  }
  parts.system.startFaults();
  return plane;
}

function openParts(options: ParsedOptions): PlaneParts {
  const { workers, capabilities, limits, faults } = options;
  const topics = [...workers.keys()];
  const handlers = new HandlerGate({
    handlerMsMax: limits.handlerMs,
    nowMs: () => system.nowMs,
    // With faults, a process can crash between the effects of a handler and its report.
    reportAfterMs: ({ random }) => (faults === "none" ? 0 : random.exponential(REPORT_MS)),
  });
  const system = new TestSystem({
    ...options,
    settings: { current: options.settings },
    kernel: builtInKernel(),
    topics,
    handle: (process, item) => {
      const handler = workers.get(item.topic);
      if (handler === undefined) throw new Error(`no handler for topic \`${item.topic}\``);
      return handlers.run(process, item, handler);
    },
  });
  const work = new OpenWork(system.net.store, servedBy(topics, capabilities));
  const time = new VirtualTime(system, work, handlers, limits);
  const requests = new Requests(system, time, faults !== "none");
  return { system, handlers, work, time, requests, limits };
}

/** A control plane on virtual time. Time passes only while a call of the plane is awaited. */
export class TestPlane {
  readonly runs: TestRuns;
  readonly jobs: TestJobs;
  readonly approvals: TestApprovals;
  readonly deadLetters: TestDeadLetters;
  readonly policy: TestPolicy;
  readonly workflows: TestWorkflows;
  readonly #parts: PlaneParts;

  constructor(parts: PlaneParts) {
    this.#parts = parts;
    this.runs = new TestRuns(parts);
    this.jobs = new TestJobs(parts);
    this.approvals = new TestApprovals(parts);
    this.deadLetters = new TestDeadLetters(parts);
    this.policy = new TestPolicy(parts);
    this.workflows = new TestWorkflows(parts);
  }

  /** The virtual time. */
  get now(): Date {
    return new Date(this.#parts.system.nowMs);
  }

  /** A hash of every simulated event: equal hashes mean equal histories. */
  get traceHash(): string {
    return this.#parts.system.net.trace.hash();
  }

  /** Simulated events and crashes so far. */
  get stats(): { readonly events: number; readonly crashes: number } {
    const { net, crashes } = this.#parts.system;
    return { events: net.timeline.events, crashes };
  }

  /** Lets virtual time pass. Everything that becomes due happens. */
  async advance(duration: Duration): Promise<void> {
    const { time, limits } = this.#parts;
    const ms = durationMs(duration, "advance");
    if (ms > limits.virtualMs) {
      const message = `\`advance\` by ${ms} ms; \`limits.virtualMs\` is ${limits.virtualMs}: raise it, or advance in steps`;
      throw new PlaneError("limit_reached", message);
    }
    await time.reach({ check: () => false, untilMs: time.timelineMs + ms, onTimeout: null });
  }

  /**
   * Advances until every job and run has ended or waits for an action from outside: an approval, a worker for a topic
   * without a handler, a resume.
   */
  async settle({ within }: Within = {}): Promise<void> {
    const { time, work, limits } = this.#parts;
    const ms = within === undefined ? limits.virtualMs : durationMs(within, "within");
    await time.reach({
      check: (isCalm) => isCalm && work.isBlocked,
      untilMs: time.timelineMs + ms,
      onTimeout: () => new PlaneError("limit_reached", `jobs or runs are still in progress after ${ms} virtual ms`),
    });
  }

  /** What a job waits for, until when, and what unblocks it. */
  explain(jobId: string, as?: RequestAs): Promise<ExplanationView> {
    return this.jobs.explain(jobId, as);
  }

  /** Ends all simulated processes. Calls in progress reject. */
  async close(): Promise<void> {
    this.#parts.time.close();
    this.#parts.system.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The safety policy. */
export class TestPolicy {
  readonly #parts: PlaneParts;

  constructor(parts: PlaneParts) {
    this.#parts = parts;
  }

  /** The decision about a job, without submitting it. */
  check(request: PolicyCheckRequest, as: RequestAs = {}): Promise<DecisionView> {
    const { tenant_id: tenant, ...body } = request;
    const caller = tenant === undefined ? as : { ...as, tenant };
    return this.#parts.requests.send("POST /policy/evaluate", { body, as: caller });
  }

  /** Replaces the policy. Rejects with the diagnostics of `cordum policy publish`. */
  async publish(policy: Source): Promise<{ readonly snapshot: string; readonly changed: boolean }> {
    const { name, text } = readSource(policy, "policy");
    return this.#parts.requests.send("POST /policy/publish", { body: { policy: text, name }, as: { by: OPERATOR } });
  }
}

/** Workflow definitions. */
export class TestWorkflows {
  readonly #parts: PlaneParts;

  constructor(parts: PlaneParts) {
    this.#parts = parts;
  }

  /** Creates a workflow or a new version. Rejects with the diagnostics of `cordum workflow apply`. */
  async apply(workflow: Source, as: RequestAs = {}) {
    const { name: file, text: source } = readSource(workflow, "workflow");
    return this.#parts.requests.send<{ readonly workflow_id: string; readonly version: number }>("POST /workflows", {
      body: { source, file },
      as: { by: OPERATOR, ...as },
    });
  }
}

const STARTUP_MS = 1_000;
const REPORT_MS = 40;
