import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { DEMO_POLICY } from "../../../src/core/policy/kernel.ts";
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
const get = async (path: string, key?: string) =>
  (await gateway.call("GET", `/api/v1/${path}`, { key })).json() as { items: Record<string, unknown>[] } & Record<
    string,
    unknown
  >;

const DEMO = compile(DEMO_POLICY).hash;
const policy = (version: string, rules: string) => `version: ${version}\nrules:\n${rules}`;
const STRICT = policy("strict", "  - {id: none, match: {topics: ['demo.*']}, decision: deny, reason: closed today}\n");
const MIXED = policy(
  "mixed",
  `  - {id: acme-only, match: {tenants: [acme]}, decision: deny, reason: of acme}
  - id: limited
    match: {tenants: [default, other], risk_tags: [pay], labels: {camelCase: "*"}}
    decision: allow_with_constraints
    reason: a little
    constraints: {budgets: {max_runtime_ms: 5000}, sandbox: {network_allowlist: [a.example]}}
    remediations: [{id: less, title: Less, add_labels: {someLabel: x}}]
  - {id: tool, match: {mcp: {tools: [rm]}}, decision: require_approval, reason: careful, approval: {expires: 1h}}
`,
);

test("bundles have the published text, for keys of `*`", async () => {
  await post("publish", { policy: MIXED, name: "first" });
  await post("publish", { policy: STRICT, name: "second" });
  const { items } = await get("policy/bundles");
  expect(items).toMatchObject([
    { name: "second", version: "strict", rules: 1, in_force: true },
    { name: "first", version: "mixed", rules: 3, in_force: false },
  ]);
  const first = await get(`policy/bundles/${items[1]?.bundle_id}`);
  expect(first).toMatchObject({ name: "first", in_force: false, policy: MIXED });
  expect(await get("policy/bundles/nothing")).toMatchObject({ status: 404, code: "snapshot_not_found" });
  expect(first.body ?? first).toMatchObject({ by: "local", by_name: null });
  const { key } = await gateway.keyOf("acme", "admin");
  for (const path of ["policy/bundles", `policy/bundles/${items[1]?.bundle_id}`]) {
    expect(await get(path, key)).toMatchObject({ status: 403, code: "forbidden" });
  }
});

