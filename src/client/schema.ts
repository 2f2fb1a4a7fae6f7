// Generated from docs/openapi.json. Update it with `npx vitest run test/scripts/client-types.test.ts -u`.

export type NoFields = Readonly<Record<never, never>>;

export interface ApiKey {
  readonly id: string;
  readonly tenant: string;
  readonly role: string;
  readonly name: string | null;
  /** `good`, `expired` or `revoked`. */
  readonly state: string;
  readonly created_at: string;
  readonly created_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly created_by_name: string | null;
  /** The last recorded use; recorded at most once a minute. Null: none since uses are recorded. */
  readonly last_used_at: string | null;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  readonly person: string | null;
  readonly actor_id: string | null;
  readonly actor_type: string | null;
}

export interface ApiKeyCreated {
  readonly id: string;
  readonly tenant: string;
  readonly role: string;
  readonly name: string | null;
  /** `good`, `expired` or `revoked`. */
  readonly state: string;
  readonly created_at: string;
  readonly created_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly created_by_name: string | null;
  /** The last recorded use; recorded at most once a minute. Null: none since uses are recorded. */
  readonly last_used_at: string | null;
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  readonly person: string | null;
  readonly actor_id: string | null;
  readonly actor_type: string | null;
  readonly key: string;
}

export interface ApiKeyPage {
  readonly items: ReadonlyArray<ApiKey>;
  readonly next_cursor: string | null;
}

export interface Approval {
  readonly job_id: string;
  /** The same as `job_id`. */
  readonly id: string;
  readonly topic: string;
  readonly tenant_id: string;
  readonly priority: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly risk_tags: ReadonlyArray<string>;
  readonly requires: ReadonlyArray<string>;
  readonly capability: string | null;
  readonly actor_id: string | null;
  readonly actor_type: string | null;
  readonly pack_id: string | null;
  readonly submitted_by: string | null;
  readonly caller: {
    readonly key: string | null;
    readonly name: string | null;
    readonly role: string | null;
    readonly tenant: string;
    readonly person: string | null;
  } | null;
  readonly rule_id: string | null;
  readonly reason: string | null;
  readonly job_hash: string | null;
  readonly snapshot: string | null;
  readonly requested_at: string | null;
  readonly expires_at: string | null;
  /** True if the submitter can approve the job. */
  readonly by_submitter: boolean;
  /** Any JSON value. Redacted. */
  readonly input: unknown;
  /** Paths of redacted values, at most 100; `POST /api/v1/approvals/{id}/reveal` returns them. */
  readonly hidden: ReadonlyArray<string>;
  readonly adapter_id?: string | undefined;
  /** Environment for the worker. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly parent_job_id?: string | undefined;
  /** Workflow of the submitter's own orchestrator. */
  readonly workflow_id?: string | undefined;
  readonly step_index?: number | undefined;
  readonly memory_id?: string | undefined;
  readonly context_hints?: ContextHints | undefined;
  readonly budget?: Budget | undefined;
  readonly compensation?: Compensation | undefined;
  /** The submitted principal, if it differs from `actor_id`. */
  readonly principal_id?: string | undefined;
}

export interface ApprovalPage {
  readonly items: ReadonlyArray<Approval>;
  readonly next_cursor: string | null;
}

export interface ApprovalTerms {
  /** null: the setting `approval.expires_ms`. */
  readonly expires_ms: number | null;
  readonly by_submitter: boolean;
}

export interface ApproveRequest {
  /** Why; kept with the decision. */
  readonly reason?: string | undefined;
  /** Alias of `reason`. */
  readonly note?: string | undefined;
  /** The value that was reviewed; the approval is refused if it has changed. */
  readonly job_hash?: string | undefined;
  /** The value that was reviewed; the approval is refused if it has changed. */
  readonly snapshot?: string | undefined;
}

export interface AttemptState {
  readonly job_id: string;
  readonly state: string;
  readonly deadline?: string | undefined;
}

export interface Attention {
  readonly severity: "danger" | "caution" | "info";
  readonly kind: string;
  readonly title: string;
  /** What to do. */
  readonly detail: string;
  readonly count: number | null;
  readonly since: string | null;
  readonly action: {
    readonly label: string;
    readonly method: "POST" | "DELETE";
    readonly path: string;
    readonly body: Readonly<Record<string, unknown>> | null;
    readonly cli: string | null;
    /** One of the caller's `permissions` is needed. */
    readonly access: string;
  } | null;
  /** The page of the dashboard that shows it. */
  readonly link: string;
}

export interface AuditEntry {
  readonly index: number;
  readonly at: string;
  readonly kind: string;
  /** The id of a key or worker, or `cordum` for the control plane. */
  readonly who: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly who_name: string | null;
  readonly what: string;
  readonly facts: Readonly<Record<string, unknown>>;
  /** Hash of the previous entry. */
  readonly prev: string;
  /** SHA-256 of the entry without this field, as JSON with sorted keys and `at` in milliseconds. */
  readonly hash: string;
}

export interface AuditEntryPage {
  readonly items: ReadonlyArray<AuditEntry>;
  readonly next_cursor: string | null;
}

export interface BackfillRequest {
  /** The first slot is at or after this time. */
  readonly from: string;
  /** The last slot is at or before this time. A range has at most 1000 slots. */
  readonly until: string;
  /** Shortest time between two starts. Defaults to 1000. Unless `overlap` is `allow`, a start also waits until no run of the schedule is open. */
  readonly pace_ms?: number | undefined;
}

/** Token limits for the worker; `deadline_ms` also limits the job's deadline. */
export interface Budget {
  /** Token limit for the worker; 0 for none. */
  readonly max_input_tokens?: number | undefined;
  /** Token limit for the worker; 0 for none. */
  readonly max_output_tokens?: number | undefined;
  /** Token limit for the worker; 0 for none. */
  readonly max_total_tokens?: number | undefined;
  /** Time for all attempts, from the submission; 0 for the default. */
  readonly deadline_ms?: number | undefined;
}

export interface BudgetTerms {
  readonly tokens?: number | undefined;
  readonly usd?: number | undefined;
  /** `job`, `run`, `tenant`, `day` or `label:NAME`. */
  readonly per: string;
  readonly reserve_tokens?: number | undefined;
  readonly reserve_usd?: number | undefined;
}

export interface BudgetUse {
  readonly tenant: string;
  readonly rule_id: string;
  /** `job`, `run`, `tenant`, `day` or `label:NAME`. */
  readonly per: string;
  /** The job, run, day (UTC) or label; empty for a tenant. */
  readonly key: string;
  readonly tokens?: {
    readonly limit: number;
    readonly used: number;
    readonly remaining: number;
  } | undefined;
  readonly usd?: {
    readonly limit: number;
    readonly used: number;
    readonly remaining: number;
  } | undefined;
  /** The used share of the unit that is used most; above 1 if a report exceeded it. */
  readonly share: number;
}

export interface BypassedJob {
  readonly job_id: string;
  readonly topic: string;
  readonly state: string;
  readonly lease_id: string;
  readonly reason: string;
  readonly bypassed_at: string;
  readonly reviewed_by: string | null;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly reviewed_by_name: string | null;
  readonly reviewed_at: string | null;
  readonly note: string | null;
  readonly verdict: {
    readonly decision: string;
    readonly rule_id: string | null;
    readonly reason: string;
    readonly snapshot: string;
  } | null;
}

export interface BypassedJobPage {
  readonly items: ReadonlyArray<BypassedJob>;
  readonly next_cursor: string | null;
}

export interface CancelRequest {
  readonly reason?: string | undefined;
}

/** The job that would undo this one; passed to the worker, not run by Cordum. */
export interface Compensation {
  readonly topic?: string | undefined;
  readonly context_ptr?: string | undefined;
  readonly priority?: "interactive" | "batch" | "critical" | undefined;
  /** Adapter. */
  readonly adapter_id?: string | undefined;
  /** Environment for the worker. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Memory. */
  readonly memory_id?: string | undefined;
  readonly context_hints?: ContextHints | undefined;
  readonly budget?: Budget | undefined;
  /** Tenant. */
  readonly tenant_id?: string | undefined;
  /** Actor. */
  readonly principal_id?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly meta?: {
    /** Tenant. */
    readonly tenant_id?: string | undefined;
    /** Actor. */
    readonly actor_id?: string | undefined;
    readonly actor_type?: "human" | "service" | undefined;
    /** Idempotency key. */
    readonly idempotency_key?: string | undefined;
    /** Capability. */
    readonly capability?: string | undefined;
    /** Risk tags. */
    readonly risk_tags?: ReadonlyArray<string> | undefined;
    /** Capabilities of the worker. */
    readonly requires?: ReadonlyArray<string> | undefined;
    /** Pack. */
    readonly pack_id?: string | undefined;
    readonly labels?: Readonly<Record<string, string>> | undefined;
  } | undefined;
}

/** Budgets are enforced by the control plane, the rest by the worker. */
export interface Constraints {
  readonly budgets?: {
    readonly max_runtime_ms?: number | undefined;
    readonly max_retries?: number | undefined;
    readonly max_artifact_bytes?: number | undefined;
    readonly max_concurrent_jobs?: number | undefined;
  } | undefined;
  readonly sandbox?: {
    readonly isolated?: boolean | undefined;
    readonly network_allowlist?: ReadonlyArray<string> | undefined;
    readonly fs_read_only?: ReadonlyArray<string> | undefined;
    readonly fs_read_write?: ReadonlyArray<string> | undefined;
  } | undefined;
  readonly toolchain?: {
    readonly allowed_tools?: ReadonlyArray<string> | undefined;
    readonly allowed_commands?: ReadonlyArray<string> | undefined;
  } | undefined;
  readonly diff?: {
    readonly max_files?: number | undefined;
    readonly max_lines?: number | undefined;
    readonly deny_path_globs?: ReadonlyArray<string> | undefined;
  } | undefined;
  readonly redaction_level?: string | undefined;
}

export interface ContentionRecord {
  /** Version of the encoding. */
  readonly version: number;
  /** Hash of the process name. */
  readonly process: number;
  readonly from_ms: number;
  readonly to_ms: number;
  /** Locks are kept with probability 2^-level, each with all of its acquisitions. */
  readonly level: number;
  /** Acquisitions beyond the size of the record. */
  readonly dropped: number;
  /** Acquisitions that met no other one. */
  readonly uncontended: number;
  readonly lock_ms: number | null;
  readonly return_ms: number | null;
  readonly nak_timer_ms: number;
  readonly settings: {
    readonly lock_busy_policy: string;
    readonly engine_wait_ms: number;
    readonly coalesce: boolean;
  };
  /** Acquisitions by hash of the lock, base64. Contains no tenant, run or job. */
  readonly acquisitions: string;
}

export interface ContentionRecordPage {
  readonly items: ReadonlyArray<ContentionRecord>;
  readonly next_cursor: string | null;
}

/** How the worker may build its context. */
export interface ContextHints {
  /** Token limit for the worker; 0 for none. */
  readonly max_input_tokens?: number | undefined;
  readonly allow_summarization?: boolean | undefined;
  readonly allow_retrieval?: boolean | undefined;
  /** Tags. */
  readonly tags?: ReadonlyArray<string> | undefined;
}

export interface CreateKeyRequest {
  /** The tenant of the key, or `*` for all tenants. Defaults to the tenant of the caller. */
  readonly tenant?: string | undefined;
  /** The permissions of the key. */
  readonly role: "admin" | "operator" | "viewer" | "worker" | "submitter";
  /** A label for people. */
  readonly name?: string | undefined;
  /** The owner of the key, such as a mail address. A person cannot approve a job submitted with any key of theirs. */
  readonly person?: string | undefined;
  /** Binds the key to an actor: submissions get this `actor_id`, and another one is refused. */
  readonly actor_id?: string | undefined;
  /** Binds the key to an actor type, like `actor_id`. */
  readonly actor_type?: "human" | "service" | undefined;
  /** Time to expiry; without it the key does not expire. */
  readonly expires_in_ms?: number | undefined;
}

export interface DeadLetter {
  /** The group: see `GET /api/v1/dlq/groups`. */
  readonly fingerprint?: string | undefined;
  readonly id: string;
  readonly reason: string;
  /** `job` or `message`. */
  readonly source: string;
  readonly tenant_id: string;
  /** When the job or message was dead-lettered. */
  readonly created_at: string;
  readonly error: ErrorInfo | null;
  readonly job_id?: string | undefined;
  readonly topic?: string | undefined;
  readonly attempt?: number | undefined;
  readonly subject?: string | undefined;
  readonly message_id?: string | undefined;
  readonly deliveries?: number | undefined;
}

export interface DeadLetterBulkPage {
  readonly action: string;
  readonly dry_run: boolean;
  /** Records that matched at the start of the operation. */
  readonly matched: number;
  /** Changed by this request. */
  readonly done: number;
  /** Left as they are; the operation continues after them. */
  readonly rejected: ReadonlyArray<{
    readonly id: string;
    readonly code: string;
    readonly error: string;
  }>;
  /** The run limit of the tenant was reached: send `next_cursor` later. */
  readonly stopped: {
    readonly id: string;
    readonly code: string;
    readonly error: string;
  } | null;
  /** With `dry_run`: the oldest that match, at most 5. */
  readonly sample: ReadonlyArray<DeadLetter>;
  /** Continues the operation, also after a restart; of a dry run, starts it on exactly what was counted. Null at the end. */
  readonly next_cursor: string | null;
}

export interface DeadLetterBulkRequest {
  readonly action: "retry" | "drop";
  /** Only of this topic, or of this subject of messages. */
  readonly topic?: string | undefined;
  /** Only with this reason: `permanent`, `undecodable`, `budget` or `timeout`. */
  readonly reason?: string | undefined;
  /** Only with this error name, such as `TypeError`. */
  readonly error?: string | undefined;
  /** Only of this group; it implies topic, reason and error, which must be omitted. */
  readonly fingerprint?: string | undefined;
  /** Only older ones: a duration such as `90s`, `15m`, `24h` or `7d`. */
  readonly older_than?: string | undefined;
  /** Only younger ones: a duration such as `90s`, `15m`, `24h` or `7d`. */
  readonly newer_than?: string | undefined;
  /** Count and show a sample; change nothing. */
  readonly dry_run?: boolean | undefined;
  /** Records per request. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the previous request of the operation, with the same action and filter. */
  readonly cursor?: string | undefined;
}

export interface DeadLetterDetail {
  /** The group: see `GET /api/v1/dlq/groups`. */
  readonly fingerprint?: string | undefined;
  readonly id: string;
  readonly reason: string;
  /** `job` or `message`. */
  readonly source: string;
  readonly tenant_id: string;
  /** When the job or message was dead-lettered. */
  readonly created_at: string;
  readonly error: ErrorInfo | null;
  readonly job_id?: string | undefined;
  readonly topic?: string | undefined;
  readonly attempt?: number | undefined;
  readonly subject?: string | undefined;
  readonly message_id?: string | undefined;
  readonly deliveries?: number | undefined;
  readonly history: ReadonlyArray<HistoryLine>;
  /** Any JSON value. Redacted input of the job. */
  readonly input?: unknown | undefined;
  /** Stored payloads that are missing or damaged; they are shown as null. */
  readonly payload_problems?: ReadonlyArray<string> | undefined;
  /** Any JSON value. The redacted message. */
  readonly packet?: unknown | undefined;
  /** The raw bytes of a message that cannot be decoded. */
  readonly base64?: string | undefined;
}

export interface DeadLetterDropped {
  readonly id: string;
  readonly dropped: boolean;
}

export interface DeadLetterGroup {
  readonly fingerprint: string;
  readonly count: number;
  /** The topic; the subject of messages. */
  readonly topic: string;
  readonly reason: string;
  /** Name of the error. */
  readonly error: string;
  /** The error message without ids, numbers, times and quoted values. */
  readonly pattern: string;
  readonly first_seen: string;
  readonly last_seen: string;
  /** Id of the newest dead letter of the group. */
  readonly sample_id: string;
  readonly fix: {
    /** What to do. */
    readonly what: string;
    /** The command that completes it. */
    readonly command: string;
  };
}

export interface DeadLetterGroups {
  /** The largest groups first, at most 200. */
  readonly items: ReadonlyArray<DeadLetterGroup>;
  /** True if there are further groups. */
  readonly more: boolean;
  readonly next_cursor: null;
}

export interface DeadLetterPage {
  readonly items: ReadonlyArray<DeadLetter>;
  readonly next_cursor: string | null;
  readonly total?: ListTotal | undefined;
}

export interface DeadLetterRetried {
  readonly job_id?: string | undefined;
  readonly message_id?: string | undefined;
  readonly subject?: string | undefined;
  /** State of the job; `SENT` for a message. */
  readonly state: string;
}

export interface Demo {
  /** The safety kernel of this process gives no answers. */
  readonly kernel_stopped: boolean;
  readonly hot_lock: {
    readonly lock: string;
    readonly run_id: string;
    /** End. */
    readonly until: string;
  } | null;
}

export interface DemoKernelRequest {
  readonly stopped: boolean;
}

export interface DryRun {
  readonly workflow_id: string;
  readonly version: number;
  readonly steps: ReadonlyArray<DryRunStep>;
}

