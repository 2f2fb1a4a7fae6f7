import { describe, expect, test } from "vitest";
import { JOBS } from "../../src/core/model/job.ts";
import { RUNS } from "../../src/core/model/run.ts";
import { outcomeDocument } from "../../src/lab/document.ts";
import type { Outcome, Row } from "../../src/lab/experiment.ts";
import type { LiveOutcome, LiveRow } from "../../src/lab/live.ts";
import { errorPct, liveFacts, liveFindings, medianRun } from "../../src/lab/live-compare.ts";
import { LOCK_BUSY } from "../../src/lab/lock-busy/experiment.ts";
import { conductLockBusy } from "../../src/lab/lock-busy/live.ts";
import type { Sighting } from "../../src/lab/lock-busy/member.ts";
import { reportFiles } from "../../src/lab/report/page.ts";
import { tablesText } from "../../src/lab/report/tables.ts";
import { NOWHERE } from "../../src/ports/store.ts";

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
  { path: "drain_ms", header: "drained after", unit: "ms", best: null },
  { path: "attempts_per_acquisition", header: "attempts", unit: "", best: null },
  { path: "never", header: "never measured", unit: "", best: null },
] as const;

const outcomeOf = (live: LiveOutcome): Outcome => ({
  ...{ experiment: "lock-busy", seed: 1, seeds: 1, centre: "median", params: LOCK_BUSY.readParams({}) },
  rows: [simulated("founding", 4_000), simulated("a", 1_000), simulated("b", 1_100)],
  live,
});

describe("simulated and live, side by side", () => {
  const outcome = outcomeOf(liveOf([seen("founding", 2_000), seen("a", 1_250), seen("b", 900)]));

  test("in the terminal, with by how much live is off", () => {
    expect(`\n${tablesText([], outcome, { width: null, color: false })}`).toBe(`
simulated and live, side by side
row        drained after (ms)    live   error (%)   attempts   live   error (%)
founding                4,000   2,000         −50          2      3         +50
a                       1,000   1,250         +25          2      3         +50
b                       1,100     900         −18          2      3         +50

* best of its column
`);
  });

  test("in the document, row by row", () => {
    expect(outcomeDocument(outcome)).toMatchObject({
      live: { on: "nats 2.10.0 and redis 7.2.0", processes: 3, ping_ms: 0.2, simulated_latency_ms: 0.1 },
      results: [
        {
          ...{ policy: "founding", drain_ms: 4_000, live: { finished: true, drain_ms: 2_000 } },
          error_pct: { drain_ms: -50, attempts_per_acquisition: 50 },
        },
        { error_pct: { drain_ms: 25 } },
        { error_pct: { drain_ms: -18.182 } },
      ],
    });
  });

  test("on the page, with pictures of its own and the command that repeats it", () => {
    const files = reportFiles(LOCK_BUSY, outcome, { versions: {} });
    const [page] = files;
    expect(page?.text).toContain("simulated and live, side by side");
    expect(page?.text).toContain("nats 2.10.0 and redis 7.2.0, 3 processes");
    expect(page?.text).toContain("Live: ");
    expect(page?.text).toMatch(/cordum lab lock-busy [^<]*--live --processes 3 --live-seconds 60 --live-times 1/);
    // What the target decides cannot be typed together with it.
    expect(page?.text).not.toMatch(/<code>cordum lab[^<]*--latency-ms/);
    expect(files.map(({ name }) => name)).toContain("lock-busy-live-waves.svg");
  });

  test("without live nothing of it is there", () => {
    const { live: _, ...alone } = outcome;
    expect(JSON.stringify(outcomeDocument(alone))).not.toContain("live");
    const [page] = reportFiles(LOCK_BUSY, alone, { versions: {} });
    expect(page?.text).not.toContain("side by side");
  });

  test("the error is a share of what was predicted, where there is one", () => {
    expect([errorPct(100, 125), errorPct(100, 75), errorPct(0, 5), errorPct(null, 5), errorPct(5, null)]).toEqual([
      ...[25, -25, null, null, null],
    ]);
  });
});

test("of several runs of a row the middle one counts; those that were not finished are the slowest", () => {
  const runs = [seen("a", 900), seen("a", 100, false), seen("a", 700), seen("a", 800), seen("a", 5_000)];
  expect(medianRun(runs, "drain_ms")).toBe(runs[0]);
  expect(medianRun(runs.slice(0, 2), "drain_ms")).toBe(runs[0]);
  expect(medianRun([seen("a", 1, false), seen("a", 2, false), seen("a", 3)], "drain_ms")).toMatchObject({
    isFinished: false,
  });
});

