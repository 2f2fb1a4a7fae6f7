/** Responses of the HTTP API, with its field names. Times are ISO 8601. */

export type JobState =
  | "PENDING"
  | "APPROVAL_REQUIRED"
  | "SCHEDULED"
  | "DISPATCHED"
  | "RUNNING"
  | "RETRYING"
  | "SUCCEEDED"
  | "FAILED"
  | "CANCELLED"
  | "TIMEOUT"
  | "DENIED";

export type RunState = "RUNNING" | "PAUSED" | "ENDING" | "SUCCEEDED" | "FAILED" | "TIMEOUT" | "CANCELLED";

export type Labels = Readonly<Record<string, string>>;

/** An error of a handler or of the control plane. */
export interface ErrorView {
  readonly name: string;
  readonly message: string;
  readonly [more: string]: unknown;
}

/** The response to a submission. */
export interface SubmittedView {
  readonly job_id: string;
  readonly id: string;
  readonly trace_id: string;
  readonly state: JobState;
  readonly replayed: boolean;
  readonly status?: "approval_required";
  readonly reason?: string | null;
  readonly rule_id?: string | null;
  readonly expires_at?: string | null;
  readonly submitter_can_approve?: boolean;
  /** No API key can approve the job: why, and what to do. */
  readonly no_approver?: NoApproverView;
}

export interface NoApproverView {
  readonly detail: string;
  readonly ways: readonly { readonly what: string; readonly command: string | null }[];
}

/** The decision of the policy about a job. */
export interface SafetyView {
  readonly decision: string;
  readonly rule_id: string | null;
  readonly reason: string;
  readonly snapshot: string;
  readonly bypassed: boolean;
  readonly constraints?: unknown;
  readonly remediations?: readonly unknown[];
}

export interface HistoryLine {
  readonly at: string;
  readonly event: string;
  readonly attempt: number;
  readonly who: string | null;
  /** Of the key; null for other actors. */
  readonly who_name: string | null;
  readonly why: string | null;
  readonly retry_class: string | null;
  readonly delay_ms: number | null;
  readonly policy: string | null;
}

/** `GET /jobs`: a job without payloads. */
export interface JobSummary {
  /** Grows with each write of the record. */
  readonly record_version: number;
  readonly job_id: string;
  readonly id: string;
  readonly topic: string;
  readonly tenant_id: string;
  readonly priority: string;
  readonly labels: Labels;
  readonly risk_tags: readonly string[];
  readonly requires: readonly string[];
  readonly capability: string | null;
  readonly actor_id: string | null;
  readonly actor_type: string | null;
  readonly pack_id: string | null;
  readonly submitted_by: string | null;
  readonly caller: Readonly<Record<string, string | null>> | null;
  readonly state: JobState;
  /** Number of dispatches so far. */
  readonly attempt: number;
  readonly waits_for: string | null;
  readonly wait: {
    readonly reason: string;
    readonly until: string;
    readonly retry_class: string;
    readonly policy: string;
  } | null;
  readonly safety: SafetyView | null;
  readonly approval: Readonly<Record<string, unknown>> | null;
  readonly bypass: Readonly<Record<string, unknown>> | null;
  readonly progress: Readonly<Record<string, unknown>> | null;
  readonly trace_id: string;
  readonly worker_id: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly deadline_at: string;
  readonly error: ErrorView | null;
}

/** `GET /jobs/{id}`. */
export interface JobView extends JobSummary {
  readonly input: unknown;
  readonly result: unknown;
  readonly history: readonly HistoryLine[];
  readonly hidden?: readonly string[];
  readonly payload_problems?: readonly string[];
  readonly idempotency_key?: string;
  /** Optional fields of the request and of the last result. */
  readonly [detail: string]: unknown;
}

