import { beforeAll, describe, expect, test } from "vitest";
import { settingsFrom } from "../../src/config/config.ts";
import { outcomeDocument } from "../../src/lab/document.ts";
import { figureAt, type Outcome, runExperiment } from "../../src/lab/experiment.ts";
import { SAFETY_OUTAGE } from "../../src/lab/safety-outage/experiment.ts";
import { simulateOutage } from "../../src/lab/safety-outage/simulation.ts";
import { figureIn } from "./fixtures.ts";

const CAPPED = "capped_exponential:1s:30s:500ms";
const FULL = "full:1s:30s";
const SMALL = { contenders: "200", outageMs: "65000", kernelMs: "20", rate: "1", leaseAfterMs: "10000" };

const run = (params: object, seeds = 1): Promise<Outcome> =>
  runExperiment(SAFETY_OUTAGE, { seed: 1, seeds, params: SAFETY_OUTAGE.readParams({ ...SMALL, ...params }) });

test("gives equal documents for equal seeds, and different ones for different seeds", async () => {
  const selected = { policies: [FULL], load: "burst", mode: "closed", breaker: "on" };
  const texts = await Promise.all(
    [run(selected), run(selected)].map(async (one) => JSON.stringify(outcomeDocument(await one))),
  );
  expect(texts[0]).toBe(texts[1]);
  const params = SAFETY_OUTAGE.readParams({ ...SMALL, ...selected });
  const other = await runExperiment(SAFETY_OUTAGE, { seed: 2, seeds: 1, params });
  expect(JSON.stringify(outcomeDocument(other))).not.toBe(texts[0]);
});

describe("burst load", () => {
  let bursts: Outcome;
  beforeAll(async () => {
    // With 200 arrivals the ratio to a Poisson stream varies from 0.8 to 1.5 between seeds.
    bursts = await run({ policies: ["fixed:5s", CAPPED, FULL], load: "burst", mode: "closed" }, 10);
  });

  test.each(["off", "on"])(
    "breaker %s: full jitter is as even as a Poisson stream, other policies are not",
    (breaker) => {
      const of = (policy: string, path: string) => figureIn(bursts, { policy, breaker }, path);
      expect(of(FULL, "arrivals.to_poisson")).toBeLessThanOrEqual(1.3);
      expect(of(CAPPED, "arrivals.peak_to_mean")).toBeGreaterThan(5 * of(FULL, "arrivals.peak_to_mean"));
      expect(of("fixed:5s", "arrivals.peak_to_mean")).toBeGreaterThan(5 * of(FULL, "arrivals.peak_to_mean"));
    },
  );

  test("delays the drain with synchronized retries, whose checks time out", () => {
    const of = (policy: string, path: string) => figureIn(bursts, { policy, breaker: "off" }, path);
    expect(of(FULL, "late_checks")).toBe(0);
    expect(of(CAPPED, "late_checks")).toBeGreaterThan(100);
    expect(of(CAPPED, "drain_ms")).toBeGreaterThan(2 * of(FULL, "drain_ms"));
  });

  test("dispatches every job after the outage and none before", () => {
    for (const { key, figures } of bursts.rows) {
      expect({ key, left: figureAt(figures, "left") }).toEqual({ key, left: 0 });
      expect(figureAt(figures, "waiting_max")).toBe(200);
      expect(figureAt(figures, "bypassed")).toBe(0);
      expect(figureAt(figures, "drain_ms")).toBeGreaterThan(0);
    }
  });
});

describe("steady load", () => {
  let both: Outcome;
  beforeAll(async () => {
    both = await run({ policies: ["fixed:5s", FULL], load: "steady" });
  });

  test("stops most checks during the outage with the breaker", () => {
    for (const policy of ["fixed:5s", FULL]) {
      const of = (breaker: string, path: string) => figureIn(both, { mode: "closed", policy, breaker }, path);
      expect(of("on", "pressure.checks_per_s")).toBeLessThan(0.2 * of("off", "pressure.checks_per_s"));
      expect(of("off", "pressure.refused_per_s")).toBe(0);
      expect(of("on", "pressure.refused_per_s")).toBeGreaterThan(0);
    }
  });

  test("dispatches labelled jobs and shortens the wait with a lease", () => {
    const of = (mode: string, path: string) => figureIn(both, { mode, policy: FULL, breaker: "on" }, path);
    expect(of("closed", "bypassed")).toBe(0);
    expect(of("lease", "bypassed")).toBeGreaterThan(30);
    expect(of("lease", "wait_ms.p50")).toBeLessThan(0.1 * of("closed", "wait_ms.p50"));
  });
});

test("dispatches a burst at once with a lease, in one row", async () => {
  const { rows } = await run({ load: "burst", mode: "lease", waitedMs: "20000" });
  expect(rows.map(({ key }) => [key.policy, key.breaker])).toEqual([[FULL, "on"]]);
  expect(rows.map(({ figures }) => figureAt(figures, "bypassed"))).toEqual([200]);
});

test("rejects a history with a dispatch without a decision", async () => {
  const load = { kind: "burst", jobs: 20, waitedMs: 5_000 } as const;
  const request = {
    seed: 1,
    replicas: 2,
    outageMs: 10_000,
    load,
    kernelMs: 1,
    latencyMs: 0.3,
    gone: "refuses",
  } as const;
  const settings = settingsFrom();
  await expect(simulateOutage({ ...request, settings, leaseAfterMs: null })).resolves.toBeDefined();
  const { jobs } = await simulateOutage({ ...request, settings, leaseAfterMs: 1_000 });
  expect(() => jobs.checkClosed()).toThrow(/20 jobs were dispatched without a safety decision/);
});

test("has charts and findings", async () => {
  const outcome = await run({ contenders: "100", policies: [CAPPED, FULL] });
  expect(SAFETY_OUTAGE.charts(outcome).map(({ name }) => name)).toEqual(["arrivals", "lag-steady", "lag-burst"]);
  expect(SAFETY_OUTAGE.findings(outcome)).toHaveLength(5);
});
