import { describe, expect, test } from "vitest";
import { RUNNING_GROUP } from "../../../src/core/model/job.ts";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import { permanent } from "../../../src/core/retry/intent.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { cancelOwnJob } from "../../../src/engine/dispatch/cancel-job.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { Harness, idOf } from "../harness.ts";

const never = () => new Promise<never>(() => {});

function withTenantLimit(max: number, orgs: Settings["orgs"] = {}): Harness {
  const harness = new Harness();
  Object.assign(harness.settings, { limits: { ...harness.settings.limits, concurrentJobsMax: max }, orgs });
  return harness;
}

/** The highest number of running jobs per tenant, sampled at every commit. */
function watchRunning(harness: Harness): ReadonlyMap<string, number> {
  const max = new Map<string, number>();
  harness.sim.net.onCommit = () => {
    for (const [org, count] of harness.sim.net.store.counts(RUNNING_GROUP, 99)) {
      max.set(org, Math.max(max.get(org) ?? 0, count));
    }
  };
  return max;
}

describe("L25: the tenant's job limit", () => {
  test("holds for a hundred concurrent submissions from three processes on two topics", async () => {
    const harness = withTenantLimit(3);
    const engines = await Promise.all(["c1", "c2", "c3"].map(async (name) => (await harness.control(name)).engine));
    const max = watchRunning(harness);
    let done = 0;
    await harness.worker("w1", ["a", "b"], async () => done++);
    await Promise.all(
      engines.flatMap((engine) =>
        Array.from({ length: 34 }, (_, at) => harness.admit(engine, { topic: at % 2 ? "a" : "b" })),
      ),
    );
    await harness.pass(60_000);
    expect(done).toBe(102);
    expect(max.get("default")).toBe(3);
  });

  test("is set per tenant and does not delay other tenants", async () => {
    const harness = withTenantLimit(2, { big: { limits: { concurrentJobsMax: 5 } } });
    const { engine } = await harness.control("c1");
    const max = watchRunning(harness);
    await harness.worker("w1", ["a"], never, 100);
    for (let index = 0; index < 20; index++) {
      await harness.admit(engine, { topic: "a" });
      await harness.admit(engine, { topic: "a", org: "big" });
    }
    await harness.pass(5_000);
    expect(max).toEqual(
      new Map([
        ["default", 2],
        ["big", 5],
      ]),
    );
  });

  test("also applies to retries and redriven jobs", async () => {
    const harness = withTenantLimit(1);
    const { engine } = await harness.control("c1");
    const max = watchRunning(harness);
    const failing = new Set<string>();
    await harness.worker("w1", ["a"], async (item) => {
      if (!failing.has(item.jobId)) {
        failing.add(item.jobId);
        throw permanent(new Error("first"));
      }
    });
    const ids = [];
    for (let index = 0; index < 5; index++) ids.push(idOf(await harness.admit(engine, { topic: "a" })));
    await harness.pass(10_000);
    await harness.run(Promise.all(ids.map((id) => redriveDeadLetter(engine, { org: "default", id, by: "alice" }))));
    await harness.pass(30_000);
    for (const id of ids) expect((await harness.job(id)).state).toBe("SUCCEEDED");
    expect(max.get("default")).toBe(1);
  });

  test("a place freed on one topic is used on another by the next sweep", async () => {
    const harness = withTenantLimit(1);
    const { engine } = await harness.control("c1");
    const started: string[] = [];
    await harness.worker("w1", ["a", "b"], (item) => {
      started.push(item.topic);
      return never();
    });
    const first = idOf(await harness.admit(engine, { topic: "a" }));
    const second = idOf(await harness.admit(engine, { topic: "b" }));
    await harness.pass(3_000);
    expect(started).toEqual(["a"]);
    const why = await harness.run(explain(engine, { org: "default", jobId: second, isForAll: true }));
    expect(why.kind === "explained" && why.explanation.wait?.reason).toBe("tenant_limit");
    await harness.run(cancelOwnJob(engine, { org: "default", jobId: first, by: "alice", why: "make room" }));
    await harness.pass(3_000);
    expect(started).toEqual(["a", "b"]);
  });
});

describe("the limit of a rule", () => {
  function withRuleLimit(): Harness {
    const harness = new Harness();
    const decide = ({ topic }: PolicyRequest) =>
      topic === "few"
        ? {
            effect: "allow_with_constraints",
            ruleId: "few",
            reason: "not many",
            snapshot: "s",
            constraints: { budgets: { maxConcurrentJobs: 2 } },
          }
        : { effect: "allow", ruleId: "rest", reason: "fine", snapshot: "s" };
    Object.assign(harness.kernel, { decide });
    return harness;
  }

  test("holds for concurrent submissions, does not block other jobs, and every job runs", async () => {
    const harness = withRuleLimit();
    const engines = await Promise.all(["c1", "c2"].map(async (name) => (await harness.control(name)).engine));
    let max = 0;
    harness.sim.net.onCommit = () => {
      max = Math.max(max, harness.sim.net.store.counts("rule", 9).get("default/few") ?? 0);
    };
    const done = new Map<string, number>();
    const { clock } = harness.engine("probe").world;
    await harness.worker("w1", ["few", "rest"], async (item) => {
      await new Promise<void>((resolve) => clock.after(200, resolve));
      done.set(item.topic, (done.get(item.topic) ?? 0) + 1);
    });
    await Promise.all(
      engines.flatMap((engine) => Array.from({ length: 10 }, () => harness.admit(engine, { topic: "few" }))),
    );
    await Promise.all(engines.map((engine) => harness.admit(engine, { topic: "rest" })));
    await harness.pass(2_000);
    expect(done.get("rest")).toBe(2);
    await harness.pass(600_000);
    expect(done.get("few")).toBe(20);
    expect(max).toBe(2);
  });

  test("is named when a waiting job is explained", async () => {
    const harness = withRuleLimit();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["few"], never);
    const ids: string[] = [];
    for (let index = 0; index < 3; index++) ids.push(idOf(await harness.admit(engine, { topic: "few" })));
    await harness.pass(100);
    const why = await harness.run(explain(engine, { org: "default", jobId: ids[2] ?? "", isForAll: true }));
    expect(why.kind === "explained" && why.explanation).toMatchObject({
      wait: { reason: "rule_limit", retryClass: "throttled" },
      sentence: expect.stringContaining("rule `few` allows 2 concurrent jobs"),
    });
  });
});
