import { beforeAll, describe, expect, test } from "vitest";
import { type Acquisition, CONTENTION, type ContentionRecord } from "../../src/core/contention/acquisition.ts";
import { decodeRecord } from "../../src/core/contention/codec.ts";
import { figuresOf, recordedOutcomes } from "../../src/core/contention/figures.ts";
import { calibrate, figuresIn, predict, seededRandom } from "../../src/core/contention/predict.ts";
import { ReplayLimitError } from "../../src/core/contention/replay-options.ts";
import { traceOf } from "../../src/core/contention/trace.ts";
import { figureAt, runExperiment } from "../../src/lab/experiment.ts";
import { type PreparedRuns, prepareRuns, settingsOf } from "../../src/lab/lock-busy/scenario.ts";
import { simulateRow } from "../../src/lab/lock-busy/simulation.ts";
import { replayExperiment } from "../../src/lab/replay/experiment.ts";
import { waveText } from "../../src/lab/replay/report.ts";
import { acquisition, record } from "../core/contention/fixtures.ts";

const ATTEMPTS_MAX = 1e7;
const FIXED = "fixed:500ms";
const BOUNDED = "bounded:500ms:0.3";

describe("replay of a recorded simulation", () => {
  let prepared: PreparedRuns;
  beforeAll(async () => {
    const settings = settingsOf("default", true);
    prepared = await prepareRuns({ seed: 3, contenders: 240, hotRuns: 12, isLeased: false, settings });
  });

  test.each([
    [BOUNDED, 0],
    [BOUNDED, 10],
    [FIXED, 0],
    ["hand_over", 0],
  ])("agrees with the simulated engine: %s, redelivery timer %i ms", async (row, nakLookMs) => {
    const { figures, records } = await simulate(row, nakLookMs);
    const trace = traceOf(records);
    expect(trace.size).toBeGreaterThanOrEqual(228);
    expect(trace.size).toBeLessThanOrEqual(240);
    // The record has the figures of the probe, within the resolution of the clock.
    const recorded = figuresOf(trace, recordedOutcomes(trace));
    expect(recorded.busyRetries).toBe(figureAt(figures, "busy_retries"));
    expectWithin(0.01, recorded.drainMs.max, figureAt(figures, "drain_ms"));
    const settings = settingsOf(row, false);
    const replayed = figuresIn(trace, settings, calibrate(trace, settings), ATTEMPTS_MAX);
    expectWithin(0.1, replayed.waitMs.p95, figureAt(figures, "wait_ms.p95"));
    // Medians of one draw of delays over 12 runs.
    expectWithin(0.2, replayed.latencyMs.p50, figureAt(figures, "result_latency_ms.p50"));
    expectWithin(0.2, replayed.drainMs.p50, recorded.drainMs.p50);
    if (row === BOUNDED) expectWithin(0.1, replayed.busyRetries, recorded.busyRetries);
  });

  test("of one policy predicts the drain time and the lock wait of another", async () => {
    const [fixed, bounded] = [await simulate(FIXED, 10), await simulate(BOUNDED, 10)];
    const prediction = predict(fixed.records, settingsOf(FIXED, false), "lock_busy", BOUNDED);
    expectWithin(0.15, prediction?.treatment.waitMs.p95, figureAt(bounded.figures, "wait_ms.p95"));
    expectWithin(0.15, prediction?.treatment.busyRetries, figureAt(bounded.figures, "busy_retries"));
    expectWithin(0.05, prediction?.control.busyRetries, figureAt(fixed.figures, "busy_retries"));
    const trace = traceOf(fixed.records);
    const settings = settingsOf(BOUNDED, false);
    const [replayed, seen] = [
      figuresIn(trace, settings, calibrate(trace, settings), ATTEMPTS_MAX),
      traceOf(bounded.records),
    ];
    const drains = figuresOf(seen, recordedOutcomes(seen)).drainMs;
    expectWithin(0.15, replayed.drainMs.p50, drains.p50);
    expectWithin(0.15, replayed.drainMs.p95, drains.p95);
  });

  async function simulate(row: string, nakLookMs: number) {
    const settings = { ...settingsOf(row, false), contention: { record: true } };
    const costs = { replicas: 3, holdMs: 5, latencyMs: 0.2, latencySpread: 0.2, stepMs: 0, nakLookMs, binMs: 50 };
    const { figures, net } = await simulateRow(prepared, { seed: 5, ...costs, variant: "bus", settings });
    await net.timeline.runUntil(net.timeline.nowMs + 61_000);
    return { figures, records: [...net.store.rows(CONTENTION)].map(({ value }) => decodeRecord(value)) };
  }
});