describe("evaluation", () => {
  test("evaluate decides as for a job, without side effects", async () => {
    expect(await post("evaluate", { topic: "demo.forbidden" })).toMatchObject({
      status: 200,
      body: { decision: "DENY", rule_id: "deny-demo-forbidden", snapshot: DEMO },
    });
    expect((await get("jobs")).items).toEqual([]);
  });

  test("explain lists why earlier rules did not match", async () => {
    const { body } = await post("explain", { topic: "demo.limited" });
    expect(body).toMatchObject({ decision: "ALLOW_WITH_CONSTRAINTS", constraints: { budgets: { max_retries: 1 } } });
    expect(body.tried.map(({ rule_id }: { rule_id: string }) => rule_id)).toEqual([
      "deny-demo-forbidden",
      "approve-demo-approve",
    ]);
    expect(body.tried[0].mismatches[0]).toMatchObject({ part: "topics" });
  });

  test("uses the key names of the file, keeps labels, and maps MCP fields to labels", async () => {
    await post("publish", { policy: MIXED });
    const paid = { topic: "a.b", risk_tags: ["pay"], labels: { camelCase: "1" } };
    expect((await post("evaluate", paid)).body).toMatchObject({
      constraints: { budgets: { max_runtime_ms: 5000 }, sandbox: { network_allowlist: ["a.example"] } },
      remediations: [{ id: "less", title: "Less", add_labels: { someLabel: "x" } }],
    });
    expect((await post("evaluate", { topic: "a.b", mcp: { tool: "rm" } })).body).toMatchObject({
      decision: "REQUIRE_APPROVAL",
      approval: { expires_ms: 3_600_000, by_submitter: false },
    });
    const { items } = await get("policy/rules");
    expect(items[1]).toMatchObject({
      position: 2,
      id: "limited",
      match: { risk_tags: ["pay"], labels: { camelCase: "*" } },
    });
  });

  test("simulate counts the decisions that another policy changes", async () => {
    const requests = [{ topic: "demo.echo" }, { topic: "demo.forbidden" }, { topic: "other" }];
    expect((await post("simulate", { requests })).body).toMatchObject({
      snapshot: DEMO,
      by_decision: { ALLOW: 2, DENY: 1 },
    });
    const { body } = await post("simulate", { requests, policy: STRICT });
    expect(body.decisions.map((one: Record<string, string>) => [one.decision, one.in_force])).toEqual([
      ["DENY", "ALLOW"],
      ["DENY", "DENY"],
      ["DENY", "ALLOW"],
    ]);
    expect(body).toMatchObject({
      changed: 2,
      by_rule: [
        { rule_id: "none", count: 2 },
        { rule_id: null, count: 1 },
      ],
    });
  });

  test("diff compares with the policy in force", async () => {
    const { body } = await post("diff", { policy: STRICT });
    expect(body).toMatchObject({ before: DEMO, version: { before: "built-in-demo", after: "strict" } });
    expect(body.rules).toContainEqual({
      ...{ kind: "added", rule_id: "none", position: 1 },
      after: { id: "none", match: { topics: ["demo.*"] }, decision: "deny", reason: "closed today" },
    });
    const loose = STRICT.replace("decision: deny", "decision: require_approval, approval: {expires: 1h}");
    await post("publish", { policy: loose });
    expect((await post("diff", { policy: STRICT })).body.rules).toMatchObject([
      {
        ...{ kind: "changed", rule_id: "none", parts: ["decision", "approval"] },
        before: { decision: "require_approval", approval: { expires_ms: 3_600_000, by_submitter: false } },
        after: { decision: "deny" },
      },
    ]);
  });

  test.each([
    ["evaluate", {}, "topic"],
    ["evaluate", { topic: "not a topic" }, "topic"],
    ["evaluate", { topic: "a.b", risk_tags: ["x".repeat(300)] }, "`risk_tags`"],
    ["evaluate", { topic: "a.b", tenant_id: "no tenant" }, "tenant_id"],
    ["evaluate", { topic: "a.b", risktags: [] }, "risk_tags"],
    ["simulate", { requests: [] }, "requests"],
    ["diff", { policy: "rules: 7" }, "rules"],
  ])("%s rejects %j with a detail", async (path, body, detail) => {
    const answer = await post(path, body);
    expect(answer.status).toBe(400);
    expect(answer.body.detail).toContain(detail);
  });

  test("omits inputs that are too large to be stored inline, as for jobs", async () => {
    await gateway.close();
    const settings = defaultSettings();
    gateway = await openTestGateway({
      settings: { ...settings, limits: { ...settings.limits, inlineBytesMax: 1_000 } },
    });
    const when = "has(input.amount) && input.amount > 1000";
    const rule = `  - {id: large, match: {when: ${when}}, decision: deny, reason: too much}\n`;
    await post("publish", { policy: `default_decision: allow\n${policy("large", rule)}` });
    const padding = "x".repeat(1_000);
    for (const path of ["evaluate", "explain"]) {
      const decided = async (input: object) => (await post(path, { topic: "pay", input })).body.decision;
      expect(await decided({ amount: 5 })).toBe("ALLOW");
      expect(await decided({ amount: 82_000, padding })).toBe("DENY");
      expect(await decided({ amount: 5, padding })).toBe("DENY");
    }
  });

  test("evaluation respects the circuit breaker", async () => {
    let asked = 0;
    const check = async () => ({ kind: "unavailable" as const, reason: `gone ${++asked}` });
    const other = await openTestGateway({ change: () => ({ safety: { local: null, check } }) });
    const { failures } = defaultSettings().safety.breaker;
    for (let at = 0; at < failures + 5; at++) {
      const answer = await other.call("POST", "/api/v1/policy/evaluate", { body: { topic: "a.b" } });
      expect(answer.json()).toMatchObject({ code: "safety_unavailable", retryable: true });
    }
    await other.close();
    expect(asked).toBe(failures);
  });

  test("an unavailable remote kernel is a 503", async () => {
    const safety = { local: null, check: async () => ({ kind: "unavailable" as const, reason: "gone" }) };
    const other = await openTestGateway({ change: () => ({ safety }) });
    const answer = await other.call("POST", "/api/v1/policy/evaluate", { body: { topic: "a.b" } });
    await other.close();
    expect(answer.statusCode).toBe(503);
    expect(answer.json()).toMatchObject({ code: "safety_unavailable", retryable: true });
  });
});

