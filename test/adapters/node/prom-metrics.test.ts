import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { promMetrics, SERIES_MAX } from "../../../src/adapters/node/prom-metrics.ts";
import {
  type CounterMetric,
  type GaugeMetric,
  type HistogramMetric,
  type Labels,
  METRICS,
  type MetricSpec,
} from "../../../src/ports/metrics.ts";
import { readPage, sampleKey } from "./prometheus-page.ts";

type Operation = readonly [kind: MetricSpec["type"], labels: Labels, value: number];

/** One metric of each type by number of labels. */
const SUBJECTS: readonly [CounterMetric, GaugeMetric, HistogramMetric][] = [
  ["cordum_run_results_total", "cordum_safety_breaker_state", "cordum_timer_lateness_seconds"],
  ["cordum_jobs_total", "cordum_queue_lag", "cordum_run_lock_wait_seconds"],
  ["cordum_bus_deliveries_total", "cordum_parked_retries", "cordum_admission_wait_seconds"],
];
const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** The expected samples, computed from the whole list of operations. */
function expected(name: keyof typeof METRICS, operations: readonly Operation[]): Map<string, number> {
  const { type, labels: labelNames } = METRICS[name] as MetricSpec;
  const samples = new Map<string, number>();
  const shown = (labels: Labels) =>
    Object.fromEntries(
      labelNames.filter((label) => label !== "arm" || labels.arm).map((label) => [label, labels[label] ?? ""]),
    );
  const mine = operations.filter(([of]) => of === type).map(([, labels, value]) => ({ labels: shown(labels), value }));
  const sets = labelNames.length === 0 ? [{}] : mine.map(({ labels }) => labels);
  for (const labels of sets) {
    const values = mine.filter((one) => sampleKey("", one.labels) === sampleKey("", labels)).map(({ value }) => value);
    const sum = values.reduce((a, b) => a + b, 0);
    if (type === "counter") samples.set(sampleKey(name, labels), sum);
    else if (type === "gauge") samples.set(sampleKey(name, labels), values.at(-1) ?? 0);
    else {
      for (const le of BOUNDS) {
        const count = values.filter((value) => value <= le).length;
        samples.set(sampleKey(`${name}_bucket`, { ...labels, le: `${le}` }), count);
      }
      samples.set(sampleKey(`${name}_bucket`, { ...labels, le: "+Inf" }), values.length);
      samples.set(sampleKey(`${name}_count`, labels), values.length);
      samples.set(sampleKey(`${name}_sum`, labels), sum);
    }
  }
  return samples;
}

describe("the metrics page", () => {
  // Characters with a meaning in the text format.
  const text = fc.string({
    unit: fc.constantFrom('"', "\\", "\n", "n", "a", ",", "=", "{", "}", " ", "ü"),
    maxLength: 4,
  });
  const value = fc.oneof(
    fc.constantFrom(0, 0.1, 1, 2.5, 2.6, 1e-7, 1e21),
    fc.double({ min: 0, max: 10, noNaN: true }),
    fc.nat(5),
  );
  const kind = fc.constantFrom<Operation[0]>("counter", "gauge", "histogram");

  test.each(SUBJECTS)("%s, %s, %s", async (counter, gauge, histogram) => {
    const names = [counter, gauge, histogram].flatMap((name): readonly string[] => METRICS[name].labels);
    const labels = fc.dictionary(fc.constantFrom("constructor", ...names), text, { noNullPrototype: true });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(kind, labels, value), { maxLength: 40 }), async (operations) => {
        const metrics = promMetrics();
        for (const [type, of, amount] of operations) {
          if (type === "counter") metrics.add(counter, of, amount);
          else if (type === "gauge") metrics.set(gauge, amount, of);
          else metrics.observe(histogram, amount, of);
        }
        const page = readPage(await metrics.text());
        for (const name of [counter, gauge, histogram]) {
          expect(page.get(name)?.samples).toEqual(expected(name, operations));
        }
      }),
    );
  });
});

test("a histogram has cumulative buckets with inclusive bounds, and `+Inf` counts all values", async () => {
  const metrics = promMetrics();
  for (const value of [1, 2, 2.5, 100, 101]) metrics.observe("cordum_lock_attempts", value, { path: 'a"b\\c\nd' });
  const labels = 'path="a\\"b\\\\c\\nd"';
  const lines = (await metrics.text()).split("\n").filter((line) => line.startsWith("cordum_lock_attempts"));
  const counts = [1, 2, 3, 3, 3, 3, 3, 3, 3, 4];
  expect(lines).toEqual([
    ...[1, 2, 3, 5, 8, 13, 21, 34, 55, 100].map(
      (le, at) => `cordum_lock_attempts_bucket{le="${le}",${labels}} ${counts[at]}`,
    ),
    `cordum_lock_attempts_bucket{le="+Inf",${labels}} 5`,
    `cordum_lock_attempts_sum{${labels}} 206.5`,
    `cordum_lock_attempts_count{${labels}} 5`,
  ]);
});

