import { beforeAll, describe, expect, test } from "vitest";
import { settingsFrom } from "../../src/config/config.ts";
import { ADMISSION } from "../../src/lab/admission/experiment.ts";
import { simulateBurst } from "../../src/lab/admission/simulation.ts";
import { outcomeDocument } from "../../src/lab/document.ts";
import { figureAt, type Outcome, runExperiment } from "../../src/lab/experiment.ts";
import { figureIn } from "./fixtures.ts";

const run = (params: object): Promise<Outcome> =>
  runExperiment(ADMISSION, {
    seed: 1,
    seeds: 1,
    params: ADMISSION.readParams({ part: "grid", otherForMs: "1000", ...params }),
  });

test("the same seed gives the same document", async () => {
  const params = {
    contenders: "20",
    client: "jittered",
    budgetMs: "1000",
    part: "both",
    budgetsMs: "500",
    maxWaitsMs: "50",
  };
  const [first, second] = [await run(params), await run(params)];
  expect(JSON.stringify(outcomeDocument(first))).toBe(JSON.stringify(outcomeDocument(second)));
});

describe("100 callers at a limit of two", () => {
  let hundred: Outcome;
  beforeAll(async () => {
    hundred = await run({ contenders: "100" });
  });

  test("opens at most two runs at a time", () => {
    const { rows } = hundred;
    expect(rows).toHaveLength(12);
    for (const { figures } of rows) expect(figureAt(figures, "admitted_max_concurrent")).toBe(2);
  });

  test("responds without 503 and admits two of the callers that do not retry, with atomic admission", () => {
    for (const client of ["none", "fixed", "jittered", "retry_after"]) {
      expect(figureIn(hundred, { policy: "atomic", client }, "status.503")).toBe(0);
    }
    const none = { policy: "atomic", client: "none" };
    expect([figureIn(hundred, none, "status.200"), figureIn(hundred, none, "status.429")]).toEqual([2, 98]);
  });

  test("admits more jittered clients than clients with a fixed delay", () => {
    const of = (client: string) => figureIn(hundred, { policy: "atomic", client }, "admitted");
    expect(of("jittered")).toBeGreaterThan(2 * of("fixed"));
    expect(of("retry_after")).toBeGreaterThan(2 * of("fixed"));
  });

  test("needs more time and attempts with the polled lock, fewer with a jittered poll", () => {
    const of = (policy: string, path: string) => figureIn(hundred, { policy, client: "none" }, path);
    expect(of("fixed:10ms", "request_ms.p95")).toBeGreaterThan(5 * of("atomic", "request_ms.p95"));
    expect(of("fixed:10ms", "asks")).toBeGreaterThan(3 * of("atomic", "asks"));
    expect(of("bounded:10ms:0.5", "asks")).toBeLessThan(of("fixed:10ms", "asks"));
    expect(of("bounded:10ms:0.5", "request_ms.p95")).toBeLessThan(of("fixed:10ms", "request_ms.p95"));
  });

  test("has charts and findings", () => {
    const outcome = hundred;
    expect(ADMISSION.charts(outcome).map(({ name }) => name)).toEqual(["arrivals", "requests", "admitted"]);
    expect(ADMISSION.findings(outcome)).toHaveLength(2);
  });
});

test("slows down the other org with polling, and not with atomic admission", async () => {
  const outcome = await run({ contenders: "200", client: "none", storeMs: "0.2", maxWaitMs: "1000" });
  const of = (policy: string, path: string) => figureIn(outcome, { policy }, path);
  expect(of("fixed:10ms", "other_ms.p95")).toBeGreaterThan(5 * of("fixed:10ms", "other_alone_ms.p95"));
  expect(of("fixed:10ms", "other_ms.p95")).toBeGreaterThan(5 * of("atomic", "other_ms.p95"));
  expect(of("fixed:10ms", "share.503")).toBeGreaterThan(50);
  expect(of("atomic", "share.503")).toBe(0);
});

test("admits more with a longer client budget, and sends fewer 503 with a longer server wait", async () => {
  const outcome = await run({ contenders: "40", part: "sweep", maxWaitsMs: "10,500", budgetsMs: "500,6000" });
  const of = (max_wait_ms: number, budget_ms: number, path: string) =>
    figureIn(outcome, { part: "sweep", max_wait_ms, budget_ms }, path);
  expect(of(500, 6_000, "admitted_share")).toBeGreaterThan(75);
  expect(of(500, 500, "admitted_share")).toBeLessThan(30);
  expect(of(10, 6_000, "share.503")).toBeGreaterThan(0);
  expect(of(500, 6_000, "share.503")).toBe(0);
});

test("rejects a history with more open runs than the limit", async () => {
  const client = { kind: "none" } as const;
  const burst = { seed: 1, replicas: 2, holdMs: 200, latencyMs: 0.2, storeMs: 0, callers: 20, client, budgetMs: 0 };
  const settings = settingsFrom({ "limits.max_concurrent_runs": 3 });
  const wrong = simulateBurst({ ...burst, settings, otherRate: 0, otherForMs: 0 });
  await expect(wrong).rejects.toThrow("3 runs were open at a limit of 2");
});