/** `GET /jobs/{id}/explain`: what a job waits for, until when, and what unblocks it. */
export interface ExplanationView {
  readonly job_id: string;
  readonly state: JobState;
  readonly wait: {
    readonly reason: string;
    readonly since: string;
    readonly until: string;
    readonly retry_class: string | null;
    readonly policy: string | null;
  } | null;
  readonly sentence: string;
  readonly unblocks: readonly { readonly what: string; readonly command: string | null }[];
  readonly approval: Readonly<Record<string, unknown>> | null;
  /** What is left of the budgets that the job counts towards. */
  readonly budgets?: readonly BudgetUse[];
  /** The shadow rules that would have decided instead. */
  readonly shadow?: readonly { readonly rule_id: string; readonly decision: string; readonly fault?: string }[];
  readonly facts: unknown;
}

export interface BudgetUse {
  readonly tenant: string;
  readonly rule_id: string;
  readonly per: string;
  readonly key: string;
  readonly tokens?: BudgetAmounts;
  readonly usd?: BudgetAmounts;
  /** The used share of the unit that is used most; above 1 if a report exceeded it. */
  readonly share: number;
}

export interface BudgetAmounts {
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
}

/** The new state of a job. */
export interface JobStateView {
  readonly job_id: string;
  readonly id: string;
  readonly state: JobState;
}

/** `GET /approvals`: a job that awaits approval. */
export interface ApprovalView {
  readonly job_id: string;
  readonly id: string;
  readonly topic: string;
  readonly tenant_id: string;
  readonly labels: Labels;
  readonly submitted_by: string | null;
  readonly rule_id: string | null;
  readonly reason: string | null;
  readonly job_hash: string | null;
  readonly snapshot: string | null;
  readonly requested_at: string | null;
  readonly expires_at: string | null;
  readonly by_submitter: boolean;
  readonly input: unknown;
  readonly hidden: readonly string[];
  readonly [detail: string]: unknown;
}

/** `GET /dlq`. */
export interface DeadLetterView {
  readonly id: string;
  readonly reason: string;
  readonly source: string;
  readonly tenant_id: string;
  readonly created_at: string;
  readonly error: ErrorView;
  readonly job_id?: string;
  readonly topic?: string;
  readonly attempt?: number;
  readonly subject?: string;
  readonly message_id?: string;
  readonly deliveries?: number;
  readonly fingerprint?: string;
}

export interface StepView {
  readonly state: string;
  readonly type: string | null;
  readonly depends_on: readonly string[] | null;
  readonly job_id: string | null;
  readonly attempt: number | null;
  readonly worker_id: string | null;
  readonly sub_run_id: string | null;
  readonly approval: Readonly<Record<string, unknown>> | null;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly output: unknown;
  readonly output_at: string | null;
  readonly error: ErrorView | null;
  readonly why: string | null;
  readonly arm: string | null;
  readonly arms?: readonly string[];
  readonly children?: {
    readonly count: number;
    readonly spawned: number;
    readonly open: number;
    readonly succeeded: number;
    readonly failed: number;
    readonly cancelled: number;
  };
  /** The job that undoes the step; absent until it starts. */
  readonly compensation?: {
    readonly state: "RUNNING" | "SUCCEEDED" | "FAILED";
    readonly job_id: string | null;
    readonly started_at: string;
    readonly ended_at: string | null;
    readonly error: ErrorView | null;
    readonly children?: {
      readonly left: number;
      readonly open: number;
      readonly succeeded: number;
      readonly failed: number;
    };
  };
  /** The `loop` step whose body the step belongs to. */
  readonly loop?: string;
  /** Of a `loop` step. */
  readonly iteration?: number;
  readonly max_iterations?: number;
  /** The event of a `wait` step. */
  readonly awaits?: { readonly event: string; readonly correlation_key: string | null };
}

