import { describe, expect, test } from "vitest";
import { JOBS } from "../../src/core/model/job.ts";
import { RUNS } from "../../src/core/model/run.ts";
import type { LiveFigures } from "../../src/lab/live.ts";
import { LOCK_BUSY } from "../../src/lab/lock-busy/experiment.ts";
import { measureBroker, measureNakTimer, type Observation, runLiveRow } from "../../src/lab/lock-busy/live.ts";
import { NOWHERE } from "../../src/ports/store.ts";
import { NO_NET_FAULTS } from "../../src/sim/faults.ts";
import { openBench } from "../sim/harness.ts";
import { CONDITIONS } from "./fixtures.ts";

describe("plan", () => {
  const measured = { latencyMs: 0.25, latencySpread: 0.5, stepMs: 0.4, nakLookMs: 10 };
  const plan = (raw: Record<string, string>, change = {}) =>
    LOCK_BUSY.live!.plan(LOCK_BUSY.readParams(raw), { ...CONDITIONS, ...measured, ...change });

  test("uses the measured costs and one replica per process", () => {
    expect(plan({ replicas: "5" })).toMatchObject({ processes: 5, params: { replicas: 5, ...measured } });
    expect(plan({ replicas: "5" }, { processes: 2 })).toMatchObject({ processes: 2, params: { replicas: 2 } });
    expect(plan({}, { processesMax: 1 })).toMatchObject({ processes: 1, params: { replicas: 1 } });
  });

  test.each([
    [{ contenders: "1001" }, "--contenders 1001: give 1000 at most with --live"],
    [{ hotRuns: "101" }, "--hot-runs 101: give 100 at most with --live"],
    [{ variant: "leaked" }, "--variant `leaked` is simulated only"],
  ])("rejects %j", (raw, message) => {
    expect(() => plan(raw)).toThrow(message);
  });

  test("has the rows of the simulation", () => {
    const params = LOCK_BUSY.readParams({ policies: ["baseline", "default"], variant: "wide" });
    expect(LOCK_BUSY.live!.keys(params).map(({ policy }) => policy)).toEqual([
      ...["baseline", "default", "bounded:500ms:0.9", "full:2500ms:5s"],
    ]);
  });
});

describe("runLiveRow", () => {
  test("merges the observations of all processes by time", async () => {
    const { figures, isFinished, busyMs } = await runRow([FIRST, SECOND]);
    expect(isFinished).toBe(true);
    expect(busyMs).toBe(7 + 8);
    expect(figures).toMatchObject({
      ...{ drain_ms: 530, applied: 2, commits: 2, busy_retries: 1, attempts_per_acquisition: 1.5, deliveries_max: 2 },
      ...{ first_retry_success: 1, result_latency_ms: { p50: (10 + 529) / 2 } },
    });
  });

  test("rejects a result that was applied twice", async () => {
    await expect(runRow([FIRST, [...SECOND, ended(11, "job-1", 3)]])).rejects.toThrow("applied twice");
  });

  test("returns unfinished figures when time is up", async () => {
    const { figures, isFinished } = await runRow([FIRST.slice(0, 4), []], "measurement");
    expect(isFinished).toBe(false);
    expect(figures).toMatchObject({ applied: 1 });
    const nothing = { figures: {}, isFinished: false };
    expect(await runRow([[], []], "measurement")).toEqual(nothing);
    expect(await runRow([FIRST, SECOND], "warm_up")).toEqual(nothing);
  });
});

/** Result 1 is applied at once. Result 2 finds the lock busy and is redelivered to the other process. */
const FIRST: readonly Observation[] = [
  { atMs: 1_000, kind: "delivered", jobId: "job-1" },
  { atMs: 1_001, kind: "attempted" },
  { atMs: 1_002, kind: "replied", fence: 1 },
  ended(10, "job-1", 1),
  { atMs: 1_520, kind: "delivered", jobId: "job-2" },
  { atMs: 1_521, kind: "attempted" },
  { atMs: 1_522, kind: "replied", fence: 2 },
  ended(530, "job-2", 2),
];
const SECOND: readonly Observation[] = [
  { atMs: 1_001, kind: "delivered", jobId: "job-2" },
  { atMs: 1_003, kind: "attempted" },
  { atMs: 1_004, kind: "replied", fence: null },
];

