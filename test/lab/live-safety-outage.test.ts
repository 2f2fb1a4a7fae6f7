import { describe, expect, test } from "vitest";
import { runExperiment } from "../../src/lab/experiment.ts";
import type { LiveSpec, ProcessGroup } from "../../src/lab/live.ts";
import type { ParamTable } from "../../src/lab/params.ts";
import { SAFETY_OUTAGE } from "../../src/lab/safety-outage/experiment.ts";
import {
  historyOf,
  type JobObservation,
  type KernelCommand,
  type ReplicaCommand,
  type ReplicaReport,
  runLiveRow,
} from "../../src/lab/safety-outage/live.ts";
import { CONDITIONS, NEVER } from "./fixtures.ts";

const live = SAFETY_OUTAGE.live as LiveSpec<ParamTable>;
const plan = (raw: object, conditions: object = {}) =>
  live.plan(SAFETY_OUTAGE.readParams({ ...raw }), {
    ...CONDITIONS,
    givenParams: new Set(Object.keys(raw)),
    ...conditions,
  });

describe("plan", () => {
  test("has shorter defaults than the simulation", () => {
    expect(plan({}).params).toMatchObject({
      ...{ outageMs: 10_000, contenders: 200, waitedMs: 8_000, load: "burst", mode: "closed", latencyMs: 0.05 },
    });
    expect(plan({ outageMs: "2000", contenders: "7", waitedMs: "1000" }).params).toMatchObject({
      ...{ outageMs: 2_000, contenders: 7, waitedMs: 1_000 },
    });
  });

  test("rejects the defaults of the simulation when given explicitly", () => {
    const { contenders, outageMs } = SAFETY_OUTAGE.readParams({});
    expect(() => plan({ outageMs: String(outageMs) })).toThrow(`--outage-ms ${outageMs}: give 60000 at most`);
    expect(() => plan({ contenders: String(contenders) })).toThrow(`--contenders ${contenders}: give 500 at most`);
  });

  test("has one more process for the kernel, for the embedded target as well", () => {
    expect(plan({})).toMatchObject({ processes: 4, params: { replicas: 3 } });
    expect(plan({}, { processes: 3 })).toMatchObject({ processes: 3, params: { replicas: 2 } });
    expect(plan({ replicas: "100" })).toMatchObject({ processes: 16, params: { replicas: 15 } });
    expect(plan({}, { processesMax: 1 })).toMatchObject({ processes: 2, params: { replicas: 1 } });
    expect(() => plan({}, { processes: 1 })).toThrow("--processes 1: give 2 or more");
  });

  test("rejects values that are too large or simulated only, with the accepted value", () => {
    expect(() => plan({ outageMs: "60001" })).toThrow("--outage-ms 60001: give 60000 at most with --live");
    expect(() => plan({ contenders: "501" })).toThrow("--contenders 501: give 500 at most with --live");
    expect(() => plan({ load: "steady" })).toThrow("--load `steady` is simulated only: give burst with --live");
    expect(() => plan({ mode: "lease" })).toThrow("--mode `lease` is simulated only: give closed with --live");
    expect(() => plan({ gone: "hangs" })).toThrow("--gone `hangs` is simulated only: give refuses with --live");
  });

  test("has the rows of the simulation", async () => {
    const { params } = plan({ outageMs: "1000", contenders: "5" });
    const { rows } = await runExperiment(SAFETY_OUTAGE, { seed: 1, seeds: 1, params });
    expect(JSON.stringify(live.keys(params))).toBe(JSON.stringify(rows.map(({ key }) => key)));
    expect(rows).toHaveLength(4 * 2);
  });
});

