import { beforeAll, describe, expect, test } from "vitest";
import { settingsFrom } from "../../src/config/config.ts";
import { ADMISSION } from "../../src/lab/admission/experiment.ts";
import { runAdmission } from "../../src/lab/admission/world.ts";
import { outcomeDocument } from "../../src/lab/document.ts";
import { figureAt, type Outcome, runExperiment } from "../../src/lab/experiment.ts";

const run = (typed: object): Promise<Outcome> =>
  runExperiment(ADMISSION, {
    seed: 1,
    seeds: 1,
    params: ADMISSION.readParams({ part: "grid", otherForMs: "1000", ...typed }),
  });

function figure({ rows }: Outcome, name: object, path: string): number {
  const row = rows.find(({ key }) => Object.entries(name).every(([part, value]) => key[part] === value));
  const value = row && figureAt(row.figures, path);
  if (value === undefined || value === null) throw new Error(`no \`${path}\` in ${JSON.stringify(name)}`);
  return value;
}

test("the same seed gives the same document", async () => {
  const asked = {
    contenders: "20",
    client: "jittered",
    budgetMs: "1000",
    part: "both",
    budgetsMs: "500",
    maxWaitsMs: "50",
  };
  const [first, second] = [await run(asked), await run(asked)];
  expect(JSON.stringify(outcomeDocument(first))).toBe(JSON.stringify(outcomeDocument(second)));
});

describe("a hundred callers, a limit of two", () => {
  let hundred: Outcome;
  beforeAll(async () => {
    hundred = await run({ contenders: "100" });
  });

  test("never more than two runs are open, whoever asks how", () => {
    const { rows } = hundred;
    expect(rows).toHaveLength(12);
    for (const { figures } of rows) expect(figureAt(figures, "admitted_max_concurrent")).toBe(2);
  });

  test("with the slot in one write nobody is told 503; who does not come back is two of a hundred", () => {
    for (const client of ["none", "fixed", "jittered", "told"]) {
      expect(figure(hundred, { policy: "atomic", client }, "status.503")).toBe(0);
    }
    const none = { policy: "atomic", client: "none" };
    expect([figure(hundred, none, "status.200"), figure(hundred, none, "status.429")]).toEqual([2, 98]);
  });

  test("the slots are used by clients that come back spread, not by those that come back together", () => {
    const of = (client: string) => figure(hundred, { policy: "atomic", client }, "admitted");
    expect(of("jittered")).toBeGreaterThan(2 * of("fixed"));
    expect(of("told")).toBeGreaterThan(2 * of("fixed"));
  });

  test("the polled lock is slower and asks more; jitter makes both a little better", () => {
    const of = (policy: string, path: string) => figure(hundred, { policy, client: "none" }, path);
    expect(of("fixed:10ms", "request_ms.p95")).toBeGreaterThan(5 * of("atomic", "request_ms.p95"));
    expect(of("fixed:10ms", "asks")).toBeGreaterThan(3 * of("atomic", "asks"));
    expect(of("bounded:10ms:0.5", "asks")).toBeLessThan(of("fixed:10ms", "asks"));
    expect(of("bounded:10ms:0.5", "request_ms.p95")).toBeLessThan(of("fixed:10ms", "request_ms.p95"));
  });

  test("pictures and sentences are there", () => {
    const outcome = hundred;
    expect(ADMISSION.charts(outcome).map(({ name }) => name)).toEqual(["waves", "requests", "let-in"]);
    expect(ADMISSION.findings(outcome)).toHaveLength(2);
  });
});

test("many pollers are in everybody's way: the other org feels them, and not those of the one write", async () => {
  const outcome = await run({ contenders: "200", client: "none", storeMs: "0.2", maxWaitMs: "1000" });
  const of = (policy: string, path: string) => figure(outcome, { policy }, path);
  expect(of("fixed:10ms", "other_ms.p95")).toBeGreaterThan(5 * of("fixed:10ms", "other_alone_ms.p95"));
  expect(of("fixed:10ms", "other_ms.p95")).toBeGreaterThan(5 * of("atomic", "other_ms.p95"));
  expect(of("fixed:10ms", "share.503")).toBeGreaterThan(50);
  expect(of("atomic", "share.503")).toBe(0);
});

test("patience of the callers lets them in, patience of the server spares them 503", async () => {
  const outcome = await run({ contenders: "40", part: "sweep", maxWaitsMs: "10,500", budgetsMs: "500,6000" });
  const of = (max_wait_ms: number, budget_ms: number, path: string) =>
    figure(outcome, { part: "sweep", max_wait_ms, budget_ms }, path);
  expect(of(500, 6_000, "admitted_share")).toBeGreaterThan(75);
  expect(of(500, 500, "admitted_share")).toBeLessThan(30);
  expect(of(10, 6_000, "share.503")).toBeGreaterThan(0);
  expect(of(500, 6_000, "share.503")).toBe(0);
});

test("a history in which more runs were open than may be is refused", async () => {
  const client = { kind: "none" } as const;
  const order = { seed: 1, replicas: 2, holdMs: 200, latencyMs: 0.2, storeMs: 0, callers: 20, client, budgetMs: 0 };
  const settings = settingsFrom({ "limits.max_concurrent_runs": 3 });
  const wrong = runAdmission({ ...order, settings, besidePerS: 0, besideForMs: 0 });
  await expect(wrong).rejects.toThrow("3 runs were open at a limit of 2");
});
