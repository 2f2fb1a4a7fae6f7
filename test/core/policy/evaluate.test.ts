import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { localSafety } from "../../../src/adapters/node/local-safety.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import type { Effect } from "../../../src/core/policy/decision.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { DEFAULT_POLICY, DEMO_POLICY } from "../../../src/core/policy/kernel.ts";
import { workSubject } from "../../../src/protocol/subjects.ts";
import { decide, policy, REQUEST } from "./samples.ts";

describe("evaluate", () => {
  test("the first matching rule decides, from any index", () => {
    const document = policy([
      { match: { topics: ["other.>"] }, decision: "deny" },
      { match: { tenants: ["default"] }, decision: "deny" },
      { match: { topics: ["demo.echo"] }, decision: "allow" },
    ]);
    expect(decide(document)).toMatchObject({ effect: "deny", ruleId: "r1" });
    expect(decide(document, { org: "acme" })).toMatchObject({ effect: "allow", ruleId: "r2" });
  });

  test("denies if no rule matches", () => {
    expect(decide(policy([]))).toMatchObject({ effect: "deny", ruleId: null });
    expect(decide(policy([], "allow"))).toMatchObject({ effect: "allow", ruleId: null });
    const asked = decide(policy([], "require_approval"));
    expect(asked).toMatchObject({ effect: "require_approval", approval: { expiresMs: null, bySubmitter: false } });
  });

  test("a rule about `x` also covers `job.x`", () => {
    const document = policy([{ match: { topics: ["demo.pay"] }, decision: "deny" }, {}]);
    expect(decide(document, { topic: "job.demo.pay" }).effect).toBe("deny");
    expect(decide(document, { topic: "job.job.demo.pay" }).effect).toBe("allow");
    const prefixed = policy([{ match: { topics: ["job.demo.*"] }, decision: "deny" }, {}]);
    expect(decide(prefixed, { topic: "demo.pay" }).effect).toBe("deny");
    const ending = policy([{ match: { topics: ["**.delete"] }, decision: "deny" }, {}]);
    expect(decide(ending, { topic: "job.delete" }).effect).toBe("allow");
    expect(decide(ending, { topic: "job.table.delete" }).effect).toBe("deny");
  });

  test("L61: topics are equal to a policy exactly if their subjects are equal", () => {
    const someTopic = fc
      .array(fc.constantFrom("a", "job"), { minLength: 1, maxLength: 4 })
      .map((parts) => parts.join("."));
    fc.assert(
      fc.property(someTopic, someTopic, (one, other) => {
        const matches = decide(policy([{ match: { topics: [one] } }]), { topic: other }).effect === "allow";
        expect(matches).toBe(workSubject(one) === workSubject(other));
      }),
    );
  });

  test.each([
    ["demo.*", "demo.echo", true],
    ["demo.*", "demo", false],
    ["demo.*", "demo.echo.loud", false],
    ["demo.>", "demo.echo.loud", true],
    ["demo.**", "demo.echo", true],
    ["demo.>", "demo", false],
    ["*.echo", "demo.echo", true],
    ["*.echo", "my.demo.echo", false],
    ["**.echo", "my.demo.echo", true],
    ["**.echo", "demo.echo", true],
    ["**.echo", "echo", false],
    ["**.echo", "echo.loud", false],
    ["**.*.echo", "demo.echo", false],
    ["**.*.echo", "my.demo.echo", true],
    [">", "demo", true],
    ["**", "demo.echo", true],
    ["demo.echo", "demo.echoes", false],
  ])("%s on %s: %s", (pattern, topic, matches) => {
    expect(decide(policy([{ match: { topics: [pattern] } }]), { topic }).effect).toBe(matches ? "allow" : "deny");
  });

  test.each([
    ["read_*", "read_file", true],
    ["read_*", "read_", true],
    ["read_*", "write_file", false],
    ["*", "anything", true],
    ["*", null, false],
    ["read_file", "read_file", true],
    ["read_file", "read_files", false],
  ])("the MCP tool %s on %s: %s", (pattern, tool, matches) => {
    const document = policy([{ match: { mcp: { tools: [pattern] } } }]);
    const labels: Readonly<Record<string, string>> = tool === null ? {} : { "mcp.tool": tool };
    expect(decide(document, { labels }).effect).toBe(matches ? "allow" : "deny");
  });

  test("every part of `mcp` must match", () => {
    const document = policy([
      { match: { mcp: { servers: ["files"], resources: ["file:///etc/*"], actions: ["read"] } } },
    ]);
    const labels = { "mcp.server": "files", "mcp.resource": "file:///etc/passwd", "mcp.action": "read" };
    expect(decide(document, { labels }).effect).toBe("allow");
    expect(decide(document, { labels: { ...labels, "mcp.action": "write" } }).effect).toBe("deny");
    expect(decide(document, { labels: { ...labels, "mcp.resource": "file:///home" } }).effect).toBe("deny");
  });

  test("ignores inherited properties as labels", () => {
    expect(decide(policy([{ match: { labels: { constructor: "*" } } }])).effect).toBe("deny");
  });

  test("a decision carries the terms of its rule only", () => {
    const constraints = { budgets: { maxRetries: 1 } };
    const remediations = [{ id: "ask", title: "ask first" }];
    const document = policy([
      { match: { topics: ["a"] }, decision: "allow_with_constraints", constraints },
      { match: { topics: ["b"] }, decision: "require_approval", approval: { expiresMs: 60_000, bySubmitter: true } },
      { match: { topics: ["c"] }, decision: "require_approval" },
      { match: { topics: ["d"] }, decision: "deny", remediations },
    ]);
    const { hash: snapshot } = compile(document);
    const shared = { reason: "because", snapshot };
    expect(decide(document, { topic: "a" })).toEqual({
      effect: "allow_with_constraints",
      ruleId: "r0",
      constraints,
      ...shared,
    });
    expect(decide(document, { topic: "b" }).approval).toEqual({ expiresMs: 60_000, bySubmitter: true });
    expect(decide(document, { topic: "c" }).approval).toEqual({ expiresMs: null, bySubmitter: false });
    expect(decide(document, { topic: "d" })).toEqual({ effect: "deny", ruleId: "r3", remediations, ...shared });
  });

  test("a decision carries the hash of its policy", () => {
    const one = compile(policy([{}]));
    const two = compile(policy([{ reason: "because of that" }]));
    expect(evaluate(one, REQUEST).snapshot).toBe(one.hash);
    expect(two.hash).not.toBe(one.hash);
    expect(compile(policy([{ match: { when: "true" } }])).hash).not.toBe(one.hash);
    expect(compile(policy([{}])).hash).toBe(one.hash);
    const reordered = { rules: policy([{}]).rules, defaultDecision: "deny", version: null } as const;
    expect(compile(reordered).hash).toBe(one.hash);
  });

  test("the in-process kernel gives the same decisions", async () => {
    const safety = localSafety(compile(DEMO_POLICY));
    const decision = safety.local?.(REQUEST);
    expect(decision?.effect).toBe("allow");
    expect(await safety.check(REQUEST)).toEqual({ kind: "decided", decision });
  });
});

