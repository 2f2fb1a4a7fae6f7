import { describe, expect, it } from "vitest";
import { outcomeDocument } from "../../src/lab/document.ts";
import { experiment, figureAt, type Row, runExperiment } from "../../src/lab/experiment.ts";
import { flagOf, readParams } from "../../src/lab/params.ts";
import { binned, median, percentiles, quantile, rounded } from "../../src/lab/statistics.ts";

function fake(rows: (seed: number) => readonly Row[], centre: "mean" | "median" = "median") {
  return experiment({
    name: "fake",
    summary: "",
    description: "",
    params: {},
    seedsDefault: 1,
    centre,
    run: async (seed) => rows(seed),
    tables: [],
    charts: () => [],
    findings: () => [],
  });
}

const options = (seeds: number) => ({ seed: 1, seeds, params: {} });

describe("several seeds", () => {
  const one = fake((seed) => [
    {
      key: { policy: "a" },
      figures: { drain_ms: seed ** 2, wait_ms: { p50: seed === 2 ? null : seed } },
      series: { arrivals: [seed] },
    },
  ]);

  it("gives median, minimum and maximum of each figure", async () => {
    const { rows } = await runExperiment(one, options(3));
    expect(rows).toEqual([
      {
        key: { policy: "a" },
        figures: { drain_ms: 4, wait_ms: { p50: 2 } },
        spread: { min: { drain_ms: 1, wait_ms: { p50: 1 } }, max: { drain_ms: 9, wait_ms: { p50: 3 } } },
        series: { arrivals: [1] },
      },
    ]);
    expect(figureAt(rows[0]!.figures, "wait_ms.p50")).toBe(2);
    expect(figureAt(rows[0]!.figures, "wait_ms.p51")).toBeNull();
    expect(figureAt(rows[0]!.figures, "drain_ms.p50")).toBeNull();
  });

  it("gives the rounded mean for an experiment with means", async () => {
    const thirds = fake((seed) => [{ key: {}, figures: { x: seed / 3 } }], "mean");
    expect((await runExperiment(thirds, options(2))).rows[0]?.figures).toEqual({ x: 0.5 });
    expect((await runExperiment(thirds, options(1))).rows[0]?.figures).toEqual({ x: 0.333 });
  });

  it("omits the spread of one seed and all series from the document", async () => {
    const document = outcomeDocument(await runExperiment(one, options(1)));
    expect(JSON.stringify(document)).toBe(
      '{"experiment":"fake","seed":1,"params":{"seeds":1},"results":[{"policy":"a","drain_ms":1,"wait_ms":{"p50":1}}]}',
    );
  });

  it("reports progress", async () => {
    const shares: number[] = [];
    await runExperiment(one, options(4), (share) => shares.push(share));
    expect(shares).toEqual([0.25, 0.5, 0.75, 1]);
  });

  it("rejects rows that differ between seeds, and figures that are not finite", async () => {
    await expect(
      runExperiment(
        fake((seed) => [{ key: { seed }, figures: {} }]),
        options(2),
      ),
    ).rejects.toThrow("rows differ");
    const wrong = fake(() => [{ key: {}, figures: { x: Number.NaN } }]);
    await expect(runExperiment(wrong, options(1))).rejects.toThrow("`x` is NaN");
  });
});

describe("params", () => {
  const limits = { unit: "ms", min: 1, max: 100, help: "" };
  const table = {
    holdMs: { kind: "number", default: 5, isWhole: false, ...limits },
    clients: { kind: "numbers", default: [10], isWhole: true, ...limits },
    rows: {
      kind: "rows",
      default: ["a"],
      known: { a: "", b: "" },
      help: "",
    },
    mode: { kind: "choice", default: "x", choices: ["x", "y"], help: "" },
  } as const;

  it("have defaults", () => {
    expect(readParams(table, {})).toEqual({ holdMs: 5, clients: [10], rows: ["a"], mode: "x" });
    expect([flagOf("holdMs", table.holdMs), flagOf("rows", table.rows)]).toEqual(["--hold-ms", "--policy"]);
  });

  it("are read from strings; lists are sorted and without duplicates", () => {
    const raw = { holdMs: "0.5e", clients: "30, 20,30", rows: ["b", "full:1s:30s", "b"], mode: "y" };
    expect(readParams(table, { ...raw, holdMs: "2.5" })).toEqual({
      holdMs: 2.5,
      clients: [20, 30],
      rows: ["b", "full:1s:30s"],
      mode: "y",
    });
  });

  it.each([
    [{ holdMs: "0.5e" }, "--hold-ms `0.5e`: give a number from 1 to 100 ms"],
    [{ holdMs: "101" }, "--hold-ms `101`"],
    [{ clients: "10,2.5" }, "--clients `2.5`: give a whole number"],
    [{ clients: "" }, "--clients ``"],
    [{ rows: ["c"] }, "or choose one of a, b"],
    [{ mode: "z" }, "--mode `z`: choose one of x, y"],
  ])("reject %j", (raw, message) => {
    expect(() => readParams(table, raw)).toThrow(message);
  });
});

describe("statistics", () => {
  it("interpolates quantiles", () => {
    expect(quantile([1, 2, 3, 4], 0.5)).toBe(2.5);
    expect(median([9, 1, 5])).toBe(5);
    expect(percentiles([])).toBeNull();
    expect(percentiles(Array.from({ length: 101 }, (_, index) => 100 - index))).toEqual({ p50: 50, p95: 95, p99: 99 });
    expect(() => median([])).toThrow("no values");
  });

  it("counts per bin, with empty bins", () => {
    expect(binned([0, 9.9, 10, 35], 10)).toEqual([2, 1, 0, 1]);
    expect(binned([5, 12], 10, 10)).toEqual([1]);
  });

  it("rounds to three decimals without negative zero", () => {
    expect(Object.is(rounded(-0.0001), 0)).toBe(true);
    expect(rounded(1.23456)).toBe(1.235);
  });
});
