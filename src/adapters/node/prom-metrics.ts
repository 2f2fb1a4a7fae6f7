/**
 * Prometheus metrics on prom-client, and the figures of `/status`.
 *
 * 1. Figures cover this process since its start. Lock figures cover the run lock only; admission and job locks have their
 *    own `path` on the metrics page.
 * 2. Unknown labels are ignored, missing labels are empty (`arm`: absent). Non-finite values and negative increments are ignored. Nothing
 *    here throws, although prom-client does.
 * 3. A family has at most `SERIES_MAX` series, and one more whose labels are all `other`, which receives everything
 *    beyond the limit. Sums over all series stay correct; the `other` series of a gauge shows the last value set.
 */
import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { type HistogramMetric, type Labels, METRICS, type MetricSpec, type Metrics } from "../../ports/metrics.ts";

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
  const registry = new Registry();
  const counters = new Map<MetricName, Family<Counter>>();
  const gauges = new Map<MetricName, Family<Gauge>>();
  const histograms = new Map<MetricName, Family<Histogram>>();
  const percentiles = new Map<MetricName, RecordableHistogram>();
  const totals = { busyRetries: 0, failOpen: 0 };
  const tenants = new Tenants();
  for (const [name, spec] of Object.entries(METRICS) as [MetricName, MetricSpec][]) {
    const labels = new BoundedLabels(spec.labels, tenants);
    const config = { name, help: spec.help, labelNames: [...spec.labels], registers: [registry] };
    if (spec.type === "counter") counters.set(name, { metric: new Counter(config), labels });
    else if (spec.type === "gauge") gauges.set(name, { metric: new Gauge(config), labels });
    else histograms.set(name, { metric: new Histogram({ ...config, buckets: bucketsFor(name) }), labels });
  }
  for (const name of WITH_PERCENTILES) {
    percentiles.set(name, createHistogram({ lowest: 1, highest: MICROS_MAX, figures: 3 }));
  }
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    figures: () => figuresOf(totals, percentiles),
    add(name, labels = NO_LABELS, amount = 1) {
      const family = counters.get(name);
      if (family === undefined || !Number.isFinite(amount) || amount < 0) return;
      family.metric.inc(family.labels.of(labels), amount);
      if (name === BUSY_RETRIES && isOfRunLock(labels)) totals.busyRetries += amount;
      else if (name === FAIL_OPEN) totals.failOpen += amount;
    },
    set(name, value, labels = NO_LABELS) {
      const family = gauges.get(name);
      if (family !== undefined && Number.isFinite(value)) family.metric.set(family.labels.of(labels), value);
    },
    observe(name, value, labels = NO_LABELS) {
      const family = histograms.get(name);
      if (family === undefined || !Number.isFinite(value)) return;
      family.metric.observe(family.labels.of(labels), value);
      if (isOfRunLock(labels)) percentiles.get(name)?.record(microsOf(value));
    },
  };
}

function figuresOf(
  totals: { readonly busyRetries: number; readonly failOpen: number },
  percentiles: ReadonlyMap<MetricName, RecordableHistogram>,
): Figures {
  const ms = (name: (typeof WITH_PERCENTILES)[number], percentile: number) => {
    const histogram = percentiles.get(name);
    return histogram === undefined || histogram.count === 0 ? null : histogram.percentile(percentile) / 1_000;
  };
  return {
    lock_busy_retry_count: totals.busyRetries,
    lock_busy_retry_delay_ms: {
      p50: ms("cordum_lock_busy_retry_delay_seconds", 50),
      p95: ms("cordum_lock_busy_retry_delay_seconds", 95),
    },
    run_lock_wait_ms_p95: ms("cordum_run_lock_wait_seconds", 95),
    run_lock_wait_ms_p99: ms("cordum_run_lock_wait_seconds", 99),
    job_result_latency_ms_p95: ms("cordum_job_result_latency_seconds", 95),
    input_fail_open_total: totals.failOpen,
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

/** Maps labels to those of a series. prom-client throws on unknown labels and does not limit the number of series. */
class BoundedLabels {
  readonly #names: readonly string[];
  readonly #tenants: Tenants;
  readonly #series = new Set<string>();
  /** Cache by the raw values. */
  readonly #known = new Map<string, Labels>();

  constructor(names: readonly string[], tenants: Tenants) {
    this.#names = names;
    this.#tenants = tenants;
  }

  of(labels: Labels): Labels {
    const names = this.#names;
    if (names.length === 0) return NO_LABELS;
    const key = keyOf(names, labels);
    return this.#known.get(key) ?? this.#add(key, labels);
  }

  #others(): Labels {
    return Object.fromEntries(this.#names.filter((name) => name !== OPTIONAL).map((name) => [name, OTHER]));
  }

  #add(key: string, labels: Labels): Labels {
    const bounded: Record<string, string> = {};
    for (const name of this.#names) {
      const value = labels[name] ?? "";
      if (name === OPTIONAL && value === "") continue;
      bounded[name] = name === "tenant" ? this.#tenants.label(value) : value;
    }
    const series = keyOf(this.#names, bounded);
    if (!this.#series.has(series)) {
      if (this.#series.size >= SERIES_MAX) return this.#others();
      this.#series.add(series);
    }
    if (this.#known.size < SERIES_MAX) this.#known.set(key, bounded);
    return bounded;
  }
}

/** Left out of a series without a value, so that the series of a metric do not change while no rollout is active. */
const OPTIONAL = "arm";

/** The lengths make a key of several values unambiguous. */
function keyOf(names: readonly string[], labels: Labels): string {
  const [only] = names;
  if (only !== undefined && names.length === 1) return labels[only] ?? "";
  let key = "";
  for (const name of names) {
    const value = labels[name] ?? "";
    key += `${value.length}:${value}`;
  }
  return key;
}

interface Family<M> {
  readonly metric: M;
  readonly labels: BoundedLabels;
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

const FAIL_OPEN = "cordum_scheduler_input_fail_open_total";
const BUSY_RETRIES = "cordum_lock_busy_retries_total";
const NO_LABELS: Labels = {};
const TENANTS_MAX = 100;
/** Without the `other` series. 100 tenants times all endpoints are well below it. */
export const SERIES_MAX = 1_000;
/** Label value of everything beyond a limit. */
const OTHER = "other";
/** An hour. */
const MICROS_MAX = 3_600_000_000;