describe("what is said of it", () => {
  test("whether rows come in the order that was predicted; those that are about the same may come in any", () => {
    const fine = outcomeOf(liveOf([seen("founding", 2_000), seen("a", 1_250), seen("b", 900)]));
    expect(liveFindings(fine, fine.live!)).toEqual([
      "By “drained after”, 2 of 2 pairs of rows that the simulation sets 25 % or more apart come in that order live.",
    ]);
    const wrong = outcomeOf(liveOf([seen("founding", 1_000), seen("a", 1_250), seen("b", 900)]));
    expect(liveFindings(wrong, wrong.live!)).toEqual([
      "By “drained after”, 1 of 2 pairs of rows that the simulation sets 25 % or more apart come in that order live; " +
        "not so: a before founding.",
    ]);
    // As long as `a` took with another seed.
    const spread = { min: { drain_ms: 950 }, max: { drain_ms: 4_100 } };
    const rows = wrong.rows.map((row) => (row.key.policy === "a" ? { ...row, spread } : row));
    expect(liveFindings({ ...wrong, rows }, wrong.live!)).toEqual([
      "By “drained after”, 1 of 1 pairs of rows that the simulation sets 25 % or more apart come in that order live.",
    ]);
  });

  test("a row that was not finished is compared with nothing, and that is said", () => {
    const late = outcomeOf(liveOf([seen("founding", 2_000, false), seen("a", 1_250), seen("b", 900)]));
    expect(liveFindings(late, late.live!)).toEqual(["Live, not finished within 60 s: founding."]);
    expect(tablesText([], late, { width: null, color: false })).toMatch(/^founding \(not finished\) +4,000 +– +– /m);
    expect(outcomeDocument(late)).toMatchObject({
      results: [{ live: { finished: false }, error_pct: {} }, { live: { finished: true } }, {}],
    });
  });

  test("a machine that had other things to do is named", () => {
    const busy = outcomeOf(liveOf([], { load: 7.25 }));
    expect(liveFindings(busy, busy.live!)[0]).toContain("load 7.25 on 2 cores");
    expect(liveFacts(busy.live!).map(([, text]) => text)).toContain("0.1 ms one way, half of that ping");
    const tuned = liveOf([], { calibratedBy: "40 results in the queue" });
    expect(liveFacts(tuned).map(([, text]) => text)).toContain(
      "0.1 ms one way, with which 40 results in the queue take as long as they took here",
    );
  });

  test("what was measured for the simulation is said, and nothing of what was not", () => {
    const measured = liveOf([], { calibratedBy: "40 results in the queue", stepMs: 0.4, nakLookMs: 10.5 });
    expect(liveFacts(measured)[2]).toEqual([
      "simulated with",
      "0.1 ms one way, with which 40 results in the queue take as long as they took here; 0.4 ms for each message, answer or " +
        "timer that a process is busy with, as it was with those; a broker that gives back retries when it was handed none " +
        "for 10.5 ms, as this one does",
    ]);
    expect(outcomeDocument(outcomeOf(measured))).toMatchObject({
      live: { simulated_latency_ms: 0.1, simulated_step_ms: 0.4, simulated_nak_look_ms: 10.5 },
    });
    const modelled = liveOf([], { latencyMs: null });
    expect(liveFacts(modelled)[2]?.[1]).toMatch(/^the network of the model/);
    expect(outcomeDocument(outcomeOf(modelled))).toMatchObject({ live: { simulated_latency_ms: null } });
  });
});

