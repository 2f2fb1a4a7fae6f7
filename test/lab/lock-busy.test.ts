import { describe, expect, test } from "vitest";
import { JOBS } from "../../src/core/model/job.ts";
import { RUNS } from "../../src/core/model/run.ts";
import { outcomeDocument } from "../../src/lab/document.ts";
import { figureAt, type Row, runExperiment } from "../../src/lab/experiment.ts";
import { LOCK_BUSY, type Variant } from "../../src/lab/lock-busy/experiment.ts";
import { type PreparedRuns, prepareRuns, settingsOf } from "../../src/lab/lock-busy/scenario.ts";
import { type History, type RowRequest, simulateRow } from "../../src/lab/lock-busy/simulation.ts";
import { withLocks } from "../../src/sim/mutants/decorators.ts";

const SEED = 7;
const DEFAULTS = {
  ...{ seed: SEED, replicas: 3, holdMs: 5, latencyMs: 0.1, latencySpread: 0.2, stepMs: 0, nakLookMs: 0, binMs: 50 },
  variant: "bus",
} as const;
const ROWS = ["baseline", "bounded:500ms:0.3", "full:1s:30s", "hand_over_500ms", "hand_over", "default"];

describe("figures", () => {
  test("are equal for equal seeds and differ for different seeds", async () => {
    const typed = {
      contenders: "30",
      hotRuns: "2",
      policies: ["baseline", "bounded:500ms:0.3", "hand_over_500ms", "default"],
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
      results: [{ policy: "baseline", arrivals: { bin_ms: 50 } }, {}, {}, { policy: "default", busy_retries: 0 }],
    });
  });

  test("have the longest drain time with a fixed delay, then jitter, the lock queue and coalescing", async () => {
    const prepared = await prepare(120);
    const drains: number[] = [];
    for (const row of ["baseline", "bounded:500ms:0.3", "hand_over", "default"]) {
      drains.push(figure(await history(prepared, row, { latencyMs: 0.2 }), "drain_ms"));
    }
    const [baseline = 0, bounded = 0, queue = 0, shared = 0] = drains;
    expect(baseline).toBeGreaterThan(20 * bounded);
    expect(bounded).toBeGreaterThan(1.5 * queue);
    expect(queue).toBeGreaterThan(5 * shared);
  });

  test("have a shorter baseline drain time with busy threads, which desynchronize retries", async () => {
    const prepared = await prepare(60);
    const [plain, busy] = [await history(prepared, "baseline"), await history(prepared, "baseline", { stepMs: 0.4 })];
    expect(figure(busy, "drain_ms")).toBeLessThan(0.5 * figure(plain, "drain_ms"));
  });

  test("have a longer drain time with a shared redelivery timer, which synchronizes jittered retries", async () => {
    // Large enough for an effect with every seed.
    const prepared = await prepare(120);
    const row = "bounded:500ms:0.1";
    const [plain, late] = [await history(prepared, row), await history(prepared, row, { nakLookMs: 10 })];
    expect(figure(late, "drain_ms")).toBeGreaterThan(1.1 * figure(plain, "drain_ms"));
    expect(figure(late, "attempts_per_acquisition")).toBeGreaterThan(1.1 * figure(plain, "attempts_per_acquisition"));
  });

  test("include the thread time of every turn in the lock queue", async () => {
    const prepared = await prepare(40);
    const [plain, busy] = [await history(prepared, "hand_over"), await history(prepared, "hand_over", { stepMs: 0.4 })];
    expect(plain.steps).toBeGreaterThan(40 * 5);
    // At least two steps per turn: the hand-over and the release.
    const lostMs = figure(busy, "drain_ms") - figure(plain, "drain_ms");
    expect(lostMs).toBeGreaterThan(40 * 2 * 0.4);
    expect(lostMs).toBeLessThan(0.4 * (plain.steps ?? 0));
  });

  test("have one attempt per acquisition and little idle time with the lock queue", async () => {
    const queue = await history(await prepare(100), "hand_over", { latencyMs: 0.2 });
    expect(figure(queue, "attempts_per_acquisition")).toBe(1);
    expect(figure(queue, "busy_retries")).toBe(0);
    // The minimum is two hops per turn: the release and the hand-over.
    expect(figure(queue, "ratio")).toBeGreaterThan(1.06);
    expect(figure(queue, "ratio")).toBeLessThan(1.1);
  });

  test("have an ideal of one hold per result, or per batch of a replica", async () => {
    const prepared = await prepare(90, 2);
    expect(figure(await history(prepared, "hand_over", { holdMs: 4 }), "ideal_ms")).toBe(45 * 4);
    // 15 results per replica fit into one batch.
    expect(figure(await history(prepared, "default", { holdMs: 4 }), "ideal_ms")).toBe(3 * 4);
  });
});

