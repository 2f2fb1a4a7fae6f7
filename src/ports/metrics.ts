/**
 * What dashboards read. Every metric is declared once, by name, in `METRICS`; adapters register the table and refuse
 * any other name at compile time. Label values come from closed sets or are bounded by the caller; tenants are bounded by
 * the adapter: those beyond the first hundred are `other`. So are all labels of what comes when a metric has a thousand
 * series. Counting never throws.
 */
export interface Metrics {
  /** Adds to a counter. */
  add(name: CounterMetric, labels?: Labels, amount?: number): void;
  /** Sets a gauge. */
  set(name: GaugeMetric, value: number, labels?: Labels): void;
  /** Observes a value in a histogram; the unit is the metric's own (seconds end in `_seconds`). */
  observe(name: HistogramMetric, value: number, labels?: Labels): void;
}

export type Labels = Readonly<Record<string, string>>;

export const METRICS = {
  cordum_jobs_total: { type: "counter", labels: ["state"], help: "Jobs that reached a final state." },
  cordum_runs_total: { type: "counter", labels: ["state"], help: "Workflow runs that reached a final state." },
  cordum_run_results_total: {
    type: "counter",
    labels: [],
    help: "Ends of steps that were applied to their runs; each lock acquisition may apply many.",
  },
  cordum_bus_deliveries_total: {
    type: "counter",
    labels: ["subject", "action"],
    help: "Deliveries by what became of them.",
  },
  cordum_bus_redeliveries_total: { type: "counter", labels: ["subject"], help: "Deliveries after the first." },
  cordum_bus_signature_failures_total: {
    type: "counter",
    labels: ["subject", "reason"],
    help: "Packets whose signature was missing or invalid, each once; refused where `cap.signatures` is `enforce`.",
  },
  cordum_dead_letters_total: { type: "counter", labels: ["reason"], help: "Dead letters written." },
  cordum_lock_busy_retries_total: {
    type: "counter",
    labels: ["path", "policy"],
    help: "Retries because a lock was held.",
  },
  cordum_lock_first_retry_success_total: {
    type: "counter",
    labels: ["path"],
    help: "Locks taken by the first retry after being busy.",
  },
  cordum_scheduler_safety_unavailable_total: {
    type: "counter",
    labels: [],
    help: "Safety checks that got no answer.",
  },
  cordum_scheduler_input_fail_open_total: {
    type: "counter",
    labels: [],
    help: "Jobs sent out without a verdict, under a fail-open lease.",
  },
  cordum_outbox_repairs_total: {
    type: "counter",
    labels: [],
    help: "Messages that the sweeper sent for a dead process.",
  },
  cordum_slots_recounted_total: {
    type: "counter",
    labels: [],
    help: "Slots of workflow runs that were counted too many or too few, and set right.",
  },
  cordum_notices_left_out_total: {
    type: "counter",
    labels: [],
    help: "Changes of jobs that other processes were not told of because too many came at once.",
  },
  cordum_safety_breaker_state: {
    type: "gauge",
    labels: [],
    help: "The circuit breaker before the safety kernel: 0 closed, 1 half open, 2 open.",
  },
  cordum_queue_lag: { type: "gauge", labels: ["subject"], help: "Jobs that wait in the backlog of a topic." },
  cordum_queue_oldest_seconds: {
    type: "gauge",
    labels: ["subject"],
    help: "Age of the oldest job that waits in the backlog of a topic.",
  },
  cordum_retry_arrivals_peak_to_mean: {
    type: "gauge",
    labels: ["class"],
    help: "Retries that came back in the fullest 50 ms of the last minute, over the mean; 0 for fewer than 20.",
  },
  cordum_admission_rejected_total: {
    type: "counter",
    labels: ["reason"],
    help:
      "Submissions and starts of runs that were not taken: rate_limited, conflict, invalid, unavailable, " +
      "full, gate_unavailable, no_workflow.",
  },
  cordum_admission_wait_seconds: {
    type: "histogram",
    labels: ["tenant", "endpoint"],
    help: "Time from a submission to its answer.",
  },
  cordum_parked_retries: { type: "gauge", labels: ["class"], help: "Messages parked in the store until their time." },
  cordum_lock_busy_retry_delay_seconds: {
    type: "histogram",
    labels: ["path", "policy"],
    help: "Delays given to lock-busy retries.",
  },
  cordum_run_lock_wait_seconds: {
    type: "histogram",
    labels: ["path"],
    help: "Time from asking for a lock to holding it; for a result that was turned away, since then.",
  },
  cordum_lock_attempts: {
    type: "histogram",
    labels: ["path"],
    help: "Attempts per lock acquisition, those that were turned away included.",
  },
  cordum_job_result_latency_seconds: {
    type: "histogram",
    labels: [],
    help: "Time from dispatch to the result being applied.",
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
