/**
 * Prometheus metrics, and the figures of `/status`.
 *
 * Figures cover this process since its start. Lock figures cover the run lock only; admission and job locks have their own
 * `path` on the metrics page.
 */
import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import { type HistogramMetric, type Labels, METRICS, type MetricSpec, type Metrics } from "../../ports/metrics.ts";
import { CONTENT_TYPE, Counter, type Family, Gauge, Histogram, OTHER, pageOf } from "./metric-family.ts";

export interface PromMetrics extends Metrics {
  readonly contentType: string;
  /** The page in the Prometheus text format. */
  text(): Promise<string>;
  figures(): Figures;
}

/** Null: nothing measured yet. */
export interface Figures {
  readonly lock_busy_retry_count: number;
  readonly lock_busy_retry_delay_ms: { readonly p50: number | null; readonly p95: number | null };
  readonly run_lock_wait_ms_p95: number | null;
  readonly run_lock_wait_ms_p99: number | null;
  readonly job_result_latency_ms_p95: number | null;
  readonly input_fail_open_total: number;
}

type MetricName = keyof typeof METRICS;

export function promMetrics(): PromMetrics {
  const counters = new Map<MetricName, Counter>();
  const gauges = new Map<MetricName, Gauge>();
  const histograms = new Map<MetricName, Histogram>();
  const families: Family[] = [];
  const percentiles = new Map<MetricName, RecordableHistogram>();
  const tenants = new Tenants();
  const busyRetries = new Counter(BUSY_RETRIES, { ...METRICS[BUSY_RETRIES], labels: [] }, (_, value) => value);
  const bound = (label: string, value: string) => (label === "tenant" ? tenants.label(value) : value);
  for (const [name, spec] of Object.entries(METRICS) as [MetricName, MetricSpec][]) {
    families.push(
      spec.type === "counter"
        ? put(counters, name, new Counter(name, spec, bound))
        : spec.type === "gauge"
          ? put(gauges, name, new Gauge(name, spec, bound))
          : put(histograms, name, new Histogram(name, spec, bound, bucketsFor(name))),
    );
  }
  for (const name of WITH_PERCENTILES) {
    percentiles.set(name, createHistogram({ lowest: 1, highest: MICROS_MAX, figures: 3 }));
  }
  return {
    contentType: CONTENT_TYPE,
    text: async () => pageOf(families),
    figures: () => figuresOf(busyRetries, counters, percentiles),
    add(name, labels = NO_LABELS, amount = 1) {
      counters.get(name)?.add(labels, amount);
      if (name === BUSY_RETRIES && isOfRunLock(labels)) busyRetries.add(NO_LABELS, amount);
    },
    set(name, value, labels = NO_LABELS) {
      gauges.get(name)?.set(labels, value);
    },
    observe(name, value, labels = NO_LABELS) {
      histograms.get(name)?.observe(labels, value);
      // The percentile histograms throw on non-finite values.
      if (Number.isFinite(value) && isOfRunLock(labels)) percentiles.get(name)?.record(microsOf(value));
    },
  };
}

function figuresOf(
  busyRetries: Counter,
  counters: ReadonlyMap<MetricName, Counter>,
  percentiles: ReadonlyMap<MetricName, RecordableHistogram>,
): Figures {
  const ms = (name: (typeof WITH_PERCENTILES)[number], percentile: number) => {
    const histogram = percentiles.get(name);
    return histogram === undefined || histogram.count === 0 ? null : histogram.percentile(percentile) / 1_000;
  };
  return {
    lock_busy_retry_count: busyRetries.total(),
    lock_busy_retry_delay_ms: {
      p50: ms("cordum_lock_busy_retry_delay_seconds", 50),
      p95: ms("cordum_lock_busy_retry_delay_seconds", 95),
    },
    run_lock_wait_ms_p95: ms("cordum_run_lock_wait_seconds", 95),
    run_lock_wait_ms_p99: ms("cordum_run_lock_wait_seconds", 99),
    job_result_latency_ms_p95: ms("cordum_job_result_latency_seconds", 95),
    input_fail_open_total: counters.get("cordum_scheduler_input_fail_open_total")?.total() ?? 0,
  };
}

/** True if `path` is that of a run lock, or absent. */
const isOfRunLock = ({ path }: Labels): boolean => path === undefined || path === "engine" || path === "gateway";

/** Bounds the tenant label: clients choose tenant names. */
class Tenants {
  readonly #known = new Set<string>();

  label(tenant: string): string {
    if (this.#known.has(tenant)) return tenant;
    if (this.#known.size >= TENANTS_MAX) return OTHER;
    this.#known.add(tenant);
    return tenant;
  }
}

function put<F extends Family>(families: Map<MetricName, F>, name: MetricName, family: F): F {
  families.set(name, family);
  return family;
}

/** Percentile histograms take integers. */
function microsOf(seconds: number): number {
  return Math.min(MICROS_MAX, Math.max(1, Math.round(seconds * 1_000_000)));
}

function bucketsFor(name: string): number[] {
  if (!name.endsWith("_seconds")) return [1, 2, 3, 5, 8, 13, 21, 34, 55, 100];
  return [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
}

/** Metrics that figures are computed from. */
const WITH_PERCENTILES = [
  "cordum_lock_busy_retry_delay_seconds",
  "cordum_run_lock_wait_seconds",
  "cordum_job_result_latency_seconds",
] as const satisfies readonly HistogramMetric[];

const BUSY_RETRIES = "cordum_lock_busy_retries_total";
const NO_LABELS: Labels = {};
const TENANTS_MAX = 100;
/** An hour. */
const MICROS_MAX = 3_600_000_000;
