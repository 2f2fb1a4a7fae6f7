import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;
beforeEach(async () => {
  gateway = await openTestGateway();
});
afterEach(() => gateway.close());

const post = async (path: string, body: object, key?: string) => {
  const answer = await gateway.call("POST", `/api/v1/policy/${path}`, { body, key });
  return { status: answer.statusCode, body: answer.json() };
};

const POLICY = `rules:
  - {id: night, match: {topics: [pay], when: 'now.getHours() >= 22'}, decision: deny, reason: closed}
  - {id: large, match: {topics: [pay], when: input.amount > 10}, decision: require_approval, reason: large}
  - {id: dry, match: {topics: [pay]}, decision: deny, reason: soon, shadow: true}
  - {id: rest, match: {}, decision: allow}
`;
const PASSING = `cases:
  - given: {topic: pay, input: {amount: 5}, now: 2026-03-02T12:00:00Z}
    expect: {decision: allow, rule: rest, shadow: [dry]}
  - given: {topic: pay, input: {amount: 50}, now: 2026-03-02T12:00:00Z}
    expect: {decision: require_approval, rule: large, shadow: []}
  - given: {topic: pay, now: 2026-03-02T23:00:00Z}
    expect: {decision: deny}
`;
const FAILING = `${PASSING}  - name: reports need an approval
    given: {topic: report}
    expect: {decision: require_approval}
`;

describe("policy tests", () => {
  test("report each case with its line and its decision", async () => {
    const { status, body } = await post("test", { policy: POLICY, tests: FAILING });
    expect(status).toBe(200);
    expect(body).toMatchObject({ passed: 3, failed: 1 });
    expect(body.cases[3]).toMatchObject({
      name: "reports need an approval",
      line: 8,
      passed: false,
      failure: "expected require_approval, got allow by rule `rest`: rule `rest` allows it",
      decision: { decision: "ALLOW", rule_id: "rest" },
    });
  });

  test("a policy is published only if its tests pass, and the audit entry has their number", async () => {
    const refused = await post("publish", { policy: POLICY, tests: FAILING });
    expect(refused).toMatchObject({ status: 422, body: { code: "policy_tests_failed" } });
    expect(refused.body.detail).toContain("line 8, `reports need an approval`: expected require_approval, got allow");
    const before = (await gateway.call("GET", "/api/v1/policy/snapshots")).json();
    expect(before.items).toEqual([]);
    const published = await post("publish", { policy: POLICY, tests: PASSING });
    expect(published).toMatchObject({ status: 200, body: { changed: true } });
    const audit = (await gateway.call("GET", "/api/v1/policy/audit")).json();
    expect(audit.items[0]).toMatchObject({ what: "published", facts: { tests_passed: 3 } });
  });

  test("tests of the policy in force need no right to publish, tests of a text do", async () => {
    const { key } = await gateway.keyOf("acme", "viewer");
    const tests = "cases:\n  - {given: {topic: demo.forbidden}, expect: {decision: deny, rule: deny-demo-forbidden}}\n";
    expect(await post("test", { tests }, key)).toMatchObject({ status: 200, body: { passed: 1 } });
    expect(await post("test", { tests, policy: POLICY }, key)).toMatchObject({ status: 403 });
    const foreign = "cases:\n  - {given: {topic: a, tenant_id: other}, expect: {decision: deny}}\n";
    expect(await post("test", { tests: foreign }, key)).toMatchObject({ status: 403 });
  });

  test("problems have their line", async () => {
    const tests = `cases:
  - {given: {topic: a}, expect: {decision: permit}}
  - {given: {topik: a}, expect: {decision: deny}}
  - {given: {topic: a}}
`;
    const { status, body } = await post("test", { tests });
    expect(status).toBe(400);
    expect(body.code).toBe("invalid_policy_tests");
    expect(body.problems).toEqual([
      expect.stringContaining("tests:2: `decision` must be"),
      expect.stringContaining("tests:3: unknown key `topik`; did you mean `topic`?"),
      expect.stringContaining("tests:3: `given` is missing `topic`"),
      expect.stringContaining("tests:4: case is missing `expect`"),
    ]);
    const badTopic = await post("test", { tests: "cases:\n\n  - {given: {topic: 'a b'}, expect: {decision: deny}}\n" });
    expect(badTopic.body.problems[0]).toMatch(/^tests:3: `topic` must be/);
  });

  test("a case whose decision depends on the time names the time", async () => {
    const tests = "cases:\n  - {given: {topic: pay, input: {amount: 1}}, expect: {decision: allow}}\n";
    const { body } = await post("test", { policy: POLICY, tests });
    expect(body.cases[0].failure).toBe("the decision depends on the time; add `now` to `given`");
  });
});
