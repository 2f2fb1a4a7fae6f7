import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { cancelOwnJob } from "../../../src/engine/dispatch/cancel-job.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { LimitsHarness } from "./limits-harness.ts";

const RATE = "  - {id: slow, match: {topics: [pay]}, decision: throttle, reason: slow down, throttle: {rate: 5/1m}}";

/** The most jobs that ran within any minute. */
function mostPerMinute(times: readonly number[]): number {
  return Math.max(...times.map((fromMs) => times.filter((atMs) => atMs >= fromMs && atMs < fromMs + 60_000).length));
}

describe("a throttle with a rate", () => {
  test.each(["local", "remote"] as const)("gives each job its slot over three processes; kernel %s", async (safety) => {
    const harness = new LimitsHarness().publish(RATE);
    const engineOf = await harness.openThree(safety);
    await harness.serve();
    const ids = await Promise.all(Array.from({ length: 40 }, (_, at) => harness.submit(engineOf(at))));
    await harness.pass(5_000);
    expect(await harness.count(ids)).toEqual({ SUCCEEDED: 5, PENDING: 35 });
    const waits = (await Promise.all(ids.map((id) => harness.job(id)))).flatMap(({ wait }) => wait ?? []);
    for (const wait of waits) {
      expect(wait).toMatchObject({ retryClass: "throttled", setBy: "rule `slow`" });
      expect(wait.reason).toMatch(/^slow down \(\d+ of 5 in the last 1 min, next slot \d\d:\d\d:\d\d\)$/);
    }
    await harness.pass(10 * 60_000);
    expect(await harness.count(ids)).toEqual({ SUCCEEDED: 40 });
    const slots = new Map<string, number>();
    for (const id of ids) slots.set(id, (await harness.job(id)).counted?.[0]?.atMs ?? 0);
    expect(mostPerMinute([...slots.values()])).toBe(5);
    // Each job runs when its slot comes, not before and not much later.
    const lateMs = harness.ran.map(({ jobId, atMs }) => atMs - (slots.get(jobId) ?? 0));
    expect(Math.min(...lateMs)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...lateMs)).toBeLessThan(5_000);
  });

  test("gives back the slots of cancelled jobs", async () => {
    const harness = new LimitsHarness().publish(RATE);
    const engine = await harness.open();
    await harness.serve();
    const ids: string[] = [];
    for (let at = 0; at < 25; at++) ids.push(await harness.submit(engine));
    const waiting = ids.slice(5);
    for (const jobId of waiting) {
      await harness.run(cancelOwnJob(engine, { org: "default", jobId, by: "ops", why: "no" }));
    }
    await harness.pass(61_000);
    const next = await harness.submit(engine);
    await harness.pass(1_000);
    expect((await harness.job(next)).state).toBe("SUCCEEDED");
  });

  test("leaves the decision to the rules behind it", async () => {
    const deny = "  - {id: no, match: {labels: {bad: '*'}}, decision: deny, reason: forbidden}";
    const harness = new LimitsHarness().publish(`${RATE.replace("5/1m", "1/1m")}\n${deny}`);
    const engine = await harness.open();
    const denied = await harness.submit(engine, { labels: { bad: "1" } });
    expect(await harness.job(denied)).toMatchObject({ state: "DENIED", safety: { ruleId: "no" } });
    // A denied job took no slot.
    expect((await harness.job(await harness.submit(engine))).state).not.toBe("PENDING");
  });

  test("a job whose slot would come after its deadline takes none", async () => {
    const job = { ...defaultSettings().job, deadlineMs: 600_000 };
    const harness = new LimitsHarness({ job }).publish(RATE.replace("5/1m", "1/1h"));
    const engine = await harness.open();
    await harness.serve();
    await harness.submit(engine);
    const late = await harness.submit(engine);
    expect(await harness.job(late)).toMatchObject({ state: "PENDING", wait: { retryClass: "throttled" } });
    expect(await harness.job(late)).not.toHaveProperty("counted");
    await harness.pass(700_000);
    expect((await harness.job(late)).state).toBe("TIMEOUT");
  });

  test("is explained with its use and its slot", async () => {
    const harness = new LimitsHarness().publish(RATE.replace("5/1m", "1/10m"));
    const engine = await harness.open();
    await harness.submit(engine);
    const id = await harness.submit(engine);
    const explained = await harness.run(explain(engine, { org: "default", jobId: id, isForAll: true }));
    expect(JSON.stringify(explained)).toContain("2 of 1 in the last 10 min, next slot");
  });
});