export interface DryRunRequest {
  /** Any JSON value. Input of the run. Defaults to `{}`. */
  readonly input?: unknown | undefined;
  /** Defaults to the latest version. */
  readonly version?: number | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Priority of jobs whose step defines none. */
  readonly priority?: "interactive" | "batch" | "critical" | undefined;
  /** The actor on whose behalf the run is done. */
  readonly actor_id?: string | undefined;
}

export interface DryRunStep {
  readonly step_id: string;
  readonly type: string;
  readonly topic: string | null;
  readonly depends_on: ReadonlyArray<string>;
  /** Any JSON value. Redacted input of the worker; null if unknown. */
  readonly input: unknown;
  /** False if the input depends on outputs of other steps. */
  readonly input_known: boolean;
  readonly problem: string | null;
  readonly decision: {
    readonly decision: string;
    readonly rule_id: string | null;
    readonly reason: string;
    readonly snapshot: string;
  } | null;
  readonly unavailable: string | null;
  readonly compensation: {
    readonly topic: string;
    readonly decision: {
      readonly decision: string;
      readonly rule_id: string | null;
      readonly reason: string;
      readonly snapshot: string;
    } | null;
    readonly unavailable: string | null;
  } | null;
}

/** The error of an attempt, a job or a run, with its causes; redacted. */
export interface ErrorInfo {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number | undefined;
  readonly cause?: ErrorInfo | undefined;
  /** The errors of an aggregate. */
  readonly errors?: ReadonlyArray<ErrorInfo> | undefined;
  /** The delay that the worker asked for. */
  readonly retryDelayMs?: number | undefined;
  readonly retryClass?: "poison" | "unclassified" | "lock_busy" | "store_unavailable" | "safety_unavailable" | "no_worker" | "throttled" | undefined;
  /** The error is permanent. */
  readonly retryNever?: true | undefined;
}

export interface ExhaustedBudget {
  readonly rule_id: string;
  readonly per: string;
  readonly count: number;
  readonly examples: ReadonlyArray<string>;
}

export interface FailOpenLease {
  readonly id: string;
  /** A tenant, or `*` for all tenants. */
  readonly scope: string;
  /** `in_force`, `not_in_force` (by the clock of this process) or `ended`. */
  readonly state: string;
  readonly reason: string;
  readonly approved_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly approved_by_name: string | null;
  readonly opened_at: string;
  readonly ends_at: string;
  readonly ended_at: string | null;
  readonly ended_by: string | null;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly ended_by_name: string | null;
}

export interface FailOpenLeasePage {
  readonly items: ReadonlyArray<FailOpenLease>;
  readonly next_cursor: string | null;
}

export interface GetAuditCheckpointResponse {
  readonly format: string;
  /** The tenant of the chain; `*` for the system chain. */
  readonly tenant: string;
  readonly entries: number;
  /** Hash of the last entry. */
  readonly head: string;
  readonly at: string;
  /** Ed25519 signature, base64, over the JSON of `at`, `entries`, `format`, `head` and `tenant` in this order, without spaces. */
  readonly signature: string;
  /** Public key of the signer, PEM. Compare it with a copy. */
  readonly public_key: string;
}

export interface GetAuditVerifyResponse {
  readonly ok: boolean;
  /** The tenant of the chain; `*` for the system chain. */
  readonly tenant: string;
  /** Number of verified entries. */
  readonly entries: number;
  /** Hash of the last entry. A copy stored elsewhere detects a rewritten chain. */
  readonly head: string;
  readonly problem: {
    readonly index: number;
    readonly why: string;
  } | null;
}

export interface GetHealthResponse {
  readonly alive: boolean;
}

export interface GetHealthzResponse {
  readonly alive: boolean;
}

export interface GetLocksResponse {
  readonly items: ReadonlyArray<Lock>;
  readonly next_cursor: null;
}

export interface GetMemoryResponse {
  readonly pointer: string;
  readonly key: string;
  /** `context` or `result`. */
  readonly kind: string;
  readonly size_bytes: number;
  /** The bytes; only for keys with `work` access. */
  readonly base64?: string | undefined;
  /** If the bytes are UTF-8 text. */
  readonly text?: string | undefined;
  /** Any JSON value; if the text is JSON. */
  readonly json?: unknown | undefined;
}

export interface GetPoolsResponse {
  readonly items: ReadonlyArray<Pool>;
  readonly next_cursor: null;
}

export interface GetReadyzResponse {
  readonly ready: boolean;
  /** The largest of `duties`. */
  readonly swept_ago_ms: number;
  /** By how many milliseconds each background loop is behind: its overdue pass, plus the age of work left. */
  readonly duties: Readonly<Record<string, number>>;
}

export interface GetSettingsResponse {
  readonly process: string;
  readonly items: ReadonlyArray<Setting>;
  readonly next_cursor: null;
}

export interface GetTopicsResponse {
  readonly items: ReadonlyArray<Topic>;
  readonly next_cursor: null;
}

export interface GetTracesIdResponse {
  readonly trace_id: string;
  /** The run of the trace. Children of its `for_each` steps are listed separately. */
  readonly run: Run | null;
  readonly items: ReadonlyArray<Job>;
  readonly next_cursor: string | null;
}

export interface GetWorkersResponse {
  readonly items: ReadonlyArray<Worker>;
  readonly next_cursor: null;
}

export interface HistoryLine {
  /** Time of the event. */
  readonly at: string;
  readonly event: string;
  readonly attempt: number;
  readonly who: string | null;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly who_name: string | null;
  readonly why: string | null;
  readonly retry_class: string | null;
  readonly delay_ms: number | null;
  readonly policy: string | null;
}

export interface Job {
  /** Grows with each write. An event of `GET /api/v1/stream` with a higher one is newer. */
  readonly record_version: number;
  readonly job_id: string;
  /** The same as `job_id`. */
  readonly id: string;
  readonly topic: string;
  readonly tenant_id: string;
  readonly priority: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly risk_tags: ReadonlyArray<string>;
  readonly requires: ReadonlyArray<string>;
  readonly capability: string | null;
  readonly actor_id: string | null;
  readonly actor_type: string | null;
  readonly pack_id: string | null;
  readonly submitted_by: string | null;
  readonly caller: {
    readonly key: string | null;
    readonly name: string | null;
    readonly role: string | null;
    readonly tenant: string;
    readonly person: string | null;
  } | null;
  readonly state: JobState;
  /** Number of dispatches so far. */
  readonly attempt: number;
  readonly waits_for: string | null;
  readonly wait: {
    readonly reason: string;
    /** Time of the next attempt. */
    readonly until: string;
    readonly retry_class: string;
    readonly policy: string;
  } | null;
  readonly safety: JobSafety | null;
  readonly approval: JobApproval | null;
  readonly bypass: JobBypass | null;
  readonly progress: {
    readonly percent: number | null;
    readonly message: string | null;
    /** Time of the report. */
    readonly at: string;
    readonly step_id?: string | undefined;
    readonly status?: string | undefined;
    /** Of an intermediate result; the worker's own name. */
    readonly result_ptr?: string | undefined;
    readonly artifact_ptrs?: ReadonlyArray<string> | undefined;
  } | null;
  readonly trace_id: string;
  readonly worker_id: string | null;
  /** Time of submission. */
  readonly created_at: string;
  /** Time of the last change. */
  readonly updated_at: string;
  /** When the job ends as TIMEOUT. */
  readonly deadline_at: string;
  readonly error: ErrorInfo | null;
}

export interface JobApproval {
  readonly job_hash: string;
  readonly snapshot: string;
  readonly rule_id: string | null;
  /** When approval was requested. */
  readonly requested_at: string;
  /** When the request expires and the job ends. */
  readonly expires_at: string;
  readonly by_submitter: boolean;
  readonly decision: "approved" | "rejected" | null;
  readonly decided_by: string | null;
  readonly decided_by_name: string | null;
  readonly decided_at: string | null;
  readonly note: string | null;
}

export interface JobBudget {
  readonly rule_id: string;
  /** `job`, `run`, `tenant`, `day` or `label:NAME`. */
  readonly per: string;
  /** The job, run, day (UTC) or label; empty for a tenant. */
  readonly key: string;
  readonly tokens?: {
    readonly limit: number;
    readonly reserved: number;
    readonly spent: number;
  } | undefined;
  readonly usd?: {
    readonly limit: number;
    readonly reserved: number;
    readonly spent: number;
  } | undefined;
}

export interface JobBulkPage {
  readonly action: string;
  readonly dry_run: boolean;
  /** Records that matched at the start of the operation. */
  readonly matched: number;
  /** Changed by this request. */
  readonly done: number;
  /** Left as they are; the operation continues after them. */
  readonly rejected: ReadonlyArray<{
    readonly id: string;
    readonly code: string;
    readonly error: string;
  }>;
  /** The run limit of the tenant was reached: send `next_cursor` later. */
  readonly stopped: {
    readonly id: string;
    readonly code: string;
    readonly error: string;
  } | null;
  /** With `dry_run`: the oldest that match, at most 5. */
  readonly sample: ReadonlyArray<Job>;
  /** Continues the operation, also after a restart; of a dry run, starts it on exactly what was counted. Null at the end. */
  readonly next_cursor: string | null;
}

export interface JobBulkRequest {
  /** `cancel`: open jobs. `retry`: jobs that are FAILED or TIMEOUT, from their dead letters. */
  readonly action: "cancel" | "retry";
  /** Only jobs in this state. */
  readonly state?: string | undefined;
  /** Only jobs of this topic. */
  readonly topic?: string | undefined;
  /** Only jobs with this label, as `key=value`. A job is found by its first 8 labels in alphabetical order. */
  readonly label?: string | undefined;
  /** Only of this time or later: a duration such as `90s`, `15m`, `24h` or `7d`, an ISO 8601 time such as `2030-01-31T12:00:00Z`, or a Unix time in s, ms or µs. */
  readonly since?: string | undefined;
  /** Only jobs that wait for a retry. */
  readonly retrying?: boolean | undefined;
  /** Only jobs that wait for a retry of this class, such as `lock_busy`. */
  readonly class?: string | undefined;
  /** Of the cancel, for the audit log. */
  readonly reason?: string | undefined;
  /** Count and show a sample; change nothing. */
  readonly dry_run?: boolean | undefined;
  /** Records per request. */
  readonly limit?: number | undefined;
  /** `next_cursor` of the previous request of the operation, with the same action and filter. */
  readonly cursor?: string | undefined;
}

export interface JobBypass {
  readonly lease_id: string;
  readonly reason: string;
  /** When the check was bypassed. */
  readonly at: string;
  readonly reviewed_by: string | null;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly reviewed_by_name?: string | null | undefined;
  readonly reviewed_at: string | null;
}

/** Budgets are enforced by the control plane, the rest by the worker. The same as `Constraints`, with names in camel case. */
export interface JobConstraints {
  readonly budgets?: {
    readonly maxRuntimeMs?: number | undefined;
    readonly maxRetries?: number | undefined;
    readonly maxArtifactBytes?: number | undefined;
    readonly maxConcurrentJobs?: number | undefined;
  } | undefined;
  readonly sandbox?: {
    readonly isolated?: boolean | undefined;
    readonly networkAllowlist?: ReadonlyArray<string> | undefined;
    readonly fsReadOnly?: ReadonlyArray<string> | undefined;
    readonly fsReadWrite?: ReadonlyArray<string> | undefined;
  } | undefined;
  readonly toolchain?: {
    readonly allowedTools?: ReadonlyArray<string> | undefined;
    readonly allowedCommands?: ReadonlyArray<string> | undefined;
  } | undefined;
  readonly diff?: {
    readonly maxFiles?: number | undefined;
    readonly maxLines?: number | undefined;
    readonly denyPathGlobs?: ReadonlyArray<string> | undefined;
  } | undefined;
  readonly redactionLevel?: string | undefined;
}

export interface JobDecisions {
  readonly job_id: string;
  readonly safety: JobSafety | null;
  readonly approval: JobApproval | null;
  readonly bypass: JobBypass | null;
  readonly items: ReadonlyArray<HistoryLine>;
  readonly next_cursor: null;
}

export interface JobDetail {
  /** Grows with each write. An event of `GET /api/v1/stream` with a higher one is newer. */
  readonly record_version: number;
  readonly job_id: string;
  /** The same as `job_id`. */
  readonly id: string;
  readonly topic: string;
  readonly tenant_id: string;
  readonly priority: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly risk_tags: ReadonlyArray<string>;
  readonly requires: ReadonlyArray<string>;
  readonly capability: string | null;
  readonly actor_id: string | null;
  readonly actor_type: string | null;
  readonly pack_id: string | null;
  readonly submitted_by: string | null;
  readonly caller: {
    readonly key: string | null;
    readonly name: string | null;
    readonly role: string | null;
    readonly tenant: string;
    readonly person: string | null;
  } | null;
  readonly state: JobState;
  /** Number of dispatches so far. */
  readonly attempt: number;
  readonly waits_for: string | null;
  readonly wait: {
    readonly reason: string;
    /** Time of the next attempt. */
    readonly until: string;
    readonly retry_class: string;
    readonly policy: string;
  } | null;
  readonly safety: JobSafety | null;
  readonly approval: JobApproval | null;
  readonly bypass: JobBypass | null;
  readonly progress: {
    readonly percent: number | null;
    readonly message: string | null;
    /** Time of the report. */
    readonly at: string;
    readonly step_id?: string | undefined;
    readonly status?: string | undefined;
    /** Of an intermediate result; the worker's own name. */
    readonly result_ptr?: string | undefined;
    readonly artifact_ptrs?: ReadonlyArray<string> | undefined;
  } | null;
  readonly trace_id: string;
  readonly worker_id: string | null;
  /** Time of submission. */
  readonly created_at: string;
  /** Time of the last change. */
  readonly updated_at: string;
  /** When the job ends as TIMEOUT. */
  readonly deadline_at: string;
  readonly error: ErrorInfo | null;
  /** Any JSON value. Redacted. */
  readonly input: unknown;
  /** Paths of redacted values, at most 100; `POST /api/v1/approvals/{id}/reveal` returns them. */
  readonly hidden?: ReadonlyArray<string> | undefined;
  /** Any JSON value. Null without a result. */
  readonly result: unknown;
  /** Stored payloads that are missing or damaged; they are shown as null. */
  readonly payload_problems?: ReadonlyArray<string> | undefined;
  readonly history: ReadonlyArray<HistoryLine>;
  readonly idempotency_key?: string | undefined;
  readonly adapter_id?: string | undefined;
  /** Environment for the worker. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly parent_job_id?: string | undefined;
  /** Workflow of the submitter's own orchestrator. */
  readonly workflow_id?: string | undefined;
  readonly step_index?: number | undefined;
  readonly memory_id?: string | undefined;
  readonly context_hints?: ContextHints | undefined;
  readonly budget?: Budget | undefined;
  readonly compensation?: Compensation | undefined;
  /** The submitted principal, if it differs from `actor_id`. */
  readonly principal_id?: string | undefined;
  /** Measured by the worker. */
  readonly execution_ms?: number | undefined;
  readonly error_code?: string | undefined;
  /** CAP error code, such as `TIMEOUT`, or its number. */
  readonly error_code_enum?: string | undefined;
  readonly artifact_ptrs?: ReadonlyArray<string> | undefined;
  readonly usage?: Usage | undefined;
  /** What the job reserves and has spent of the budgets of its rule. */
  readonly budgets?: ReadonlyArray<JobBudget> | undefined;
}

/** `event: job` */
export interface JobEvent {
  readonly job_id: string;
  readonly tenant_id: string;
  readonly topic: string;
  readonly state: JobState;
  /** Time of the change. */
  readonly at: string;
  /** Grows with each write. An event of `GET /api/v1/stream` with a higher one is newer. */
  readonly record_version: number;
}

export interface JobExplanation {
  readonly job_id: string;
  readonly state: JobState;
  readonly wait: {
    readonly reason: string;
    /** Start of the wait. */
    readonly since: string;
    /** End of the wait at the latest. */
    readonly until: string;
    readonly retry_class: string | null;
    readonly policy: string | null;
  } | null;
  readonly sentence: string;
  readonly unblocks: ReadonlyArray<{
    readonly what: string;
    readonly command: string | null;
  }>;
  readonly approval: JobApproval | null;
  /** What is left of the budgets that the job counts towards. */
  readonly budgets?: ReadonlyArray<BudgetUse> | undefined;
  /** The shadow rules that would have decided instead. */
  readonly shadow?: ReadonlyArray<{
    readonly rule_id: string;
    readonly decision: PolicyDecisionName;
    /** Why the condition could not be evaluated. */
    readonly fault?: string | undefined;
  }> | undefined;
  readonly facts: JobExplanationFacts;
}

export interface JobExplanationFacts {
  readonly window: {
    readonly full: boolean;
    readonly used?: number | undefined;
    readonly max?: number | undefined;
  };
  readonly tenant: {
    readonly used: number;
    readonly max: number;
  } | null;
  readonly rule: {
    readonly used: number;
    readonly max: number;
  } | null;
  readonly backlog: {
    readonly topic: number | null;
    readonly tenant: number;
  };
  readonly workers: {
    readonly serving: number;
    readonly free: number;
  };
  readonly unfit: string | null;
  /** The last dispatch to the topic found no worker. */
  readonly topic_idle: boolean;
  readonly breaker: string | null;
  readonly fail_open: {
    readonly id: string;
    /** End of the fail-open lease. */
    readonly ends_at: string;
  } | null;
}

