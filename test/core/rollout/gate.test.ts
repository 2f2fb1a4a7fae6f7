import { describe, expect, it } from "vitest";
import {
  defaultGates,
  formatGate,
  GATE_METRICS,
  type GateMetric,
  judgedGates,
  parseGate,
  parseGates,
} from "../../../src/core/rollout/gate.ts";

describe("parse", () => {
  it.each(Object.keys(GATE_METRICS) as GateMetric[])("reads what it formats: %s", (metric) => {
    for (const ratio of [0.1, 0.95, 1, 1.2, 2.125, 10]) {
      const gate = { metric, ratio };
      expect(parseGate(formatGate(gate))).toEqual(gate);
    }
  });

  it("formats whole ratios with a decimal", () => {
    expect(formatGate({ metric: "lock_busy_retries", ratio: 1 })).toBe("lock_busy_retries<=1.0x");
  });

  it.each([
    ["", 1, "unknown metric"],
    ["lock_busy_retrys<=1x", 1, "did you mean"],
    ["lock_busy_retries", 18, "expected `<=`"],
    ["lock_busy_retries>=1x", 18, "expected `<=`"],
    ["first_retry_success<=1x", 20, "expected `>=`"],
    ["run_lock_wait_p95<=", 20, "expected a ratio"],
    ["run_lock_wait_p95<=1.2", 20, "expected a ratio"],
    ["run_lock_wait_p95<=-1x", 20, "expected a ratio"],
    ["run_lock_wait_p95<=1.2x ", 20, "expected a ratio"],
    ["run_lock_wait_p95<=0x", 20, "from 0.1x to 10x"],
    ["run_lock_wait_p95<=11x", 20, "from 0.1x to 10x"],
    ["__proto__<=1x", 1, "unknown metric"],
  ])("names the column of the mistake: %s", (text, column, why) => {
    expect(() => parseGate(text)).toThrow(`column ${column}: `);
    expect(() => parseGate(text)).toThrow(why);
  });

  it("rejects two gates of one metric and too many gates", () => {
    expect(() => parseGates(["dead_letters<=1x", "dead_letters<=2x"])).toThrow("more than one gate");
    expect(() => parseGates(Array(20).fill("dead_letters<=1x"))).toThrow("at most 7 gates");
    expect(parseGates(["dead_letters<=1x", "results>=0.9x"])).toHaveLength(2);
  });
});

it("has default gates for every kind of subject", () => {
  expect(defaultGates("lock_busy").map(formatGate)).toEqual([
    "lock_busy_retries<=1.0x",
    "run_lock_wait_p95<=1.2x",
    "job_result_latency_p95<=1.1x",
  ]);
  expect(defaultGates("admission.polled.policy").map(formatGate)).toEqual(["admission_wait_p95<=1.2x"]);
});

it("always judges the number of results", () => {
  expect(judgedGates([]).map(formatGate)).toEqual(["results>=0.9x"]);
  const own = [{ metric: "results", ratio: 0.5 }] as const;
  expect(judgedGates(own)).toEqual(own);
});
