import { describe, expect, test } from "vitest";
import { runExperiment } from "../../src/lab/experiment.ts";
import type { LiveSpec, ProcessGroup } from "../../src/lab/live.ts";
import type { ParamTable } from "../../src/lab/params.ts";
import { SAFETY_OUTAGE } from "../../src/lab/safety-outage/experiment.ts";
import { conductSafetyOutage, historyOf } from "../../src/lab/safety-outage/live.ts";
import type { JobSighting, KernelQuestion, ReplicaQuestion, ReplicaSeen } from "../../src/lab/safety-outage/member.ts";

const live = SAFETY_OUTAGE.live as LiveSpec<ParamTable>;
const GIVEN = {
  ...{ processes: null, processesMax: 16, latencyMs: 0.05, latencySpread: 0.2, stepMs: 0, nakLookMs: 0 },
  givenParams: new Set<string>(),
};
const plan = (typed: object, given: object = {}) =>
  live.plan(SAFETY_OUTAGE.readParams({ ...typed }), { ...GIVEN, givenParams: new Set(Object.keys(typed)), ...given });

describe("the plan", () => {
  test("what is written down for virtual time becomes what somebody waits for", () => {
    expect(plan({}).params).toMatchObject({
      ...{ outageMs: 10_000, contenders: 200, waitedMs: 8_000, load: "burst", mode: "closed", latencyMs: 0.05 },
    });
    expect(plan({ outageMs: "2000", contenders: "7", waitedMs: "1000" }).params).toMatchObject({
      ...{ outageMs: 2_000, contenders: 7, waitedMs: 1_000 },
    });
  });

  test("whoever types what is usual under virtual time means it, and is told when it is too much", () => {
    const { contenders, outageMs } = SAFETY_OUTAGE.readParams({});
    expect(() => plan({ outageMs: String(outageMs) })).toThrow(`--outage-ms ${outageMs}: give 60000 at most`);
    expect(() => plan({ contenders: String(contenders) })).toThrow(`--contenders ${contenders}: give 500 at most`);
  });

  test("the kernel is one more process, in the embedded world as well", () => {
    expect(plan({})).toMatchObject({ processes: 4, params: { replicas: 3 } });
    expect(plan({}, { processes: 3 })).toMatchObject({ processes: 3, params: { replicas: 2 } });
    expect(plan({ replicas: "100" })).toMatchObject({ processes: 16, params: { replicas: 15 } });
    expect(plan({}, { processesMax: 1 })).toMatchObject({ processes: 2, params: { replicas: 1 } });
    expect(() => plan({}, { processes: 1 })).toThrow("--processes 1: give 2 or more");
  });

  test("what is too much, or takes minutes by its nature, is refused with what to give instead", () => {
    expect(() => plan({ outageMs: "60001" })).toThrow("--outage-ms 60001: give 60000 at most with --live");
    expect(() => plan({ contenders: "501" })).toThrow("--contenders 501: give 500 at most with --live");
    expect(() => plan({ load: "steady" })).toThrow("--load `steady` is simulated only: give burst with --live");
    expect(() => plan({ mode: "lease" })).toThrow("--mode `lease` is simulated only: give closed with --live");
    expect(() => plan({ gone: "hangs" })).toThrow("--gone `hangs` is simulated only: give refuses with --live");
  });

  test("its rows are those of the simulation", async () => {
    const { params } = plan({ outageMs: "1000", contenders: "5" });
    const { rows } = await runExperiment(SAFETY_OUTAGE, { seed: 1, seeds: 1, params });
    expect(JSON.stringify(live.keys(params))).toBe(JSON.stringify(rows.map(({ key }) => key)));
    expect(rows).toHaveLength(4 * 2);
  });
});

