import { describe, expect, test } from "vitest";
import { outcomeDocument } from "../../src/lab/document.ts";
import type { Outcome } from "../../src/lab/experiment.ts";
import type { LiveOutcome, LiveRow } from "../../src/lab/live.ts";
import { errorPct, liveFacts, liveFindings, medianRun } from "../../src/lab/live-compare.ts";
import { LOCK_BUSY } from "../../src/lab/lock-busy/experiment.ts";
import { reportFiles } from "../../src/lab/report/page.ts";
import { tablesText } from "../../src/lab/report/tables.ts";

const simulated = (policy: string, drainMs: number) => ({
  ...{ key: { policy }, figures: { drain_ms: drainMs, attempts_per_acquisition: 2 }, spread: null, series: {} },
});
const seen = (policy: string, drainMs: number, isFinished = true): LiveRow => ({
  ...{ key: { policy }, figures: { drain_ms: drainMs, attempts_per_acquisition: 3 }, isFinished },
});

const liveOf = (rows: readonly LiveRow[], change: Partial<LiveOutcome> = {}): LiveOutcome => ({
  ...{ on: "nats 2.10.0 and redis 7.2.0", processes: 3, secondsMax: 60, times: 1, cores: 2, load: 0.5 },
  ...{ pingMs: 0.2, busPingMs: 0.3, latencyMs: 0.1, calibratedBy: null, stepMs: 0, nakLookMs: 0 },
  ...{ compared: COMPARED, rows },
  ...change,
});

const COMPARED = [
  { path: "drain_ms", header: "drain time", unit: "ms", best: null },
  { path: "attempts_per_acquisition", header: "attempts", unit: "", best: null },
  { path: "never", header: "never measured", unit: "", best: null },
] as const;

const outcomeOf = (live: LiveOutcome): Outcome => ({
  ...{ experiment: "lock-busy", seed: 1, seeds: 1, centre: "median", params: LOCK_BUSY.readParams({}) },
  rows: [simulated("baseline", 4_000), simulated("a", 1_000), simulated("b", 1_100)],
  live,
});

describe("comparison", () => {
  const outcome = outcomeOf(liveOf([seen("baseline", 2_000), seen("a", 1_250), seen("b", 900)]));

  test("prints simulated and live figures with their error", () => {
    expect(`\n${tablesText([], outcome, { width: null, color: false })}`).toBe(`
simulated and live figures
row        drain time (ms)    live   error (%)   attempts   live   error (%)
baseline             4,000   2,000         −50          2      3         +50
a                    1,000   1,250         +25          2      3         +50
b                    1,100     900         −18          2      3         +50

* best of its column
`);
  });

  test("adds live figures and errors to the rows of the document", () => {
    expect(outcomeDocument(outcome)).toMatchObject({
      live: { on: "nats 2.10.0 and redis 7.2.0", processes: 3, ping_ms: 0.2, simulated_latency_ms: 0.1 },
      results: [
        {
          ...{ policy: "baseline", drain_ms: 4_000, live: { finished: true, drain_ms: 2_000 } },
          error_pct: { drain_ms: -50, attempts_per_acquisition: 50 },
        },
        { error_pct: { drain_ms: 25 } },
        { error_pct: { drain_ms: -18.182 } },
      ],
    });
  });

  test("adds live charts and flags to the page", () => {
    const files = reportFiles(LOCK_BUSY, outcome, { versions: {} });
    const [page] = files;
    expect(page?.text).toContain("simulated and live figures");
    expect(page?.text).toContain("nats 2.10.0 and redis 7.2.0, 3 processes");
    expect(page?.text).toContain("Live: ");
    expect(page?.text).toMatch(/cordum lab lock-busy [^<]*--live --processes 3 --live-seconds 60 --live-times 1/);
    // Parameters measured on the target are not flags of a live run.
    expect(page?.text).not.toMatch(/<code>cordum lab[^<]*--latency-ms/);
    expect(files.map(({ name }) => name)).toContain("lock-busy-live-arrivals.svg");
  });

  test("omits live parts without a live run", () => {
    const { live: _, ...alone } = outcome;
    expect(JSON.stringify(outcomeDocument(alone))).not.toContain("live");
    const [page] = reportFiles(LOCK_BUSY, alone, { versions: {} });
    expect(page?.text).not.toContain("simulated and live figures");
  });

  test("computes the error in percent of the simulated figure", () => {
    expect([errorPct(100, 125), errorPct(100, 75), errorPct(0, 5), errorPct(null, 5), errorPct(5, null)]).toEqual([
      ...[25, -25, null, null, null],
    ]);
  });
});