describe("cordum lab replay", () => {
  test("has the same figures for the same seed, and what was recorded in the first row", async () => {
    const one = replayExperiment(traceOf(bursts(40, 20)));
    const params = one.readParams({ policies: [FIXED, BOUNDED], lock: "off" });
    const run = () => runExperiment(one, { seed: 1, seeds: 1, params });
    const outcome = await run();
    expect(await run()).toEqual(outcome);
    expect(outcome.rows.map(({ key }) => key.policy)).toEqual(["recorded", FIXED, BOUNDED]);
    const [recorded, fixed, bounded] = outcome.rows.map(({ figures }) => figures);
    expect(figureAt(recorded!, "wait_ms.p50")).toBe(700);
    expect(figureAt(bounded!, "busy_retries")).toBeLessThan(0.5 * figureAt(fixed!, "busy_retries")!);
    expect(one.findings(outcome)[0]).toContain(`\`${BOUNDED}\` instead of \`${FIXED}\``);
    expect(one.charts(outcome).map(({ name }) => name)).toEqual(["arrivals", "latencies"]);
    const lines = waveText(outcome, 80).trimEnd().split("\n");
    expect(lines[0]).toContain("lock attempts per 50 ms");
    expect(lines).toHaveLength(4);
    expect(lines.slice(1).every((line) => [...line].length <= 80)).toBe(true);
  });

  test("replays 100,000 acquisitions of a day with less than 10 s of CPU time", async () => {
    const one = replayExperiment(traceOf(bursts(4_000, 25)));
    const params = one.readParams({ policies: [FIXED, BOUNDED], lock: "off" });
    const before = process.cpuUsage();
    const { rows } = await runExperiment(one, { seed: 1, seeds: 1, params });
    const { user, system } = process.cpuUsage(before);
    expect(figureAt(rows[0]!.figures, "acquisitions")).toBe(104_000);
    expect(figureAt(rows[1]!.figures, "busy_retries")).toBeGreaterThan(1_000_000);
    expect((user + system) / 1e6).toBeLessThan(10);
  }, 180_000);

  test("stops a policy that makes too many attempts", () => {
    const trace = traceOf([record({ acquisitions: longHold() })]);
    const settings = settingsOf("fixed:1ms", false);
    expect(() => figuresIn(trace, settings, { ...trace.costs, returnSpread: 0 }, 1_000)).toThrow(ReplayLimitError);
    expect(predict([record({ acquisitions: longHold() })], settings, "lock_busy", "fixed:2ms")).toBeNull();
  });
});

/** Bursts over a day, one lock each: `size` arrivals within 2 ms, besides the holder that blocked them. */
function bursts(count: number, size: number): readonly ContentionRecord[] {
  const random = seededRandom(7);
  return Array.from({ length: count }, (_, at) => {
    const atMs = Math.floor((at * 86_400_000) / count);
    const acquisitions = Array.from({ length: size }, (): Acquisition => {
      const arrivedMs = atMs + Math.floor(2 * random());
      return acquisition({
        key: at,
        arrivedMs,
        waitMs: 700,
        holdMs: 4 + Math.floor(3 * random()),
        attempts: 2,
        wasBlocked: true,
      });
    });
    const inForce = { lockBusyPolicy: BOUNDED, engineWaitMs: 0, coalesce: false };
    return record({ process: at % 3, fromMs: atMs, toMs: atMs + 60_000, inForce, acquisitions });
  });
}

/** A lock that is held for an hour while a hundred results wait. */
function longHold(): readonly Acquisition[] {
  const waiter = acquisition({ arrivedMs: 1_001, waitMs: 3_600_000, attempts: 2, wasBlocked: true });
  return [acquisition({ holdMs: 3_600_000 }), ...Array.from({ length: 100 }, () => waiter)];
}

function expectWithin(share: number, actual: number | null | undefined, expected: number | null): void {
  expect(
    Math.abs((actual ?? Number.NaN) / (expected ?? Number.NaN) - 1),
    `${actual} for ${expected}`,
  ).toBeLessThanOrEqual(share);
}
