import { describe, expect, test } from "vitest";
import { JOBS } from "../../src/core/model/job.ts";
import { RUNS } from "../../src/core/model/run.ts";
import { outcomeDocument } from "../../src/lab/document.ts";
import { figureAt, type Row, runExperiment } from "../../src/lab/experiment.ts";
import { LOCK_BUSY, type Variant } from "../../src/lab/lock-busy/experiment.ts";
import { settingsOf } from "../../src/lab/lock-busy/rows.ts";
import { type Stage, setStage } from "../../src/lab/lock-busy/stage.ts";
import { type History, runRow } from "../../src/lab/lock-busy/world.ts";
import { withLocks } from "../../src/sim/mutants/decorators.ts";

const SEED = 7;
const EVEN = { latencySpread: 0.2, stepMs: 0, nakLookMs: 0 };
const ROWS = ["founding", "bounded:500ms:0.3", "full:1s:30s", "hand_over_500ms", "hand_over", "default"];

describe("what comes out", () => {
  test("one seed has one document, and another seed another", async () => {
    const typed = {
      contenders: "30",
      hotRuns: "2",
      policies: ["founding", "bounded:500ms:0.3", "hand_over_500ms", "default"],
    };
    const text = async (seed: number) =>
      JSON.stringify(
        outcomeDocument(await runExperiment(LOCK_BUSY, { seed, seeds: 1, params: LOCK_BUSY.readParams(typed) })),
      );
    const first = await text(SEED);
    expect(await text(SEED)).toBe(first);
    expect(await text(SEED + 1)).not.toBe(first);
    expect(JSON.parse(first)).toMatchObject({
      experiment: "lock-busy",
      params: { contenders: 30, hot_runs: 2, cap: "off" },
      results: [{ policy: "founding", arrivals: { bin_ms: 50 } }, {}, {}, { policy: "default", busy_retries: 0 }],
    });
  });

  test("chance beats a fixed delay, a queue beats chance, and sharing a turn beats all of them", async () => {
    const stage = await stageOf(120);
    const drains: number[] = [];
    for (const row of ["founding", "bounded:500ms:0.3", "hand_over", "default"]) {
      drains.push(figure(await history(stage, row, { latencyMs: 0.2 }), "drain_ms"));
    }
    const [founding = 0, bounded = 0, queue = 0, shared = 0] = drains;
    expect(founding).toBeGreaterThan(20 * bounded);
    expect(bounded).toBeGreaterThan(1.5 * queue);
    expect(queue).toBeGreaterThan(5 * shared);
  });

  test("threads that are busy spread a crowd that comes back in step", async () => {
    const stage = await stageOf(60);
    const [plain, busy] = [await history(stage, "founding"), await history(stage, "founding", { stepMs: 0.4 })];
    expect(figure(busy, "drain_ms")).toBeLessThan(0.5 * figure(plain, "drain_ms"));
  });

  test("a broker that gives back nothing while it is handed more takes from chance what that has spread", async () => {
    // So many that it shows with any seed.
    const stage = await stageOf(120);
    const row = "bounded:500ms:0.1";
    const [plain, late] = [await history(stage, row), await history(stage, row, { nakLookMs: 10 })];
    expect(figure(late, "drain_ms")).toBeGreaterThan(1.1 * figure(plain, "drain_ms"));
    expect(figure(late, "attempts_per_acquisition")).toBeGreaterThan(1.1 * figure(plain, "attempts_per_acquisition"));
  });

  test("code takes its time of every turn in the queue", async () => {
    const stage = await stageOf(40);
    const [plain, busy] = [await history(stage, "hand_over"), await history(stage, "hand_over", { stepMs: 0.4 })];
    expect(plain.steps).toBeGreaterThan(40 * 5);
    // Who is told that it is its turn, and who is done with it: a step each.
    const lostMs = figure(busy, "drain_ms") - figure(plain, "drain_ms");
    expect(lostMs).toBeGreaterThan(40 * 2 * 0.4);
    expect(lostMs).toBeLessThan(0.4 * (plain.steps ?? 0));
  });

  test("in the queue everybody asks once, and little is lost between two holders", async () => {
    const queue = await history(await stageOf(100), "hand_over", { latencyMs: 0.2 });
    expect(figure(queue, "attempts_per_acquisition")).toBe(1);
    expect(figure(queue, "busy_retries")).toBe(0);
    // A way for the release, a way for the message to the next: nobody can be faster than that.
    expect(figure(queue, "ratio")).toBeGreaterThan(1.06);
    expect(figure(queue, "ratio")).toBeLessThan(1.1);
  });

  test("the ideal is a turn for each result of a run, or the batches of each replica", async () => {
    const stage = await stageOf(90, 2);
    expect(figure(await history(stage, "hand_over", { holdMs: 4 }), "ideal_ms")).toBe(45 * 4);
    // 45 on three replicas are 15 each: less than one commit takes in.
    expect(figure(await history(stage, "default", { holdMs: 4 }), "ideal_ms")).toBe(3 * 4);
  });
});