describe("publish", () => {
  test("takes effect with the response; rollback undoes it", async () => {
    const published = await post("publish", { policy: STRICT, name: "by hand", note: "a test" });
    expect(published).toMatchObject({ status: 200, body: { changed: true, previous: null } });
    const { snapshot } = published.body;
    const denied = await gateway.call("POST", "/api/v1/jobs", { body: { topic: "demo.echo" } });
    expect(denied.json()).toMatchObject({ code: "denied", rule_id: "none", snapshot });
    expect((await get("status")).policy).toMatchObject({ snapshot, source: "by hand", version: "strict" });
    expect((await get("policy/rules")).snapshot).toBe(snapshot);

    expect((await post("publish", { policy: STRICT })).body).toEqual({ snapshot, previous: snapshot, changed: false });
    const second = await post("publish", { policy: MIXED });
    expect(second.body).toMatchObject({ previous: snapshot, changed: true });
    const listed = await get("policy/snapshots");
    expect(listed.items.map(({ version, in_force, by, note }) => [version, in_force, by, note])).toEqual([
      ["mixed", true, "local", null],
      ["strict", false, "local", "a test"],
    ]);
    expect((await post("rollback", {})).body).toMatchObject({
      snapshot,
      previous: second.body.snapshot,
      changed: true,
    });
    expect(await post("rollback", {})).toMatchObject({ status: 409, body: { code: "no_earlier_policy" } });
    expect(await post("rollback", { to: "nothing" })).toMatchObject({
      status: 404,
      body: { code: "snapshot_not_found" },
    });
    expect((await post("rollback", { to: second.body.snapshot })).body).toMatchObject({ changed: true });
  });

  test("refuses to replace a policy that the author has not seen", async () => {
    const first = await post("publish", { policy: STRICT, base: DEMO });
    expect(first.status).toBe(200);
    const { snapshot } = first.body;
    const late = await post("publish", { policy: MIXED, base: DEMO });
    expect(late).toMatchObject({ status: 409, body: { code: "policy_changed", snapshot } });
    expect((await get("policy/rules")).snapshot).toBe(snapshot);
    const second = await post("publish", { policy: MIXED, base: snapshot });
    expect(second.status).toBe(200);
    expect(await post("rollback", { base: snapshot })).toMatchObject({ status: 409, body: { code: "policy_changed" } });
    expect((await post("rollback", { base: second.body.snapshot })).body).toMatchObject({ snapshot, changed: true });
  });

  test("shows the text in force: the published one, or the rules of a policy that was never published", async () => {
    const built = await get("policy/text");
    expect(built).toMatchObject({ snapshot: DEMO, release_id: null });
    expect((await post("diff", { policy: built.policy as never })).body).toMatchObject({ after: DEMO, rules: [] });
    const { body } = await post("publish", { policy: STRICT });
    expect(await get("policy/text")).toMatchObject({ release_id: body.release_id, policy: STRICT });
    const { key: root } = await gateway.keyOf("*", "admin");
    const { key } = await gateway.keyOf("other", "admin");
    expect((await get("policy/text", key)).code).toBe("forbidden");
    expect((await get("policy/text", root)).policy).toBe(STRICT);
  });

  test("rejects an invalid policy with all problems", async () => {
    const wrong = "rules:\n  - {id: a, match: {topic: [x]}, decision: alow, reason: r}\n";
    const { status, body } = await post("publish", { policy: wrong, name: "p.yaml" });
    expect(status).toBe(400);
    expect(body).toMatchObject({ code: "invalid_policy" });
    expect(body.problems).toHaveLength(2);
    expect(body.problems.join()).toContain("p.yaml:2");
    expect((await get("status")).policy).toMatchObject({ snapshot: DEMO });
  });
});

describe("access", () => {
  test("a tenant sees its own rules, evaluates for itself only, and cannot publish", async () => {
    const { key: root } = await gateway.keyOf("*", "admin");
    const { key } = await gateway.keyOf("other", "admin");
    expect((await post("publish", { policy: MIXED }, root)).status).toBe(200);

    expect((await get("policy/rules", key)).items.map(({ id }) => id)).toEqual(["limited", "tool"]);
    expect((await get("policy/rules", root)).items).toHaveLength(3);
    const { body } = await post("explain", { topic: "a.b", mcp: { tool: "rm" } }, key);
    expect(JSON.stringify(body)).not.toContain("acme");
    expect(body.omitted).toBe(1);
    expect(JSON.stringify((await post("simulate", { requests: [{ topic: "a" }] }, key)).body)).not.toContain("acme");

    const foreign = { topic: "a.b", tenant_id: "acme" };
    expect(await post("evaluate", foreign, key)).toMatchObject({ status: 403, body: { code: "tenant_forbidden" } });
    expect((await post("evaluate", foreign, root)).body).toMatchObject({ rule_id: "acme-only" });
    for (const path of ["publish", "rollback", "diff"]) {
      expect((await post(path, path === "rollback" ? {} : { policy: STRICT }, key)).status).toBe(403);
    }
  });
});