describe("a failed condition", () => {
  const when = "input.amount > 10";

  test.each([
    ["deny", "deny"],
    ["require_approval", "require_approval"],
    ["throttle", "throttle"],
    ["allow_with_constraints", "deny"],
    ["allow", null],
  ] as const)("never makes the outcome milder: %s becomes %s", (decision: Effect, effect) => {
    const document = policy([{ match: { when }, decision }, {}]);
    const decided = decide(document, { input: { amount: "many" } });
    if (effect === null) {
      expect(decided).toMatchObject({ effect: "allow", ruleId: "r1", reason: "because" });
    } else {
      expect(decided).toMatchObject({ effect, ruleId: "r0" });
      expect(decided.reason).toContain("because `when` failed: no such overload");
      expect(decided.constraints).toBeUndefined();
    }
    expect(decide(document, { input: { amount: 11 } })).toMatchObject({
      effect: decision,
      ruleId: "r0",
      reason: "because",
    });
    expect(decide(document, { input: { amount: 9 } }).ruleId).toBe("r1");
  });

  test("results from an omitted input", () => {
    expect(decide(policy([{ match: { when }, decision: "deny" }, {}]), { input: null }).effect).toBe("deny");
  });

  test("is not evaluated if another part does not match or an earlier rule decides", () => {
    const document = policy([
      { match: { topics: ["other"], when }, decision: "deny" },
      {},
      { match: { when }, decision: "deny" },
    ]);
    expect(decide(document)).toMatchObject({ effect: "allow", ruleId: "r1" });
  });
});

describe("the built-in policies", () => {
  test("without a file allow only the tenant `default`", () => {
    expect(decide(DEFAULT_POLICY).effect).toBe("allow");
    expect(decide(DEFAULT_POLICY, { org: "acme" }).effect).toBe("deny");
  });

  test("the demo policy has a topic for every decision", () => {
    expect(decide(DEMO_POLICY, { topic: "demo.forbidden" }).effect).toBe("deny");
    expect(decide(DEMO_POLICY, { topic: "demo.echo" }).effect).toBe("allow");
    const approval = { bySubmitter: true };
    expect(decide(DEMO_POLICY, { topic: "demo.approve" })).toMatchObject({ effect: "require_approval", approval });
    const limited = decide(DEMO_POLICY, { topic: "demo.limited" });
    expect(limited.effect).toBe("allow_with_constraints");
    expect(limited.constraints?.budgets).toEqual({ maxRuntimeMs: 10_000, maxRetries: 1 });
  });
});
