import { expect, test } from "vitest";
import { compile } from "../../../src/core/policy/compile.ts";
import { readPolicy } from "../../../src/core/policy/document.ts";
import { DEFAULT_POLICY, DEMO_POLICY } from "../../../src/core/policy/kernel.ts";
import { writePolicy } from "../../../src/core/policy/write-policy.ts";

const EVERYTHING = `version: "1"
default_decision: require_approval
rules:
  - id: a
    match:
      tenants: [acme]
      topics: ["pay.>"]
      risk_tags: [pay]
      requires: [gpu]
      actor_ids: [x]
      actor_types: [human]
      pack_ids: [p]
      labels: {camelCase: "*", "true": "no"}
      mcp: {tools: ["read_*"], servers: ["*"]}
      when: 'input.amount > 10.0 && topic != "a: b"'
    decision: allow_with_constraints
    reason: "yes: # not a comment"
    constraints:
      budgets: {max_runtime_ms: 5000, max_retries: 0}
      sandbox: {isolated: true, network_allowlist: [a.example]}
      toolchain: {allowed_tools: [git]}
      diff: {max_files: 2, deny_path_globs: ["**/.env"]}
      redaction_level: strict
    remediations: [{id: less, title: Less, add_labels: {someLabel: x}, remove_labels: [y], replacement_topic: a.b}]
  - {id: b, match: {}, decision: require_approval, reason: r, approval: {expires: 90m, by_submitter: true}}
  - {id: c, match: {}, decision: throttle, reason: r, throttle: {rate: 10/1m, by: "label:team"}}
  - {id: d, match: {}, decision: deny, reason: r, velocity: {max: 3, within: 10m, by: caller}}
  - {id: e, match: {}, decision: deny, reason: r, shadow: true}
  - {id: f, match: {}, decision: allow, reason: r, budget: [{tokens: 1000, per: job}, {usd: 2.5, per: tenant}]}
`;

function read(text: string) {
  const policy = readPolicy({ name: "policy", text });
  if (policy.kind === "bad") throw new Error(policy.problems.join("\n"));
  return policy.document;
}

test.each([
  ["the default policy", DEFAULT_POLICY],
  ["the demo policy", DEMO_POLICY],
  ["a policy without rules", { version: null, defaultDecision: "allow", rules: [] } as const],
  ["every term", read(EVERYTHING)],
])("%s reads back as the same policy", (_, document) => {
  expect(compile(read(writePolicy(document))).hash).toBe(compile(document).hash);
});
