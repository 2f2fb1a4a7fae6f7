import { expect, test } from "vitest";
import { promMetrics } from "../../src/worlds/prom-metrics.ts";

test("what is counted stands on the page with its labels; an unknown label is left out, a missing one is empty", async () => {
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

test("two sets of metrics are two: nothing is global", async () => {
  promMetrics().add("cordum_jobs_total", { state: "FAILED" });
  expect(await promMetrics().text()).not.toContain("FAILED");
});

test("the founding figures are computed from what was observed, in milliseconds, to three digits", () => {
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