export interface JobPage {
  readonly items: ReadonlyArray<Job>;
  readonly next_cursor: string | null;
  readonly total?: ListTotal | undefined;
}

export interface JobSafety {
  /** `ALLOW`, `DENY`, `REQUIRE_APPROVAL`, `THROTTLE`, `ALLOW_WITH_CONSTRAINTS`. */
  readonly decision: string;
  readonly rule_id: string | null;
  readonly reason: string;
  /** Hash of the policy that decided. */
  readonly snapshot: string;
  /** The time of the evaluation: `now` in conditions. */
  readonly evaluated_at?: string | undefined;
  /** A condition that reads `now` was evaluated; absent if not. */
  readonly time_dependent?: boolean | undefined;
  /** The shadow rules that would have decided instead. */
  readonly shadow?: ReadonlyArray<{
    readonly rule_id: string;
    readonly decision: PolicyDecisionName;
    /** Why the condition could not be evaluated. */
    readonly fault?: string | undefined;
  }> | undefined;
  /** Dispatched without a safety check, under a fail-open lease. */
  readonly bypassed: boolean;
  readonly constraints?: JobConstraints | undefined;
  readonly remediations?: ReadonlyArray<Remediation> | undefined;
}

export type JobState = "PENDING" | "APPROVAL_REQUIRED" | "SCHEDULED" | "DISPATCHED" | "RUNNING" | "RETRYING" | "SUCCEEDED" | "FAILED" | "CANCELLED" | "TIMEOUT" | "DENIED";

export interface JobStateChange {
  readonly job_id: string;
  /** The same as `job_id`. */
  readonly id: string;
  readonly state: JobState;
}

export interface KeyExplanation {
  readonly key: ApiKey;
  /** As in `GET /session`. */
  readonly permissions: ReadonlyArray<string>;
  readonly reasons: ReadonlyArray<{
    readonly reason: string;
    readonly until: string | null;
    readonly unblocks: string | null;
  }>;
}

export interface KillSwitch {
  /** A tenant, or `*` for all tenants. */
  readonly scope: string;
  readonly reason: string;
  readonly engaged_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly engaged_by_name: string | null;
  readonly engaged_at: string;
}

export interface KillSwitchPage {
  readonly items: ReadonlyArray<KillSwitch>;
  readonly next_cursor: string | null;
}

export interface LabCatalogue {
  readonly experiments: ReadonlyArray<{
    readonly name: string;
    readonly summary: string;
    /** Replays recorded contention: requires a key of `*`. */
    readonly needs_record: boolean;
    readonly params: ReadonlyArray<{
      readonly name: string;
      /** `number`, `numbers` (comma-separated), `rows` (several values) or `choice`. */
      readonly kind: string;
      readonly help: string;
      readonly unit: string;
      readonly default: ReadonlyArray<string>;
      readonly min: number | null;
      readonly max: number | null;
      readonly choices: ReadonlyArray<{
        readonly value: string;
        readonly about: string;
      }>;
    }>;
  }>;
  readonly simulator: {
    readonly faults: ReadonlyArray<string>;
    readonly mutants: ReadonlyArray<{
      readonly name: string;
      readonly about: string;
      /** The checkers that can find it. */
      readonly caught_by: ReadonlyArray<string>;
    }>;
  };
}

export interface LabChart {
  readonly name: string;
  readonly title: string;
  readonly caption: string;
  readonly x: {
    readonly label: string;
    readonly unit: string;
    readonly is_log: boolean;
  };
  readonly y: {
    readonly label: string;
    readonly unit: string;
    readonly is_log: boolean;
  };
  readonly bin: number | null;
  readonly until: number | null;
  readonly series: ReadonlyArray<{
    readonly name: string;
    readonly note: string;
    readonly description: string;
    /** Bars of height 0 are left out. */
    readonly points: ReadonlyArray<ReadonlyArray<number>>;
  }>;
  readonly bands: ReadonlyArray<{
    readonly from: number;
    readonly to: number;
    readonly label: string;
  }>;
}

export interface LabReport {
  readonly experiment: string;
  readonly description: string;
  /** Reproduces the figures. */
  readonly command: string;
  readonly note: string;
  readonly findings: ReadonlyArray<string>;
  readonly charts: ReadonlyArray<LabChart>;
  readonly tables: ReadonlyArray<LabTable>;
}

export interface LabTable {
  readonly title: string;
  readonly headers: ReadonlyArray<string>;
  readonly key_columns: number;
  readonly best_of: string;
  readonly rows: ReadonlyArray<ReadonlyArray<{
    readonly text: string;
    readonly spread: string;
    readonly is_best: boolean;
  }>>;
}

export interface LeaseRequest {
  readonly worker_id: string;
  readonly topics: ReadonlyArray<string>;
  /** Maximum number of jobs. */
  readonly max?: number | undefined;
  /** Long-poll timeout for the first job. */
  readonly wait_ms?: number | undefined;
  readonly capabilities?: ReadonlyArray<string> | undefined;
  readonly pool?: string | undefined;
}

export interface LeaseResponse {
  readonly jobs: ReadonlyArray<{
    readonly job_id: string;
    /** The same as `job_id`. */
    readonly id: string;
    readonly attempt: number;
    /** Required by all other worker requests for this attempt. */
    readonly lease_id: string;
    readonly topic: string;
    readonly tenant_id: string;
    /** Any JSON value. Input of the job. */
    readonly input: unknown;
    readonly labels: Readonly<Record<string, string>>;
    readonly constraints: Constraints | null;
    /** When the lease expires unless it is extended. */
    readonly deadline: string;
    readonly traceparent: string | null;
    readonly idempotency_key?: string | undefined;
    readonly adapter_id?: string | undefined;
    /** Environment for the worker. */
    readonly env?: Readonly<Record<string, string>> | undefined;
    readonly parent_job_id?: string | undefined;
    /** Workflow of the submitter's own orchestrator. */
    readonly workflow_id?: string | undefined;
    readonly step_index?: number | undefined;
    readonly memory_id?: string | undefined;
    readonly context_hints?: ContextHints | undefined;
    readonly budget?: Budget | undefined;
    readonly compensation?: Compensation | undefined;
    /** The submitted principal, if it differs from `actor_id`. */
    readonly principal_id?: string | undefined;
  }>;
}

/** With `count=true`; absent if no index answers the filter. */
export interface ListTotal {
  /** Records that match, at most 10000. */
  readonly count: number;
  /** False: there are more. */
  readonly exact: boolean;
}

export interface Lock {
  readonly key: string;
  /** The process and purpose of the holder. */
  readonly holder: string | null;
  readonly fence: number | null;
  readonly expires_at: string | null;
  readonly waiters: number;
  /** Events and requests of this process that the held lock refused in the last minute. */
  readonly busy_last_minute: number;
}

/** No API key can approve the job: why, and what to do. Absent if one can. */
export interface NoApprover {
  readonly detail: string;
  readonly ways: ReadonlyArray<{
    readonly what: string;
    readonly command: string | null;
  }>;
}

export interface OpenFailOpenRequest {
  /** A tenant, or `*` for all tenants. Defaults to the tenant of the caller. */
  readonly scope?: string | undefined;
  /** Recorded in the audit log. */
  readonly reason: string;
  /** Duration; the lease then ends by itself. */
  readonly minutes?: number | undefined;
}

export type OpenapiDocument = Readonly<Record<string, unknown>>;

export interface Overview {
  /** Time of the figures. */
  readonly at: string;
  /** `*` for all tenants. */
  readonly tenant: string;
  /** The process that answered. */
  readonly process: string;
  /** The control plane runs with `--demo`. */
  readonly demo: boolean;
  readonly ready: boolean;
  readonly not_ready_because: string | null;
  /** The most urgent first, at most 50. */
  readonly attention: ReadonlyArray<Attention>;
  readonly backlog_total: number;
  readonly in_flight_total: number;
  /** The 50 topics with the longest backlogs. */
  readonly topics: ReadonlyArray<{
    readonly topic: string;
    readonly backlog: number;
    readonly oldest_ms: number | null;
  }>;
  /** The 50 tenants with the longest backlogs. */
  readonly tenants: ReadonlyArray<{
    readonly tenant: string;
    readonly backlog: number;
    readonly oldest_ms: number | null;
  }>;
  readonly throughput: {
    /** The time of the figures, at most a minute; it begins with the first request. */
    readonly measured_ms: number;
    readonly jobs_per_s: number;
    /** Of these: ended without success. */
    readonly failed_per_s: number;
    readonly runs_per_s: number;
    readonly retries_per_s: number;
  };
  /** By retry class; null for a key of one tenant. */
  readonly retries: ReadonlyArray<{
    readonly class: string;
    readonly waiting: number | null;
    readonly parked: number | null;
    readonly per_s: number | null;
    readonly policy: string;
    /** `8`: failed tries. `10m`: time. `deadline`: until that of the job. */
    readonly budget: string;
  }>;
  /** Use of the policy's budgets by tenant, day and label, the most used first, at most 100. */
  readonly budgets: ReadonlyArray<BudgetUse>;
  /** Dead letters of retry budgets. */
  readonly budgets_exhausted: {
    readonly last_hour: number;
    readonly last_day: number;
  };
  readonly dead_letters: number;
  readonly approvals: {
    readonly count: number;
    readonly oldest_ms: number | null;
  };
  readonly runs: {
    readonly open: number;
    readonly limit: number | null;
  };
  readonly workers: {
    readonly total: number;
    readonly leaving: number;
  };
  /** By how many milliseconds each background loop of this process is behind. */
  readonly duties: Readonly<Record<string, number>>;
  readonly fail_open: ReadonlyArray<{
    readonly id: string;
    readonly scope: string;
    readonly reason: string;
    /** End. */
    readonly ends_at: string;
  }>;
  readonly kill: ReadonlyArray<KillSwitch>;
  readonly disk: {
    readonly path: string;
    readonly free_bytes: number;
    readonly size_bytes: number;
    readonly low: boolean;
  } | null;
}

export interface PolicyBundle {
  /** The id of the release. */
  readonly bundle_id: string;
  readonly snapshot: string;
  readonly name: string;
  readonly version: string | null;
  /** Number of rules. */
  readonly rules: number;
  /** The id of a key, or the file that the process read. */
  readonly by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly by_name: string | null;
  /** When it was published. */
  readonly at: string;
  readonly note: string | null;
  readonly in_force: boolean;
}

export interface PolicyBundleDetail {
  /** The id of the release. */
  readonly bundle_id: string;
  readonly snapshot: string;
  readonly name: string;
  readonly version: string | null;
  /** Number of rules. */
  readonly rules: number;
  /** The id of a key, or the file that the process read. */
  readonly by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly by_name: string | null;
  /** When it was published. */
  readonly at: string;
  readonly note: string | null;
  readonly in_force: boolean;
  /** The published YAML. */
  readonly policy: string;
}

export interface PolicyBundlePage {
  readonly items: ReadonlyArray<PolicyBundle>;
  readonly next_cursor: string | null;
}

export interface PolicyChange {
  readonly snapshot: string;
  readonly previous: string | null;
  /** False if the policy was already in force. */
  readonly changed: boolean;
  /** If the policy changed. */
  readonly release_id?: string | undefined;
}

export interface PolicyDecidedBy {
  readonly decision: PolicyDecisionName;
  readonly rule_id: string | null;
}

export interface PolicyDecision {
  readonly decision: PolicyDecisionName;
  readonly rule_id: string | null;
  readonly reason: string;
  /** Hash of the policy. */
  readonly snapshot: string;
  /** The time of the evaluation: `now` in conditions. */
  readonly evaluated_at?: string | undefined;
  /** A condition that reads `now` was evaluated; absent if not. */
  readonly time_dependent?: boolean | undefined;
  /** The shadow rules that would have decided instead. */
  readonly shadow?: ReadonlyArray<{
    readonly rule_id: string;
    readonly decision: PolicyDecisionName;
    /** Why the condition could not be evaluated. */
    readonly fault?: string | undefined;
  }> | undefined;
  readonly constraints?: Constraints | undefined;
  readonly remediations?: ReadonlyArray<PolicyRemediation> | undefined;
  readonly approval?: ApprovalTerms | undefined;
  /** What the jobs of the rule may spend; each must have room. */
  readonly budgets?: ReadonlyArray<BudgetTerms> | undefined;
  /** With `THROTTLE`: the next slot of the rate. */
  readonly until?: string | undefined;
  /** Limits of earlier rules, in their order: the request counts for each of them. */
  readonly limits?: ReadonlyArray<PolicyLimit> | undefined;
}

export type PolicyDecisionName = "ALLOW" | "DENY" | "REQUIRE_APPROVAL" | "THROTTLE" | "ALLOW_WITH_CONSTRAINTS";

export interface PolicyDiff {
  /** Hash of the policy in force. */
  readonly before: string;
  readonly after: string;
  readonly version: {
    readonly before: string | null;
    readonly after: string | null;
  } | null;
  readonly default_decision: {
    readonly before: PolicyEffect;
    readonly after: PolicyEffect;
  } | null;
  readonly rules: ReadonlyArray<{
    readonly kind: "removed" | "added" | "changed" | "moved";
    readonly rule_id: string;
    /** Of `removed` and `added`, from 1. */
    readonly position?: number | undefined;
    /** Of `changed`, such as `match.risk_tags`. */
    readonly parts?: ReadonlyArray<string> | undefined;
    /** Of `moved`. */
    readonly from?: number | undefined;
    /** Of `moved`. */
    readonly to?: number | undefined;
    readonly before?: PolicyRuleTerms | undefined;
    readonly after?: PolicyRuleTerms | undefined;
  }>;
}

export type PolicyEffect = "allow" | "deny" | "require_approval" | "throttle" | "allow_with_constraints";

export interface PolicyExplanation {
  readonly decision: PolicyDecisionName;
  readonly rule_id: string | null;
  readonly reason: string;
  /** Hash of the policy. */
  readonly snapshot: string;
  /** The time of the evaluation: `now` in conditions. */
  readonly evaluated_at?: string | undefined;
  /** A condition that reads `now` was evaluated; absent if not. */
  readonly time_dependent?: boolean | undefined;
  /** The shadow rules that would have decided instead. */
  readonly shadow?: ReadonlyArray<{
    readonly rule_id: string;
    readonly decision: PolicyDecisionName;
    /** Why the condition could not be evaluated. */
    readonly fault?: string | undefined;
  }> | undefined;
  readonly constraints?: Constraints | undefined;
  readonly remediations?: ReadonlyArray<PolicyRemediation> | undefined;
  readonly approval?: ApprovalTerms | undefined;
  /** What the jobs of the rule may spend; each must have room. */
  readonly budgets?: ReadonlyArray<BudgetTerms> | undefined;
  /** With `THROTTLE`: the next slot of the rate. */
  readonly until?: string | undefined;
  /** Limits of earlier rules, in their order: the request counts for each of them. */
  readonly limits?: ReadonlyArray<PolicyLimit> | undefined;
  /** The rules before the deciding one, and why they did not match. */
  readonly tried: ReadonlyArray<{
    readonly rule_id: string;
    readonly mismatches: ReadonlyArray<{
      readonly part: string;
      readonly text: string;
    }>;
  }>;
  /** Number of earlier rules that `tried` does not list. */
  readonly omitted: number;
}

export interface PolicyFlips {
  readonly from: PolicyDecidedBy;
  readonly to: PolicyDecidedBy;
  readonly topic: string;
  readonly count: number;
  readonly examples: ReadonlyArray<string>;
}

export interface PolicyLimit {
  readonly rule_id: string;
  readonly kind: "throttle" | "velocity";
  /** `tenant`, `topic`, `caller` or `label:NAME`. */
  readonly by: string;
  /** The value of `by`; each tenant has its own. */
  readonly key: string;
  readonly max: number;
  readonly within_ms: number;
  /** What the request adds. */
  readonly amount: number;
  /** Without this request. In simulations, by the requests before it. Absent where nothing is counted. */
  readonly used?: number | undefined;
}

export interface PolicyRelease {
  readonly release_id: string;
  readonly snapshot: string;
  readonly name: string;
  readonly version: string | null;
  /** Number of rules. */
  readonly rules: number;
  /** The id of a key, or the file that the process read. */
  readonly by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly by_name: string | null;
  /** When it was published. */
  readonly at: string;
  readonly note: string | null;
  readonly in_force: boolean;
}

export interface PolicyReleasePage {
  readonly items: ReadonlyArray<PolicyRelease>;
  readonly next_cursor: string | null;
}

export interface PolicyRemediation {
  readonly id: string;
  readonly title: string;
  readonly summary?: string | undefined;
  readonly replacement_topic?: string | undefined;
  readonly replacement_capability?: string | undefined;
  readonly add_labels?: Readonly<Record<string, string>> | undefined;
  readonly remove_labels?: ReadonlyArray<string> | undefined;
}

export interface PolicyRequest {
  readonly topic: string;
  /** A tenant other than that of the caller; requires a key of tenant `*`. */
  readonly tenant_id?: string | undefined;
  readonly job_id?: string | undefined;
  readonly priority?: string | undefined;
  readonly capability?: string | undefined;
  readonly risk_tags?: ReadonlyArray<string> | undefined;
  readonly requires?: ReadonlyArray<string> | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly actor_id?: string | undefined;
  readonly actor_type?: string | undefined;
  readonly pack_id?: string | undefined;
  readonly mcp?: {
    readonly server?: string | undefined;
    readonly tool?: string | undefined;
    readonly resource?: string | undefined;
    readonly action?: string | undefined;
  } | undefined;
  /** The submitter to evaluate for; defaults to the caller of this request. */
  readonly caller?: {
    readonly key?: string | undefined;
    readonly name?: string | undefined;
    readonly role?: string | undefined;
    readonly tenant?: string | undefined;
  } | undefined;
  /** The time of the evaluation: `now` in conditions; defaults to the present. */
  readonly now?: string | undefined;
  /** Any JSON value. Input of the job. */
  readonly input?: unknown | undefined;
}