describe("lock-busy, live", () => {
  const measured = { latencyMs: 0.25, latencySpread: 0.5, stepMs: 0.4, nakLookMs: 10 };
  const given = { processes: null, processesMax: 16, ...measured, givenParams: new Set<string>() };
  const plan = (typed: Record<string, string>, change = {}) =>
    LOCK_BUSY.live!.plan(LOCK_BUSY.readParams(typed), { ...given, ...change });

  test("is simulated with what was measured of the target and as many replicas as there are processes", () => {
    expect(plan({ replicas: "5" })).toMatchObject({ processes: 5, params: { replicas: 5, ...measured } });
    expect(plan({ replicas: "5" }, { processes: 2 })).toMatchObject({ processes: 2, params: { replicas: 2 } });
    expect(plan({}, { processesMax: 1 })).toMatchObject({ processes: 1, params: { replicas: 1 } });
  });

  test.each([
    [{ contenders: "1001" }, "--contenders 1001: give 1000 at most with --live"],
    [{ hotRuns: "101" }, "--hot-runs 101: give 100 at most with --live"],
    [{ variant: "leaked" }, "--variant `leaked` is simulated only"],
  ])("is bounded: %j", (typed, words) => {
    expect(() => plan(typed)).toThrow(words);
  });

  test("has the rows of the simulation", () => {
    const params = LOCK_BUSY.readParams({ policies: ["founding", "default"], variant: "wide" });
    expect(LOCK_BUSY.live!.keys(params).map(({ policy }) => policy)).toEqual([
      ...["founding", "default", "bounded:500ms:0.9", "full:2500ms:5s"],
    ]);
  });

  test("makes one history of what several processes saw, in the order of the clock", async () => {
    const { figures, isFinished, busyMs } = await conducted([FIRST, SECOND]);
    expect(isFinished).toBe(true);
    expect(busyMs).toBe(7 + 8);
    expect(figures).toMatchObject({
      ...{ drain_ms: 530, applied: 2, commits: 2, busy_retries: 1, attempts_per_acquisition: 1.5, deliveries_max: 2 },
      ...{ first_retry_success: 1, result_latency_ms: { p50: (10 + 529) / 2 } },
    });
  });

  test("a result that two processes applied is no history", async () => {
    await expect(conducted([FIRST, [...SECOND, ended(11, "job-1", 3)]])).rejects.toThrow("applied twice");
  });

  test("says so when time is up", async () => {
    const { figures, isFinished } = await conducted([FIRST.slice(0, 4), []], "measured");
    expect(isFinished).toBe(false);
    expect(figures).toMatchObject({ applied: 1 });
    const nothing = { figures: {}, isFinished: false };
    expect(await conducted([[], []], "measured")).toEqual(nothing);
    expect(await conducted([FIRST, SECOND], "warm")).toEqual(nothing);
  });
});

/** The result of job 1 is in at once; that of job 2 finds the lock busy and comes back, to the other process. */
const FIRST: readonly Sighting[] = [
  { atMs: 1_000, kind: "delivered", jobId: "job-1" },
  { atMs: 1_001, kind: "asked" },
  { atMs: 1_002, kind: "answered", fence: 1 },
  ended(10, "job-1", 1),
  { atMs: 1_520, kind: "delivered", jobId: "job-2" },
  { atMs: 1_521, kind: "asked" },
  { atMs: 1_522, kind: "answered", fence: 2 },
  ended(530, "job-2", 2),
];
const SECOND: readonly Sighting[] = [
  { atMs: 1_001, kind: "delivered", jobId: "job-2" },
  { atMs: 1_003, kind: "asked" },
  { atMs: 1_004, kind: "answered", fence: null },
];

const WARM = { jobId: "job-0", runId: "warm", leaseId: null };

function ended(afterMs: number, id: string, fence: number) {
  const put = { table: JOBS.name, id, value: { id, state: "SUCCEEDED" }, expect: 1, from: NOWHERE, to: NOWHERE };
  const guards = [{ kind: "fence", table: RUNS.name, id: "run", fence }] as const;
  const change = { org: "default", atMs: 0, puts: [put], guards, sends: [], watch: [] };
  return { atMs: 1_000 + afterMs, kind: "committed", change } as const;
}

/** With processes that have seen this. */
function conducted(seen: readonly (readonly Sighting[])[], upAt: "never" | "warm" | "measured" = "never") {
  let end: () => void = () => undefined;
  const timeUp = new Promise<void>((resolve) => {
    end = resolve;
  });
  const contenders = ["job-1", "job-2"].map((jobId) => ({ jobId, runId: "run", leaseId: null }));
  let isWarm = false;
  let hear: (news: unknown, index: number) => void = () => undefined;
  const answers: Record<string, (index: number) => unknown> = {
    stage: () => ({ warmUp: { runIds: ["warm"], contenders: [WARM] }, measured: { runIds: ["run"], contenders } }),
    start: () => null,
    begin: () => {
      isWarm = true;
    },
    bring: () => {
      if (upAt === (isWarm ? "measured" : "warm")) end();
      else if (!isWarm) hear([ended(1, WARM.jobId, 1).change], 0);
      if (!isWarm) return;
      for (const [index, sightings] of seen.entries()) {
        for (const one of sightings) if (one.kind === "committed") hear([one.change], index);
      }
    },
    tell: (index) => ({ sightings: seen[index], busyMs: 7 + index }),
  };
  const ask = async (index: number, question: unknown) => answers[(question as { do: string }).do]?.(index);
  const crew = {
    size: seen.length,
    request: ask,
    requestAll: (question: unknown) => Promise.all(seen.map((_, index) => ask(index, question))),
    onEvent: (fn: typeof hear) => {
      hear = fn;
    },
  };
  const params = LOCK_BUSY.readParams({ policies: ["bounded:500ms:0.3"] }) as never;
  return conductLockBusy(crew, { key: { policy: "bounded:500ms:0.3" }, params }, timeUp) as Promise<
    Omit<Row, "key"> & { isFinished: boolean; busyMs?: number }
  >;
}
