import { expect, test } from "vitest";
import { encodeRecord } from "../../src/core/contention/codec.ts";
import { EXPERIMENTS } from "../../src/lab/experiments.ts";
import { EXPERIMENT_VIEWS, type ExperimentRequest, runRequest } from "../../src/lab/requests.ts";
import { acquisition, record } from "../core/contention/fixtures.ts";

const request = (name: string, params: ExperimentRequest["params"]): ExperimentRequest => ({
  ...{ name, params, records: [] },
});

test("lists every experiment and the replay, each parameter with its default", () => {
  expect(EXPERIMENT_VIEWS.map(({ name }) => name)).toEqual([...EXPERIMENTS.map(({ name }) => name), "replay"]);
  for (const { params } of EXPERIMENT_VIEWS) {
    expect(params.map(({ name }) => name)).toContain("seed");
    for (const param of params) expect(param.default.length, param.name).toBeGreaterThan(0);
  }
});

test("gives the same report for the same request", async () => {
  const ask = request("lock-busy", { contenders: "20", policies: ["baseline", "default"] });
  const first = await runRequest(ask);
  expect(await runRequest(ask)).toEqual(first);
  expect(first).toMatchObject({
    experiment: "lock-busy",
    command: "cordum lab lock-busy --seed 1 --seeds 1 --contenders 20 --policy baseline --policy default",
    charts: [
      { name: "arrivals", bin: 50 },
      { name: "waits", bin: null, x: { is_log: true } },
    ],
  });
});

test("names the rejected parameter", async () => {
  const rejected = async (params: ExperimentRequest["params"]) => runRequest(request("lock-busy", params));
  expect(await rejected({ contenders: "many" })).toMatchObject({ kind: "rejected", param: "contenders" });
  expect(await rejected({ policies: ["fixed:never"] })).toMatchObject({ kind: "rejected", param: "policies" });
  expect(await rejected({ hotRuns: "300" })).toMatchObject({ kind: "rejected", param: "contenders" });
  expect(await rejected({ seeds: "0" })).toMatchObject({ kind: "rejected", param: "seeds" });
  expect(await rejected({ contender: "5" })).toMatchObject({ kind: "rejected", param: "contender" });
  expect(await runRequest(request("occ", { policies: ["full:x"] }))).toMatchObject({ param: "policies" });
});

test("bounds the points of a chart, and keeps their sum", async () => {
  const ask = (binMs: string) => runRequest(request("lock-busy", { contenders: "20", policies: ["baseline"], binMs }));
  const sums = [];
  for (const binMs of ["1", "50"]) {
    const report = await ask(binMs);
    if ("kind" in report) throw new Error(report.detail);
    const [points = []] = report.charts[0]?.series.map((one) => one.points) ?? [];
    expect(points.length).toBeLessThanOrEqual(1_200);
    expect(Math.max(...points.map(([at]) => at))).toBeLessThan(report.charts[0]?.until ?? 0);
    sums.push(points.reduce((sum, [, count]) => sum + count, 0));
  }
  expect(sums[0]).toBe(sums[1]);
});

test("replays records, and says when there are none", async () => {
  const acquisitions = Array.from({ length: 20 }, (_, at) =>
    acquisition({ waitMs: 500 * at, attempts: 1 + at, wasBlocked: at > 0 }),
  );
  const ask = { name: "replay", params: { policies: ["bounded:500ms:0.3"] } };
  const report = await runRequest({ ...ask, records: [encodeRecord(record({ acquisitions }))] });
  if ("kind" in report) throw new Error(report.detail);
  expect(report.tables[0]?.rows.map(([cell]) => cell?.text)).toEqual(["recorded", "bounded:500ms:0.3"]);
  expect(await runRequest({ ...ask, records: [] })).toMatchObject({ kind: "rejected", param: "" });
});