export interface PolicyRule {
  readonly position: number;
  readonly id: string;
  readonly match: {
    readonly tenants?: ReadonlyArray<string> | undefined;
    readonly topics?: ReadonlyArray<string> | undefined;
    readonly capabilities?: ReadonlyArray<string> | undefined;
    readonly risk_tags?: ReadonlyArray<string> | undefined;
    readonly requires?: ReadonlyArray<string> | undefined;
    readonly actor_ids?: ReadonlyArray<string> | undefined;
    readonly actor_types?: ReadonlyArray<string> | undefined;
    readonly pack_ids?: ReadonlyArray<string> | undefined;
    readonly labels?: Readonly<Record<string, string>> | undefined;
    readonly mcp?: {
      readonly servers?: ReadonlyArray<string> | undefined;
      readonly tools?: ReadonlyArray<string> | undefined;
      readonly resources?: ReadonlyArray<string> | undefined;
      readonly actions?: ReadonlyArray<string> | undefined;
    } | undefined;
    readonly when?: string | undefined;
  };
  readonly decision: PolicyEffect;
  readonly reason: string;
  /** Evaluated and recorded, not enforced. */
  readonly shadow?: boolean | undefined;
  readonly constraints?: Constraints | undefined;
  readonly remediations?: ReadonlyArray<PolicyRemediation> | undefined;
  readonly approval?: ApprovalTerms | undefined;
  readonly throttle?: ThrottleTerms | undefined;
  readonly velocity?: VelocityTerms | undefined;
  /** What the jobs of the rule may spend; each must have room. */
  readonly budget?: ReadonlyArray<BudgetTerms> | undefined;
}

export interface PolicyRuleTerms {
  readonly id: string;
  readonly match: {
    readonly tenants?: ReadonlyArray<string> | undefined;
    readonly topics?: ReadonlyArray<string> | undefined;
    readonly capabilities?: ReadonlyArray<string> | undefined;
    readonly risk_tags?: ReadonlyArray<string> | undefined;
    readonly requires?: ReadonlyArray<string> | undefined;
    readonly actor_ids?: ReadonlyArray<string> | undefined;
    readonly actor_types?: ReadonlyArray<string> | undefined;
    readonly pack_ids?: ReadonlyArray<string> | undefined;
    readonly labels?: Readonly<Record<string, string>> | undefined;
    readonly mcp?: {
      readonly servers?: ReadonlyArray<string> | undefined;
      readonly tools?: ReadonlyArray<string> | undefined;
      readonly resources?: ReadonlyArray<string> | undefined;
      readonly actions?: ReadonlyArray<string> | undefined;
    } | undefined;
    readonly when?: string | undefined;
  };
  readonly decision: PolicyEffect;
  readonly reason: string;
  /** Evaluated and recorded, not enforced. */
  readonly shadow?: boolean | undefined;
  readonly constraints?: Constraints | undefined;
  readonly remediations?: ReadonlyArray<PolicyRemediation> | undefined;
  readonly approval?: ApprovalTerms | undefined;
  readonly throttle?: ThrottleTerms | undefined;
  readonly velocity?: VelocityTerms | undefined;
  /** What the jobs of the rule may spend; each must have room. */
  readonly budget?: ReadonlyArray<BudgetTerms> | undefined;
}

export interface PolicyRules {
  readonly snapshot: string;
  readonly source: string;
  readonly version: string | null;
  readonly default_decision: PolicyEffect;
  readonly items: ReadonlyArray<PolicyRule>;
  readonly next_cursor: null;
}

export interface PolicySimulation {
  readonly snapshot: string;
  /** In the order of the requests; `in_force` is the decision of the policy in force. */
  readonly decisions: ReadonlyArray<{
    readonly decision: PolicyDecisionName;
    readonly rule_id: string | null;
    readonly reason: string;
    /** Hash of the policy. */
    readonly snapshot: string;
    /** The time of the evaluation: `now` in conditions. */
    readonly evaluated_at?: string | undefined;
    /** A condition that reads `now` was evaluated; absent if not. */
    readonly time_dependent?: boolean | undefined;
    /** The shadow rules that would have decided instead. */
    readonly shadow?: ReadonlyArray<{
      readonly rule_id: string;
      readonly decision: PolicyDecisionName;
      /** Why the condition could not be evaluated. */
      readonly fault?: string | undefined;
    }> | undefined;
    readonly constraints?: Constraints | undefined;
    readonly remediations?: ReadonlyArray<PolicyRemediation> | undefined;
    readonly approval?: ApprovalTerms | undefined;
    /** What the jobs of the rule may spend; each must have room. */
    readonly budgets?: ReadonlyArray<BudgetTerms> | undefined;
    /** With `THROTTLE`: the next slot of the rate. */
    readonly until?: string | undefined;
    /** Limits of earlier rules, in their order: the request counts for each of them. */
    readonly limits?: ReadonlyArray<PolicyLimit> | undefined;
    readonly in_force?: PolicyDecisionName | undefined;
  }>;
  readonly by_decision: Readonly<Record<string, number>>;
  readonly by_rule: ReadonlyArray<{
    readonly rule_id: string | null;
    readonly count: number;
  }>;
  /** Decisions that differ from the policy in force. */
  readonly changed?: number | undefined;
}

export interface PolicyTestCase {
  readonly name: string;
  /** Of the case in the text. */
  readonly line: number;
  readonly passed: boolean;
  readonly failure: string | null;
  readonly decision: PolicyDecision;
}

export interface PolicyTests {
  /** Hash of the policy that was tested. */
  readonly snapshot: string;
  readonly passed: number;
  readonly failed: number;
  readonly cases: ReadonlyArray<PolicyTestCase>;
}

export interface PolicyText {
  readonly snapshot: string;
  readonly source: string;
  /** Null if the policy was never published. */
  readonly release_id: string | null;
  /** The published YAML; of a policy that was never published, its rules as YAML. */
  readonly policy: string;
}

export interface Pool {
  readonly name: string;
  /** Topic patterns from the settings. */
  readonly topics: ReadonlyArray<string>;
  readonly requires: ReadonlyArray<string>;
  readonly workers: number;
  readonly draining: boolean;
  readonly changed_by: string | null;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly changed_by_name: string | null;
  readonly changed_at: string | null;
}

export interface PostApprovalsIdRevealRequest {
  /** For the audit log. */
  readonly reason: string;
}

export interface PostFailopenBypassedIdReviewRequest {
  readonly note?: string | undefined;
}

export interface PostKillReleaseRequest {
  /** A tenant, or `*` for all tenants. Defaults to the tenant of the caller. */
  readonly scope?: string | undefined;
}

export interface PostKillReleaseResponse {
  readonly scope: string;
  /** False if the switch was not engaged. */
  readonly released: boolean;
}

export interface PostKillRequest {
  /** A tenant, or `*` for all tenants. Defaults to the tenant of the caller. */
  readonly scope?: string | undefined;
  /** Recorded in the audit log. */
  readonly reason: string;
}

export interface PostKillResponse {
  /** A tenant, or `*` for all tenants. */
  readonly scope: string;
  readonly reason: string;
  readonly engaged_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly engaged_by_name: string | null;
  readonly engaged_at: string;
  /** True if the switch was already engaged; the other fields describe that engagement. */
  readonly already: boolean;
  /** Number of cancelled jobs. */
  readonly cancelled: number;
}

export interface PostLabExperimentRequest {
  /** In the syntax of the command line. A missing parameter has its default. */
  readonly params?: Readonly<Record<string, string | ReadonlyArray<string>>> | undefined;
}

export interface PostLabReplayRequest {
  /** In the syntax of the command line. A missing parameter has its default. */
  readonly params?: Readonly<Record<string, string | ReadonlyArray<string>>> | undefined;
}

export interface PostPolicyDiffRequest {
  /** The policy document, as YAML. */
  readonly policy: string;
}

export interface PostPolicyPublishRequest {
  /** The policy document, as YAML. */
  readonly policy: string;
  /** The snapshot that the caller has seen in force; 409 `policy_changed` if another one is. */
  readonly base?: string | undefined;
  readonly name?: string | undefined;
  readonly note?: string | undefined;
  /** Test cases, as YAML. Published only if all of them pass. */
  readonly tests?: string | undefined;
}

export interface PostPolicyRollbackRequest {
  readonly to?: string | undefined;
  /** The snapshot that the caller has seen in force; 409 `policy_changed` if another one is. */
  readonly base?: string | undefined;
}

export interface PostPolicySimulateRequest {
  /** The policy document, as YAML. */
  readonly policy?: string | undefined;
  readonly requests?: ReadonlyArray<PolicyRequest> | undefined;
  /** Evaluates the policy for recorded decisions instead of `requests`. */
  readonly recorded?: {
    /** Jobs of this time up to now. Default: all that are kept. */
    readonly last_ms?: number | undefined;
    /** Jobs created at or after this time; not with `last_ms`. */
    readonly since?: string | undefined;
    /** Jobs created at or before this time. Default: now. */
    readonly until?: string | undefined;
    /** Jobs to read. Default: 10000. More than 20000 require a key that may publish policies. */
    readonly limit?: number | undefined;
    /** `next_cursor` of the previous page, with its `since` and `until`. */
    readonly cursor?: string | undefined;
  } | undefined;
}

export type PostPolicySimulateResponse = PolicySimulation | RecordedSimulation;

export interface PostPolicyTestRequest {
  /** The policy as YAML. Default: the one in force. */
  readonly policy?: string | undefined;
  /** Test cases, as YAML. */
  readonly tests: string;
}

export interface PostRolloutsIdPromoteRequest {
  /** Recorded in the audit log. */
  readonly reason?: string | undefined;
  readonly force?: boolean | undefined;
}

export interface PostSimulationsRequest {
  readonly seed: number;
  /** Jobs and runs; 20 by default. */
  readonly runs?: number | undefined;
  /** `swarm` by default. */
  readonly faults?: string | undefined;
  readonly mutant?: string | null | undefined;
}

export interface PostWorkerJobsIdCompleteRequest {
  readonly execution_ms?: number | undefined;
  readonly artifact_ptrs?: ReadonlyArray<string> | undefined;
  readonly usage?: Usage | undefined;
  readonly lease_id: string;
  /** Any JSON value. Result of the job. */
  readonly result?: unknown | undefined;
}

export interface PostWorkerJobsIdExtendRequest {
  readonly lease_id: string;
  /** New lease duration from now. Defaults to the initial one. */
  readonly ms?: number | undefined;
}

export interface PostWorkerJobsIdFailRequest {
  readonly execution_ms?: number | undefined;
  readonly artifact_ptrs?: ReadonlyArray<string> | undefined;
  readonly usage?: Usage | undefined;
  readonly error_code?: string | undefined;
  /** CAP error code, such as `TIMEOUT`, or a number. */
  readonly error_code_enum?: string | number | undefined;
  readonly lease_id: string;
  readonly error: string;
  /** If false, the job is not attempted again. */
  readonly retryable?: boolean | undefined;
  readonly retry_after_ms?: number | undefined;
}

export interface PostWorkerJobsIdProgressRequest {
  readonly lease_id: string;
  readonly percent?: number | undefined;
  readonly message?: string | undefined;
}

export interface PostWorkerJobsIdReleaseRequest {
  readonly lease_id: string;
}

/** `event: ready`, the first of a connection */
export interface ReadyEvent {
  /** The events since `Last-Event-ID` follow. */
  readonly resumed: boolean;
}

/** Limits and budgets, counted over the records of this page in order of time. Null: none applies. */
export interface RecordedLimits {
  /** Uses of limits and budgets before this time are not counted. */
  readonly counted_from: string;
  /** What the records do not say, and what is assumed. */
  readonly approximations: ReadonlyArray<string>;
  /** Jobs that a budget of the policy would refuse; not part of `flipped`. */
  readonly exhausted: ReadonlyArray<ExhaustedBudget>;
}

export interface RecordedSimulation {
  /** Hash of the policy that was evaluated. */
  readonly snapshot: string;
  /** Jobs created at or after this time were read. */
  readonly since: string;
  /** Jobs created at or before this time were read. */
  readonly until: string;
  /** Recorded decisions that were evaluated. */
  readonly checked: number;
  /** Jobs without a decision yet. */
  readonly undecided: number;
  /** Jobs that were dispatched without a decision, under a fail-open lease. */
  readonly bypassed: number;
  /** Decisions that the policy would change. */
  readonly flipped: number;
  /** The largest first. */
  readonly groups: ReadonlyArray<PolicyFlips>;
  /** Flips of groups that are not listed. */
  readonly ungrouped: number;
  readonly limits: RecordedLimits | null;
  readonly next_cursor: string | null;
}

export interface RejectRequest {
  readonly reason: string;
}

export interface RemediateRequest {
  /** Id of a remediation of the denial; optional if it offers exactly one. */
  readonly remediation_id?: string | undefined;
  /** Id of the new job. */
  readonly job_id?: string | undefined;
}

export interface Remediation {
  readonly id: string;
  readonly title: string;
  readonly summary: string | null;
  readonly replacement_topic: string | null;
  readonly replacement_capability: string | null;
  readonly add_labels: Readonly<Record<string, string>>;
  readonly remove_labels: ReadonlyArray<string>;
}

export interface RerunRequest {
  /** The first step to repeat; all steps after it are repeated too. */
  readonly from_step: string;
  /** Return the plan without starting a run. */
  readonly dry_run?: boolean | undefined;
  /** Keep the approvals before `from_step` instead of asking again; requires `operate` access; audited. */
  readonly keep_approvals?: boolean | undefined;
  /** Idempotency key; also accepted as the header `Idempotency-Key`. */
  readonly idempotency_key?: string | undefined;
}

export type RerunResponse = {
  readonly run_id: string;
  readonly workflow_id: string;
  /** Only if the request named a version. */
  readonly version?: number | undefined;
  readonly state: RunState;
  /** True if the run already existed with this key. */
  readonly replayed: boolean;
  readonly rerun_of: string;
  readonly from_step: string;
} | {
  readonly workflow_id: string;
  readonly version: number;
  readonly steps: ReadonlyArray<DryRunStep>;
  readonly rerun_of: string;
  readonly from_step: string;
  readonly dry_run: true;
};

/** `event: reset`: events are missing, reload what you show */
export interface ResetEvent {
  readonly reason: "unknown_id" | "events_lost";
}

export interface RevealedApproval {
  readonly job_id: string;
  /** Any JSON value. Unredacted. */
  readonly input: unknown;
  readonly labels: Readonly<Record<string, string>>;
  readonly risk_tags: ReadonlyArray<string>;
  readonly adapter_id?: string | undefined;
  /** Environment for the worker. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly parent_job_id?: string | undefined;
  /** Workflow of the submitter's own orchestrator. */
  readonly workflow_id?: string | undefined;
  readonly step_index?: number | undefined;
  readonly memory_id?: string | undefined;
  readonly context_hints?: ContextHints | undefined;
  readonly budget?: Budget | undefined;
  readonly compensation?: Compensation | undefined;
  /** The submitted principal, if it differs from `actor_id`. */
  readonly principal_id?: string | undefined;
}

export interface Rollout {
  readonly id: string;
  /** The retry class or setting. */
  readonly class: string;
  /** The setting that a promotion overrides. */
  readonly setting: string;
  /** The treatment value. */
  readonly policy: string;
  /** The value in force at the start. */
  readonly control: string;
  /** The ramp. */
  readonly shares: ReadonlyArray<number>;
  /** Tenants that take part; empty for all. */
  readonly orgs: ReadonlyArray<string>;
  readonly gates: ReadonlyArray<string>;
  readonly horizon_ms: number;
  readonly switch_ms: number | null;
  readonly ends_at: string;
  /** `running`, `paused`, `proved`, `promoted`, `rolled_back` or `ended`. */
  readonly state: string;
  /** The treatment share of the current stage. */
  readonly share: number;
  /** Index into `shares`. */
  readonly stage: number;
  readonly alpha: number;
  /** The id of a key. */
  readonly started_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly started_by_name: string | null;
  readonly started_at: string;
  readonly updated_at: string;
  /** Who paused, promoted or ended it: the id of a key, or `cordum`. */
  readonly updated_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly updated_by_name: string | null;
  /** The reason of the latest transition. */
  readonly reason: string;
}

export interface RolloutActionRequest {
  /** Recorded in the audit log. */
  readonly reason?: string | undefined;
}

