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

function limited(max: number, orgs: Settings["orgs"] = {}): Harness {
  const harness = new Harness();
  Object.assign(harness.settings, { limits: { ...harness.settings.limits, concurrentJobsMax: max }, orgs });
  return harness;
}

/** The most jobs of each org that were with workers at once, seen at every commit. */
function watchRunning(harness: Harness): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  harness.sim.net.onCommit = () => {
    for (const [org, count] of harness.sim.net.store.counts(RUNNING_GROUP, 99)) {
      most.set(org, Math.max(most.get(org) ?? 0, count));
    }
  };
  return most;
}

describe("L25: the tenant's limit", () => {
  test("holds against a hundred starts at once, from three processes and over two topics", async () => {
    const harness = limited(3);
    const engines = await Promise.all(["c1", "c2", "c3"].map(async (name) => (await harness.control(name)).engine));
    const most = watchRunning(harness);
    let done = 0;
    await harness.worker("w1", ["a", "b"], async () => done++);
    await Promise.all(
      engines.flatMap((engine) =>
        Array.from({ length: 34 }, (_, at) => harness.admit(engine, { topic: at % 2 ? "a" : "b" })),
      ),
    );
    await harness.pass(60_000);
    expect(done).toBe(102);
    expect(most.get("default")).toBe(3);
  });

  test("is the tenant's own: another one is not held up, and has its own number", async () => {
    const harness = limited(2, { big: { limits: { concurrentJobsMax: 5 } } });
    const { engine } = await harness.control("c1");
    const most = watchRunning(harness);
    await harness.worker("w1", ["a"], never, 100);
    for (let index = 0; index < 20; index++) {
      await harness.admit(engine, { topic: "a" });
      await harness.admit(engine, { topic: "a", org: "big" });
    }
    await harness.pass(5_000);
    expect(most).toEqual(
      new Map([
        ["default", 2],
        ["big", 5],
      ]),
    );
  });

  test("is passed by nothing: not by a retry, not by another life", async () => {
    const harness = limited(1);
    const { engine } = await harness.control("c1");
    const most = watchRunning(harness);
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
    expect(most.get("default")).toBe(1);
  });

  test("a place that comes free on one topic is used on another, by the next sweep at the latest", async () => {
    const harness = limited(1);
    const { engine } = await harness.control("c1");
    const begun: string[] = [];
    await harness.worker("w1", ["a", "b"], (item) => {
      begun.push(item.topic);
      return never();
    });
    const first = idOf(await harness.admit(engine, { topic: "a" }));
    const second = idOf(await harness.admit(engine, { topic: "b" }));
    await harness.pass(3_000);
    expect(begun).toEqual(["a"]);
    const why = await harness.run(explain(engine, { org: "default", jobId: second, isForAll: true }));
    expect(why.kind === "explained" && why.explanation.wait?.reason).toBe("tenant_limit");
    await harness.run(cancelOwnJob(engine, { org: "default", jobId: first, by: "alice", why: "make room" }));
    await harness.pass(3_000);
    expect(begun).toEqual(["a", "b"]);
  });
});

describe("the limit of a rule", () => {
  function ruled(): Harness {
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

  test("holds against racing starts, stands in nobody's way, and all of them run in the end", async () => {
    const harness = ruled();
    const engines = await Promise.all(["c1", "c2"].map(async (name) => (await harness.control(name)).engine));
    let most = 0;
    harness.sim.net.onCommit = () => {
      most = Math.max(most, harness.sim.net.store.counts("rule", 9).get("default/few") ?? 0);
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
    expect(most).toBe(2);
  });

  test("says so to whoever asks why a job waits", async () => {
    const harness = ruled();
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
