import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { LimitsHarness } from "./limits-harness.ts";

const TEN =
  "  - {id: fast, match: {topics: [pay]}, decision: deny, reason: too fast, velocity: {max: 10, within: 10m}}";
const BY_CUSTOMER =
  "  - {id: fast, match: {}, decision: deny, reason: too fast, velocity: {max: 1, within: 10m, by: 'label:customer'}}";
const ASK =
  "  - {id: ask, match: {}, decision: require_approval, reason: a lot, velocity: {max: 100, within: 1h, sum: input.usd}}";

describe("a velocity limit", () => {
  test.each(["local", "remote"] as const)(
    "passes exactly its limit of concurrent jobs over three processes; kernel %s",
    async (safety) => {
      const harness = new LimitsHarness().publish(TEN);
      const engineOf = await harness.openThree(safety);
      await harness.serve();
      const ids = await Promise.all(Array.from({ length: 300 }, (_, at) => harness.submit(engineOf(at))));
      await harness.pass(30_000);
      expect(await harness.count(ids)).toEqual({ SUCCEEDED: 10, DENIED: 290 });
      expect(harness.ran).toHaveLength(10);
      const denied = await Promise.all(ids.map((id) => harness.job(id)));
      expect(denied.find(({ state }) => state === "DENIED")?.error?.message).toMatch(
        /^too fast \(11 of 10 in the last 10 min, room at \d\d:\d\d:\d\d\)$/,
      );
      // The last use leaves the window, and the record with it.
      expect(await harness.keys(engineOf(0))).toBe(1);
      await harness.pass(11 * 60_000);
      expect(await harness.keys(engineOf(0))).toBe(0);
    },
  );

  test("slides: each use that leaves the window frees its room", async () => {
    const harness = new LimitsHarness().publish(TEN);
    const engine = await harness.open();
    for (let at = 0; at < 10; at++) {
      await harness.submit(engine);
      await harness.pass(30_000);
    }
    expect((await harness.job(await harness.submit(engine))).state).toBe("DENIED");
    await harness.pass(300_000);
    expect((await harness.job(await harness.submit(engine))).state).not.toBe("DENIED");
    expect((await harness.job(await harness.submit(engine))).state).toBe("DENIED");
  });

  test("survives the crash of every process", async () => {
    const harness = new LimitsHarness().publish(TEN);
    const first = await harness.open("c1");
    const before = await Promise.all(Array.from({ length: 7 }, () => harness.submit(first)));
    harness.crash("c1");
    const second = await harness.open("c2");
    const after = await Promise.all(Array.from({ length: 7 }, () => harness.submit(second)));
    const { DENIED: denied, ...passed } = await harness.count([...before, ...after]);
    expect({ denied, passed: Object.values(passed).reduce((sum, count) => sum + count, 0) }).toEqual({
      denied: 4,
      passed: 10,
    });
  });

  test("keeps tenants and keys apart, and counts a replay once", async () => {
    const harness = new LimitsHarness().publish(BY_CUSTOMER);
    const engine = await harness.open();
    const state = async (customer: string, org = "default", more = {}) =>
      (await harness.job(await harness.submit(engine, { org, labels: { customer }, ...more }))).state;
    expect(await state("a")).not.toBe("DENIED");
    expect(await state("b")).not.toBe("DENIED");
    expect(await state("a", "acme")).not.toBe("DENIED");
    expect(await state("a")).toBe("DENIED");
    expect(await state("a", "acme")).toBe("DENIED");
    const key = { idempotencyKey: "k" };
    expect(await state("c", "default", key)).not.toBe("DENIED");
    expect(await state("c", "default", key)).not.toBe("DENIED");
    expect(await harness.keys(engine)).toBe(3);
  });

  test("bounds the keys of a tenant: beyond it they share one", async () => {
    const limits = { ...defaultSettings().limits, policyKeysMax: 5 };
    const harness = new LimitsHarness({ limits }).publish(BY_CUSTOMER);
    const engine = await harness.open();
    const ids = await Promise.all(
      Array.from({ length: 40 }, (_, at) => harness.submit(engine, { labels: { customer: `c${at}` } })),
    );
    // Five keys, and the shared one.
    expect(await harness.keys(engine)).toBe(6);
    expect((await harness.count(ids)).DENIED).toBe(34);
  });

  test("sums an input field, and asks beyond it; an approval is valid although room came back", async () => {
    const harness = new LimitsHarness().publish(ASK);
    const engine = await harness.open();
    await harness.serve();
    const pay = (usd: number) => harness.submit(engine, { input: { usd } });
    const [small, large, rest] = [await pay(60.5), await pay(40), await pay(39.5)];
    await harness.pass(1_000);
    expect((await harness.job(small)).state).toBe("SUCCEEDED");
    expect(await harness.job(large)).toMatchObject({
      state: "APPROVAL_REQUIRED",
      safety: { reason: expect.stringContaining("a lot (100.5 of 100 in the last 1 h, room at") },
    });
    expect((await harness.job(rest)).state).toBe("SUCCEEDED");
    await harness.pass(2 * 3_600_000);
    const approved = await harness.run(approve(engine, { org: "default", jobId: large, by: "alice" }));
    expect(approved).toMatchObject({ kind: "approved" });
    await harness.pass(1_000);
    expect((await harness.job(large)).state).toBe("SUCCEEDED");
    expect(await auditLines(harness, engine, "decision")).toEqual(
      expect.arrayContaining([expect.stringContaining("require_approval")]),
    );
  });

  test("continues its counts after a policy change, and voids approvals of the old one", async () => {
    const harness = new LimitsHarness().publish(TEN);
    const engine = await harness.open();
    for (let at = 0; at < 10; at++) await harness.submit(engine);
    harness.publish(
      `  - {id: other, match: {topics: [x]}, decision: deny, reason: no}\n${TEN.replace("max: 10", "max: 12")}`,
    );
    const ids = await Promise.all(Array.from({ length: 5 }, () => harness.submit(engine)));
    expect((await harness.count(ids)).DENIED).toBe(3);
    // A new rule has its own count.
    harness.publish(TEN.replace("id: fast", "id: faster"));
    expect((await harness.job(await harness.submit(engine))).state).not.toBe("DENIED");
  });

  test.each(["local", "remote"] as const)("applies to the steps of runs; kernel %s", async (safety) => {
    const harness = new LimitsHarness().publish(TEN.replace("max: 10", "max: 3"));
    const engine = await harness.open("c1", safety);
    await harness.serve();
    const each = { type: "worker", topic: "pay", for_each: "${input.list}", on_error: "continue" };
    await harness.apply(engine, { id: "w", steps: { pay: each } });
    const runId = await harness.started(engine, "w", { input: { list: [1, 2, 3, 4, 5, 6] } });
    await harness.pass(60_000);
    expect(harness.ran).toHaveLength(3);
    expect(["SUCCEEDED", "FAILED"]).toContain(harness.runOf(runId).state);
  });

  test("a redriven job counts again", async () => {
    const harness = new LimitsHarness().publish(TEN.replace("max: 10", "max: 2"));
    const engine = await harness.open();
    await harness.worker("w1", ["pay"], async () => {
      throw Object.assign(new Error("no"), { retryNever: true });
    });
    const id = await harness.submit(engine);
    await harness.pass(30 * 60_000);
    expect((await harness.job(id)).state).toBe("FAILED");
    expect(await harness.run(redriveDeadLetter(engine, { org: "default", id, by: "ops" }))).toMatchObject({
      kind: "revived",
    });
    expect((await harness.job(await harness.submit(engine))).state).not.toBe("DENIED");
    expect((await harness.job(await harness.submit(engine))).state).toBe("DENIED");
  });
});