export interface RolloutArm {
  /** Measured runs, jobs or tenants whose horizon has ended. */
  readonly units: number;
  readonly busy_retries: number;
  readonly busy_retries_per_unit: number | null;
  readonly busy_retries_per_minute: number | null;
  /** Share of the refused events that the first retry served. */
  readonly first_retry_success: number | null;
  readonly results: number;
  /** Dead letters because a retry budget was exhausted. */
  readonly dead_letters: number;
  readonly run_lock_wait_ms: {
    readonly p50: number;
    readonly p95: number;
    readonly p99: number;
    /** Confidence sequences: they hold at every inspection. Null with too few units. */
    readonly intervals: {
      readonly p50: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p95: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p99: {
        readonly low: number;
        readonly high: number;
      } | null;
    };
  } | null;
  readonly job_result_latency_ms: {
    readonly p50: number;
    readonly p95: number;
    readonly p99: number;
    /** Confidence sequences: they hold at every inspection. Null with too few units. */
    readonly intervals: {
      readonly p50: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p95: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p99: {
        readonly low: number;
        readonly high: number;
      } | null;
    };
  } | null;
  readonly admission_wait_ms: {
    readonly p50: number;
    readonly p95: number;
    readonly p99: number;
    /** Confidence sequences: they hold at every inspection. Null with too few units. */
    readonly intervals: {
      readonly p50: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p95: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p99: {
        readonly low: number;
        readonly high: number;
      } | null;
    };
  } | null;
}

export interface RolloutArmPoint {
  readonly units: number;
  readonly busy_retries_per_minute: number | null;
  readonly first_retry_success: number | null;
  readonly run_lock_wait_ms: {
    readonly p50: number;
    readonly p95: number;
    readonly p99: number;
    /** Confidence sequences: they hold at every inspection. Null with too few units. */
    readonly intervals: {
      readonly p50: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p95: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p99: {
        readonly low: number;
        readonly high: number;
      } | null;
    };
  } | null;
  readonly job_result_latency_ms: {
    readonly p50: number;
    readonly p95: number;
    readonly p99: number;
    /** Confidence sequences: they hold at every inspection. Null with too few units. */
    readonly intervals: {
      readonly p50: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p95: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p99: {
        readonly low: number;
        readonly high: number;
      } | null;
    };
  } | null;
  readonly admission_wait_ms: {
    readonly p50: number;
    readonly p95: number;
    readonly p99: number;
    /** Confidence sequences: they hold at every inspection. Null with too few units. */
    readonly intervals: {
      readonly p50: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p95: {
        readonly low: number;
        readonly high: number;
      } | null;
      readonly p99: {
        readonly low: number;
        readonly high: number;
      } | null;
    };
  } | null;
}

export interface RolloutDetail {
  readonly id: string;
  /** The retry class or setting. */
  readonly class: string;
  /** The setting that a promotion overrides. */
  readonly setting: string;
  /** The treatment value. */
  readonly policy: string;
  /** The value in force at the start. */
  readonly control: string;
  /** The ramp. */
  readonly shares: ReadonlyArray<number>;
  /** Tenants that take part; empty for all. */
  readonly orgs: ReadonlyArray<string>;
  readonly gates: ReadonlyArray<string>;
  readonly horizon_ms: number;
  readonly switch_ms: number | null;
  readonly ends_at: string;
  /** `running`, `paused`, `proved`, `promoted`, `rolled_back` or `ended`. */
  readonly state: string;
  /** The treatment share of the current stage. */
  readonly share: number;
  /** Index into `shares`. */
  readonly stage: number;
  readonly alpha: number;
  /** The id of a key. */
  readonly started_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly started_by_name: string | null;
  readonly started_at: string;
  readonly updated_at: string;
  /** Who paused, promoted or ended it: the id of a key, or `cordum`. */
  readonly updated_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly updated_by_name: string | null;
  /** The reason of the latest transition. */
  readonly reason: string;
  /** The mean of the e-values of the gates. */
  readonly e_value: number;
  readonly e_value_limit: number;
  readonly judged_gates: ReadonlyArray<RolloutGate>;
  readonly arms: {
    readonly control: RolloutArm;
    readonly treatment: RolloutArm;
  };
  /** The figures over time. */
  readonly series: ReadonlyArray<RolloutPoint>;
  readonly prediction: RolloutPrediction | null;
  readonly expected_decision: {
    readonly kind: string;
    readonly in_ms: number;
  } | null;
}

/** `event: rollout` */
export interface RolloutEvent {
  readonly rollout_id: string;
  readonly class: string;
  readonly state: string;
  /** Time of the change. */
  readonly at: string;
  /** Grows with each write. An event of `GET /api/v1/stream` with a higher one is newer. */
  readonly record_version: number;
}

export interface RolloutFigures {
  readonly policy: string;
  readonly busy_retries: number;
  readonly first_retry_success: number | null;
  readonly run_lock_wait_ms: {
    readonly p50: number;
    readonly p95: number;
    readonly p99: number;
  };
  readonly job_result_latency_ms: {
    readonly p50: number;
    readonly p95: number;
    readonly p99: number;
  };
}

export interface RolloutGate {
  /** A condition on treatment relative to control: `lock_busy_retries<=1.1x`, `run_lock_wait_p95<=1.1x`, `job_result_latency_p95<=1.1x`, `admission_wait_p95<=1.1x`, `first_retry_success>=1.1x`, `dead_letters<=1.1x`, `results>=1.1x`. */
  readonly gate: string;
  /** Evidence for a breach. The mean over all gates rolls back at `e_value_limit`. */
  readonly e_value: number;
  /** Evidence that the gate holds; proved at `e_value_limit`. */
  readonly proof_e_value: number;
  readonly proved: boolean;
  readonly blocks: number;
  readonly difference: {
    readonly mean: number;
    readonly low: number;
    readonly high: number;
  } | null;
}

export interface RolloutPage {
  readonly items: ReadonlyArray<Rollout>;
  readonly next_cursor: string | null;
}

export interface RolloutPoint {
  readonly at: string;
  readonly units: number;
  /** By gate, in the order of `judged_gates`. */
  readonly e_values: ReadonlyArray<number>;
  /** Totals since the start; null in points that an earlier version recorded. */
  readonly arms: {
    readonly control: RolloutArmPoint;
    readonly treatment: RolloutArmPoint;
  } | null;
}

export interface RolloutPrediction {
  readonly from: string;
  readonly to: string;
  readonly acquisitions: number;
  readonly control: RolloutFigures;
  readonly treatment: RolloutFigures;
}

export interface RolloutPreview {
  /** The retry class or setting. */
  readonly class: string;
  /** The setting that a promotion overrides. */
  readonly setting: string;
  /** The treatment value. */
  readonly policy: string;
  /** The value in force at the start. */
  readonly control: string;
  /** The ramp. */
  readonly shares: ReadonlyArray<number>;
  /** Tenants that take part; empty for all. */
  readonly orgs: ReadonlyArray<string>;
  readonly gates: ReadonlyArray<string>;
  readonly horizon_ms: number;
  readonly switch_ms: number | null;
  readonly ends_at: string;
  /** The active rollout of the class; a start is refused until it has ended. */
  readonly active: string | null;
  readonly prediction: RolloutPrediction | null;
  readonly detectable: {
    /** Estimated from the newest runs. */
    readonly units_per_hour: number;
    /** Expected until the rollout ends. */
    readonly units: number;
    /** The smallest ratio of treatment to control that is detected in this time, by gate. */
    readonly effects: ReadonlyArray<{
      readonly gate: string;
      readonly ratio: number | null;
    }>;
  } | null;
}

export interface RolloutStarted {
  readonly id: string;
  /** The retry class or setting. */
  readonly class: string;
  /** The setting that a promotion overrides. */
  readonly setting: string;
  /** The treatment value. */
  readonly policy: string;
  /** The value in force at the start. */
  readonly control: string;
  /** The ramp. */
  readonly shares: ReadonlyArray<number>;
  /** Tenants that take part; empty for all. */
  readonly orgs: ReadonlyArray<string>;
  readonly gates: ReadonlyArray<string>;
  readonly horizon_ms: number;
  readonly switch_ms: number | null;
  readonly ends_at: string;
  /** `running`, `paused`, `proved`, `promoted`, `rolled_back` or `ended`. */
  readonly state: string;
  /** The treatment share of the current stage. */
  readonly share: number;
  /** Index into `shares`. */
  readonly stage: number;
  readonly alpha: number;
  /** The id of a key. */
  readonly started_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly started_by_name: string | null;
  readonly started_at: string;
  readonly updated_at: string;
  /** Who paused, promoted or ended it: the id of a key, or `cordum`. */
  readonly updated_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly updated_by_name: string | null;
  /** The reason of the latest transition. */
  readonly reason: string;
  /** The mean of the e-values of the gates. */
  readonly e_value: number;
  readonly e_value_limit: number;
  readonly judged_gates: ReadonlyArray<RolloutGate>;
  readonly arms: {
    readonly control: RolloutArm;
    readonly treatment: RolloutArm;
  };
  /** The figures over time. */
  readonly series: ReadonlyArray<RolloutPoint>;
  readonly prediction: RolloutPrediction | null;
  readonly expected_decision: {
    readonly kind: string;
    readonly in_ms: number;
  } | null;
  readonly detectable: {
    /** Estimated from the newest runs. */
    readonly units_per_hour: number;
    /** Expected until the rollout ends. */
    readonly units: number;
    /** The smallest ratio of treatment to control that is detected in this time, by gate. */
    readonly effects: ReadonlyArray<{
      readonly gate: string;
      readonly ratio: number | null;
    }>;
  } | null;
}

export interface Run {
  /** Grows with each write. An event of `GET /api/v1/stream` with a higher one is newer. */
  readonly record_version: number;
  readonly run_id: string;
  readonly workflow_id: string;
  readonly version: number;
  readonly state: RunState;
  readonly tenant_id: string;
  /** Start time. */
  readonly created_at: string;
  /** Time of the last change. */
  readonly updated_at: string;
  /** When the run ends as TIMEOUT. */
  readonly deadline: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly error: ErrorInfo | null;
  readonly trace_id: string;
  readonly submitted_by: string | null;
  /** The name that the key had then; null for keys without a name. */
  readonly submitted_by_name: string | null;
  readonly actor_id: string | null;
  readonly priority: string | null;
  readonly ends_as: string | null;
  readonly ends_with: ErrorInfo | null;
  readonly compensation: RunCompensation | null;
  readonly parent: {
    readonly run_id: string;
    readonly job_id: string;
    readonly depth: number;
  } | null;
  readonly schedule: {
    readonly id: string;
    readonly slot: string | null;
  } | null;
  readonly rerun_of: {
    readonly run_id: string;
    readonly from_step: string;
    /** Earlier steps whose approval is asked for again. */
    readonly asks: ReadonlyArray<string>;
  } | null;
  /** Started steps by state. */
  readonly step_counts: Readonly<Record<string, number>>;
}

export interface RunCancelRequest {
  readonly reason?: string | undefined;
  /** `false`: completed steps are not undone; also stops the compensation of a run that is ending. Requires `operate` access. */
  readonly compensate?: boolean | undefined;
}

export interface RunChild {
  readonly index: number | null;
  readonly iteration: number | null;
  /** See `GET /api/v1/jobs/{id}`. */
  readonly job_id: string;
  readonly state: string;
  /** Number of dispatches so far. */
  readonly attempt: number;
  readonly waits_for: string | null;
  readonly worker_id: string | null;
  /** Creation time. */
  readonly created_at: string;
  /** Time of the last change. */
  readonly updated_at: string;
  readonly error: ErrorInfo | null;
  /** Any JSON value. Redacted; null if it is too large for this response. */
  readonly result: unknown;
  /** Stored payloads that are missing or damaged; they are shown as null. */
  readonly payload_problems?: ReadonlyArray<string> | undefined;
  readonly sub_run_id: string | null;
}

export interface RunChildPage {
  readonly items: ReadonlyArray<RunChild>;
  readonly next_cursor: string | null;
}

/** Steps by the state of their compensation; null if none is undone. */
export interface RunCompensation {
  /** Completed steps that have a `compensate`. */
  readonly total: number;
  readonly undone: ReadonlyArray<string>;
  readonly running: ReadonlyArray<string>;
  readonly failed: ReadonlyArray<string>;
  /** Steps whose compensation has not started. */
  readonly left: ReadonlyArray<string>;
  /** An operator stopped it. */
  readonly stopped: boolean;
}

export interface RunControlRequest {
  readonly reason?: string | undefined;
}

export interface RunDeleted {
  readonly run_id: string;
  readonly deleted: boolean;
}

export interface RunDetail {
  /** Grows with each write. An event of `GET /api/v1/stream` with a higher one is newer. */
  readonly record_version: number;
  readonly run_id: string;
  readonly workflow_id: string;
  readonly version: number;
  readonly state: RunState;
  readonly tenant_id: string;
  /** Start time. */
  readonly created_at: string;
  /** Time of the last change. */
  readonly updated_at: string;
  /** When the run ends as TIMEOUT. */
  readonly deadline: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly error: ErrorInfo | null;
  readonly trace_id: string;
  readonly submitted_by: string | null;
  /** The name that the key had then; null for keys without a name. */
  readonly submitted_by_name: string | null;
  readonly actor_id: string | null;
  readonly priority: string | null;
  readonly ends_as: string | null;
  readonly ends_with: ErrorInfo | null;
  readonly compensation: RunCompensation | null;
  readonly parent: {
    readonly run_id: string;
    readonly job_id: string;
    readonly depth: number;
  } | null;
  readonly schedule: {
    readonly id: string;
    readonly slot: string | null;
  } | null;
  readonly rerun_of: {
    readonly run_id: string;
    readonly from_step: string;
    /** Earlier steps whose approval is asked for again. */
    readonly asks: ReadonlyArray<string>;
  } | null;
  /** Any JSON value. Redacted. */
  readonly input: unknown;
  /** Any JSON value. Null until the run succeeds. */
  readonly output: unknown;
  /** Stored payloads that are missing or damaged; they are shown as null. */
  readonly payload_problems?: ReadonlyArray<string> | undefined;
  /** In definition order. */
  readonly steps: Readonly<Record<string, RunStep>>;
  readonly lock: {
    readonly holder: string;
    readonly fence: number;
    readonly waited_ms: number;
    readonly attempts: number;
  } | null;
}

/** `event: run` */
export interface RunEvent {
  readonly run_id: string;
  readonly tenant_id: string;
  readonly workflow_id: string;
  readonly state: RunState;
  /** Time of the change. */
  readonly at: string;
  /** Grows with each write. An event of `GET /api/v1/stream` with a higher one is newer. */
  readonly record_version: number;
}

export interface RunEventAccepted {
  readonly run_id: string;
  /** `kept`: no step waits for it yet. `duplicate`: an event with this id was accepted before. */
  readonly outcome: "delivered" | "kept" | "duplicate";
  readonly step_id: string | null;
}

export interface RunEventRequest {
  readonly name: string;
  /** Any JSON value. Output of the `wait` step that takes the event. Defaults to null. */
  readonly data?: unknown | undefined;
  /** A `wait` step with `correlate` takes only events with an equal key; compared as text. */
  readonly correlation_key?: string | number | undefined;
  /** Makes the request repeatable: among the latest 1000 ids of a run, an event is applied once. */
  readonly event_id?: string | undefined;
}

export interface RunExplanation {
  readonly run_id: string;
  readonly state: RunState;
  readonly waits: ReadonlyArray<{
    readonly step_id: string | null;
    readonly state: string;
    readonly reason: string;
    readonly until: string | null;
    readonly unblocks: string;
    readonly job_id: string | null;
  }>;
}

export interface RunPage {
  readonly items: ReadonlyArray<Run>;
  readonly next_cursor: string | null;
  readonly total?: ListTotal | undefined;
}

export interface RunStarted {
  readonly run_id: string;
  readonly workflow_id: string;
  /** Only if the request named a version. */
  readonly version?: number | undefined;
  readonly state: RunState;
  /** True if the run already existed with this key. */
  readonly replayed: boolean;
}

export type RunState = "RUNNING" | "PAUSED" | "ENDING" | "SUCCEEDED" | "FAILED" | "CANCELLED" | "TIMEOUT";

export interface RunStateChange {
  readonly run_id: string;
  readonly state: RunState;
}

export interface RunStep {
  readonly state: string;
  readonly type: string | null;
  readonly depends_on: ReadonlyArray<string> | null;
  readonly job_id: string | null;
  readonly attempt: number | null;
  readonly worker_id: string | null;
  readonly sub_run_id: string | null;
  readonly approval: JobApproval | null;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  /** Any JSON value. Redacted; the job has the unredacted result. */
  readonly output: unknown;
  readonly output_at: string | null;
  readonly error: ErrorInfo | null;
  readonly why: string | null;
  readonly arm: string | null;
  /** The branches chosen for the items of a `for_each`. */
  readonly arms?: ReadonlyArray<string> | undefined;
  readonly children?: StepChildren | undefined;
  /** The `loop` step whose body the step belongs to. */
  readonly loop?: string | undefined;
  /** The current iteration of a `loop` step, from 1. */
  readonly iteration?: number | undefined;
  /** The limit of a `loop` step. */
  readonly max_iterations?: number | undefined;
  /** The event of a `wait` step. */
  readonly awaits?: {
    readonly event: string;
    readonly correlation_key: string | null;
  } | undefined;
  readonly compensation?: StepCompensation | undefined;
}

