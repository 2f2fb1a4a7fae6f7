/**
 * Metrics for Prometheus, and the few figures that `/status` shows computed.
 *
 * 1. The names are those of `METRICS`, each with its labels and no others. A label that is not in the table is left
 *    out, one that is missing is empty: counting never makes the work fail.
 * 2. Figures are of this process since its start.
 */
import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { type HistogramMetric, type Labels, METRICS, type MetricSpec, type Metrics } from "../ports/metrics.ts";

export interface PromMetrics extends Metrics {
  readonly contentType: string;
  /** Everything, in Prometheus' own text format. */
  text(): Promise<string>;
  figures(): Figures;
}

/** The founding names; null where nothing was measured yet. */
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
  const counters = new Map<MetricName, Counter>();
  const gauges = new Map<MetricName, Gauge>();
  const histograms = new Map<MetricName, Histogram>();
  const totals = new Map<MetricName, number>();
  const percentiles = new Map<MetricName, RecordableHistogram>();
  const tenants = new Tenants();
  for (const [name, spec] of Object.entries(METRICS) as [MetricName, MetricSpec][]) {
    const common = { name, help: spec.help, labelNames: [...spec.labels], registers: [registry] };
    if (spec.type === "counter") counters.set(name, new Counter(common));
    else if (spec.type === "gauge") gauges.set(name, new Gauge(common));
    else {
      histograms.set(name, new Histogram({ ...common, buckets: bucketsFor(name) }));
      percentiles.set(name, createHistogram({ lowest: 1, highest: MICROS_MAX, figures: 3 }));
    }
  }
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    figures: () => figuresOf(totals, percentiles),
    add(name, labels = {}, amount = 1) {
      counters.get(name)?.inc(labelsOf(name, labels, tenants), amount);
      totals.set(name, (totals.get(name) ?? 0) + amount);
    },
    set(name, value, labels = {}) {
      gauges.get(name)?.set(labelsOf(name, labels, tenants), value);
    },
    observe(name, value, labels = {}) {
      histograms.get(name)?.observe(labelsOf(name, labels, tenants), value);
      percentiles.get(name)?.record(Math.min(MICROS_MAX, Math.max(1, Math.round(value * 1_000_000))));
    },
  };
}

function figuresOf(
  totals: ReadonlyMap<MetricName, number>,
  percentiles: ReadonlyMap<MetricName, RecordableHistogram>,
): Figures {
  const ms = (name: HistogramMetric, percentile: number) => {
    const histogram = percentiles.get(name);
    return histogram === undefined || histogram.count === 0 ? null : histogram.percentile(percentile) / 1_000;
  };
  return {
    lock_busy_retry_count: totals.get("cordum_lock_busy_retries_total") ?? 0,
    lock_busy_retry_delay_ms: {
      p50: ms("cordum_lock_busy_retry_delay_seconds", 50),
      p95: ms("cordum_lock_busy_retry_delay_seconds", 95),
    },
    run_lock_wait_ms_p95: ms("cordum_run_lock_wait_seconds", 95),
    run_lock_wait_ms_p99: ms("cordum_run_lock_wait_seconds", 99),
    job_result_latency_ms_p95: ms("cordum_job_result_latency_seconds", 95),
    input_fail_open_total: totals.get("cordum_scheduler_input_fail_open_total") ?? 0,
  };
}

/** Clients name tenants: those beyond a number share one label. */
class Tenants {
  readonly #known = new Set<string>();

  label(tenant: string): string {
    if (this.#known.has(tenant)) return tenant;
    if (this.#known.size >= TENANTS_MAX) return "other";
    this.#known.add(tenant);
    return tenant;
  }
}

function labelsOf(name: MetricName, labels: Labels, tenants: Tenants): Record<string, string> {
  const all: Record<string, string> = {};
  for (const label of METRICS[name].labels) {
    const value = labels[label] ?? "";
    all[label] = label === "tenant" ? tenants.label(value) : value;
  }
  return all;
}

function bucketsFor(name: string): number[] {
  if (!name.endsWith("_seconds")) return [1, 2, 3, 5, 8, 13, 21, 34, 55, 100];
  return [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
}

const TENANTS_MAX = 100;
/** An hour, in the whole numbers that the histograms of percentiles take. */
const MICROS_MAX = 3_600_000_000;