const WARM = { jobId: "job-0", runId: "warm", leaseId: null };

function ended(afterMs: number, id: string, fence: number) {
  const put = { table: JOBS.name, id, value: { id, state: "SUCCEEDED" }, expect: 1, from: NOWHERE, to: NOWHERE };
  const guards = [{ kind: "fence", table: RUNS.name, id: "run", fence }] as const;
  const change = { org: "default", atMs: 0, puts: [put], guards, sends: [], watch: [] };
  return { atMs: 1_000 + afterMs, kind: "committed", change } as const;
}

/** Runs a row with processes that report these observations. */
function runRow(
  observed: readonly (readonly Observation[])[],
  timeUpIn: "never" | "warm_up" | "measurement" = "never",
): Promise<LiveFigures> {
  let end: () => void = () => undefined;
  const timeUp = new Promise<void>((resolve) => {
    end = resolve;
  });
  const contenders = ["job-1", "job-2"].map((jobId) => ({ jobId, runId: "run", leaseId: null }));
  let isWarm = false;
  let emit: (event: unknown, index: number) => void = () => undefined;
  const handlers: Record<string, (index: number) => unknown> = {
    prepare: () => ({ warmUp: { runIds: ["warm"], contenders: [WARM] }, measured: { runIds: ["run"], contenders } }),
    start: () => null,
    begin: () => {
      isWarm = true;
    },
    publish: () => {
      if (timeUpIn === (isWarm ? "measurement" : "warm_up")) end();
      else if (!isWarm) emit([ended(1, WARM.jobId, 1).change], 0);
      if (!isWarm) return;
      for (const [index, observations] of observed.entries()) {
        for (const one of observations) if (one.kind === "committed") emit([one.change], index);
      }
    },
    report: (index) => ({ observations: observed[index], busyMs: 7 + index }),
  };
  const request = async (index: number, command: unknown) => handlers[(command as { do: string }).do]?.(index);
  const group = {
    size: observed.length,
    request,
    requestAll: (command: unknown) => Promise.all(observed.map((_, index) => request(index, command))),
    onEvent: (listener: typeof emit) => {
      emit = listener;
    },
  };
  const params = LOCK_BUSY.readParams({ policies: ["bounded:500ms:0.3"] }) as never;
  return runLiveRow(group, { key: { policy: "bounded:500ms:0.3" }, params }, timeUp);
}

describe("redelivery timer of the broker", () => {
  const measured = (nakLookMs: number): Promise<number> => {
    const bench = openBench({ faults: { ...NO_NET_FAULTS, bus: { ...NO_NET_FAULTS.bus, nakLookMs } } });
    const { world } = bench.enter("p");
    return bench.run(measureNakTimer(world.bus, () => bench.net.timeline.nowMs));
  };

  test.each([5, 10, 40])("is measured without the network latency: %d ms", async (timerMs) => {
    expect(Math.abs((await measured(timerMs)) - timerMs)).toBeLessThan(0.5);
  });

  test("is 0 when each message has a timer of its own", async () => {
    expect(await measured(0)).toBe(0);
  });

  test("is measured by one process", async () => {
    const requests: unknown[] = [];
    const request = async (index: number, command: unknown): Promise<unknown> =>
      requests.push([index, command]) && 10.5;
    const group = { size: 3, request, requestAll: async () => [], onEvent: () => undefined };
    expect(await measureBroker(group)).toEqual({ figures: { nak_look_ms: 10.5 }, isFinished: true });
    expect(requests).toEqual([[0, { do: "measure_naks" }]]);
  });
});