describe("every result is applied once, and no lock has two holders", () => {
  test.each<Variant>(["bus", "gateway", "leaked"])("variant %s", async (variant) => {
    const stage = await stageOf(60, 2, variant === "gateway");
    for (const row of ROWS) {
      const seen = await history(stage, row, { variant });
      expect(figure(seen, "applied"), row).toBe(60);
      expect(figure(seen, "dead_lettered"), row).toBe(0);
      for (const id of stage.runIds) expect(seen.net.store.load(RUNS, id)?.value.state, row).toBe("SUCCEEDED");
      const states = [...seen.net.store.rows(JOBS)].map(({ value }) => value.state);
      expect(states, row).toEqual(Array.from({ length: 60 }, () => "SUCCEEDED"));
    }
  });

  test("a holder that was killed keeps everybody waiting for the time of its lock, and no longer than it must", async () => {
    const stage = await stageOf(40);
    for (const row of ["bounded:500ms:0.3", "default"]) {
      const seen = await history(stage, row, { variant: "leaked" });
      expect(figure(seen, "wait_ms.p50"), row).toBeGreaterThan(29_000);
      expect(figure(seen, "ratio"), row).toBeLessThan(1.2);
    }
  });
});

test("a lock with two holders is no history to draw figures from", async () => {
  const stage = await stageOf(20);
  const settings = settingsOf("bounded:500ms:0.3", false);
  // Whoever asks gets a lock of its own.
  let asked = 0;
  const plant = withLocks((locks) => ({
    acquire: async (request) => {
      const key = `${request.key} ${asked++}`;
      const acquired = await locks.acquire({ ...request, key });
      if (acquired.kind === "busy") return acquired;
      const { lease } = acquired;
      const { token, fence, waitedMs, attempts, signal, isLost } = lease;
      const release = () => lease.release();
      return { kind: "held", lease: { key: request.key, token, fence, waitedMs, attempts, signal, isLost, release } };
    },
  }));

  const order = {
    seed: SEED,
    settings,
    replicas: 3,
    holdMs: 5,
    latencyMs: 0.1,
    ...EVEN,
    binMs: 50,
    variant: "bus",
  } as const;
  await expect(runRow(stage, { ...order, plant })).rejects.toThrow("two_holders");
});

describe("the redelivery cap", () => {
  test("makes dead letters of those who came back in step too often, and of nobody else", async () => {
    const stage = await stageOf(110);
    // The steadier the network, the longer they stay in step.
    const capped = await history(stage, "founding_capped", { latencyMs: 0.02 });
    const dead = figure(capped, "dead_lettered");
    expect(dead).toBeGreaterThan(0);
    expect(figure(capped, "applied")).toBe(110 - dead);
    expect(figure(capped, "deliveries_max")).toBe(90);
    const spread = await history(stage, "bounded:500ms:0.3", { isCapped: true });
    expect(figure(spread, "dead_lettered")).toBe(0);
    expect(figure(spread, "applied")).toBe(110);
  });
});

describe("what is refused", () => {
  test.each([
    ["more results than runs can have", { contenders: "20001", hotRuns: "2" }, "give --hot-runs 3 or more"],
    ["runs without results", { contenders: "2", hotRuns: "3" }, "at least one for each hot run"],
  ])("%s", async (_what, typed, message) => {
    const run = async () => runExperiment(LOCK_BUSY, { seed: 1, seeds: 1, params: LOCK_BUSY.readParams(typed) });
    await expect(run()).rejects.toThrow(message);
  });
});

function stageOf(contenders: number, hotRuns = 1, isLeased = false): Promise<Stage> {
  return setStage({ seed: SEED, contenders, hotRuns, isLeased, settings: settingsOf("default", true) });
}

interface Wish {
  readonly variant?: Variant;
  readonly latencyMs?: number;
  readonly holdMs?: number;
  readonly isCapped?: boolean;
  readonly stepMs?: number;
  readonly nakLookMs?: number;
}

function history(stage: Stage, row: string, request: Wish = {}): Promise<History> {
  const { variant = "bus", latencyMs = 0.1, holdMs = 5, isCapped = false, stepMs = 0, nakLookMs = 0 } = request;
  const settings = settingsOf(row, isCapped);
  const given = { ...EVEN, holdMs, latencyMs, stepMs, nakLookMs };
  return runRow(stage, { seed: SEED, settings, replicas: 3, ...given, binMs: 50, variant });
}

function figure({ figures }: Pick<Row, "figures">, path: string): number {
  return figureAt(figures, path) ?? Number.NaN;
}
