import { describe, expect, test } from "vitest";
import { compile } from "../../../src/core/policy/compile.ts";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import type { Match, Rule } from "../../../src/core/policy/document.ts";
import { explain, TRIED_MAX } from "../../../src/core/policy/explain.ts";
import { policy, REQUEST } from "./samples.ts";

const explained = (rules: readonly Partial<Rule>[], request: Partial<PolicyRequest> = {}) =>
  explain(compile(policy(rules)), { ...REQUEST, ...request });

describe("explain", () => {
  test("reports the mismatches of every earlier rule", () => {
    const { decision, tried, omitted } = explained([
      { match: { tenants: ["acme"], topics: ["pay.>", "refund.*"] } },
      { match: { topics: ["demo.*"], when: "tenant == 'acme'" } },
      { match: { topics: ["demo.echo"] }, decision: "deny" },
      { match: {} },
    ]);
    expect(decision).toMatchObject({ effect: "deny", ruleId: "r2" });
    expect(omitted).toBe(0);
    expect(tried).toEqual([
      {
        ruleId: "r0",
        mismatches: [
          { part: "tenants", text: "the request's tenant is `default`; the rule requires `acme`" },
          { part: "topics", text: "the request's topic is `demo.echo`; the rule requires `pay.>` or `refund.*`" },
        ],
      },
      { ruleId: "r1", mismatches: [{ part: "when", text: "is false: `tenant == 'acme'`" }] },
    ]);
  });

  const cases: readonly (readonly [Match, Partial<PolicyRequest>, string, string])[] = [
    [{ capabilities: ["pay"] }, {}, "capabilities", "the request has no capability; the rule requires `pay`"],
    [
      { riskTags: ["a", "b", "c"] },
      { riskTags: ["x", "y"] },
      "risk_tags",
      "the request's risk tags are `x` and `y`; the rule requires `a`, `b` or `c`",
    ],
    [{ requires: ["gpu"] }, {}, "requires", "the request has no requirements; the rule requires `gpu`"],
    [{ actorIds: ["ann"] }, { actorId: "bob" }, "actor_ids", "the request's actor is `bob`; the rule requires `ann`"],
    [
      { actorTypes: ["human"] },
      { actorType: "service" },
      "actor_types",
      "the request's actor type is `service`; the rule requires `human`",
    ],
    [{ packIds: ["p"] }, {}, "pack_ids", "the request has no pack; the rule requires `p`"],
    [
      { labels: { env: "prod" } },
      { labels: { env: "test" } },
      "labels.env",
      "the request's label `env` is `test`; the rule requires `prod`",
    ],
    [{ labels: { env: "*" } }, {}, "labels.env", "the request has no label `env`; the rule requires any value"],
    [
      { mcp: { tools: ["read_*"] } },
      { labels: { "mcp.tool": "rm" } },
      "mcp.tools",
      "the request's label `mcp.tool` is `rm`; the rule requires `read_*`",
    ],
    [{ when: "labels.env == 'prod'" }, {}, "when", "failed, so the rule does not allow: no such key: env"],
  ];
  test.each(cases)("%j", (match, request, part, text) => {
    expect(explained([{ match }], request).tried).toEqual([{ ruleId: "r0", mismatches: [{ part, text }] }]);
  });

  test("a rule that decides because its condition failed says so", () => {
    const { decision, tried } = explained([{ match: { when: "labels.env == 'prod'" }, decision: "deny" }]);
    expect(tried).toEqual([]);
    expect(decision.reason).toBe("because (counted as matching because `when` failed: no such key: env)");
  });

  test("is bounded in length", () => {
    const names = Array.from({ length: 1_000 }, (_, index) => `name-${index}`);
    const rules = Array.from({ length: TRIED_MAX + 20 }, () => ({ match: { topics: names } }));
    const { tried, omitted } = explained(rules, { topic: "x".repeat(10_000) });
    expect([tried.length, omitted]).toEqual([TRIED_MAX, 20]);
    expect(tried[0]?.mismatches[0]?.text).toBe(
      `the request's topic is \`${"x".repeat(80)}…\`; the rule requires ${names
        .slice(0, 5)
        .map((name) => `\`${name}\``)
        .join(", ")} or 995 more`,
    );
  });
});
