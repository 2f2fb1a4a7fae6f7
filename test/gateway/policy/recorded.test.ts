import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { JOBS } from "../../../src/core/model/job.ts";
import { put } from "../../../src/ports/store.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;
beforeEach(async () => {
  gateway = await openTestGateway();
});
afterEach(() => gateway.close());

const simulate = async (body: object, key?: string, tenant?: string) => {
  const answer = await gateway.call("POST", "/api/v1/policy/simulate", { body, key, tenant });
  return { status: answer.statusCode, body: answer.json() };
};

async function submit(topic: string, input: unknown = null, key?: string, tenant?: string): Promise<string> {
  const answer = await gateway.call("POST", "/api/v1/jobs", { body: { topic, input }, key, tenant });
  return answer.json().job_id;
}

const NO_PAYMENTS = `rules:
  - {id: no-pay, match: {topics: [pay], when: input.amount > 10}, decision: deny, reason: too much}
  - {id: rest, match: {}, decision: allow}
`;

describe("simulation over recorded decisions", () => {
  test("groups what a draft would flip, with counts and the newest examples", async () => {
    for (let at = 0; at < 7; at++) await submit("pay", { amount: 100 + at });
    const last = await submit("pay", { amount: 100 });
    await submit("pay", { amount: 1 });
    await submit("demo.forbidden");
    const { status, body } = await simulate({ policy: NO_PAYMENTS, recorded: {} });
    expect(status).toBe(200);
    expect(body).toMatchObject({ checked: 10, flipped: 9, undecided: 0, bypassed: 0, ungrouped: 0, next_cursor: null });
    expect(body.groups).toMatchObject([
      {
        from: { decision: "ALLOW", rule_id: "allow-the-rest" },
        to: { decision: "DENY", rule_id: "no-pay" },
        topic: "pay",
        count: 8,
      },
      { from: { decision: "DENY" }, to: { decision: "ALLOW", rule_id: "rest" }, topic: "demo.forbidden", count: 1 },
    ]);
    expect(body.groups[0].examples).toHaveLength(5);
    expect(body.groups[0].examples).toContain(last);
  });

  test("evaluates for the time that is recorded, not for the present", async () => {
    const id = await submit("pay");
    const found = await gateway.world.store.load(JOBS, id);
    if (!found?.value.safety) throw new Error("the job has no decision");
    const atMs = Date.parse("2001-02-03T04:05:06Z");
    const moved = { ...found.value, safety: { ...found.value.safety, atMs } };
    await gateway.engine.commit({ org: "default", puts: [put(JOBS, id, found, moved)] });
    const at = (time: string) => `rules:
  - {id: then, match: {when: 'now == timestamp("${time}")'}, decision: deny, reason: then}
  - {id: rest, match: {}, decision: allow}
`;
    expect((await simulate({ policy: at("2001-02-03T04:05:06Z"), recorded: {} })).body.flipped).toBe(1);
    expect((await simulate({ policy: at("2001-02-03T04:05:07Z"), recorded: {} })).body.flipped).toBe(0);
  });

  test("pages add up, and every page reads its range only", async () => {
    for (let at = 0; at < 5; at++) await submit("pay", { amount: 100 });
    const first = await simulate({ policy: NO_PAYMENTS, recorded: { limit: 3 } });
    expect(first.body).toMatchObject({ checked: 3, flipped: 3, next_cursor: expect.any(String) });
    const { since, until, next_cursor: cursor } = first.body;
    await submit("pay", { amount: 100 });
    const second = await simulate({ policy: NO_PAYMENTS, recorded: { limit: 3, since, until, cursor } });
    expect(second.body).toMatchObject({ checked: 2, flipped: 2, next_cursor: null });
    const none = await simulate({ policy: NO_PAYMENTS, recorded: { until: "2001-01-01T00:00:00Z" } });
    expect(none.body).toMatchObject({ checked: 0, flipped: 0, groups: [] });
  });

  test("limits are counted in order of time", async () => {
    const limited = (max: number) => `rules:
  - {id: often, match: {topics: [pay]}, decision: deny, reason: too many, velocity: {max: ${max}, within: 1h}}
  - {id: rest, match: {}, decision: allow}
`;
    await gateway.call("POST", "/api/v1/policy/publish", { body: { policy: limited(1) } });
    await submit("pay");
    const refused = await gateway.call("POST", "/api/v1/jobs", { body: { topic: "pay" } });
    expect(refused.json()).toMatchObject({ state: "DENIED" });
    expect((await simulate({ recorded: {} })).body).toMatchObject({
      checked: 2,
      flipped: 0,
      limits: { exhausted: [] },
    });
    expect((await simulate({ policy: limited(2), recorded: {} })).body).toMatchObject({ checked: 2, flipped: 1 });
    // Earlier uses are not known.
    const { body } = await simulate({ policy: limited(2), recorded: { last_ms: 60_000 } });
    expect(body).toMatchObject({ checked: 2, flipped: 0 });
    expect(Date.parse(body.limits.counted_from)).toBeGreaterThan(Date.now() - 61_000);
    const open = "rules: [{id: rest, match: {}, decision: allow}]";
    expect((await simulate({ policy: open, recorded: {} })).body).toMatchObject({
      checked: 2,
      flipped: 1,
      limits: null,
    });
  });

  test("a draft with a velocity, a rate and a budget shows what they would refuse", async () => {
    const ids: string[] = [];
    for (let at = 0; at < 6; at++) ids.push(await submit("demo.paid", { amount: 10 }));
    for (let at = 0; at < 6; at++) {
      const lease = { worker_id: "w", topics: ["demo.paid"], wait_ms: 5_000 };
      const [job] = (await gateway.call("POST", "/api/v1/worker/lease", { body: lease })).json().jobs;
      const body = { lease_id: job.lease_id, usage: { total_tokens: 30 } };
      await gateway.call("POST", `/api/v1/worker/jobs/${job.job_id}/complete`, { body });
    }
    const draft = (rule: string) =>
      `rules:\n  - {id: paid, match: {topics: [demo.paid]}, reason: r, ${rule}}\n  - {id: rest, match: {}, decision: allow}`;
    const flipsOf = async (rule: string) => (await simulate({ policy: draft(rule), recorded: {} })).body;
    const sum = "decision: require_approval, velocity: {max: 40, within: 1h, sum: input.amount}";
    expect(await flipsOf(sum)).toMatchObject({
      flipped: 2,
      groups: [{ to: { decision: "REQUIRE_APPROVAL", rule_id: "paid" }, count: 2, examples: [ids[5], ids[4]] }],
    });
    expect(await flipsOf("decision: throttle, throttle: {rate: 5/1h}")).toMatchObject({
      flipped: 1,
      groups: [{ to: { decision: "THROTTLE" }, examples: [ids[5]] }],
    });
    const budget = "decision: allow, budget: {tokens: 100, per: day, reserve_tokens: 20}";
    const { flipped, limits } = await flipsOf(budget);
    expect({ flipped, exhausted: limits.exhausted }).toMatchObject({
      flipped: 0,
      exhausted: [{ rule_id: "paid", per: "day", count: 3 }],
    });
    expect(limits.approximations.length).toBeGreaterThan(0);
  });

  test("a tenant sees its own records only, and needs no draft", async () => {
    await submit("pay", { amount: 100 });
    const [acme, all] = [await gateway.keyOf("acme", "admin"), await gateway.keyOf("*", "admin")];
    await submit("pay", { amount: 100 }, acme.key);
    await submit("pay", { amount: 100 }, acme.key);
    const draft = { policy: NO_PAYMENTS, recorded: {} };
    // The policy in force decides jobs of this tenant like those of any other.
    expect((await simulate({ recorded: {} }, acme.key)).body).toMatchObject({ checked: 2, flipped: 0 });
    expect(await simulate(draft, acme.key)).toMatchObject({ status: 403 });
    expect((await simulate(draft, all.key)).body).toMatchObject({ checked: 1, flipped: 1 });
    expect((await simulate(draft, all.key, "acme")).body).toMatchObject({ checked: 2, flipped: 2 });
  });

  test("a key that may publish reads more jobs at once", async () => {
    const [viewer, admin] = [await gateway.keyOf("default", "viewer"), await gateway.keyOf("*", "admin")];
    expect(await simulate({ recorded: { limit: 20_001 } }, viewer.key)).toMatchObject({ status: 403 });
    expect(await simulate({ recorded: { limit: 20_000 } }, viewer.key)).toMatchObject({ status: 200 });
    expect(await simulate({ recorded: { limit: 20_001 } }, admin.key)).toMatchObject({ status: 200 });
  });

  test.each([
    [{}, "send `requests`, or `recorded`"],
    [{ recorded: {}, requests: [{ topic: "a" }] }, "send `requests`, or `recorded`"],
    [{ recorded: { last_ms: 5, since: "2026-01-01T00:00:00Z" } }, "exclude each other"],
    [{ recorded: { limit: 100_001 } }, "limit"],
    [{ recorded: { cursor: "nonsense" } }, "cursor"],
  ])("refuses %j", async (body, why) => {
    const answer = await simulate(body);
    expect(answer.status).toBe(400);
    expect(answer.body.detail).toContain(why);
  });
});
