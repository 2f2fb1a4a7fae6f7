import { expect, test } from "vitest";
import type { Job } from "../../../src/core/model/job.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { policyRequestOf } from "../../../src/engine/safety/check-job.ts";
import { openFailOpen } from "../../../src/engine/safety/fail-open.ts";
import { reviewBypass } from "../../../src/engine/safety/review-bypass.ts";
import { policy } from "../../core/policy/samples.ts";
import { stampedLines } from "../audit/audit-lines.ts";
import { Harness, idOf } from "../harness.ts";
import { withRecordedMetrics } from "../observe/recorded-metrics.ts";

const shadow = true as const;
/** Denies in odd minutes. */
const ODD = { match: { topics: ["pay"], when: "now.getMinutes() % 2 == 1" }, decision: "deny" } as const;
const SHADOW = { match: { topics: ["pay"] }, decision: "require_approval", shadow } as const;

for (const kernel of ["local", "remote"] as const) {
  test(`records the time of the evaluation, and a later evaluation for that time agrees, kernel ${kernel}`, async () => {
    const harness = new Harness();
    const snapshot = compile(policy([ODD, {}]));
    harness.kernel.decide = (request) => evaluate(snapshot, request);
    const { engine } = await harness.control("c1", kernel);
    const jobs: Job[] = [];
    for (let minute = 0; minute < 4; minute++) {
      const id = idOf(await harness.admit(engine, { topic: "pay" }));
      await harness.pass(60_000);
      jobs.push(await harness.job(id));
    }
    expect(new Set(jobs.map(({ safety }) => safety?.effect))).toEqual(new Set(["allow", "deny"]));
    for (const job of jobs) {
      expect(job.safety).toMatchObject({ isTimed: true });
      expect(evaluate(snapshot, policyRequestOf(job, job.safety?.atMs))).toEqual(job.safety);
      // The check is within the second after the submission; the present is minutes later.
      expect((job.safety?.atMs ?? 0) - job.createdMs).toBeLessThan(1_000);
    }
    const times = (await stampedLines(harness, engine, "decision")).map(({ facts }) => facts?.now);
    expect(times).toEqual(jobs.map(({ safety }) => new Date(safety?.atMs ?? 0).toISOString()));
  });

  test(`records, counts and audits what a shadow rule would have decided, kernel ${kernel}`, async () => {
    const harness = new Harness();
    const snapshot = compile(policy([SHADOW, {}]));
    harness.kernel.decide = (request) => evaluate(snapshot, request);
    const { engine: plain } = await harness.control("c1", kernel);
    const { engine, recorded } = withRecordedMetrics(plain);
    const id = idOf(await harness.admit(engine, { topic: "pay" }));
    await harness.pass(1_000);
    expect(await harness.job(id)).toMatchObject({
      state: "SCHEDULED",
      safety: { effect: "allow", ruleId: "r1", shadow: [{ ruleId: "r0", effect: "require_approval" }] },
    });
    const [line] = await stampedLines(harness, plain, "decision");
    expect(line).toMatchObject({ what: "allow", facts: { shadow: "r0: require_approval" } });
    if (kernel === "local") {
      expect(recorded.get("cordum_policy_shadow_decisions_total r0 ALLOW REQUIRE_APPROVAL")).toEqual([1]);
    }
  });
}

test("an approval is void if a condition on the time no longer asks for it, and the job is decided anew", async () => {
  const harness = new Harness();
  const night = { ...ODD, decision: "require_approval" } as const;
  const snapshot = compile(policy([night, {}]));
  harness.kernel.decide = (request) => evaluate(snapshot, request);
  const { engine } = await harness.control("c1");
  const minuteOf = () => new Date(engine.world.clock.now()).getUTCMinutes();
  while (minuteOf() % 2 === 0) await harness.pass(10_000);
  const id = idOf(await harness.admit(engine, { topic: "pay" }));
  expect(await harness.job(id)).toMatchObject({ state: "APPROVAL_REQUIRED" });
  while (minuteOf() % 2 === 1) await harness.pass(10_000);
  const answer = await harness.run(approve(engine, { org: "default", jobId: id, by: "ann" }));
  expect(answer).toMatchObject({ kind: "void", state: "DISPATCHED" });
  const { safety } = await harness.job(id);
  expect(safety).toMatchObject({ effect: "allow" });
  expect(new Date(safety?.atMs ?? 0).getUTCMinutes() % 2).toBe(0);
});

test("the review of a bypass evaluates the policy for the time of the dispatch", async () => {
  const harness = new Harness();
  const snapshot = compile(policy([ODD, {}]));
  harness.kernel.decide = (request) => evaluate(snapshot, request);
  const { engine } = await harness.control("c1", "remote");
  await harness.run(openFailOpen(engine, { scope: "default", by: "ann", reason: "outage", forMs: 600_000 }));
  harness.kernel.health = "refuses";
  const minuteOf = () => new Date(engine.world.clock.now()).getUTCMinutes();
  while (minuteOf() % 2 === 0) await harness.pass(10_000);
  const id = idOf(await harness.admit(engine, { topic: "pay" }));
  await harness.pass(5_000);
  expect((await harness.job(id)).bypass).toBeDefined();
  harness.kernel.health = "up";
  await harness.pass(30_000);
  while (minuteOf() % 2 === 1) await harness.pass(10_000);
  const reviewed = await harness.run(reviewBypass(engine, { org: "default", jobId: id, by: "ann" }));
  expect(reviewed).toMatchObject({ kind: "reviewed", verdict: { effect: "deny" } });
});
