import { describe, expect, test } from "vitest";
import { ADMISSION } from "../../src/lab/admission/experiment.ts";
import { conductAdmission, openMaxOf } from "../../src/lab/admission/live.ts";
import type { AdmissionQuestion, RunSighting, Seen } from "../../src/lab/admission/member.ts";
import { runExperiment } from "../../src/lab/experiment.ts";
import type { LiveSpec, ProcessGroup } from "../../src/lab/live.ts";
import type { ParamTable } from "../../src/lab/params.ts";

const live = ADMISSION.live as LiveSpec<ParamTable>;
const GIVEN = {
  ...{ processes: null, processesMax: 16, latencyMs: 0.05, latencySpread: 0.2, stepMs: 0, nakLookMs: 0 },
  givenParams: new Set<string>(),
};

describe("the plan", () => {
  test("as many processes as control planes, one in the embedded world, and the latency of the target", () => {
    const params = ADMISSION.readParams({ replicas: "3" });
    expect(live.plan(params, GIVEN)).toMatchObject({ processes: 3, params: { replicas: 3, latencyMs: 0.05 } });
    expect(live.plan(params, { ...GIVEN, processesMax: 1 })).toMatchObject({ processes: 1, params: { replicas: 1 } });
    expect(live.plan(params, { ...GIVEN, processes: 5 })).toMatchObject({ processes: 5, params: { replicas: 5 } });
  });

  test("with its defaults it can be run; with more callers it cannot", () => {
    expect(() => live.plan(ADMISSION.readParams({}), GIVEN)).not.toThrow();
    const plan = (typed: object) => () => live.plan(ADMISSION.readParams({ ...typed }), GIVEN);
    expect(plan({ contenders: "10,1001" })).toThrow("--contenders 1001: give 1000 at most with --live");
    expect(plan({ otherRate: "1001" })).toThrow("--other-rate 1001: give 1000 at most with --live");
  });

  test("its rows are those of the simulation", async () => {
    const small = { contenders: "5,10", otherForMs: "1000", budgetMs: "100", maxWaitsMs: "20,50", budgetsMs: "100" };
    const params = ADMISSION.readParams(small);
    const { rows } = await runExperiment(ADMISSION, { seed: 1, seeds: 1, params });
    expect(JSON.stringify(live.keys(params))).toBe(JSON.stringify(rows.map(({ key }) => key)));
    expect(rows).toHaveLength(2 * 12 + 2);
  });
});

const open = (runId: string, atMs: number): RunSighting => ({ runId, kind: "open", atMs });
const over = (runId: string, atMs: number): RunSighting => ({ runId, kind: "over", atMs });

describe("how many runs were open at once", () => {
  test("one that ends at the instant at which another begins is not beside it", () => {
    const seen = [open("c", 20), open("a", 10), over("a", 20), open("b", 10), over("b", 30), over("c", 30)];
    expect(openMaxOf(seen)).toBe(2);
    expect(openMaxOf([...seen, open("d", 29)])).toBe(3);
    expect(openMaxOf([])).toBe(0);
  });

  test("the first word counts, and a run that was over before its start was answered never was for certain", () => {
    expect(openMaxOf([open("a", 10), open("a", 90), over("a", 50), open("b", 60)])).toBe(1);
    expect(openMaxOf([over("a", 10), open("a", 12), open("b", 11)])).toBe(1);
  });
});

describe("one cell", () => {
  const params = ADMISSION.readParams({ contenders: "3", client: "none", part: "grid", policies: "atomic" });
  const [key] = live.keys({ ...params, policies: ["atomic"] });
  const order = { key: key!, params } as unknown as Parameters<typeof conductAdmission>[1];
  const never = new Promise<void>(() => undefined);
  const answered = (status: number) => ({ status, sentMs: 1_100, tookMs: 5 });
  const SEEN: Seen = {
    callers: [
      { answers: [answered(200)], waitedMs: 5 },
      { answers: [answered(200)], waitedMs: 5 },
      { answers: [answered(429)], waitedMs: null },
    ],
    beside: [answered(200)],
    // Only those since the burst count; it comes a moment after the question is asked.
    asksMs: [900, 1_101, 1_102, 1_103],
    runs: [open("a", 1_104), open("b", 1_104)],
  };

  /** One process that saw this. */
  const crewOf = (seen: Seen, called: Promise<unknown> = Promise.resolve(null)): ProcessGroup => {
    const ask = async (_index: number, question: unknown): Promise<unknown> => {
      switch ((question as AdmissionQuestion).do) {
        case "now":
          return 1_000;
        case "alone":
          return [3, 4];
        case "call":
          return called;
        case "tell":
          return seen;
        default:
          return null;
      }
    };
    return {
      size: 1,
      request: ask,
      requestAll: async (question) => [await ask(0, question)],
      onEvent: () => undefined,
    };
  };

  test("its figures are those of a simulated history", async () => {
    const { figures, isFinished } = await conductAdmission(crewOf(SEEN), order, never);
    expect(isFinished).toBe(true);
    expect(figures).toMatchObject({
      ...{ admitted: 2, admitted_max_concurrent: 2, status: { "200": 2, "429": 1, "503": 0 }, asks: 3 },
      ...{ request_ms: { p95: 5 }, other_ms: { p50: 5 }, other_alone_ms: { p50: 3.5 } },
    });
  });

  test("more open runs than may be are no figures, but an error", async () => {
    const wrong = crewOf({ ...SEEN, runs: [...SEEN.runs, open("c", 1_105)] });
    await expect(conductAdmission(wrong, order, never)).rejects.toThrow("3 runs were open at a limit of 2");
  });

  test("when time is up, what there is is told as unfinished", async () => {
    const halfway = await conductAdmission(crewOf(SEEN, never), order, Promise.resolve());
    expect(halfway).toMatchObject({ isFinished: false, figures: { admitted: 2 } });
    const nothing = crewOf({ callers: [{ answers: [], waitedMs: null }], beside: [], asksMs: [], runs: [] }, never);
    expect(await conductAdmission(nothing, order, Promise.resolve())).toEqual({ figures: {}, isFinished: false });
  });
});