export interface Schedule {
  readonly id: string;
  readonly workflow_id: string;
  readonly tenant_id: string;
  /** Five fields (minute, hour, day of month, month, day of week) or a nickname such as `@daily`. */
  readonly cron?: string | undefined;
  /** A duration such as `15m`: slots are its multiples since 1970 UTC. */
  readonly every?: string | undefined;
  /** Time zone of `cron`, such as `Europe/Berlin`. Defaults to `UTC`. */
  readonly time_zone?: string | undefined;
  /** What a slot does while a run of the schedule is open: is skipped, waits for its end (one slot), starts anyway, or cancels it. */
  readonly overlap: "skip" | "queue" | "allow" | "cancel";
  readonly jitter_ms: number;
  readonly catch_up_ms: number;
  readonly paused: boolean;
  /** `waiting`: a slot is due and could not start yet. `finished`: the expression matches no later time. */
  readonly state: "active" | "waiting" | "paused" | "finished";
  readonly next_slot: ScheduleSlot | null;
  readonly last_start: ScheduleStart | null;
  readonly counts: ScheduleCounts;
  /** When it was applied first. */
  readonly created_at: string;
  /** When it was applied, paused or resumed last. */
  readonly updated_at: string;
  readonly submitted_by: string | null;
  /** The name that the key had then; null for keys without a name. */
  readonly submitted_by_name: string | null;
}

export interface ScheduleActionRequest {
  /** Recorded in the audit log. */
  readonly reason?: string | undefined;
}

export interface ScheduleApplied {
  readonly id: string;
  readonly workflow_id: string;
  readonly tenant_id: string;
  /** Five fields (minute, hour, day of month, month, day of week) or a nickname such as `@daily`. */
  readonly cron?: string | undefined;
  /** A duration such as `15m`: slots are its multiples since 1970 UTC. */
  readonly every?: string | undefined;
  /** Time zone of `cron`, such as `Europe/Berlin`. Defaults to `UTC`. */
  readonly time_zone?: string | undefined;
  /** What a slot does while a run of the schedule is open: is skipped, waits for its end (one slot), starts anyway, or cancels it. */
  readonly overlap: "skip" | "queue" | "allow" | "cancel";
  readonly jitter_ms: number;
  readonly catch_up_ms: number;
  readonly paused: boolean;
  /** `waiting`: a slot is due and could not start yet. `finished`: the expression matches no later time. */
  readonly state: "active" | "waiting" | "paused" | "finished";
  readonly next_slot: ScheduleSlot | null;
  readonly last_start: ScheduleStart | null;
  readonly counts: ScheduleCounts;
  /** When it was applied first. */
  readonly created_at: string;
  /** When it was applied, paused or resumed last. */
  readonly updated_at: string;
  readonly submitted_by: string | null;
  /** The name that the key had then; null for keys without a name. */
  readonly submitted_by_name: string | null;
  /** Any JSON value. Redacted. */
  readonly input: unknown;
  /** The next five; empty while it is paused. */
  readonly next_slots: ReadonlyArray<ScheduleSlot>;
  /** The newest ten. */
  readonly last_starts: ReadonlyArray<ScheduleStart>;
  readonly last_not_started: ScheduleLeftOut | null;
  readonly waiting: ScheduleWait | null;
  /** The newest runs that are not known to have ended. */
  readonly open_runs: ReadonlyArray<string>;
  readonly backfill: ScheduleBackfill | null;
  readonly result: "created" | "updated" | "unchanged";
}

export interface ScheduleBackfill {
  /** Slots of the range. */
  readonly slots: number;
  readonly started: number;
  /** Slots that have a run already. */
  readonly existing: number;
  readonly failed: number;
  readonly next_slot: string | null;
  /** The end of the range. */
  readonly until: string;
  readonly pace_ms: number;
  readonly started_by: string;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly started_by_name: string | null;
  readonly waits_for: string | null;
}

export interface ScheduleCounts {
  /** Runs, also of backfills and triggers. */
  readonly started: number;
  /** Slots that were due while a run was open. */
  readonly skipped: number;
  /** Slots that could not be started within the catch-up window. */
  readonly missed: number;
  /** Slots whose run could not be created. */
  readonly failed: number;
}

export interface ScheduleDeleted {
  readonly id: string;
  readonly deleted: boolean;
}

export interface ScheduleDetail {
  readonly id: string;
  readonly workflow_id: string;
  readonly tenant_id: string;
  /** Five fields (minute, hour, day of month, month, day of week) or a nickname such as `@daily`. */
  readonly cron?: string | undefined;
  /** A duration such as `15m`: slots are its multiples since 1970 UTC. */
  readonly every?: string | undefined;
  /** Time zone of `cron`, such as `Europe/Berlin`. Defaults to `UTC`. */
  readonly time_zone?: string | undefined;
  /** What a slot does while a run of the schedule is open: is skipped, waits for its end (one slot), starts anyway, or cancels it. */
  readonly overlap: "skip" | "queue" | "allow" | "cancel";
  readonly jitter_ms: number;
  readonly catch_up_ms: number;
  readonly paused: boolean;
  /** `waiting`: a slot is due and could not start yet. `finished`: the expression matches no later time. */
  readonly state: "active" | "waiting" | "paused" | "finished";
  readonly next_slot: ScheduleSlot | null;
  readonly last_start: ScheduleStart | null;
  readonly counts: ScheduleCounts;
  /** When it was applied first. */
  readonly created_at: string;
  /** When it was applied, paused or resumed last. */
  readonly updated_at: string;
  readonly submitted_by: string | null;
  /** The name that the key had then; null for keys without a name. */
  readonly submitted_by_name: string | null;
  /** Any JSON value. Redacted. */
  readonly input: unknown;
  /** The next five; empty while it is paused. */
  readonly next_slots: ReadonlyArray<ScheduleSlot>;
  /** The newest ten. */
  readonly last_starts: ReadonlyArray<ScheduleStart>;
  readonly last_not_started: ScheduleLeftOut | null;
  readonly waiting: ScheduleWait | null;
  /** The newest runs that are not known to have ended. */
  readonly open_runs: ReadonlyArray<string>;
  readonly backfill: ScheduleBackfill | null;
}

export interface ScheduleExplanation {
  readonly schedule_id: string;
  readonly state: string;
  readonly reasons: ReadonlyArray<{
    readonly reason: string;
    readonly until: string | null;
    readonly unblocks: string | null;
  }>;
}

export interface ScheduleLeftOut {
  /** The latest of these slots. */
  readonly slot: string;
  readonly result: "skipped" | "missed" | "failed";
  /** When this was decided. */
  readonly at: string;
  readonly reason: string;
}

export interface SchedulePage {
  readonly items: ReadonlyArray<Schedule>;
  readonly next_cursor: string | null;
}

export interface ScheduleRequest {
  readonly id: string;
  readonly workflow_id: string;
  /** Five fields (minute, hour, day of month, month, day of week) or a nickname such as `@daily`. */
  readonly cron?: string | undefined;
  /** A duration such as `15m`: slots are its multiples since 1970 UTC. */
  readonly every?: string | undefined;
  /** Time zone of `cron`, such as `Europe/Berlin`. Defaults to `UTC`. */
  readonly time_zone?: string | undefined;
  /** Any JSON value. Input of each run. Defaults to `{}`. */
  readonly input?: unknown | undefined;
  /** What a slot does while a run of the schedule is open: is skipped, waits for its end (one slot), starts anyway, or cancels it. */
  readonly overlap?: "skip" | "queue" | "allow" | "cancel" | undefined;
  /** Each slot starts at a random time within this time after it. Defaults to 0. */
  readonly jitter_ms?: number | undefined;
  /** A slot that could not be started for this long is missed. Defaults to 3600000. */
  readonly catch_up_ms?: number | undefined;
  /** By default unchanged; a new schedule is not paused. */
  readonly paused?: boolean | undefined;
}

export interface ScheduleSlot {
  /** The time that the expression matches. */
  readonly slot: string;
  /** The slot with its jitter. */
  readonly starts_at: string;
}

export interface ScheduleStart {
  readonly run_id: string;
  readonly slot: string | null;
  /** When the run was created. */
  readonly started_at: string;
  readonly cause: "slot" | "backfill" | "trigger";
}

export interface ScheduleWait {
  readonly slot: string | null;
  readonly reason: string;
  readonly retry_at: string | null;
  readonly attempts: number;
}

export interface Session {
  readonly authenticated: boolean;
  /** False while no API key exists: the start-up token signs in. */
  readonly needs_key: boolean;
  readonly key_id: string | null;
  readonly key_name: string | null;
  readonly role: string | null;
  readonly tenant: string | null;
  readonly person: string | null;
  /** The accesses of the role: `read`, `submit`, `operate`, `work`, `admin`, `system` (`x-access`). */
  readonly permissions: ReadonlyArray<string>;
  readonly ends_at: string | null;
}

export interface Setting {
  readonly name: string;
  readonly value: string | number | null;
  readonly origin: {
    readonly kind: "default" | "baseline" | "file" | "environment" | "flag" | "rollout";
    /** Such as `cordum.yaml:3`, `CORDUM_HTTP_PORT` or `--port`. */
    readonly place: string;
  };
  readonly default: string | number | null;
  readonly baseline: string | number | null;
  readonly range: string;
  readonly unit: string | null;
  /** The environment variable. */
  readonly environment: string;
  /** Changes of the config file are applied while running; others need a restart. */
  readonly live: boolean;
  readonly help: string;
}

export interface SignInRequest {
  readonly api_key: string;
}

export interface Simulation {
  /** As `cordum sim` shows it: the same history has the same hash. */
  readonly hash: string;
  readonly command: string;
  readonly events: number;
  readonly virtual_ms: number;
  readonly crashes: number;
  readonly jobs: Readonly<Record<string, number>>;
  readonly runs: Readonly<Record<string, number>>;
  readonly violations: ReadonlyArray<{
    readonly checker: string;
    readonly invariant: string;
    /** The record, message or lock concerned. */
    readonly id: string;
    readonly hint: string;
    readonly at_ms: number;
  }>;
  readonly trace_total: number;
  /** The first 10,000 entries. */
  readonly trace: ReadonlyArray<{
    readonly at_ms: number;
    /** A process, or `job`, `run`, `kernel`, `server`. */
    readonly source: string;
    readonly action: string;
    readonly subject: string;
  }>;
  /** Sent before the last entry of the trace. */
  readonly messages: ReadonlyArray<{
    /** A process; `bus` for a redelivery. */
    readonly from: string;
    readonly to: string;
    readonly subject: string;
    readonly id: string;
    readonly sent_ms: number;
    readonly ended_ms: number | null;
    readonly entry: number | null;
    readonly lost: string | null;
  }>;
  /** Locks held, begun before the last entry of the trace. */
  readonly holds: ReadonlyArray<{
    readonly key: string;
    readonly holder: string;
    readonly fence: number;
    readonly from_ms: number;
    readonly to_ms: number | null;
    readonly expired: boolean;
  }>;
}

export interface StartRequest {
  /** Any JSON value. Input of the run. Defaults to `{}`. */
  readonly input?: unknown | undefined;
  /** Defaults to the latest version. */
  readonly version?: number | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Priority of jobs whose step defines none. */
  readonly priority?: "interactive" | "batch" | "critical" | undefined;
  /** The actor on whose behalf the run is done. */
  readonly actor_id?: string | undefined;
  /** Idempotency key; also accepted as the header `Idempotency-Key`. */
  readonly idempotency_key?: string | undefined;
}

export interface StartRolloutRequest {
  /** A retry class, or `admission.polled.policy`, `run_lock.engine_wait_ms`, `run_lock.coalesce`. */
  readonly class: string;
  /** The treatment value, such as `bounded:500ms:0.3`. */
  readonly policy: string;
  /** The treatment share, above 0 and below 1; a list is a ramp, whose next share applies when the gates are proved. */
  readonly share: number | ReadonlyArray<number>;
  /** Tenants that take part. Defaults to all. */
  readonly orgs?: ReadonlyArray<string> | undefined;
  /** The rollout ends after this time. Defaults to 7 days. */
  readonly for_ms?: number | undefined;
  /** A unit is scored by what happens within this time of its start. Defaults to 10 minutes. */
  readonly horizon_ms?: number | undefined;
  /** Conditions such as `run_lock_wait_p95<=1.2x`. */
  readonly gates?: ReadonlyArray<string> | undefined;
  /** Arms alternate in time blocks of this length. */
  readonly switch_ms?: number | undefined;
  /** Recorded in the audit log. */
  readonly reason?: string | undefined;
}

export interface Status {
  readonly name: string;
  readonly version: string;
  readonly profile: string;
  readonly mode: "embedded" | "cluster";
  readonly durability: {
    readonly profile: string;
    readonly meaning: string;
  };
  /** About the backing servers; empty for a key of one tenant. */
  readonly warnings: ReadonlyArray<string>;
  readonly servers?: {
    readonly nats: {
      readonly version: string;
    };
    readonly redis: {
      readonly product: string;
      readonly version: string;
      readonly durability: string;
      readonly maxmemory_policy: string | null;
      readonly went_back_at: string | null;
    };
  } | undefined;
  readonly signatures?: {
    readonly mode: "off" | "warn" | "enforce";
    readonly has_key: boolean;
  } | undefined;
  readonly safety_address?: string | undefined;
  readonly safety_line?: "plain" | "tls" | undefined;
  readonly uptime_ms: number;
  /** True once an API key exists. */
  readonly needs_key: boolean;
  readonly policy: {
    readonly source: string;
    readonly version: string | null;
    readonly snapshot: string;
    readonly rules: number;
    readonly default_decision: string;
    readonly release_id: string | null;
  };
  /** The tenant of the numbers; `*` for all tenants. */
  readonly tenant: string;
  readonly ready: boolean;
  readonly not_ready_because?: string | undefined;
  /** By how many milliseconds each background loop is behind: its overdue pass, plus the age of work left. */
  readonly duties: Readonly<Record<string, number>>;
  /** Jobs awaiting dispatch, by topic. */
  readonly backlog: Readonly<Record<string, number>>;
  readonly backlog_total: number;
  readonly in_flight: Readonly<Record<string, number>> | null;
  /** Dispatched jobs. */
  readonly in_flight_total: number;
  readonly waiting: Readonly<Record<string, number>> | null;
  readonly parked_retries: Readonly<Record<string, number>> | null;
  /** Jobs awaiting approval. */
  readonly approvals: number;
  /** For a key of tenant `*`. */
  readonly approvals_by_tenant?: Readonly<Record<string, number>> | undefined;
  readonly dead_letters: number;
  /** For a key of tenant `*`. */
  readonly dead_letters_by_tenant?: Readonly<Record<string, number>> | undefined;
  /** `limit` for one tenant, `by_tenant` for all. */
  readonly runs: {
    /** Open runs. */
    readonly open: number;
    /** `limits.max_concurrent_runs` of the tenant. */
    readonly limit?: number | undefined;
    /** Open runs. */
    readonly by_tenant?: Readonly<Record<string, number>> | undefined;
  };
  /** Workers that serve the tenant. */
  readonly workers: {
    readonly total: number;
    readonly leaving: number;
    /** For a key of tenant `*`. */
    readonly items?: ReadonlyArray<{
      readonly id: string;
      readonly topics: ReadonlyArray<string>;
      readonly pool: string | null;
      readonly transport: string;
      readonly active_jobs: number;
      readonly max_parallel_jobs: number | null;
      readonly seen_ago_ms: number;
      readonly leaving: boolean;
    }> | undefined;
  };
  /** Use of the policy's budgets by tenant, day and label, the most used first, at most 100. */
  readonly budgets: ReadonlyArray<BudgetUse>;
  /** Engaged kill switches: jobs of their scope are not dispatched. */
  readonly kill: ReadonlyArray<KillSwitch>;
  readonly safety: {
    readonly kernel: string;
    /** State of the circuit breaker. */
    readonly breaker: string;
    readonly breaker_reason?: string | undefined;
    /** Why a remote kernel does not answer now; for operators. */
    readonly unreachable?: string | undefined;
    /** Fail-open leases in force. */
    readonly fail_open: ReadonlyArray<{
      readonly id: string;
      readonly scope: string;
      readonly reason: string;
      /** End. */
      readonly ends_at: string;
    }>;
  };
  /** Jobs that have not ended. */
  readonly open_jobs?: {
    readonly total: number;
    /** The 20 tenants with the most. */
    readonly by_tenant: Readonly<Record<string, number>>;
  } | undefined;
  /** The disk of the data directory; absent in a cluster. */
  readonly disk?: {
    readonly path: string;
    readonly free_bytes: number;
    readonly size_bytes: number;
    /** Less is free than `diagnosis.disk_free_min`. */
    readonly low: boolean;
  } | undefined;
  readonly lock_busy_retry_count: number | null;
  readonly lock_busy_retry_delay_ms: {
    readonly p50: number | null;
    readonly p95: number | null;
  } | null;
  readonly run_lock_wait_ms_p95: number | null;
  readonly run_lock_wait_ms_p99: number | null;
  readonly job_result_latency_ms_p95: number | null;
  /** Total jobs of all tenants that bypassed the safety check; like the figures, only for keys of tenant `*`. */
  readonly input_fail_open_total: number | null;
}

export interface StepChildren {
  readonly count: number;
  readonly spawned: number;
  readonly open: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
}

/** The job that undoes the step; absent until it starts. */
export interface StepCompensation {
  readonly state: "RUNNING" | "SUCCEEDED" | "FAILED";
  readonly job_id: string | null;
  /** When it started. */
  readonly started_at: string;
  readonly ended_at: string | null;
  readonly error: ErrorInfo | null;
  readonly children?: {
    /** Items that were not looked at yet. */
    readonly left: number;
    readonly open: number;
    readonly succeeded: number;
    readonly failed: number;
  } | undefined;
}

