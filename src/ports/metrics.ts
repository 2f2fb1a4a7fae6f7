/**
 * Metrics, declared in `METRICS`. Callers bound the values of labels. Adapters bound tenants and series: tenants beyond the
 * first 100 are recorded as `other`, and so are all labels of a metric beyond its first 1,000 series. Recording never
 * throws. The label `arm` (`control` or `treatment`) is absent unless the work belongs to a unit of an active rollout.
 */
export interface Metrics {
  add(name: CounterMetric, labels?: Labels, amount?: number): void;
  set(name: GaugeMetric, value: number, labels?: Labels): void;
  /** The unit is part of the name: `_seconds`. */
  observe(name: HistogramMetric, value: number, labels?: Labels): void;
}

export type Labels = Readonly<Record<string, string>>;

export const METRICS = {
  cordum_jobs_total: { type: "counter", labels: ["state"], help: "Jobs that reached a final state." },
  cordum_runs_total: { type: "counter", labels: ["state"], help: "Workflow runs that reached a final state." },
  cordum_run_results_total: {
    type: "counter",
    labels: [],
    help: "Step results applied to runs; one lock acquisition can apply several.",
  },
  cordum_bus_deliveries_total: {
    type: "counter",
    labels: ["subject", "action"],
    help: "Deliveries by settlement.",
  },
  cordum_bus_redeliveries_total: { type: "counter", labels: ["subject"], help: "Deliveries after the first." },
  cordum_bus_signature_failures_total: {
    type: "counter",
    labels: ["subject", "reason"],
    help: "Packets whose signature was missing or invalid, each once; refused where `cap.signatures` is `enforce`.",
  },
  cordum_dead_letters_total: { type: "counter", labels: ["reason", "arm"], help: "Dead letters written." },
  cordum_lock_busy_retries_total: {
    type: "counter",
    labels: ["path", "policy", "arm"],
    help: "Retries because a lock was busy.",
  },
  cordum_lock_first_retry_success_total: {
    type: "counter",
    labels: ["path", "arm"],
    help: "Locks acquired by the first retry after being busy.",
  },
  cordum_scheduler_safety_unavailable_total: {
    type: "counter",
    labels: [],
    help: "Safety checks that the safety kernel did not answer.",
  },
  cordum_scheduler_input_fail_open_total: {
    type: "counter",
    labels: [],
    help: "Jobs dispatched without a safety verdict under a fail-open lease.",
  },
  cordum_policy_limit_exceeded_total: {
    type: "counter",
    labels: ["kind"],
    help: "Decisions of rules whose limit (throttle rate, velocity) was exceeded.",
  },
  cordum_policy_shadow_decisions_total: {
    type: "counter",
    labels: ["rule", "enforced", "shadow"],
    help: "Decisions on jobs that a shadow rule would have made, with the decision that was enforced.",
  },
  cordum_budget_exhausted_total: {
    type: "counter",
    labels: ["unit"],
    help: "Jobs and submissions without room in a budget of the policy.",
  },
  cordum_budget_used_ratio: {
    type: "gauge",
    labels: ["tenant", "rule"],
    help: "Used share of a rule's budget, with reservations: the highest of its keys.",
  },
  cordum_outbox_repairs_total: {
    type: "counter",
    labels: [],
    help: "Outbox messages that the sweeper sent.",
  },
  cordum_notifications_total: {
    type: "counter",
    labels: ["outcome"],
    help: "Notifications: accepted, retried after a failed try, failed for the last time, or dropped at the bound of the tenant.",
  },
  cordum_duty_lag_seconds: {
    type: "gauge",
    labels: ["duty"],
    help: "By how much a background loop is behind: its overdue pass, plus the age of the oldest work left.",
  },
  cordum_timer_lateness_seconds: {
    type: "histogram",
    labels: [],
    help: "Time from the due time of a record (lease, delay, deadline, retry) until its handler starts.",
  },
  cordum_schedule_starts_total: {
    type: "counter",
    labels: ["result"],
    help: "Slots of schedules by result: started, skipped (a run was open), missed (older than the catch-up window), failed; refused counts each refused try.",
  },
  cordum_schedule_lateness_seconds: {
    type: "histogram",
    labels: [],
    help: "Time from the start of a slot, with its jitter, until its run is created.",
  },
  cordum_slots_recounted_total: {
    type: "counter",
    labels: [],
    help: "Run slots corrected by a recount of the admission counter.",
  },
  cordum_notices_left_out_total: {
    type: "counter",
    labels: [],
    help: "Job events not broadcast to other processes because of the rate limit.",
  },
  cordum_safety_breaker_state: {
    type: "gauge",
    labels: [],
    help: "State of the safety kernel's circuit breaker: 0 closed, 1 half open, 2 open.",
  },
  cordum_queue_lag: { type: "gauge", labels: ["subject"], help: "Jobs in the backlog of a topic." },
  cordum_queue_oldest_seconds: {
    type: "gauge",
    labels: ["subject"],
    help: "Age of the oldest job in the backlog of a topic.",
  },
  cordum_approvals_waiting: { type: "gauge", labels: [], help: "Jobs awaiting approval, all tenants." },
  cordum_runs_open: { type: "gauge", labels: [], help: "Open workflow runs, all tenants." },
  cordum_tenant_open_jobs: {
    type: "gauge",
    labels: ["tenant"],
    help: "Jobs of a tenant that have not ended, for the 20 tenants with the most.",
  },
  cordum_disk_free_bytes: { type: "gauge", labels: ["path"], help: "Free space of the disk of the data directory." },
  cordum_disk_size_bytes: { type: "gauge", labels: ["path"], help: "Size of the disk of the data directory." },
  cordum_store_up: { type: "gauge", labels: [], help: "Whether the store answers: 1 or 0." },
  cordum_safety_kernel_up: {
    type: "gauge",
    labels: [],
    help: "Whether the safety kernel answers: 1 or 0; 1 for a kernel in this process.",
  },
  cordum_retry_arrivals_peak_to_mean: {
    type: "gauge",
    labels: ["class"],
    help: "Retry arrivals per 50 ms in the last minute, peak over mean; 0 for fewer than 20 arrivals.",
  },
  cordum_admission_rejected_total: {
    type: "counter",
    labels: ["reason"],
    help:
      "Job submissions and run starts rejected: rate_limited, conflict, invalid, unavailable, " +
      "full, gate_unavailable, no_workflow.",
  },
  cordum_admission_wait_seconds: {
    type: "histogram",
    labels: ["tenant", "endpoint"],
    help: "Time from a submission to its response.",
  },
  cordum_parked_retries: {
    type: "gauge",
    labels: ["class"],
    help: "Messages parked in the store until their retry is due.",
  },
  cordum_lock_busy_retry_delay_seconds: {
    type: "histogram",
    labels: ["path", "policy", "arm"],
    help: "Delays of lock-busy retries.",
  },
  cordum_run_lock_wait_seconds: {
    type: "histogram",
    labels: ["path", "arm"],
    help: "Time from the first attempt to acquire a run lock until it is held, retries included.",
  },
  cordum_lock_attempts: {
    type: "histogram",
    labels: ["path", "arm"],
    help: "Attempts per lock acquisition, busy attempts included.",
  },
  cordum_rollout_e_value: {
    type: "gauge",
    labels: ["rollout", "gate"],
    help: "Evidence that a gate of a rollout is breached; the rollout is rolled back when the mean over its gates reaches 1/alpha.",
  },
  cordum_rollout_state: {
    type: "gauge",
    labels: ["rollout"],
    help: "State of a rollout: 1 running, 2 paused, 3 proved, 4 promoted, 5 rolled back, 6 ended.",
  },
  cordum_job_result_latency_seconds: {
    type: "histogram",
    labels: ["arm"],
    help: "Time from dispatch until the result is applied.",
  },
} as const satisfies Record<string, MetricSpec>;

export interface MetricSpec {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
}

type NamesOf<T extends MetricSpec["type"]> = {
  [N in keyof typeof METRICS]: (typeof METRICS)[N]["type"] extends T ? N : never;
}[keyof typeof METRICS];
export type CounterMetric = NamesOf<"counter">;
export type GaugeMetric = NamesOf<"gauge">;
export type HistogramMetric = NamesOf<"histogram">;
