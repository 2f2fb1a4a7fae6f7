import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { compile, type Snapshot } from "../../../src/core/policy/compile.ts";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import { readPolicy } from "../../../src/core/policy/document.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { readPolicyTests } from "../../../src/core/policy/read-tests.ts";
import { REQUEST } from "./samples.ts";

function open(name: string, text: string): Snapshot {
  const policy = readPolicy({ name, text });
  if (policy.kind === "bad") throw new Error(policy.problems.join("\n"));
  return compile(policy.document);
}

const textOf = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");

const cases: readonly (readonly [string, Partial<PolicyRequest>, string | null])[] = [
  ["a deletion in production", { topic: "table.delete", labels: { env: "prod" } }, "no-deletes-in-production"],
  ["a deletion elsewhere", { topic: "table.delete" }, "our-tenants"],
  ["a big payment", { topic: "pay.card", input: { amount: 5_000, to: "x@other.com" } }, "big-payments"],
  ["a big payment to ourselves", { topic: "pay.card", input: { amount: 5_000, to: "x@acme.com" } }, "our-tenants"],
  ["a payment that cannot be looked into", { topic: "pay.card", input: null }, "big-payments"],
  [
    "a tool that reads",
    { org: "other", labels: { "mcp.server": "github", "mcp.tool": "read_file" } },
    "read-only-tools",
  ],
  ["a tool that writes", { org: "other", labels: { "mcp.server": "github", "mcp.tool": "push" } }, null],
  ["code", { topic: "code.run", capability: "write", riskTags: ["exec"] }, "code-in-a-box"],
  ["a stranger", { org: "other" }, null],
];

test.each(cases)("the example policy on %s", (_, request, ruleId) => {
  const snapshot = open("examples/policy.yaml", textOf("examples/policy.yaml"));
  expect(evaluate(snapshot, { ...REQUEST, ...request }).ruleId).toBe(ruleId);
});

test("every policy and every test case in docs/policy.md is valid", () => {
  const texts = [...textOf("docs/policy.md").matchAll(/```yaml\n(.*?)```/gs)].map(([, text = ""]) => text);
  const [tests, policies] = [true, false].map((isTest) => texts.filter((text) => text.startsWith("cases:") === isTest));
  expect(policies?.length).toBeGreaterThan(0);
  for (const text of policies ?? []) open("docs/policy.md", text);
  expect(tests?.map((text) => readPolicyTests({ name: "docs/policy.md", text }).kind)).toEqual(["ok"]);
});