/** The JSON in the `data` line of one event. */
export type StreamEvent = JobEvent | RunEvent | RolloutEvent | ReadyEvent | ResetEvent;

export interface SubmitRequest {
  /** The kind of work, such as `demo.echo`. */
  readonly topic: string;
  /** Any JSON value. Input of the worker. */
  readonly input?: unknown | undefined;
  /** Prompt for an agent, in place of `input`. */
  readonly prompt?: string | undefined;
  /** Any JSON value. Additional context for `prompt`. */
  readonly context?: unknown | undefined;
  /** Adapter of the agent; also part of the input of a `prompt`. */
  readonly adapter_id?: string | undefined;
  readonly priority?: "interactive" | "batch" | "critical" | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Risk tags, matched by the policy. */
  readonly risk_tags?: ReadonlyArray<string> | undefined;
  /** Capabilities that the worker must have. */
  readonly requires?: ReadonlyArray<string> | undefined;
  /** Capability of the job, matched by the policy. */
  readonly capability?: string | undefined;
  /** The actor on whose behalf the job runs. */
  readonly actor_id?: string | undefined;
  /** Alias of `actor_id`; if both are sent, also passed to the worker. */
  readonly principal_id?: string | undefined;
  readonly actor_type?: "human" | "service" | undefined;
  /** The pack of the job. */
  readonly pack_id?: string | undefined;
  /** The MCP call of the job; the policy sees it as the labels `mcp.server`, `mcp.tool` and so on. */
  readonly mcp?: {
    /** MCP server. */
    readonly server?: string | undefined;
    /** MCP tool. */
    readonly tool?: string | undefined;
    /** MCP resource. */
    readonly resource?: string | undefined;
    /** MCP action. */
    readonly action?: string | undefined;
  } | undefined;
  /** Idempotency key; also accepted as the header `Idempotency-Key`. */
  readonly idempotency_key?: string | undefined;
  /** Job id chosen by the client. */
  readonly job_id?: string | undefined;
  /** The tenant, in place of the header `X-Tenant-ID`. */
  readonly tenant_id?: string | undefined;
  /** Alias of `tenant_id`. */
  readonly org_id?: string | undefined;
  /** Passed to the worker. */
  readonly memory_id?: string | undefined;
  /** Environment for the worker. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Passed to the worker. */
  readonly parent_job_id?: string | undefined;
  /** Workflow of the submitter's own orchestrator; passed to the worker. */
  readonly workflow_id?: string | undefined;
  /** Passed to the worker. */
  readonly step_index?: number | undefined;
  readonly context_hints?: ContextHints | undefined;
  readonly budget?: Budget | undefined;
  readonly compensation?: Compensation | undefined;
  /** Time for all attempts, from the submission; 0 for the default. */
  readonly deadline_ms?: number | undefined;
  /** Token limit for the worker; 0 for none. */
  readonly max_input_tokens?: number | undefined;
  /** Token limit for the worker; 0 for none. */
  readonly max_output_tokens?: number | undefined;
  /** Token limit for the worker; 0 for none. */
  readonly max_total_tokens?: number | undefined;
  /** The same as in `context_hints`. */
  readonly allow_summarization?: boolean | undefined;
  /** The same as in `context_hints`. */
  readonly allow_retrieval?: boolean | undefined;
  /** The same as in `context_hints`. */
  readonly tags?: ReadonlyArray<string> | undefined;
  /** Groups related jobs; see `GET /api/v1/traces/{id}`. */
  readonly trace_id?: string | undefined;
}

export interface SubmitResponse {
  readonly job_id: string;
  /** The same as `job_id`. */
  readonly id: string;
  readonly trace_id: string;
  readonly state: JobState;
  /** True if the job already existed with this key or id. */
  readonly replayed: boolean;
  /** The job awaits approval. */
  readonly status?: "approval_required" | undefined;
  readonly reason?: string | null | undefined;
  readonly rule_id?: string | null | undefined;
  readonly expires_at?: string | null | undefined;
  /** `by_submitter` of the rule. */
  readonly submitter_can_approve?: boolean | undefined;
  readonly no_approver?: NoApprover | undefined;
}

export interface ThrottleTerms {
  readonly rate: string;
  /** `tenant`, `topic`, `caller` or `label:NAME`. */
  readonly by: string;
}

export interface TimelineLine {
  readonly seq: number;
  /** Time of the event. */
  readonly at: string;
  readonly event: string;
  readonly step_id: string | null;
  readonly index: number | null;
  readonly job_id: string | null;
  readonly who: string | null;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly who_name: string | null;
  readonly why: string | null;
  readonly cause: number | null;
}

export interface TimelineLinePage {
  readonly items: ReadonlyArray<TimelineLine>;
  readonly next_cursor: string | null;
}

export interface Topic {
  readonly topic: string;
  readonly workers: number;
  /** Jobs in the backlog: of the tenant, or of all tenants for a key of tenant `*`. */
  readonly waiting: number;
  /** Dispatched jobs of all tenants; null unless the key is of tenant `*`. */
  readonly running: number | null;
}

export interface TriggerScheduleRequest {
  /** Start although a run of the schedule is open; by default a 409. */
  readonly overlap?: "allow" | undefined;
  readonly idempotency_key?: string | undefined;
}

/** What the attempt used; settles the budgets of the policy. */
export interface Usage {
  readonly input_tokens?: number | undefined;
  readonly output_tokens?: number | undefined;
  /** Default: the sum of the other two. */
  readonly total_tokens?: number | undefined;
  readonly cost_usd?: number | undefined;
}

export interface VelocityTerms {
  readonly max: number;
  readonly within: string;
  /** `tenant`, `topic`, `caller` or `label:NAME`. */
  readonly by: string;
  readonly sum?: string | undefined;
}

export interface Waves {
  /** The end of the last bin. */
  readonly at: string;
  readonly process: string;
  /** False in a cluster: each process records its own arrivals. */
  readonly covers_all_processes: boolean;
  readonly bin_ms: number;
  readonly bins: number;
  /** Only with arrivals in the last minute. */
  readonly series: ReadonlyArray<{
    readonly class: string;
    readonly arm: string | null;
    readonly total: number;
    /** The largest bin. */
    readonly peak: number;
    /** Arrivals per bin. */
    readonly mean: number;
    readonly peak_to_mean: number;
    /** By bin, oldest first. */
    readonly counts: ReadonlyArray<number>;
    /** As many arrivals at random times between the first and the last arrival (at least 10 s), for comparison. */
    readonly poisson: {
      readonly total: number;
      /** The largest bin. */
      readonly peak: number;
      /** Arrivals per bin. */
      readonly mean: number;
      readonly peak_to_mean: number;
      /** By bin, oldest first. */
      readonly counts: ReadonlyArray<number>;
    };
  }>;
  /** The 20 locks with the most contention. */
  readonly locks: ReadonlyArray<Lock>;
}

export interface Worker {
  readonly worker_id: string;
  readonly pool: string | null;
  readonly topics: ReadonlyArray<string>;
  readonly capabilities: ReadonlyArray<string>;
  readonly active_jobs: number;
  readonly max_parallel_jobs: number | null;
  /** `bus` or `http`. */
  readonly transport: string;
  readonly is_leaving: boolean;
  readonly last_seen: string;
  /** For how long a worker is silent that still holds leases; null for a worker that is there. */
  readonly silent_ms: number | null;
  /** Open leases of an HTTP worker, at most 20; those of the caller's tenant. */
  readonly leases: ReadonlyArray<{
    readonly job_id: string;
    readonly topic: string;
    /** When the lease ends. */
    readonly deadline: string;
  }>;
}

export interface WorkerExplanation {
  readonly worker: Worker;
  /** `blocked` (it gets no jobs), `silent`, `leaving`, `full`, `working` or `idle`. */
  readonly state: string;
  readonly reasons: ReadonlyArray<{
    readonly reason: string;
    readonly until: string | null;
    readonly unblocks: string | null;
  }>;
}

export interface Workflow {
  readonly workflow_id: string;
  readonly version: number;
  readonly tenant_id: string;
  /** Hash of the definition, independent of key order. */
  readonly hash: string;
  /** When the workflow was first applied; for a version, when that version was applied. */
  readonly created_at: string;
  readonly name: string | null;
  /** When the latest version was applied. */
  readonly updated_at: string;
}

export interface WorkflowApplied {
  readonly workflow_id: string;
  readonly version: number;
  /** False if the definition equals the latest version. */
  readonly created: boolean;
}

/** The definition, or `{source, file}`; also accepted as `application/yaml`. */
export interface WorkflowDefinition {
  /** The definition as YAML or JSON text, in place of all other fields. */
  readonly source?: string | undefined;
  /** The file name of `source`, for error messages. */
  readonly file?: string | undefined;
  /** Any JSON value. Workflow id; an existing id creates a new version. */
  readonly id?: unknown | undefined;
  /** Any JSON value. Steps by id. */
  readonly steps?: unknown | undefined;
  readonly [field: string]: unknown;
}

export interface WorkflowDeleted {
  readonly workflow_id: string;
  readonly deleted: boolean;
}

export interface WorkflowDetail {
  readonly workflow_id: string;
  readonly version: number;
  readonly tenant_id: string;
  /** Hash of the definition, independent of key order. */
  readonly hash: string;
  /** When the workflow was first applied; for a version, when that version was applied. */
  readonly created_at: string;
  readonly created_by: string | null;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly created_by_name: string | null;
  /** The definition as applied. */
  readonly definition: Readonly<Record<string, unknown>>;
}

export interface WorkflowPage {
  readonly items: ReadonlyArray<Workflow>;
  readonly next_cursor: string | null;
}

export interface WorkflowSchemas {
  readonly workflow_id: string;
  readonly version: number;
  /** Any JSON value. A JSON Schema, or null for any value. */
  readonly input_schema: unknown;
  readonly steps: Readonly<Record<string, {
    /** Any JSON value. A JSON Schema, or null for any value. */
    readonly input_schema: unknown;
    /** Any JSON value. A JSON Schema, or null for any value. */
    readonly output_schema: unknown;
  }>>;
}

export interface WorkflowSchemasPage {
  readonly items: ReadonlyArray<WorkflowSchemas>;
  readonly next_cursor: string | null;
}

export interface WorkflowVersion {
  readonly workflow_id: string;
  readonly version: number;
  readonly tenant_id: string;
  /** Hash of the definition, independent of key order. */
  readonly hash: string;
  /** When the workflow was first applied; for a version, when that version was applied. */
  readonly created_at: string;
  readonly created_by: string | null;
  /** The name of the key; null for other actors and for keys without a name. */
  readonly created_by_name: string | null;
}

export interface WorkflowVersionPage {
  readonly items: ReadonlyArray<WorkflowVersion>;
  readonly next_cursor: string | null;
}