describe("correctness", () => {
  test.each<Variant>(["bus", "gateway", "leaked"])("applies every result once: variant %s", async (variant) => {
    const prepared = await prepare(60, 2, variant === "gateway");
    for (const row of ROWS) {
      const seen = await history(prepared, row, { variant });
      expect(figure(seen, "applied"), row).toBe(60);
      expect(figure(seen, "dead_lettered"), row).toBe(0);
      for (const id of prepared.runIds) expect(seen.net.store.load(RUNS, id)?.value.state, row).toBe("SUCCEEDED");
      const states = [...seen.net.store.rows(JOBS)].map(({ value }) => value.state);
      expect(states, row).toEqual(Array.from({ length: 60 }, () => "SUCCEEDED"));
    }
  });

  test("waits for the TTL of a leaked lock", async () => {
    const prepared = await prepare(40);
    for (const row of ["bounded:500ms:0.3", "default"]) {
      const seen = await history(prepared, row, { variant: "leaked" });
      expect(figure(seen, "wait_ms.p50"), row).toBeGreaterThan(29_000);
      expect(figure(seen, "ratio"), row).toBeLessThan(1.2);
    }
  });
});

test("rejects a history in which a lock has two holders", async () => {
  const prepared = await prepare(20);
  const settings = settingsOf("bounded:500ms:0.3", false);
  // Every request acquires a lock of its own.
  let requests = 0;
  const mutant = withLocks((locks) => ({
    acquire: async (request) => {
      const key = `${request.key} ${requests++}`;
      const acquired = await locks.acquire({ ...request, key });
      if (acquired.kind === "busy") return acquired;
      const { lease } = acquired;
      const { token, fence, waitedMs, attempts, wasQueued, signal, isLost } = lease;
      const release = () => lease.release();
      return {
        kind: "held",
        lease: { key: request.key, token, fence, waitedMs, attempts, wasQueued, signal, isLost, release },
      };
    },
  }));
  await expect(simulateRow(prepared, { ...DEFAULTS, settings, mutant })).rejects.toThrow("two_holders");
});

describe("delivery cap", () => {
  test("dead-letters results with synchronized retries and none with jitter", async () => {
    const prepared = await prepare(110);
    // A lower latency keeps retries synchronized for longer.
    const capped = await history(prepared, "baseline_capped", { latencyMs: 0.02 });
    const dead = figure(capped, "dead_lettered");
    expect(dead).toBeGreaterThan(0);
    expect(figure(capped, "applied")).toBe(110 - dead);
    expect(figure(capped, "deliveries_max")).toBe(90);
    const spread = await history(prepared, "bounded:500ms:0.3", { isCapped: true });
    expect(figure(spread, "dead_lettered")).toBe(0);
    expect(figure(spread, "applied")).toBe(110);
  });
});

describe("parameters", () => {
  test.each([
    ["more results than a run can have", { contenders: "20001", hotRuns: "2" }, "give --hot-runs 3 or more"],
    ["runs without results", { contenders: "2", hotRuns: "3" }, "at least one for each hot run"],
  ])("rejects %s", async (_what, raw, message) => {
    const run = async () => runExperiment(LOCK_BUSY, { seed: 1, seeds: 1, params: LOCK_BUSY.readParams(raw) });
    await expect(run()).rejects.toThrow(message);
  });
});

function prepare(contenders: number, hotRuns = 1, isLeased = false): Promise<PreparedRuns> {
  return prepareRuns({ seed: SEED, contenders, hotRuns, isLeased, settings: settingsOf("default", true) });
}

function history(
  prepared: PreparedRuns,
  row: string,
  { isCapped = false, ...request }: Partial<RowRequest> & { readonly isCapped?: boolean } = {},
): Promise<History> {
  return simulateRow(prepared, { ...DEFAULTS, settings: settingsOf(row, isCapped), ...request });
}

function figure({ figures }: Pick<Row, "figures">, path: string): number {
  return figureAt(figures, path) ?? Number.NaN;
}