test("takes the median run, with unfinished runs last", () => {
  const runs = [seen("a", 900), seen("a", 100, false), seen("a", 700), seen("a", 800), seen("a", 5_000)];
  expect(medianRun(runs, "drain_ms")).toBe(runs[0]);
  expect(medianRun(runs.slice(0, 2), "drain_ms")).toBe(runs[0]);
  expect(medianRun([seen("a", 1, false), seen("a", 2, false), seen("a", 3)], "drain_ms")).toMatchObject({
    isFinished: false,
  });
});

describe("findings", () => {
  test("report whether rows have the simulated order, except for close or overlapping rows", () => {
    const fine = outcomeOf(liveOf([seen("baseline", 2_000), seen("a", 1_250), seen("b", 900)]));
    expect(liveFindings(fine, fine.live!)).toEqual([
      "Order by “drain time”: live agrees for 2 of 2 pairs of rows that differ by 25 % or more in the simulation.",
    ]);
    const wrong = outcomeOf(liveOf([seen("baseline", 1_000), seen("a", 1_250), seen("b", 900)]));
    expect(liveFindings(wrong, wrong.live!)).toEqual([
      "Order by “drain time”: live agrees for 1 of 2 pairs of rows that differ by 25 % or more in the simulation; " +
        "exceptions: a before baseline.",
    ]);
    // Overlaps with the range of `baseline`.
    const spread = { min: { drain_ms: 950 }, max: { drain_ms: 4_100 } };
    const rows = wrong.rows.map((row) => (row.key.policy === "a" ? { ...row, spread } : row));
    expect(liveFindings({ ...wrong, rows }, wrong.live!)).toEqual([
      "Order by “drain time”: live agrees for 1 of 1 pairs of rows that differ by 25 % or more in the simulation.",
    ]);
  });

  test("name unfinished rows, which are not compared", () => {
    const late = outcomeOf(liveOf([seen("baseline", 2_000, false), seen("a", 1_250), seen("b", 900)]));
    expect(liveFindings(late, late.live!)).toEqual(["Unfinished live rows after 60 s: baseline."]);
    expect(tablesText([], late, { width: null, color: false })).toMatch(/^baseline \(unfinished\) +4,000 +– +– /m);
    expect(outcomeDocument(late)).toMatchObject({
      results: [{ live: { finished: false }, error_pct: {} }, { live: { finished: true } }, {}],
    });
  });

  test("warn about a busy machine", () => {
    const busy = outcomeOf(liveOf([], { load: 7.25 }));
    expect(liveFindings(busy, busy.live!)[0]).toContain("load 7.25 on 2 cores");
    expect(liveFacts(busy.live!).map(([, text]) => text)).toContain(
      "0.1 ms one-way latency, half of the store round trip",
    );
    const calibrated = liveOf([], { calibratedBy: "40 queued results" });
    expect(liveFacts(calibrated).map(([, text]) => text)).toContain(
      "0.1 ms one-way latency, calibrated with 40 queued results",
    );
  });

  test("state the measured inputs of the simulation", () => {
    const measured = liveOf([], { calibratedBy: "40 queued results", stepMs: 0.4, nakLookMs: 10.5 });
    expect(liveFacts(measured)[2]).toEqual([
      "simulated with",
      "0.1 ms one-way latency, calibrated with 40 queued results; 0.4 ms of thread time per message, response or timer; one " +
        "redelivery timer of 10.5 ms, restarted by every nak",
    ]);
    expect(outcomeDocument(outcomeOf(measured))).toMatchObject({
      live: { simulated_latency_ms: 0.1, simulated_step_ms: 0.4, simulated_nak_look_ms: 10.5 },
    });
    const modelled = liveOf([], { latencyMs: null });
    expect(liveFacts(modelled)[2]?.[1]).toMatch(/^the network of the model/);
    expect(outcomeDocument(outcomeOf(modelled))).toMatchObject({ live: { simulated_latency_ms: null } });
  });
});
