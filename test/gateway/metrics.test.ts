import { expect, test } from "vitest";
import { promMetrics } from "../../src/adapters/node/prom-metrics.ts";
import { METRICS, type MetricSpec } from "../../src/ports/metrics.ts";

test("exports values with their labels; unknown labels are dropped, missing ones are empty", async () => {
  const metrics = promMetrics();
  metrics.add("cordum_bus_deliveries_total", { subject: "s", action: "ack" });
  metrics.add("cordum_bus_deliveries_total", { subject: "s", action: "ack" }, 2);
  metrics.add("cordum_dead_letters_total", { reason: "budget", surprise: "x" });
  metrics.add("cordum_jobs_total");
  metrics.set("cordum_queue_lag", 7, { subject: "demo.echo" });
  const text = await metrics.text();
  expect(text).toContain('cordum_bus_deliveries_total{subject="s",action="ack"} 3');
  expect(text).toContain('cordum_dead_letters_total{reason="budget"} 1');
  expect(text).toContain('cordum_jobs_total{state=""} 1');
  expect(text).toContain('cordum_queue_lag{subject="demo.echo"} 7');
});

test("registries are independent", async () => {
  promMetrics().add("cordum_jobs_total", { state: "FAILED" });
  expect(await promMetrics().text()).not.toContain("FAILED");
});

test("computes the status figures from the histograms, in milliseconds", () => {
  const metrics = promMetrics();
  for (let ms = 1; ms <= 100; ms += 1) {
    metrics.observe("cordum_lock_busy_retry_delay_seconds", ms / 1_000, { policy: "p" });
    metrics.observe("cordum_run_lock_wait_seconds", ms / 1_000, { path: "engine" });
  }
  metrics.add("cordum_lock_busy_retries_total", { path: "engine" }, 100);
  metrics.observe("cordum_job_result_latency_seconds", Number.MAX_VALUE);
  const figures = metrics.figures();
  expect(figures.lock_busy_retry_count).toBe(100);
  expect(figures.lock_busy_retry_delay_ms.p50).toBeCloseTo(50, 0);
  expect(figures.lock_busy_retry_delay_ms.p95).toBeCloseTo(95, 0);
  expect(figures.run_lock_wait_ms_p99).toBeCloseTo(99, 0);
  expect(figures.job_result_latency_ms_p95).toBeGreaterThanOrEqual(3_590_000);
});

test("has the metrics of the contract", () => {
  const promised = `lock_busy_retries_total lock_busy_retry_delay_seconds run_lock_wait_seconds lock_attempts
    lock_first_retry_success_total job_result_latency_seconds admission_wait_seconds admission_rejected_total
    scheduler_input_fail_open_total scheduler_safety_unavailable_total safety_breaker_state bus_deliveries_total
    bus_redeliveries_total dead_letters_total queue_lag queue_oldest_seconds parked_retries
    retry_arrivals_peak_to_mean approvals_waiting runs_open tenant_open_jobs disk_free_bytes disk_size_bytes
    store_up safety_kernel_up`.split(/\s+/);
  expect(Object.keys(METRICS)).toEqual(expect.arrayContaining(promised.map((name) => `cordum_${name}`)));
});

/** The rules of `promtool check metrics` for names and help. */
test.each(Object.entries(METRICS) as [string, MetricSpec][])("%s follows the Prometheus naming rules", (name, spec) => {
  expect(name).toMatch(/^cordum_[a-z][a-z0-9_]*[a-z0-9]$/);
  expect(name.endsWith("_total")).toBe(spec.type === "counter");
  // Base units as suffix; no type in the name; no suffix that histograms add.
  expect(name).not.toMatch(/_(ms|milliseconds|minutes|hours|days|micros|nanoseconds|percent|kb|kilobytes|mb)(_|$)/);
  expect(name).not.toMatch(/_(counter|gauge|histogram|summary)(_|$)|_(count|sum|bucket|info)$/);
  if (name.includes("seconds")) expect(name).toMatch(/_seconds(_total)?$/);
  expect(spec.help).toMatch(/^[A-Z].*\.$/);
  for (const label of spec.labels) {
    expect(label).toMatch(/^[a-z][a-z_]*$/);
    expect(["le", "quantile", "job", "instance", name]).not.toContain(label);
  }
});

test("is valid exposition format: help and type once, before the samples", async () => {
  const metrics = promMetrics();
  metrics.observe("cordum_admission_wait_seconds", 0.2, { tenant: 'a"b\\c\nd', endpoint: "/api/v1/jobs" });
  const lines = (await metrics.text()).split("\n").filter(Boolean);
  const seen = new Set<string>();
  for (const line of lines) {
    const [, kind, name] = /^# (HELP|TYPE) (\S+) .+$/.exec(line) ?? [];
    if (name) {
      expect(seen.has(`${kind} ${name}`), line).toBe(false);
      seen.add(`${kind} ${name}`);
      continue;
    }
    const [, sample = ""] =
      /^([a-z_]+)(?:\{(?:[a-z_]+="(?:\\["\\n]|[^"\\\n])*",?)*\})? (?:[-+]?[0-9.]+(?:e[-+]?\d+)?|[-+]?Inf|NaN)$/.exec(
        line,
      ) ?? [];
    const family = seen.has(`TYPE ${sample}`) ? sample : sample.replace(/_(bucket|sum|count)$/, "");
    expect([...seen].slice(-2), line).toEqual([`HELP ${family}`, `TYPE ${family}`]);
  }
  const labels = 'tenant="a\\"b\\\\c\\nd",endpoint="/api/v1/jobs"';
  expect(lines).toContain(`cordum_admission_wait_seconds_sum{${labels}} 0.2`);
  expect(lines).toContain(`cordum_admission_wait_seconds_count{${labels}} 1`);
  for (const name of Object.keys(METRICS)) expect(seen.has(`TYPE ${name}`), name).toBe(true);
});

test("limits tenant labels to 100; further tenants share a label", async () => {
  const metrics = promMetrics();
  for (let tenant = 0; tenant < 1_000; tenant += 1) {
    metrics.observe("cordum_admission_wait_seconds", 0.1, { tenant: `t${tenant}`, endpoint: "e" });
  }
  const text = await metrics.text();
  const tenants = new Set([...text.matchAll(/tenant="(\w+)"/g)].map(([, tenant]) => tenant));
  expect(tenants.size).toBe(101);
  expect(text).toContain('cordum_admission_wait_seconds_count{tenant="other",endpoint="e"} 900');
});
