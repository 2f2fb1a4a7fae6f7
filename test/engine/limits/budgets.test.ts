import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { BudgetExhausted, budgetsOfJob } from "../../../src/engine/limits/index.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import type { WorkItem } from "../../../src/worker/item.ts";
import { LimitsHarness } from "./limits-harness.ts";

const rule = (budget: string) =>
  `  - {id: llm, match: {topics: [pay]}, decision: allow, reason: metered, budget: ${budget}}`;
const tokens = (maxTotalTokens: number, more = {}) => ({ details: { budget: { maxTotalTokens } }, ...more });

class BudgetHarness extends LimitsHarness {
  /** Jobs run until `finish`. */
  readonly running: { readonly item: WorkItem; finish(error?: Error): void }[] = [];

  hold(): Promise<unknown> {
    return this.worker(
      "w1",
      ["pay"],
      (item) =>
        new Promise((resolve, reject) => {
          this.running.push({ item, finish: (error) => (error ? reject(error) : resolve(null)) });
        }),
      100,
      { extendsForMs: 3_600_000 },
    );
  }

  async left(engine: Engine, jobId: string): Promise<number> {
    const [use] = await this.run(budgetsOfJob(engine, await this.job(jobId)));
    return (use?.limit.tokens ?? 0) - (use?.used.tokens ?? 0);
  }

  /** The error of a refused submission; null if it was admitted. */
  refusal(engine: Engine, raw: Record<string, unknown>): Promise<unknown> {
    return this.submit(engine, raw).then(
      () => null,
      (error: unknown) => error,
    );
  }
}

