import { describe, expect, it } from "vitest";
import { outcomeDocument } from "../../src/lab/document.ts";
import { figureAt, figureOf, findRow, type Outcome, runExperiment } from "../../src/lab/experiment.ts";
import { ROLLOUT } from "../../src/lab/rollout/experiment.ts";
import { producePools } from "../../src/lab/rollout/pool.ts";
import { ROWS } from "../../src/lab/rollout/rows.ts";

const SMALL = { trials: "15", poolRuns: "60", widthMax: "20", treatmentRuns: "1000" };

const run = (given: Parameters<typeof ROLLOUT.readParams>[0]): Promise<Outcome> =>
  runExperiment(ROLLOUT, { seed: 1, seeds: 1, params: ROLLOUT.readParams({ ...SMALL, ...given }) });

describe("the verdicts of rollouts with units of the simulated engine", async () => {
  const outcome = await run({});
  const pctOf = (row: string, name: string) => figureOf(findRow(outcome.rows, { row })!, name);

  it.each(ROWS.filter(({ atMostPct }) => atMostPct !== undefined).map(({ row }) => row))(
    "never rolls back: %s",
    (row) => {
      expect(pctOf(row, "rolled_back_pct")).toBe(0);
    },
  );

  it.each(["p95 1.5 × worse", "slow retries", "jitter of 300 %"])("always rolls back: %s", (row) => {
    expect(pctOf(row, "rolled_back_pct")).toBe(100);
    expect(pctOf(row, "proved_pct")).toBe(0);
  });

  it("proves jitter against bursts", () => {
    expect(pctOf("jitter against bursts", "proved_pct")).toBe(100);
  });

  it("decides a large difference sooner than a small one", () => {
    const runs = (row: string) => pctOf(row, "treatment_runs.p50");
    expect(runs("slow retries")).toBeLessThan(runs("p95 1.5 × worse"));
  });

  it("states that all requirements are met, or which ones are not", async () => {
    expect(ROLLOUT.findings(outcome)).toEqual([
      "All requirements are met: 7 rows of 15 rollouts, inspected after every block.",
    ]);
    const rows = outcome.rows.map((row) => ({ ...row, figures: { ...row.figures, rolled_back_pct: 98 } }));
    expect(ROLLOUT.findings({ ...outcome, rows })).toHaveLength(5);
  });

  it("draws a rollout that is rolled back and one that is proved, and equal arms below the decision line", () => {
    const [chart] = ROLLOUT.charts(outcome);
    const lines = chart?.kind === "lines" ? chart.lines : [];
    const highest = Object.fromEntries(lines.map(({ name, points }) => [name, Math.max(...points.map(([, e]) => e))]));
    expect(highest["slow retries: worse"]).toBeGreaterThanOrEqual(100);
    expect(highest["jitter against bursts: not worse"]).toBeGreaterThanOrEqual(100);
    expect(highest["equal arms: worse"]).toBeLessThan(100);
    expect(highest["decision at α = 1 %"]).toBe(100);
  });

  it("draws rows with several verdicts", () => {
    const [, chart] = ROLLOUT.charts(outcome);
    expect(chart?.kind === "distribution" && chart.samples.map(({ name }) => name)).toEqual([
      "p95 1.5 × worse",
      "slow retries",
      "jitter of 300 %",
      "jitter against bursts",
    ]);
  });
});

it("gives the same document for the same seed", async () => {
  const tiny = { trials: "2", poolRuns: "10", treatmentRuns: "50" };
  const [one, two] = [await run(tiny), await run(tiny)];
  expect(outcomeDocument(one)).toEqual(outcomeDocument(two));
  expect(one.rows.every(({ figures }) => figureAt(figures, "treatment_runs.p50") === null)).toBe(true);
});

it("measures the runs of the pool within the horizon", async () => {
  const request = {
    seed: 3,
    runs: 20,
    widthMax: 10,
    policies: ["fixed:500ms"],
    replicas: 3,
    holdMs: 5,
    latencyMs: 0.1,
  };
  const poolOf = async (horizonMs: number) =>
    (await producePools({ ...request, latencySpread: 0, horizonMs }, () => undefined)).get("fixed:500ms") ?? [];
  const [long, short] = [await poolOf(600_000), await poolOf(1_100)];
  expect(long).toHaveLength(20);
  const widest = long.reduce((most, one) => (one.latenciesMs.count > most.latenciesMs.count ? one : most));
  const width = widest.latenciesMs.count;
  // In lockstep one result is applied per round, so the k-th has been refused k - 1 times.
  expect(widest).toMatchObject({
    busyRetries: (width * (width - 1)) / 2,
    busyEvents: width - 1,
    firstRetrySuccesses: 1,
  });
  expect(widest.lockWaitsMs.values.every((wait, at) => Math.abs(wait - 500 * at) < 50)).toBe(true);
  expect(Math.max(...short.map(({ latenciesMs }) => latenciesMs.count))).toBe(3);
});
