import { expect, test } from "vitest";
import { rolloutPage } from "../../../src/cli/rollout/export-rollout.ts";
import { rolloutText } from "../../../src/cli/rollout/rollout-view.ts";

const distribution = (p95: number) => ({
  p50: p95 / 10,
  p95,
  p99: 2 * p95,
  intervals: { p50: null, p95: { low: p95 * 0.9, high: p95 * 1.1 }, p99: null },
});
const arm = (units: number, p95: number) => ({
  units,
  busy_retries: units,
  busy_retries_per_unit: 1,
  busy_retries_per_minute: units / 10,
  first_retry_success: 0.625,
  results: units,
  dead_letters: 0,
  run_lock_wait_ms: distribution(p95),
  job_result_latency_ms: distribution(2 * p95),
  admission_wait_ms: null,
});
const figures = (policy: string, p95: number) => ({
  policy,
  busy_retries: 40,
  first_retry_success: 0.5,
  run_lock_wait_ms: { p50: 1, p95, p99: 2 * p95 },
  job_result_latency_ms: { p50: 2, p95: 2 * p95, p99: 4 * p95 },
});
const ROLLOUT = {
  id: "R3",
  class: "lock_busy",
  policy: "fixed:2s",
  control: "bounded:500ms:0.3",
  state: "rolled_back",
  share: 0.1,
  shares: [0.1, 0.3],
  stage: 0,
  orgs: ["acme", "\u001b[31mred"],
  gates: ["run_lock_wait_p95<=1.2x"],
  horizon_ms: 600_000,
  switch_ms: 1_800_000,
  alpha: 0.01,
  started_by: "ann",
  started_at: "2030-01-01T00:00:00.000Z",
  ends_at: "2030-01-08T00:00:00.000Z",
  updated_at: "2030-01-01T02:00:00.000Z",
  updated_by: "cordum",
  reason: "run_lock_wait_p95 480 → 1900 ms <script>",
  e_value: 112.4,
  e_value_limit: 100,
  judged_gates: [
    {
      gate: "run_lock_wait_p95<=1.2x",
      e_value: 224.8,
      proof_e_value: 0.01,
      proved: false,
      blocks: 31,
      difference: { mean: 0.31, low: 0.12, high: 0.5 },
    },
    { gate: "results>=0.9x", e_value: 0.4, proof_e_value: 130, proved: true, blocks: 31, difference: null },
  ],
  arms: { control: arm(900, 480), treatment: arm(100, 1_900) },
  series: [
    { at: "2030-01-01T00:30:00.000Z", units: 200, e_values: [2, 0.8] },
    { at: "2030-01-01T02:00:00.000Z", units: 1_000, e_values: [224.8, 0.4] },
  ],
  prediction: {
    from: "2029-12-31T00:00:00.000Z",
    to: "2030-01-01T00:00:00.000Z",
    acquisitions: 5_000,
    control: figures("bounded:500ms:0.3", 500),
    treatment: figures("fixed:2s", 2_000),
  },
  expected_decision: null,
};

test("shows both arms, the prediction and the breached gate", () => {
  const text = rolloutText(ROLLOUT);
  expect(text).toMatch(/^control +900 +900 +90 +62\.5 % +48 \/ 480 \/ 960/m);
  expect(text).toMatch(/^treatment +100 +100 +10 +62\.5 % +190 \/ 1900 \/ 3800/m);
  expect(text).toMatch(/^predicted treatment +– +40 +– +50 % +1 \/ 2000 \/ 4000/m);
  expect(text).toMatch(/^run_lock_wait_p95<=1\.2x +225 +0\.01 +\+0\.310 \(\+0\.120 to \+0\.500\) +breached/m);
  expect(text).toMatch(/^results>=0\.9x +0\.4 +130 +– +proved/m);
  expect(text).toContain("[10 %] → 30 % of tenants acme");
});

test("escapes names of tenants and reasons", () => {
  expect(rolloutText(ROLLOUT)).not.toContain("\u001b");
  const page = rolloutPage(ROLLOUT);
  expect(page).not.toContain("<script>");
  expect(page).toContain("480 (432 to 528)");
});

test("gives the expected decision and the interference caveat while it runs", () => {
  const text = rolloutText({ ...ROLLOUT, state: "running", expected_decision: { kind: "proved", in_ms: 7_200_000 } });
  expect(text).toContain("at this rate a proof in about 2 h");
  expect(text).toContain("--switch");
  expect(rolloutText(ROLLOUT)).not.toContain("--switch");
});

test("draws the e-values of every gate", () => {
  const page = rolloutPage(ROLLOUT);
  expect(page).toContain("Evidence for a breach");
  expect(page).toContain("rolls back at 100");
  expect(rolloutPage({ ...ROLLOUT, series: [] })).not.toContain("<svg");
});
