import { describe, expect, test } from "vitest";
import { ADMISSION, cellAt } from "../../src/lab/admission/experiment.ts";
import {
  type Command,
  openRunsMax,
  type ProcessReport,
  type RunObservation,
  runLiveCell,
} from "../../src/lab/admission/live.ts";
import { runExperiment } from "../../src/lab/experiment.ts";
import type { LiveSpec, ProcessGroup } from "../../src/lab/live.ts";
import type { ParamTable } from "../../src/lab/params.ts";
import { CONDITIONS, NEVER } from "./fixtures.ts";

const live = ADMISSION.live as LiveSpec<ParamTable>;

describe("plan", () => {
  test("has one process per replica, one for the embedded target, and the latency of the target", () => {
    const params = ADMISSION.readParams({ replicas: "3" });
    expect(live.plan(params, CONDITIONS)).toMatchObject({ processes: 3, params: { replicas: 3, latencyMs: 0.05 } });
    expect(live.plan(params, { ...CONDITIONS, processesMax: 1 })).toMatchObject({
      processes: 1,
      params: { replicas: 1 },
    });
    expect(live.plan(params, { ...CONDITIONS, processes: 5 })).toMatchObject({ processes: 5, params: { replicas: 5 } });
  });

  test("accepts the defaults and rejects more callers or requests", () => {
    expect(() => live.plan(ADMISSION.readParams({}), CONDITIONS)).not.toThrow();
    const plan = (raw: object) => () => live.plan(ADMISSION.readParams({ ...raw }), CONDITIONS);
    expect(plan({ contenders: "10,1001" })).toThrow("--contenders 1001: give 1000 at most with --live");
    expect(plan({ otherRate: "1001" })).toThrow("--other-rate 1001: give 1000 at most with --live");
  });

  test("has the rows of the simulation", async () => {
    const small = { contenders: "5,10", otherForMs: "1000", budgetMs: "100", maxWaitsMs: "20,50", budgetsMs: "100" };
    const params = ADMISSION.readParams(small);
    const { rows } = await runExperiment(ADMISSION, { seed: 1, seeds: 1, params });
    expect(JSON.stringify(live.keys(params))).toBe(JSON.stringify(rows.map(({ key }) => key)));
    expect(rows).toHaveLength(2 * 12 + 2);
  });
});

const opened = (runId: string, atMs: number): RunObservation => ({ runId, kind: "opened", atMs });
const closed = (runId: string, atMs: number): RunObservation => ({ runId, kind: "closed", atMs });

describe("openRunsMax", () => {
  test("does not count a run that closes when another opens", () => {
    const seen = [opened("c", 20), opened("a", 10), closed("a", 20), opened("b", 10), closed("b", 30), closed("c", 30)];
    expect(openRunsMax(seen)).toBe(2);
    expect(openRunsMax([...seen, opened("d", 29)])).toBe(3);
    expect(openRunsMax([])).toBe(0);
  });

  test("uses the first observation and ignores a run that closes before it opens", () => {
    expect(openRunsMax([opened("a", 10), opened("a", 90), closed("a", 50), opened("b", 60)])).toBe(1);
    expect(openRunsMax([closed("a", 10), opened("a", 12), opened("b", 11)])).toBe(1);
  });
});

describe("runLiveCell", () => {
  const params = ADMISSION.readParams({ contenders: "3", client: "none", part: "grid", policies: "atomic" });
  const [key] = live.keys({ ...params, policies: ["atomic"] });
  const cell = cellAt(key!, { ...params, policies: ["atomic"] } as unknown as Parameters<typeof cellAt>[1]);
  const response = (status: number) => ({ status, sentMs: 1_100, tookMs: 5 });
  const REPORT: ProcessReport = {
    callers: [
      { responses: [response(200)], waitedMs: 5 },
      { responses: [response(200)], waitedMs: 5 },
      { responses: [response(429)], waitedMs: null },
    ],
    other: [response(200)],
    // Attempts before the burst, 100 ms after `now`, do not count.
    attemptsMs: [900, 1_101, 1_102, 1_103],
    runs: [opened("a", 1_104), opened("b", 1_104)],
  };

  /** One process with this report. */
  const groupOf = (report: ProcessReport, burst: Promise<unknown> = Promise.resolve(null)): ProcessGroup => {
    const request = async (_index: number, command: unknown): Promise<unknown> => {
      switch ((command as Command).do) {
        case "now":
          return 1_000;
        case "run_other":
          return [3, 4];
        case "run_burst":
          return burst;
        case "report":
          return report;
        default:
          return null;
      }
    };
    return {
      size: 1,
      request,
      requestAll: async (command) => [await request(0, command)],
      onEvent: () => undefined,
    };
  };

  test("computes the figures of the simulation", async () => {
    const { figures, isFinished } = await runLiveCell(groupOf(REPORT), cell, NEVER);
    expect(isFinished).toBe(true);
    expect(figures).toMatchObject({
      ...{ admitted: 2, admitted_max_concurrent: 2, status: { "200": 2, "429": 1, "503": 0 }, asks: 3 },
      ...{ request_ms: { p95: 5 }, other_ms: { p50: 5 }, other_alone_ms: { p50: 3.5 } },
    });
  });

  test("rejects more open runs than the limit", async () => {
    const wrong = groupOf({ ...REPORT, runs: [...REPORT.runs, opened("c", 1_105)] });
    await expect(runLiveCell(wrong, cell, NEVER)).rejects.toThrow("3 runs were open at a limit of 2");
  });

  test("returns unfinished figures when time is up", async () => {
    const partial = await runLiveCell(groupOf(REPORT, NEVER), cell, Promise.resolve());
    expect(partial).toMatchObject({ isFinished: false, figures: { admitted: 2 } });
    const nothing = groupOf(
      { callers: [{ responses: [], waitedMs: null }], other: [], attemptsMs: [], runs: [] },
      NEVER,
    );
    expect(await runLiveCell(nothing, cell, Promise.resolve())).toEqual({ figures: {}, isFinished: false });
  });
});