describe("a budget", () => {
  test.each(["local", "remote"] as const)("is never exceeded by concurrent reservations; kernel %s", async (safety) => {
    const harness = new BudgetHarness().publish(rule("{tokens: 1000, per: tenant}"));
    const engineOf = await harness.openThree(safety);
    await harness.hold();
    const submitted = await Promise.allSettled(
      Array.from({ length: 60 }, (_, at) => harness.submit(engineOf(at), tokens(150))),
    );
    await harness.pass(10_000);
    // 6 × 150 = 900; a seventh reservation would be 1,050.
    expect(harness.running).toHaveLength(6);
    const refused = submitted.filter(({ status }) => status === "rejected");
    const ids = submitted.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const states = await harness.count(ids);
    expect((states.FAILED ?? 0) + refused.length).toBe(54);
    if (safety === "local") expect(refused).toHaveLength(54);
    else expect(refused).toHaveLength(0);
  });

  test("refuses a submission without room, names what is left, and admits one that fits", async () => {
    const harness = new BudgetHarness().publish(rule("{tokens: 1000, per: tenant}"));
    const engine = await harness.open();
    await harness.hold();
    const id = await harness.submit(engine, tokens(700));
    const error = await harness.refusal(engine, tokens(301));
    expect(error).toBeInstanceOf(BudgetExhausted);
    expect(error).toMatchObject({
      message: "budget of rule `llm` per tenant exhausted: 301 tokens needed, 300 tokens left of 1000 tokens",
      facts: { rule_id: "llm", per: "tenant", unit: "tokens", needed: 301, remaining: 300, limit: 1_000 },
    });
    expect(await harness.refusal(engine, tokens(300))).toBeNull();
    expect(await harness.left(engine, id)).toBe(0);
  });

  test("is settled by the reported usage, and by the reservation without a report", async () => {
    const harness = new BudgetHarness().publish(rule("{tokens: 1000, usd: 2, per: tenant, reserve_usd: 0.5}"));
    const engine = await harness.open();
    await harness.hold();
    const [reporting, silent] = [await harness.submit(engine, tokens(400)), await harness.submit(engine, tokens(400))];
    await harness.pass(1_000);
    const [first, second] = [reporting, silent].map((id) => harness.running.find(({ item }) => item.jobId === id));
    first?.item.reportUsage({ inputTokens: 60, costUsd: 0.01 });
    first?.item.reportUsage({ outputTokens: 40, costUsd: 0.02 });
    first?.finish();
    second?.finish();
    await harness.pass(1_000);
    expect((await harness.job(reporting)).budgets).toMatchObject([{ spent: { tokens: 100, microUsd: 30_000 } }]);
    expect((await harness.job(silent)).budgets).toMatchObject([{ spent: { tokens: 400, microUsd: 500_000 } }]);
    expect(await harness.left(engine, silent)).toBe(500);
  });

  test("is released when an attempt fails, is lost, or is cancelled; what a failure reports is spent", async () => {
    const dispatch = { ...defaultSettings().dispatch, deadlineMs: 10_000 };
    const harness = new BudgetHarness({ dispatch }).publish(rule("{tokens: 1000, per: tenant}"));
    const engine = await harness.open();
    await harness.hold();
    const id = await harness.submit(engine, tokens(900));
    await harness.pass(500);
    expect(await harness.left(engine, id)).toBe(100);
    harness.running[0]?.item.reportUsage({ totalTokens: 50 });
    harness.running[0]?.finish(Object.assign(new Error("busy"), { retryDelayMs: 60_000 }));
    await harness.pass(1_000);
    expect(await harness.job(id)).toMatchObject({ state: "RETRYING" });
    expect(await harness.left(engine, id)).toBe(950);
    // The next attempt reserves again, and is lost with its worker.
    await harness.pass(61_000);
    expect(harness.running).toHaveLength(2);
    expect(await harness.left(engine, id)).toBe(50);
    harness.crash("w1");
    await harness.pass(15_000);
    expect(await harness.left(engine, id)).toBe(950);
  });

  test("ends an admitted job that finds no room, with its own class and without a retry", async () => {
    const dispatch = { ...defaultSettings().dispatch, windowMax: 1 };
    const harness = new BudgetHarness({ dispatch }).publish(rule("{tokens: 1000, per: tenant}"));
    const engine = await harness.open();
    await harness.hold();
    // There is room for each of the two in the backlog, but not for both: they reserve with their dispatch.
    await harness.submit(engine, tokens(600));
    const ids = [await harness.submit(engine, tokens(400)), await harness.submit(engine, tokens(400))];
    await harness.pass(1_000);
    harness.running[0]?.finish();
    await harness.pass(1_000);
    harness.running[1]?.finish();
    await harness.pass(1_000);
    expect(harness.running).toHaveLength(2);
    expect(await harness.count(ids)).toEqual({ SUCCEEDED: 1, FAILED: 1 });
    const failed = (await harness.job(ids[0] ?? "")).state === "FAILED" ? ids[0] : ids[1];
    expect(await harness.job(failed ?? "")).toMatchObject({
      attempt: 0,
      error: { name: "BudgetExhausted", code: "budget_exhausted", retryNever: true },
    });
    expect(harness.sim.net.store.load(DEAD_LETTERS, failed ?? "")?.value).toMatchObject({ reason: "budget_exhausted" });
    const explained = await harness.run(explain(engine, { org: "default", jobId: failed ?? "", isForAll: true }));
    expect(JSON.stringify(explained)).toContain("raise the budget of the rule");
  });

  test("counts per run, and fails the step of the run", async () => {
    const harness = new BudgetHarness().publish(rule("{tokens: 5000, per: run}"));
    const engine = await harness.open();
    await harness.serve();
    const step = { type: "worker", topic: "pay" };
    const document = { id: "w", steps: { a: step, b: { ...step, depends_on: ["a"] } } };
    await harness.apply(engine, document);
    const runId = await harness.started(engine, "w");
    await harness.pass(10_000);
    // Each step reserves the default of 4,096 and reports nothing: the second has no room.
    expect(harness.ran).toHaveLength(1);
    expect(harness.states(runId)).toMatchObject({ a: "SUCCEEDED", b: "FAILED" });
    const other = await harness.started(engine, "w");
    await harness.pass(1_000);
    expect(harness.states(other).a).toBe("SUCCEEDED");
  });

  test("keeps keys and tenants apart, and begins anew each day", async () => {
    const harness = new BudgetHarness().publish(rule("[{tokens: 1000, per: 'label:team'}, {tokens: 1500, per: day}]"));
    const engine = await harness.open();
    await harness.serve();
    const of = (team: string, org = "default") => harness.refusal(engine, tokens(1_000, { labels: { team }, org }));
    expect(await of("a")).toBeNull();
    expect(await of("a", "acme")).toBeNull();
    expect(await of("a")).toMatchObject({ facts: { per: "label:team", key: "a" } });
    expect(await of("b")).toMatchObject({ facts: { per: "day", remaining: 500 } });
    await harness.pass(24 * 3_600_000);
    expect(await of("b")).toBeNull();
    expect(await of("a")).toMatchObject({ facts: { per: "label:team" } });
  });

  test("keeps what was spent when the job is removed, and after a restart", async () => {
    const retention = { ...defaultSettings().retention, jobsMs: 60_000 };
    const harness = new BudgetHarness({ retention }).publish(rule("{tokens: 1000, per: tenant}"));
    const first = await harness.open("c1");
    await harness.serve();
    const ids = [await harness.submit(first, tokens(300)), await harness.submit(first, tokens(300))];
    await harness.pass(1_000);
    harness.crash("c1");
    const engine = await harness.open("c2");
    await harness.pass(3 * 60_000);
    for (const id of ids) await expect(harness.job(id)).rejects.toThrow("no job");
    expect(await harness.refusal(engine, tokens(401))).toMatchObject({ facts: { remaining: 400 } });
    expect(await harness.refusal(engine, tokens(400))).toBeNull();
  });

  test("limits what one job spends over its attempts", async () => {
    const harness = new BudgetHarness().publish(rule("{tokens: 1000, per: job}"));
    const engine = await harness.open();
    await harness.worker("w1", ["pay"], async (item) => {
      item.reportUsage({ totalTokens: 400 });
      throw Object.assign(new Error("again"), { retryDelayMs: 10 });
    });
    const id = await harness.submit(engine, tokens(400));
    await harness.pass(60_000);
    // Two attempts spend 800; a third would reserve 1,200 in all.
    expect(await harness.job(id)).toMatchObject({ state: "FAILED", attempt: 2, error: { name: "BudgetExhausted" } });
  });
});