test("a metric without labels starts at 0; a metric with labels has only a header until its first use", async () => {
  const metrics = promMetrics();
  const page = readPage(await metrics.text());
  expect([...page.keys()]).toEqual(Object.keys(METRICS));
  for (const [name, { type, labels, help }] of Object.entries(METRICS) as [string, MetricSpec][]) {
    const family = page.get(name);
    expect(family, name).toMatchObject({ type, help });
    expect(family?.samples.size === 0, name).toBe(labels.length > 0);
    for (const value of family?.samples.values() ?? []) expect(value, name).toBe(0);
  }
  expect(metrics.contentType).toBe("text/plain; version=0.0.4; charset=utf-8");
});

test("ignores values that are not finite, and negative increments of counters", async () => {
  const metrics = promMetrics();
  const before = await metrics.text();
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
    metrics.add("cordum_run_results_total", {}, value);
    metrics.observe("cordum_job_result_latency_seconds", value);
    metrics.observe("cordum_run_lock_wait_seconds", value, { path: "p" });
  }
  metrics.add("cordum_run_results_total", {}, -1);
  metrics.add("cordum_jobs_total", { state: "FAILED" }, -1);
  expect(await metrics.text()).toBe(before);
  expect(metrics.figures().job_result_latency_ms_p95).toBeNull();
  metrics.set("cordum_queue_lag", Number.NaN, { subject: "s" });
  metrics.set("cordum_safety_breaker_state", Number.POSITIVE_INFINITY);
  expect(await metrics.text()).toBe(before);
});

describe("the limit of series", () => {
  const all = SERIES_MAX * 2;
  const samplesOf = (page: string, name: string) => readPage(page).get(name)?.samples ?? new Map<string, number>();

  test("counts values beyond the limit in a series whose labels are `other`", async () => {
    const metrics = promMetrics();
    const name: CounterMetric = "cordum_bus_deliveries_total";
    for (let round = 0; round < 3; round += 1) {
      for (let at = 0; at < all; at += 1) metrics.add(name, { subject: `s${at}`, action: "ack" });
    }
    metrics.add("cordum_jobs_total", { state: "FAILED" });
    const page = await metrics.text();
    const samples = samplesOf(page, name);
    expect(samples.size).toBe(SERIES_MAX + 1);
    expect(samples.get(sampleKey(name, { subject: "s0", action: "ack" }))).toBe(3);
    expect(samples.get(sampleKey(name, { subject: `s${SERIES_MAX - 1}`, action: "ack" }))).toBe(3);
    expect(samples.get(sampleKey(name, { subject: "other", action: "other" }))).toBe(3 * SERIES_MAX);
    // Each metric has its own bound.
    expect(samplesOf(page, "cordum_jobs_total")).toEqual(
      new Map([[sampleKey("cordum_jobs_total", { state: "FAILED" }), 1]]),
    );
  });

  test("reuses a series that already has the label `other`", async () => {
    const metrics = promMetrics();
    const name: HistogramMetric = "cordum_run_lock_wait_seconds";
    metrics.observe(name, 1, { path: "other" });
    for (let at = 0; at < all; at += 1) metrics.observe(name, 1, { path: `${at}` });
    const samples = samplesOf(await metrics.text(), name);
    expect(samples.size).toBe(SERIES_MAX * (BOUNDS.length + 3));
    expect(samples.get(sampleKey(`${name}_count`, { path: "other" }))).toBe(all - (SERIES_MAX - 1) + 1);
  });

  test("does not affect figures", () => {
    const metrics = promMetrics();
    for (let at = 0; at < all; at += 1)
      metrics.add("cordum_lock_busy_retries_total", { path: "engine", policy: `p${at}` }, 2);
    expect(metrics.figures().lock_busy_retry_count).toBe(2 * all);
  });

  test("makes the `other` series of a gauge show the last value", async () => {
    const metrics = promMetrics();
    const name: GaugeMetric = "cordum_queue_lag";
    for (let at = 0; at < all; at += 1) metrics.set(name, at, { subject: `${at}` });
    const samples = samplesOf(await metrics.text(), name);
    expect(samples.size).toBe(SERIES_MAX + 1);
    expect(samples.get(sampleKey(name, { subject: "other" }))).toBe(all - 1);
    expect(samples.get(sampleKey(name, { subject: "7" }))).toBe(7);
  });
});