const TIMES = { fromMs: 1_000, loadMs: 1_500, toMs: 3_000 };
const TIMEOUT_MS = 1_000;
const job = (id: string, state: JobSighting["state"], atMs: number): JobSighting => ({ id, state, atMs });
const ask = (atMs: number, tookMs: number | null, isDecided: boolean) => ({ atMs, tookMs, isDecided });
const FIRST: ReplicaSeen = {
  jobs: [job("warm", "PENDING", 900), job("a", "PENDING", 1_501), job("warm", "DISPATCHED", 1_010)],
  asks: [ask(900, 5, true), ask(1_501, 1, false), ask(3_001, 1_000, false), ask(3_002, 2, false)],
  triesMs: [950, 1_502, 3_003],
};
const SECOND: ReplicaSeen = {
  jobs: [job("a", "DISPATCHED", 3_400), job("b", "PENDING", 1_502), job("b", "DISPATCHED", 3_350)],
  asks: [ask(3_300, 40, true), ask(3_310, 80, true), ask(3_500, null, false)],
  triesMs: [],
};

describe("what the processes saw, as one history", () => {
  test("in the order of the clock, without what was there to warm up", () => {
    const { kernel, lag, triesAway, endMs } = historyOf([FIRST, SECOND], TIMES, TIMEOUT_MS);
    expect(kernel.asksMs).toEqual([1_501, 3_001, 3_002, 3_300, 3_310, 3_500]);
    expect(kernel.backMs).toBe(3_340);
    // One waited for an answer in vain; one found nobody yet; one still waits.
    expect(kernel.late).toBe(1);
    expect(triesAway).toBe(1);
    expect([lag.submitted, lag.left, lag.drainedMs]).toEqual([2, 0, 3_400]);
    expect(lag.waitsMs).toEqual([1_848, 1_899]);
    expect(endMs).toBeGreaterThan(3_400);
  });

  test("a job that is out while the kernel is away is no figure, but an error", () => {
    const wrong = { ...SECOND, jobs: [...SECOND.jobs, job("b", "DISPATCHED", 2_999)] };
    expect(() => historyOf([FIRST, wrong], TIMES, TIMEOUT_MS)).toThrow("1 jobs went out without a verdict or a lease");
  });
});

describe("one row", () => {
  const { params } = plan({ outageMs: "2000", waitedMs: "1500", contenders: "2", replicas: "1" });
  const order = { key: live.keys(params)[0]!, params } as unknown as Parameters<typeof conductSafetyOutage>[1];
  const never = new Promise<void>(() => undefined);

  /** A control plane that tells of its jobs, and a kernel. */
  function crewOf(returned: Promise<unknown>, outs: readonly JobSighting[]): ProcessGroup {
    let tell: (news: unknown) => void = () => undefined;
    const asked: string[] = [];
    const ask = async (_index: number, question: unknown): Promise<unknown> => {
      const one = question as KernelQuestion | ReplicaQuestion;
      asked.push(one.do);
      switch (one.do) {
        case "leave":
          return TIMES.fromMs;
        case "return":
          return returned;
        case "submit":
          if (one.atMs > 0) for (const { id } of outs) tell(job(id, "PENDING", one.atMs));
          if (one.atMs > 0) void returned.then(() => setImmediate(() => outs.forEach(tell)));
          return one.atMs;
        case "tell":
          return { ...FIRST, jobs: [...FIRST.jobs, ...SECOND.jobs] };
        default:
          return null;
      }
    };
    const onNews: ProcessGroup["onEvent"] = (fn) => {
      tell = (news) => fn(news, 0);
    };
    return {
      size: 2,
      request: ask,
      requestAll: (question) => Promise.all([ask(0, question), ask(1, question)]),
      onEvent: onNews,
    };
  }

  test("is over when everybody who waited is out", async () => {
    const outs = SECOND.jobs.filter(({ state }) => state === "DISPATCHED");
    const { figures, isFinished } = await conductSafetyOutage(crewOf(Promise.resolve(3_000), outs), order, never);
    expect(isFinished).toBe(true);
    expect(figures).toMatchObject({ drain_ms: 400, left: 0, submitted: 2, late_checks: 1, bypassed: 0 });
  });

  test("when time is up it is unfinished, with figures only if the kernel has come back", async () => {
    const away = conductSafetyOutage(crewOf(never, []), order, Promise.resolve());
    expect(await away).toEqual({ figures: {}, isFinished: false });
    const waiting = [job("a", "PENDING", 3_100)];
    const late = new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
    const back = await conductSafetyOutage(crewOf(Promise.resolve(3_000), waiting), order, late);
    expect(back).toMatchObject({ isFinished: false, figures: { submitted: 2 } });
  });
});