const TIMES = { fromMs: 1_000, loadMs: 1_500, toMs: 3_000 };
const TIMEOUT_MS = 1_000;
const job = (id: string, state: JobObservation["state"], atMs: number): JobObservation => ({ id, state, atMs });
const check = (atMs: number, tookMs: number | null, isDecided: boolean) => ({ atMs, tookMs, isDecided });
const FIRST: ReplicaReport = {
  jobs: [job("warm", "PENDING", 900), job("a", "PENDING", 1_501), job("warm", "DISPATCHED", 1_010)],
  checks: [check(900, 5, true), check(1_501, 1, false), check(3_001, 1_000, false), check(3_002, 2, false)],
  failuresMs: [950, 1_502, 3_003],
};
const SECOND: ReplicaReport = {
  jobs: [job("a", "DISPATCHED", 3_400), job("b", "PENDING", 1_502), job("b", "DISPATCHED", 3_350)],
  checks: [check(3_300, 40, true), check(3_310, 80, true), check(3_500, null, false)],
  failuresMs: [],
};

describe("historyOf", () => {
  test("merges the observations by time, without the warm-up", () => {
    const { kernel, jobs, failedChecks, endMs } = historyOf([FIRST, SECOND], TIMES, TIMEOUT_MS);
    expect(kernel.checksMs).toEqual([1_501, 3_001, 3_002, 3_300, 3_310, 3_500]);
    expect(kernel.backMs).toBe(3_340);
    // One check timed out, one was refused, one is in flight.
    expect(kernel.late).toBe(1);
    expect(failedChecks).toBe(1);
    expect([jobs.submitted, jobs.left, jobs.drainedMs]).toEqual([2, 0, 3_400]);
    expect(jobs.waitsMs).toEqual([1_848, 1_899]);
    expect(endMs).toBeGreaterThan(3_400);
  });

  test("rejects a dispatch during the outage", () => {
    const wrong = { ...SECOND, jobs: [...SECOND.jobs, job("b", "DISPATCHED", 2_999)] };
    expect(() => historyOf([FIRST, wrong], TIMES, TIMEOUT_MS)).toThrow(
      "1 jobs were dispatched without a safety decision or a lease",
    );
  });
});

describe("runLiveRow", () => {
  const { params } = plan({ outageMs: "2000", waitedMs: "1500", contenders: "2", replicas: "1" });
  const rowRequest = { key: live.keys(params)[0]!, params } as unknown as Parameters<typeof runLiveRow>[1];

  /** A control plane that emits its jobs, and a kernel. */
  function groupOf(returned: Promise<unknown>, dispatched: readonly JobObservation[]): ProcessGroup {
    let emit: (event: unknown) => void = () => undefined;
    const request = async (_index: number, message: unknown): Promise<unknown> => {
      const command = message as KernelCommand | ReplicaCommand;
      switch (command.do) {
        case "stop":
          return TIMES.fromMs;
        case "return":
          return returned;
        case "submit":
          if (command.atMs === 0) return null;
          for (const { id } of dispatched) emit(job(id, "PENDING", command.atMs));
          void returned.then(() => setImmediate(() => dispatched.forEach(emit)));
          return null;
        case "report":
          return { ...FIRST, jobs: [...FIRST.jobs, ...SECOND.jobs] };
        default:
          return null;
      }
    };
    return {
      size: 2,
      request,
      requestAll: (message) => Promise.all([request(0, message), request(1, message)]),
      onEvent: (listener) => {
        emit = (event) => listener(event, 0);
      },
    };
  }

  test("finishes when every waiting job is dispatched", async () => {
    const dispatched = SECOND.jobs.filter(({ state }) => state === "DISPATCHED");
    const { figures, isFinished } = await runLiveRow(groupOf(Promise.resolve(3_000), dispatched), rowRequest, NEVER);
    expect(isFinished).toBe(true);
    expect(figures).toMatchObject({ drain_ms: 400, left: 0, submitted: 2, late_checks: 1, bypassed: 0 });
  });

  test("is unfinished when time is up, with figures only after the kernel is back", async () => {
    const away = runLiveRow(groupOf(NEVER, []), rowRequest, Promise.resolve());
    expect(await away).toEqual({ figures: {}, isFinished: false });
    const waiting = [job("a", "PENDING", 3_100)];
    const late = new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
    const back = await runLiveRow(groupOf(Promise.resolve(3_000), waiting), rowRequest, late);
    expect(back).toMatchObject({ isFinished: false, figures: { submitted: 2 } });
  });
});