/** `GET /workflow-runs/{id}`. */
export interface RunView {
  /** Grows with each write of the record. */
  readonly record_version: number;
  readonly run_id: string;
  readonly workflow_id: string;
  readonly version: number;
  readonly state: RunState;
  readonly tenant_id: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly deadline: string;
  readonly labels: Labels;
  readonly error: ErrorView | null;
  readonly trace_id: string;
  readonly submitted_by: string | null;
  /** Of the submitter's key; null if unknown. */
  readonly submitted_by_name: string | null;
  readonly actor_id: string | null;
  readonly priority: string | null;
  readonly ends_as: string | null;
  /** The error of a run that ends after its compensations. */
  readonly ends_with: ErrorView | null;
  /** Steps by the state of their compensation. */
  readonly compensation: {
    readonly total: number;
    readonly undone: readonly string[];
    readonly running: readonly string[];
    readonly failed: readonly string[];
    readonly left: readonly string[];
    readonly stopped: boolean;
  } | null;
  readonly parent: { readonly run_id: string; readonly job_id: string; readonly depth: number } | null;
  readonly schedule: { readonly id: string; readonly slot: string | null } | null;
  readonly rerun_of: { readonly run_id: string; readonly from_step: string; readonly asks: readonly string[] } | null;
  readonly input: unknown;
  readonly output: unknown;
  readonly payload_problems?: readonly string[];
  /** By step id, in definition order. */
  readonly steps: Readonly<Record<string, StepView>>;
  readonly lock: Readonly<Record<string, unknown>> | null;
}

/** `GET /workflow-runs/{id}/timeline`. */
export interface TimelineLine {
  readonly seq: number;
  readonly at: string;
  readonly event: string;
  readonly step_id: string | null;
  readonly index: number | null;
  readonly job_id: string | null;
  readonly who: string | null;
  /** Of the key; null for other actors. */
  readonly who_name: string | null;
  readonly why: string | null;
  readonly cause: number | null;
}

/** `GET /workflow-runs/{id}/explain`. */
export interface RunExplanationView {
  readonly run_id: string;
  readonly state: RunState;
  readonly waits: readonly {
    readonly step_id: string | null;
    readonly state: string;
    readonly reason: string;
    readonly until: string | null;
    readonly unblocks: string;
    readonly job_id: string | null;
  }[];
}

/** `POST /policy/evaluate`. */
export interface DecisionView {
  /** `ALLOW`, `DENY`, `REQUIRE_APPROVAL`, `THROTTLE`, `ALLOW_WITH_CONSTRAINTS`. */
  readonly decision: string;
  /** Null if no rule matched and the default decided. */
  readonly rule_id: string | null;
  readonly reason: string;
  readonly snapshot: string;
  readonly [more: string]: unknown;
}

/** A submission, as in `POST /jobs`. */
export interface JobRequest {
  readonly topic: string;
  readonly input?: unknown;
  readonly priority?: "interactive" | "batch" | "critical";
  readonly labels?: Labels;
  readonly risk_tags?: readonly string[];
  readonly requires?: readonly string[];
  readonly capability?: string;
  readonly actor_id?: string;
  readonly actor_type?: "human" | "service";
  readonly pack_id?: string;
  readonly idempotency_key?: string;
  readonly job_id?: string;
  readonly [more: string]: unknown;
}

/** What a policy sees of a job, as in `POST /policy/evaluate`. */
export interface PolicyCheckRequest {
  readonly topic: string;
  readonly input?: unknown;
  readonly tenant_id?: string;
  readonly labels?: Labels;
  readonly capability?: string;
  readonly risk_tags?: readonly string[];
  readonly requires?: readonly string[];
  readonly actor_id?: string;
  readonly actor_type?: "human" | "service";
  readonly priority?: string;
  readonly pack_id?: string;
  readonly mcp?: {
    readonly server?: string;
    readonly tool?: string;
    readonly resource?: string;
    readonly action?: string;
  };
  readonly caller?: {
    readonly key?: string;
    readonly name?: string;
    readonly role?: string;
    readonly tenant?: string;
  };
}
