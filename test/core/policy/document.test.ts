import { describe, expect, test } from "vitest";
import { readPolicy } from "../../../src/core/policy/document.ts";

const read = (text: string) => readPolicy({ name: "policy.yaml", text });

function problemsOf(text: string): readonly string[] {
  const result = read(text);
  return result.kind === "bad" ? result.problems : [];
}

const GOOD = `version: 3
default_decision: allow
rules:
  - id: no-payments
    match:
      tenants: [acme]
      topics: [pay.>, refund.*]
      risk_tags: money
      labels: {env: prod, reviewed: "*"}
    decision: deny
    reason: payments need a human
`;

describe("a policy file", () => {
  test("is read completely", () => {
    expect(read(GOOD)).toEqual({
      kind: "ok",
      document: {
        version: "3",
        defaultDecision: "allow",
        rules: [
          {
            id: "no-payments",
            match: {
              tenants: ["acme"],
              topics: ["pay.>", "refund.*"],
              riskTags: ["money"],
              labels: { env: "prod", reviewed: "*" },
            },
            decision: "deny",
            reason: "payments need a human",
          },
        ],
      },
    });
  });

  test("denies by default", () => {
    expect(read("rules: []")).toMatchObject({ kind: "ok", document: { defaultDecision: "deny" } });
  });

  test("reports the line of an unknown key and suggests a name", () => {
    const [problem] = problemsOf(GOOD.replace("risk_tags", "risk_tag"));
    expect(problem).toBe("policy.yaml:8: unknown key `risk_tag`; did you mean `risk_tags`?");
  });

  test("reports every problem at once", () => {
    const text = GOOD.replace("decision: deny", "decision: denied").replace("default_decision", "default");
    expect(problemsOf(text)).toHaveLength(2);
  });

  test.each([
    ["an empty text", ""],
    ["a list", "- id: x"],
    ["a rule without a match", "rules:\n  - {id: a, decision: allow, reason: r}"],
    ["a rule without a reason", "rules:\n  - {id: a, match: {}, decision: deny}"],
    ["a match without a value", "rules:\n  - {id: a, match: , decision: allow, reason: r}"],
    ["topics without a value", "rules:\n  - {id: a, match: {topics: }, decision: allow, reason: r}"],
    ["a list that can match nothing", "rules:\n  - {id: a, match: {topics: []}, decision: deny, reason: r}"],
    ["labels that ask for nothing", "rules:\n  - {id: a, match: {labels: {}}, decision: deny, reason: r}"],
    ["a key written twice", "rules: []\nrules: []"],
    ["an alias", "rules:\n  - &a {id: a, match: {}, decision: allow, reason: r}\n  - *a"],
    ["text that is no YAML", "rules: [}"],
  ])("%s is refused with a line", (_, text) => {
    expect(problemsOf(text)[0]).toMatch(/^policy\.yaml:\d+: /);
  });

  test("rejects duplicate rule ids", () => {
    const rule = "  - {id: a, match: {}, decision: allow, reason: r}\n";
    expect(problemsOf(`rules:\n${rule}${rule}`)).toEqual([
      "policy.yaml:3: duplicate rule id `a`; rule ids must be unique",
    ]);
  });

  test("rejects deep nesting before parsing", () => {
    for (const text of ["[".repeat(500_000), `rules: ${"- ".repeat(400_000)}`, '["]",'.repeat(100_000)]) {
      expect(problemsOf(text)).toEqual(["policy.yaml: is nested too deeply"]);
    }
  });

  test("rejects a file that is too long before reading it", () => {
    expect(problemsOf(" ".repeat(4 * 1024 * 1024 + 1))[0]).toMatch(/^policy\.yaml: longer than 4194304 characters/);
  });
});

test("finds a duplicate among many keys in linear time", { timeout: 30_000 }, () => {
  const keys = Array.from({ length: 20_000 }, (_, at) => `      k${at}: v\n`).join("");
  const text = `rules:\n  - id: a\n    match:\n     labels:\n${keys}`;
  expect(problemsOf(`${text}      k7: w\n`)).toEqual(["policy.yaml:20005: duplicate key `k7`"]);
  expect(problemsOf(text)).toContainEqual(expect.stringContaining("`labels` must be a map"));
});