/** Every operation with a JSON response. */
export interface Operations {
  /** Submit a job */
  readonly "POST /jobs": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: SubmitRequest;
    readonly response: SubmitResponse;
  };
  /** List jobs, newest first */
  readonly "GET /jobs": {
    readonly path: NoFields;
    readonly query: {
      /** Only jobs in this state. */
      readonly state?: string | undefined;
      /** Only jobs of this topic. */
      readonly topic?: string | undefined;
      /** Only jobs with this label, as `key=value`. A job is found by its first 8 labels in alphabetical order. */
      readonly label?: string | undefined;
      /** Only of this time or later: a duration such as `90s`, `15m`, `24h` or `7d`, an ISO 8601 time such as `2030-01-31T12:00:00Z`, or a Unix time in s, ms or µs. */
      readonly since?: string | undefined;
      /** Only jobs that wait for a retry. */
      readonly retrying?: boolean | undefined;
      /** Only jobs that wait for a retry of this class, such as `lock_busy`. */
      readonly class?: string | undefined;
      /** Adds `total`, on request of the first page for example. */
      readonly count?: boolean | undefined;
      /** Only jobs with this trace id. */
      readonly trace_id?: string | undefined;
      /** Only jobs updated after this time: an ISO 8601 time such as `2030-01-31T12:00:00Z`, or a Unix time in s, ms or µs. */
      readonly updated_after?: string | undefined;
      /** Only jobs updated before this time: an ISO 8601 time such as `2030-01-31T12:00:00Z`, or a Unix time in s, ms or µs. */
      readonly updated_before?: string | undefined;
      /** The tenant, in place of the header `X-Tenant-ID`. */
      readonly tenant?: string | undefined;
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: JobPage;
  };
  /** Get a job with its input, result and history */
  readonly "GET /jobs/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: JobDetail;
  };
  /** Explain what a job waits for, until when, and what unblocks it */
  readonly "GET /jobs/{id}/explain": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: JobExplanation;
  };
  /** List the decisions about a job, by the policy and by approvers */
  readonly "GET /jobs/{id}/decisions": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: JobDecisions;
  };
  /** Cancel a job */
  readonly "POST /jobs/{id}/cancel": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: CancelRequest | undefined;
    readonly response: JobStateChange;
  };
  /** Resubmit a denied job with a remediation of its denial applied */
  readonly "POST /jobs/{id}/remediate": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RemediateRequest | undefined;
    readonly response: SubmitResponse;
  };
  /** Cancel or retry the jobs of a query, oldest first, a page per request */
  readonly "POST /jobs/bulk": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: JobBulkRequest;
    readonly response: JobBulkPage;
  };
  /** List workflows, newest first */
  readonly "GET /workflows": {
    readonly path: NoFields;
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: WorkflowPage;
  };
  /** Apply a definition: creates a workflow or a new version; open runs keep their version */
  readonly "POST /workflows": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: WorkflowDefinition | undefined;
    readonly response: WorkflowApplied;
  };
  /** Get a workflow with its definition; `version` also selects versions of a deleted workflow */
  readonly "GET /workflows/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** Defaults to the latest version. */
      readonly version?: number | undefined;
    };
    readonly body: undefined;
    readonly response: WorkflowDetail;
  };
  /** Delete a workflow: no new runs; open runs continue */
  readonly "DELETE /workflows/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: WorkflowDeleted;
  };
  /** List the versions of a workflow, newest first */
  readonly "GET /workflows/{id}/versions": {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: WorkflowVersionPage;
  };
  /** Dry-run a workflow: the steps of a run and the policy decision for each job, without side effects */
  readonly "POST /workflows/{id}/dry-run": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: DryRunRequest | undefined;
    readonly response: DryRun;
  };
  /** List the JSON Schemas of workflow inputs and of step inputs and outputs, for the latest versions */
  readonly "GET /schemas": {
    readonly path: NoFields;
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: WorkflowSchemasPage;
  };
  /** Start a run; 429 while the tenant is at its run limit */
  readonly "POST /workflows/{id}/runs": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: StartRequest | undefined;
    readonly response: RunStarted;
  };
  /** List the runs of a workflow, newest first */
  readonly "GET /workflows/{id}/runs": {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** Adds `total`, on request of the first page for example. */
      readonly count?: boolean | undefined;
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: RunPage;
  };
  /** List runs of all workflows, newest first */
  readonly "GET /workflow-runs": {
    readonly path: NoFields;
    readonly query: {
      /** Only runs in this state. */
      readonly state?: string | undefined;
      /** Adds `total`, on request of the first page for example. */
      readonly count?: boolean | undefined;
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: RunPage;
  };
  /** Get a run with its input, output and steps */
  readonly "GET /workflow-runs/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: RunDetail;
  };
  /** Delete a finished run; the jobs of its steps are kept until their own retention ends */
  readonly "DELETE /workflow-runs/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: RunDeleted;
  };
  /** List the timeline of a run, oldest first */
  readonly "GET /workflow-runs/{id}/timeline": {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: TimelineLinePage;
  };
  /** Explain what a run waits for, until when, and what unblocks it */
  readonly "GET /workflow-runs/{id}/explain": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: RunExplanation;
  };
  /** List the jobs of a `for_each` step in item order, or of a step in a loop by iteration */
  readonly "GET /workflow-runs/{id}/steps/{step}/children": {
    readonly path: {
      readonly id: string;
      readonly step: string;
    };
    readonly query: {
      /** Of a `for_each` in a loop: the iteration. Defaults to the current one. */
      readonly iteration?: number | undefined;
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: RunChildPage;
  };
  /** Cancel a run and its open jobs and sub-runs */
  readonly "POST /workflow-runs/{id}/cancel": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RunCancelRequest | undefined;
    readonly response: RunStateChange;
  };
  /** Cancel a run, addressed by its workflow and run id */
  readonly "POST /workflows/{id}/runs/{run_id}/cancel": {
    readonly path: {
      readonly id: string;
      readonly run_id: string;
    };
    readonly query: NoFields;
    readonly body: RunCancelRequest | undefined;
    readonly response: RunStateChange;
  };
  /** Pause a run: no new steps start; running jobs continue */
  readonly "POST /workflow-runs/{id}/pause": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RunControlRequest | undefined;
    readonly response: RunStateChange;
  };
  /** Resume a paused run */
  readonly "POST /workflow-runs/{id}/resume": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RunControlRequest | undefined;
    readonly response: RunStateChange;
  };
  /** Send an event to a run: a `wait` step takes it, or it is kept until one does */
  readonly "POST /workflow-runs/{id}/events": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RunEventRequest;
    readonly response: RunEventAccepted;
  };
  /** Start a new run that reuses the results before a step and repeats that step and all after it */
  readonly "POST /workflow-runs/{id}/rerun": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RerunRequest;
    readonly response: RerunResponse;
  };
  /** Get the jobs with a `trace_id`, newest first; the first page also has the run of the trace and the jobs of its steps */
  readonly "GET /traces/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: GetTracesIdResponse;
  };
  /** List jobs awaiting approval, newest first */
  readonly "GET /approvals": {
    readonly path: NoFields;
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: ApprovalPage;
  };
  /** Approve a job */
  readonly "POST /approvals/{id}/approve": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: ApproveRequest | undefined;
    readonly response: JobStateChange;
  };
  /** Return the hidden values of a job that awaits approval; recorded in the audit log */
  readonly "POST /approvals/{id}/reveal": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: PostApprovalsIdRevealRequest;
    readonly response: RevealedApproval;
  };
  /** Reject a job; the job ends */
  readonly "POST /approvals/{id}/reject": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RejectRequest;
    readonly response: JobStateChange;
  };
  /** List dead letters, newest first; of all tenants for a key of tenant `*` without `X-Tenant-ID` */
  readonly "GET /dlq": {
    readonly path: NoFields;
    readonly query: {
      /** Only of this topic, or of this subject of messages. */
      readonly topic?: string | undefined;
      /** Only with this reason: `permanent`, `undecodable`, `budget` or `timeout`. */
      readonly reason?: string | undefined;
      /** Only with this error name, such as `TypeError`. */
      readonly error?: string | undefined;
      /** Only of this group; it implies topic, reason and error, which must be omitted. */
      readonly fingerprint?: string | undefined;
      /** Only older ones: a duration such as `90s`, `15m`, `24h` or `7d`. */
      readonly older_than?: string | undefined;
      /** Only younger ones: a duration such as `90s`, `15m`, `24h` or `7d`. */
      readonly newer_than?: string | undefined;
      /** Adds `total`, on request of the first page for example. */
      readonly count?: boolean | undefined;
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: DeadLetterPage;
  };
  /** Group dead letters by fingerprint (topic, reason, error and message pattern), largest group first */
  readonly "GET /dlq/groups": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: DeadLetterGroups;
  };
  /** Get a dead letter with its payload and history */
  readonly "GET /dlq/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: DeadLetterDetail;
  };
  /** Delete a dead letter */
  readonly "DELETE /dlq/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: DeadLetterDropped;
  };
  /** Retry a dead letter: the job is redriven, or the message is sent again */
  readonly "POST /dlq/{id}/retry": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: DeadLetterRetried;
  };
  /** Retry or drop the dead letters of a query, oldest first, a page per request */
  readonly "POST /dlq/bulk": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: DeadLetterBulkRequest;
    readonly response: DeadLetterBulkPage;
  };
  /** Get the caller and its permissions; `authenticated` is false without a valid key or session */
  readonly "GET /session": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: Session;
  };
  /** Sign a browser in: exchange an API key for a session cookie (`HttpOnly`, `SameSite=Strict`) */
  readonly "POST /session": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: SignInRequest;
    readonly response: Session;
  };
  /** Sign out: end the session of the cookie, in every process within a second */
  readonly "DELETE /session": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: Session;
  };
  /** Get what needs attention, with the request that resolves it, and the figures of queues, retries and safety */
  readonly "GET /overview": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: Overview;
  };
  /** Get the retries of the last minute in bins of 50 ms, beside a Poisson stream, and the most contended locks */
  readonly "GET /waves": {
    readonly path: NoFields;
    readonly query: {
      /** Of the Poisson stream; 1 by default. */
      readonly seed?: string | undefined;
    };
    readonly body: undefined;
    readonly response: Waves;
  };
  /** List the experiments of the lab with their parameters */
  readonly "GET /lab": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: LabCatalogue;
  };
  /** Replay the recorded lock contention under other retry policies */
  readonly "POST /lab/replay": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PostLabReplayRequest | undefined;
    readonly response: LabReport;
  };
  /** Run an experiment in virtual time, for at most a minute */
  readonly "POST /lab/{experiment}": {
    readonly path: {
      readonly experiment: string;
    };
    readonly query: NoFields;
    readonly body: PostLabExperimentRequest | undefined;
    readonly response: LabReport;
  };
  /** Run one seed of the simulator and return its history */
  readonly "POST /simulations": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PostSimulationsRequest;
    readonly response: Simulation;
  };
  /** List every setting of the answering process with its value and origin; secrets are hidden */
  readonly "GET /settings": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: GetSettingsResponse;
  };
  /** Get the incidents that the demo causes now; requires `--demo` */
  readonly "GET /demo": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: Demo;
  };
  /** Stop or start the answers of the safety kernel; requires `--demo` */
  readonly "POST /demo/kernel": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: DemoKernelRequest;
    readonly response: Demo;
  };
  /** Hold a run lock for 20 s while hundreds of results wait for it; requires `--demo` */
  readonly "POST /demo/lock": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: Demo;
  };
  /** List API keys without their secrets; of all tenants for a key of tenant `*` */
  readonly "GET /keys": {
    readonly path: NoFields;
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: ApiKeyPage;
  };
  /** Create an API key; only this response contains its secret */
  readonly "POST /keys": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: CreateKeyRequest;
    readonly response: ApiKeyCreated;
  };
  /** Explain an API key: what it may do, until when, who created it, and when it was last used */
  readonly "GET /keys/{id}/explain": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: KeyExplanation;
  };
  /** Revoke an API key; takes effect within a second */
  readonly "DELETE /keys/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: ApiKey;
  };
  /** List the audit log of the tenant, newest first */
  readonly "GET /audit": {
    readonly path: NoFields;
    readonly query: {
      /** Read the system chain instead of the chain of the tenant. */
      readonly system?: boolean | undefined;
      /** Only entries about this job, without plain `allow` decisions (`GET /jobs/{id}/decisions`). */
      readonly job?: string | undefined;
      /** Only entries of this key (name or id) or worker. */
      readonly actor?: string | undefined;
      /** Only this action, such as `approved`, or this kind, such as `approval`. */
      readonly action?: string | undefined;
      /** Only of this time or later: a duration such as `90s`, `15m`, `24h` or `7d`, an ISO 8601 time such as `2030-01-31T12:00:00Z`, or a Unix time in s, ms or µs. */
      readonly since?: string | undefined;
      /** Only the entry with this index; without the other filters. */
      readonly index?: number | undefined;
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: AuditEntryPage;
  };
  /** List the audit log of the policy (published, rolled back), newest first */
  readonly "GET /policy/audit": {
    readonly path: NoFields;
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: AuditEntryPage;
  };
  /** Verify the hash chain of the audit log; reports the first entry that does not match */
  readonly "GET /audit/verify": {
    readonly path: NoFields;
    readonly query: {
      /** Read the system chain instead of the chain of the tenant. */
      readonly system?: boolean | undefined;
      /** A saved `head`: the chain must still contain it. Detects truncated, rewritten and deleted chains. */
      readonly head?: string | undefined;
      /** The number of entries saved with `head`. */
      readonly entries?: number | undefined;
    };
    readonly body: undefined;
    readonly response: GetAuditVerifyResponse;
  };
  /** Verify the audit log and sign a statement of its length and head, to be kept elsewhere */
  readonly "GET /audit/checkpoint": {
    readonly path: NoFields;
    readonly query: {
      /** Read the system chain instead of the chain of the tenant. */
      readonly system?: boolean | undefined;
    };
    readonly body: undefined;
    readonly response: GetAuditCheckpointResponse;
  };
  /** Get the input (`ctx:`) or result (`res:`) of a job, run or step by its pointer; redacted for keys without `work` access */
  readonly "GET /memory": {
    readonly path: NoFields;
    readonly query: {
      /** Such as `redis://ctx:<job id>`, or only the key. */
      readonly ptr: string;
    };
    readonly body: undefined;
    readonly response: GetMemoryResponse;
  };
  /** Evaluate the policy for a job */
  readonly "POST /policy/evaluate": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PolicyRequest;
    readonly response: PolicyDecision;
  };
  /** Evaluate the policy for a job, and explain why earlier rules did not match */
  readonly "POST /policy/explain": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PolicyRequest;
    readonly response: PolicyExplanation;
  };
  /** Evaluate the policy in force, or with `system` access a given one, for many jobs or for recorded decisions */
  readonly "POST /policy/simulate": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PostPolicySimulateRequest | undefined;
    readonly response: PostPolicySimulateResponse;
  };
  /** Run test cases against the policy in force, or with `system` access against a given one */
  readonly "POST /policy/test": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PostPolicyTestRequest;
    readonly response: PolicyTests;
  };
  /** Compare the policy in force with another one */
  readonly "POST /policy/diff": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PostPolicyDiffRequest;
    readonly response: PolicyDiff;
  };
  /** Publish a policy for all tenants and processes */
  readonly "POST /policy/publish": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PostPolicyPublishRequest;
    readonly response: PolicyChange;
  };
  /** Roll back to the previous policy, or to a named one */
  readonly "POST /policy/rollback": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PostPolicyRollbackRequest | undefined;
    readonly response: PolicyChange;
  };
  /** List published policies, newest first */
  readonly "GET /policy/snapshots": {
    readonly path: NoFields;
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: PolicyReleasePage;
  };
  /** List the rules of the policy in force, in order */
  readonly "GET /policy/rules": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: PolicyRules;
  };
  /** Get the text of the policy in force */
  readonly "GET /policy/text": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: PolicyText;
  };
  /** List published policies that are kept, newest first */
  readonly "GET /policy/bundles": {
    readonly path: NoFields;
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: PolicyBundlePage;
  };
  /** Get a published policy with its text */
  readonly "GET /policy/bundles/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: PolicyBundleDetail;
  };
  /** List fail-open leases, newest first; a lease lets jobs bypass the safety check while the kernel is unavailable */
  readonly "GET /failopen": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: FailOpenLeasePage;
  };
  /** Open a fail-open lease of at most 4 hours */
  readonly "POST /failopen": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: OpenFailOpenRequest;
    readonly response: FailOpenLease;
  };
  /** Close a fail-open lease; no further job bypasses the check under it */
  readonly "POST /failopen/{id}/close": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: FailOpenLease;
  };
  /** List jobs that bypassed the safety check and await review; with `reviewed=true`, the reviewed ones */
  readonly "GET /failopen/bypassed": {
    readonly path: NoFields;
    readonly query: {
      readonly reviewed?: "true" | "false" | undefined;
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: BypassedJobPage;
  };
  /** Review a job that bypassed the safety check: records the decision of the current policy */
  readonly "POST /failopen/bypassed/{id}/review": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: PostFailopenBypassedIdReviewRequest | undefined;
    readonly response: BypassedJob;
  };
  /** List engaged kill switches, newest first */
  readonly "GET /kill": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: KillSwitchPage;
  };
  /** Engage the kill switch of a tenant or of all: dispatch stops, and jobs on workers are cancelled */
  readonly "POST /kill": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PostKillRequest;
    readonly response: PostKillResponse;
  };
  /** Release a kill switch: dispatch resumes */
  readonly "POST /kill/release": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: PostKillReleaseRequest | undefined;
    readonly response: PostKillReleaseResponse;
  };
  /** Start a rollout: a share of the runs and jobs uses another retry policy or run-lock setting */
  readonly "POST /rollouts": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: StartRolloutRequest;
    readonly response: RolloutStarted;
  };
  /** List rollouts, newest first */
  readonly "GET /rollouts": {
    readonly path: NoFields;
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: RolloutPage;
  };
  /** Check a rollout without starting it: what it compares, the prediction, and the smallest detectable effects */
  readonly "POST /rollouts/preview": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: StartRolloutRequest;
    readonly response: RolloutPreview;
  };
  /** Get a rollout with both arms, the evidence for each gate, and the prediction */
  readonly "GET /rollouts/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: RolloutDetail;
  };
  /** Enrol no more units; enrolled ones keep their arm */
  readonly "POST /rollouts/{id}/pause": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RolloutActionRequest | undefined;
    readonly response: Rollout;
  };
  /** Enrol units again */
  readonly "POST /rollouts/{id}/resume": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RolloutActionRequest | undefined;
    readonly response: Rollout;
  };
  /** Use the policy in force before for all units, also after a promotion */
  readonly "POST /rollouts/{id}/rollback": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RolloutActionRequest | undefined;
    readonly response: Rollout;
  };
  /** End a rollout without a promotion */
  readonly "POST /rollouts/{id}/end": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: RolloutActionRequest | undefined;
    readonly response: Rollout;
  };
  /** Use the treatment value for all units; requires proved gates, or `force` with a reason */
  readonly "POST /rollouts/{id}/promote": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: PostRolloutsIdPromoteRequest | undefined;
    readonly response: Rollout;
  };
  /** List schedules, newest first */
  readonly "GET /schedules": {
    readonly path: NoFields;
    readonly query: {
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: SchedulePage;
  };
  /** Apply a schedule: creates it, or changes it; the same document changes nothing */
  readonly "POST /schedules": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: ScheduleRequest;
    readonly response: ScheduleApplied;
  };
  /** Get a schedule with its next slots, its last starts, and why the last slot was not started */
  readonly "GET /schedules/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: ScheduleDetail;
  };
  /** Delete a schedule; its runs continue */
  readonly "DELETE /schedules/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: ScheduleDeleted;
  };
  /** Explain what a schedule waits for, and why its last slot was not started */
  readonly "GET /schedules/{id}/explain": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: ScheduleExplanation;
  };
  /** Pause a schedule: no slot starts; open runs continue */
  readonly "POST /schedules/{id}/pause": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: ScheduleActionRequest | undefined;
    readonly response: ScheduleDetail;
  };
  /** Resume a schedule with its next slot; slots of the pause are not started */
  readonly "POST /schedules/{id}/resume": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: ScheduleActionRequest | undefined;
    readonly response: ScheduleDetail;
  };
  /** Start a run of a schedule now, also while it is paused */
  readonly "POST /schedules/{id}/trigger": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: TriggerScheduleRequest | undefined;
    readonly response: RunStarted;
  };
  /** Start the past slots of a range that have no run, in order */
  readonly "POST /schedules/{id}/backfill": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: BackfillRequest;
    readonly response: ScheduleDetail;
  };
  /** Cancel the backfill of a schedule; its runs continue */
  readonly "DELETE /schedules/{id}/backfill": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: ScheduleDetail;
  };
  /** Get the status: process, policy, queues, retries, workers, safety and latency figures */
  readonly "GET /status": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: Status;
  };
  /** Lease jobs; 204 if none became available in time */
  readonly "POST /worker/lease": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: LeaseRequest;
    readonly response: LeaseResponse | null;
  };
  /** Extend the lease of an attempt */
  readonly "POST /worker/jobs/{id}/extend": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: PostWorkerJobsIdExtendRequest;
    readonly response: AttemptState;
  };
  /** Report progress of an attempt; also extends its lease */
  readonly "POST /worker/jobs/{id}/progress": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: PostWorkerJobsIdProgressRequest;
    readonly response: AttemptState;
  };
  /** Return a leased job that was not worked on; it uses no attempt */
  readonly "POST /worker/jobs/{id}/release": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: PostWorkerJobsIdReleaseRequest;
    readonly response: AttemptState;
  };
  /** Complete a job with its result */
  readonly "POST /worker/jobs/{id}/complete": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: PostWorkerJobsIdCompleteRequest;
    readonly response: AttemptState;
  };
  /** Report a failed attempt, and whether it can be retried */
  readonly "POST /worker/jobs/{id}/fail": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: PostWorkerJobsIdFailRequest;
    readonly response: AttemptState;
  };
  /** List live workers, and silent ones that hold leases */
  readonly "GET /workers": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: GetWorkersResponse;
  };
  /** Get a live worker, or a silent one that holds leases */
  readonly "GET /workers/{id}": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: Worker;
  };
  /** Explain why a worker gets jobs, or why it gets none */
  readonly "GET /workers/{id}/explain": {
    readonly path: {
      readonly id: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: WorkerExplanation;
  };
  /** List worker pools */
  readonly "GET /pools": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: GetPoolsResponse;
  };
  /** Drain a pool: its workers receive no new jobs and finish those they have */
  readonly "POST /pools/{name}/drain": {
    readonly path: {
      readonly name: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: Pool;
  };
  /** Resume a drained pool */
  readonly "POST /pools/{name}/resume": {
    readonly path: {
      readonly name: string;
    };
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: Pool;
  };
  /** List topics that have workers or jobs */
  readonly "GET /topics": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: GetTopicsResponse;
  };
  /** List locks by contention: most waiters first, then most often busy */
  readonly "GET /locks": {
    readonly path: NoFields;
    readonly query: {
      readonly limit?: number | undefined;
    };
    readonly body: undefined;
    readonly response: GetLocksResponse;
  };
  /** List the recorded lock contention of all processes, newest first; kept for 24 hours */
  readonly "GET /contention": {
    readonly path: NoFields;
    readonly query: {
      /** Milliseconds since the epoch. */
      readonly since?: number | undefined;
      /** Page size. */
      readonly limit?: number | undefined;
      /** `next_cursor` of the previous page, with the same filter. */
      readonly cursor?: string | undefined;
    };
    readonly body: undefined;
    readonly response: ContentionRecordPage;
  };
  /** Get this OpenAPI document */
  readonly "GET /openapi.json": {
    readonly path: NoFields;
    readonly query: NoFields;
    readonly body: undefined;
    readonly response: OpenapiDocument;
  };
}
