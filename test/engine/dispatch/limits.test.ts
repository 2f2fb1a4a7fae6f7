import { describe, expect, test } from "vitest";
import { RUNNING_GROUP } from "../../../src/core/model/job.ts";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import { permanent } from "../../../src/core/retry/intent.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { cancel } from "../../../src/engine/dispatch/cancel-job.ts";
import { retryLetter } from "../../../src/engine/maintenance/redrive.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { idOf, Plant } from "../harness.ts";

const never = () => new Promise<never>(() => {});

function limited(max: number, orgs: Settings["orgs"] = {}): Plant {
  const plant = new Plant();
  Object.assign(plant.settings, { limits: { ...plant.settings.limits, concurrentJobsMax: max }, orgs });
  return plant;
}

/** The most jobs of each org that were with workers at once, seen at every commit. */
function watchRunning(plant: Plant): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  plant.bench.net.onCommit = () => {
    for (const [org, count] of plant.bench.net.store.counts(RUNNING_GROUP, 99)) {
      most.set(org, Math.max(most.get(org) ?? 0, count));
    }
  };
  return most;
}

describe("L25: the tenant's limit", () => {
  test("holds against a hundred starts at once, from three processes and over two topics", async () => {
    const plant = limited(3);
    const flows = await Promise.all(["c1", "c2", "c3"].map(async (name) => (await plant.control(name)).flow));
    const most = watchRunning(plant);
    let done = 0;
    await plant.worker("w1", ["a", "b"], async () => done++);
    await Promise.all(
      flows.flatMap((flow) => Array.from({ length: 34 }, (_, at) => plant.admit(flow, { topic: at % 2 ? "a" : "b" }))),
    );
    await plant.pass(60_000);
    expect(done).toBe(102);
    expect(most.get("default")).toBe(3);
  });

  test("is the tenant's own: another one is not held up, and has its own number", async () => {
    const plant = limited(2, { big: { limits: { concurrentJobsMax: 5 } } });
    const { flow } = await plant.control("c1");
    const most = watchRunning(plant);
    await plant.worker("w1", ["a"], never, 100);
    for (let index = 0; index < 20; index++) {
      await plant.admit(flow, { topic: "a" });
      await plant.admit(flow, { topic: "a", org: "big" });
    }
    await plant.pass(5_000);
    expect(most).toEqual(
      new Map([
        ["default", 2],
        ["big", 5],
      ]),
    );
  });

  test("is passed by nothing: not by a retry, not by another life", async () => {
    const plant = limited(1);
    const { flow } = await plant.control("c1");
    const most = watchRunning(plant);
    const failing = new Set<string>();
    await plant.worker("w1", ["a"], async (item) => {
      if (!failing.has(item.jobId)) {
        failing.add(item.jobId);
        throw permanent(new Error("first"));
      }
    });
    const ids = [];
    for (let index = 0; index < 5; index++) ids.push(idOf(await plant.admit(flow, { topic: "a" })));
    await plant.pass(10_000);
    await plant.run(Promise.all(ids.map((id) => retryLetter(flow, { org: "default", id, by: "alice" }))));
    await plant.pass(30_000);
    for (const id of ids) expect((await plant.job(id)).state).toBe("SUCCEEDED");
    expect(most.get("default")).toBe(1);
  });

  test("a place that comes free on one topic is used on another, by the next sweep at the latest", async () => {
    const plant = limited(1);
    const { flow } = await plant.control("c1");
    const begun: string[] = [];
    await plant.worker("w1", ["a", "b"], (item) => {
      begun.push(item.topic);
      return never();
    });
    const first = idOf(await plant.admit(flow, { topic: "a" }));
    const second = idOf(await plant.admit(flow, { topic: "b" }));
    await plant.pass(3_000);
    expect(begun).toEqual(["a"]);
    const why = await plant.run(explain(flow, { org: "default", jobId: second, isForAll: true }));
    expect(why.kind === "explained" && why.explanation.wait?.reason).toBe("tenant_limit");
    await plant.run(cancel(flow, { org: "default", jobId: first, by: "alice", why: "make room" }));
    await plant.pass(3_000);
    expect(begun).toEqual(["a", "b"]);
  });
});

describe("the limit of a rule", () => {
  function ruled(): Plant {
    const plant = new Plant();
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
    Object.assign(plant.kernel, { decide });
    return plant;
  }

  test("holds against racing starts, stands in nobody's way, and all of them run in the end", async () => {
    const plant = ruled();
    const flows = await Promise.all(["c1", "c2"].map(async (name) => (await plant.control(name)).flow));
    let most = 0;
    plant.bench.net.onCommit = () => {
      most = Math.max(most, plant.bench.net.store.counts("rule", 9).get("default/few") ?? 0);
    };
    const done = new Map<string, number>();
    const { clock } = plant.flow("probe").world;
    await plant.worker("w1", ["few", "rest"], async (item) => {
      await new Promise<void>((resolve) => clock.after(200, resolve));
      done.set(item.topic, (done.get(item.topic) ?? 0) + 1);
    });
    await Promise.all(flows.flatMap((flow) => Array.from({ length: 10 }, () => plant.admit(flow, { topic: "few" }))));
    await Promise.all(flows.map((flow) => plant.admit(flow, { topic: "rest" })));
    await plant.pass(2_000);
    expect(done.get("rest")).toBe(2);
    await plant.pass(600_000);
    expect(done.get("few")).toBe(20);
    expect(most).toBe(2);
  });

  test("says so to whoever asks why a job waits", async () => {
    const plant = ruled();
    const { flow } = await plant.control("c1");
    await plant.worker("w1", ["few"], never);
    const ids: string[] = [];
    for (let index = 0; index < 3; index++) ids.push(idOf(await plant.admit(flow, { topic: "few" })));
    await plant.pass(100);
    const why = await plant.run(explain(flow, { org: "default", jobId: ids[2] ?? "", isForAll: true }));
    expect(why.kind === "explained" && why.explanation).toMatchObject({
      wait: { reason: "rule_limit", retryClass: "throttled" },
      sentence: expect.stringContaining("rule `few` lets 2 of its jobs run at once"),
    });
  });
});
