import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Counter, Gauge, Histogram, pageOf, SERIES_MAX } from "../../../src/adapters/node/metric-family.ts";
import { promMetrics } from "../../../src/adapters/node/prom-metrics.ts";
import { type CounterMetric, type Labels, METRICS, type MetricSpec } from "../../../src/ports/metrics.ts";
import { type PageFamily, readPage, sampleKey } from "./prometheus-page.ts";

type Operation = readonly [kind: MetricSpec["type"], labels: Labels, value: number];

const BOUNDS = [0.1, 1, 2.5];
const unchanged = (_: string, value: string) => value;
const specOf = (type: MetricSpec["type"], labels: readonly string[], help = "Help."): MetricSpec => ({
  type,
  labels,
  help,
});

/** Applies the operations to one family of each type, and parses the page. */
function read(labelNames: readonly string[], operations: readonly Operation[]): ReadonlyMap<string, PageFamily> {
  const counter = new Counter("c_total", specOf("counter", labelNames), unchanged);
  const gauge = new Gauge("g", specOf("gauge", labelNames), unchanged);
  const histogram = new Histogram("h", specOf("histogram", labelNames), unchanged, BOUNDS);
  for (const [kind, labels, value] of operations) {
    if (kind === "counter") counter.add(labels, value);
    else if (kind === "gauge") gauge.set(labels, value);
    else histogram.observe(labels, value);
  }
  return readPage(pageOf([counter, gauge, histogram]));
}

/** The expected samples, computed from the whole list of operations. */
function expected(
  labelNames: readonly string[],
  operations: readonly Operation[],
  kind: Operation[0],
): Map<string, number> {
  const samples = new Map<string, number>();
  const shown = (labels: Labels) => Object.fromEntries(labelNames.map((name) => [name, labels[name] ?? ""]));
  const mine = operations.filter(([of]) => of === kind).map(([, labels, value]) => ({ labels: shown(labels), value }));
  const sets = labelNames.length === 0 ? [{}] : mine.map(({ labels }) => labels);
  for (const labels of sets) {
    const values = mine.filter((one) => sampleKey("", one.labels) === sampleKey("", labels)).map(({ value }) => value);
    const sum = values.reduce((a, b) => a + b, 0);
    if (kind === "counter") samples.set(sampleKey("c_total", labels), sum);
    else if (kind === "gauge") samples.set(sampleKey("g", labels), values.at(-1) ?? 0);
    else {
      for (const le of BOUNDS) {
        samples.set(sampleKey("h_bucket", { ...labels, le: `${le}` }), values.filter((value) => value <= le).length);
      }
      samples.set(sampleKey("h_bucket", { ...labels, le: "+Inf" }), values.length);
      samples.set(sampleKey("h_count", labels), values.length);
      samples.set(sampleKey("h_sum", labels), sum);
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

  test.each([[[]], [["a"]], [["a", "b"]], [["a", "b", "c"]]])("labels %j", (labelNames: string[]) => {
    const labels = fc.dictionary(fc.constantFrom("a", "b", "c", "constructor"), text, { noNullPrototype: true });
    fc.assert(
      fc.property(fc.array(fc.tuple(kind, labels, value), { maxLength: 40 }), (operations) => {
        const page = read(labelNames, operations);
        expect(page.get("c_total")?.samples).toEqual(expected(labelNames, operations, "counter"));
        expect(page.get("g")?.samples).toEqual(expected(labelNames, operations, "gauge"));
        expect(page.get("h")?.samples).toEqual(expected(labelNames, operations, "histogram"));
      }),
    );
  });

  test("escapes help texts, but not quotes in them", () => {
    const page = pageOf([new Gauge("g", specOf("gauge", ["a"], 'Say "a\\b"\nand c.'), unchanged)]);
    expect(page).toBe('# HELP g Say "a\\\\b"\\nand c.\n# TYPE g gauge\n');
    expect(readPage(page).get("g")?.help).toBe('Say "a\\b"\nand c.');
  });
});

test("a histogram has cumulative buckets with inclusive bounds, and `+Inf` counts all values", () => {
  const histogram = new Histogram("h_seconds", specOf("histogram", ["path"]), unchanged, BOUNDS);
  for (const value of [0.1, 0.5, 1, 2.5, 2.500001, 100]) histogram.observe({ path: 'a"b\\c\nd' }, value);
  const labels = 'path="a\\"b\\\\c\\nd"';
  expect(histogram.text().split("\n")).toEqual([
    "# HELP h_seconds Help.",
    "# TYPE h_seconds histogram",
    `h_seconds_bucket{le="0.1",${labels}} 1`,
    `h_seconds_bucket{le="1",${labels}} 3`,
    `h_seconds_bucket{le="2.5",${labels}} 4`,
    `h_seconds_bucket{le="+Inf",${labels}} 6`,
    `h_seconds_sum{${labels}} 106.600001`,
    `h_seconds_count{${labels}} 6`,
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
  const lag = readPage(await metrics.text()).get("cordum_queue_lag")?.samples;
  expect([...(lag?.values() ?? [])]).toEqual([Number.NaN]);
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

  test("reuses a series that already has the label `other`", () => {
    const histogram = new Histogram("h", specOf("histogram", ["a"]), unchanged, BOUNDS);
    histogram.observe({ a: "other" }, 1);
    for (let at = 0; at < all; at += 1) histogram.observe({ a: `${at}` }, 1);
    const samples = samplesOf(pageOf([histogram]), "h");
    expect(samples.size).toBe(SERIES_MAX * (BOUNDS.length + 3));
    expect(samples.get(sampleKey("h_count", { a: "other" }))).toBe(all - (SERIES_MAX - 1) + 1);
  });

  test("does not affect figures", () => {
    const metrics = promMetrics();
    for (let at = 0; at < all; at += 1)
      metrics.add("cordum_lock_busy_retries_total", { path: "engine", policy: `p${at}` }, 2);
    expect(metrics.figures().lock_busy_retry_count).toBe(2 * all);
  });

  test("makes the `other` series of a gauge show the last value", () => {
    const gauge = new Gauge("g", specOf("gauge", ["a"]), unchanged);
    for (let at = 0; at < all; at += 1) gauge.set({ a: `${at}` }, at);
    const samples = samplesOf(pageOf([gauge]), "g");
    expect(samples.size).toBe(SERIES_MAX + 1);
    expect(samples.get(sampleKey("g", { a: "other" }))).toBe(all - 1);
    expect(samples.get(sampleKey("g", { a: "7" }))).toBe(7);
  });
});
