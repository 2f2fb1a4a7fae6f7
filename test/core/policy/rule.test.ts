import { describe, expect, test } from "vitest";
import { readPolicy } from "../../../src/core/policy/document.ts";

const read = (text: string) => readPolicy({ name: "policy.yaml", text });

function problemsOf(text: string): readonly string[] {
  const result = read(text);
  return result.kind === "bad" ? result.problems : [];
}

/** The problem of a rule with one mistake. */
function problemsOfRule(parts: { readonly match?: string; readonly decision?: string; readonly more?: string }) {
  const { match = "{}", decision = "deny", more = "" } = parts;
  const text = `rules:\n  - id: a\n    reason: r\n    match: ${match}\n    decision: ${decision}\n${more}`;
  return problemsOf(text).map((problem) => problem.replace("policy.yaml:", ""));
}

describe("rules", () => {
  test("reads a complete rule", () => {
    const text = `rules:
  - id: big-payments
    match:
      requires: gpu
      actor_types: [human, service]
      actor_ids: [ann]
      pack_ids: [billing]
      capabilities: [pay]
      mcp: {servers: bank, tools: ["pay_*"], resources: "*", actions: [call]}
      when: input.amount > 1000
    decision: require_approval
    reason: much money
    approval: {expires: 1.5h, by_submitter: true}
    remediations:
      - {id: less, title: pay less, summary: s, replacement_topic: pay.small, replacement_capability: small,
         add_labels: {size: small}, remove_labels: [big]}
`;
    expect(read(text)).toMatchObject({
      document: {
        rules: [
          {
            match: {
              requires: ["gpu"],
              actorTypes: ["human", "service"],
              actorIds: ["ann"],
              packIds: ["billing"],
              capabilities: ["pay"],
              mcp: { servers: ["bank"], tools: ["pay_*"], resources: ["*"], actions: ["call"] },
              when: "input.amount > 1000",
            },
            decision: "require_approval",
            approval: { expiresMs: 5_400_000, bySubmitter: true },
            remediations: [
              {
                id: "less",
                title: "pay less",
                summary: "s",
                replacementTopic: "pay.small",
                replacementCapability: "small",
                addLabels: { size: "small" },
                removeLabels: ["big"],
              },
            ],
          },
        ],
      },
    });
  });

  test("reads constraints by their wire names", () => {
    const constraints = `    constraints:
      budgets: {max_runtime_ms: 1, max_retries: 0, max_artifact_bytes: 3, max_concurrent_jobs: 4}
      sandbox: {isolated: true, network_allowlist: [a], fs_read_only: [b], fs_read_write: [c]}
      toolchain: {allowed_tools: [git], allowed_commands: [ls]}
      diff: {max_files: 5, max_lines: 6, deny_path_globs: ["*.pem"]}
      redaction_level: high
`;
    const rule = "rules:\n  - id: a\n    match: {}\n    decision: allow_with_constraints\n    reason: r\n";
    expect(read(`${rule}${constraints}`)).toMatchObject({
      document: {
        rules: [
          {
            constraints: {
              budgets: { maxRuntimeMs: 1, maxRetries: 0, maxArtifactBytes: 3, maxConcurrentJobs: 4 },
              sandbox: { isolated: true, networkAllowlist: ["a"], fsReadOnly: ["b"], fsReadWrite: ["c"] },
              toolchain: { allowedTools: ["git"], allowedCommands: ["ls"] },
              diff: { maxFiles: 5, maxLines: 6, denyPathGlobs: ["*.pem"] },
              redactionLevel: "high",
            },
          },
        ],
      },
    });
  });

  const limited = (more: string) => ({ decision: "allow_with_constraints", more: `    constraints: ${more}` });
  test.each([
    [
      { decision: "denny" },
      "5: `decision` must be `allow`, `deny`, `require_approval`, `throttle` or `allow_with_constraints`, not `denny`; did you mean `deny`?",
    ],
    [
      { match: "{topics: [demo-*]}" },
      "4: `demo-*` is not a topic pattern: `demo-*` is not a valid token; `*` matches a whole token, as in `demo.*`",
    ],
    [
      { match: "{topics: ['>.demo']}" },
      "4: `>.demo` is not a topic pattern: `>` is only allowed at the end; use `**` at the start",
    ],
    [
      { match: "{topics: ['a.**.b']}" },
      "4: `a.**.b` is not a topic pattern: `**` is only allowed at the start or at the end",
    ],
    [
      { match: "{topics: ['**.a.**']}" },
      "4: `**.a.**` is not a topic pattern: `**` is allowed once, at the start or at the end",
    ],
    [{ match: "{actor_types: [robot]}" }, "4: `actor_types` must be `human` or `service`, not `robot`"],
    [{ match: "{mcp: {}}" }, "4: `mcp` is empty; add `servers`, `tools`, `resources` or `actions`"],
    [{ match: "{mcp: {tool: x}}" }, "4: unknown key `tool`; did you mean `tools`?"],
    [
      { match: "{mcp: {tools: ['a*b']}}" },
      "4: `a*b` is not a name pattern: `*` is only allowed at the end, as in `read_*`",
    ],
    [
      { match: "{when: tennant == 'a'}" },
      "4: `when` is invalid at column 1: unknown variable: tennant; did you mean `tenant`?",
    ],
    [
      { match: "{when: topic.matches('a')}" },
      "4: `when` uses `matches`, which is not supported; use `re2(text, pattern)`, which searches anywhere in the text",
    ],
    [
      { more: "    constraints: {redaction_level: high}" },
      "6: `constraints` requires `decision: allow_with_constraints`, but the decision is `deny`",
    ],
    [
      { more: "    approval: {expires: 30m}" },
      "6: `approval` requires `decision: require_approval`, but the decision is `deny`",
    ],
    [
      { decision: "allow_with_constraints" },
      "2: `decision: allow_with_constraints` needs `constraints`; without any, write `decision: allow`",
    ],
    [
      { decision: "allow", more: "    remediations: [{id: a, title: t}]" },
      "6: `remediations` have no effect with `decision: allow`; remove them",
    ],
    [limited("{}"), "6: `constraints` is empty; add one, or use `decision: allow`"],
    [limited("{budgets: {max_retry: 1}}"), "6: unknown key `max_retry`; did you mean `max_retries`?"],
    [limited("{budgets: {max_retries: -1}}"), "6: `max_retries` must be a non-negative integer"],
    [
      limited("{budgets: {max_runtime_ms: 0}}"),
      "6: `max_runtime_ms` must be above 0; use `decision: deny` to block jobs",
    ],
    [limited("{sandbox: {isolated: maybe}}"), "6: `isolated` must be `true` or `false`"],
    [
      { decision: "require_approval", more: "    approval: {expires: 30}" },
      "6: `expires`: `30` is not a duration; write a number and `ms`, `s`, `m` or `h`, as in `500ms`",
    ],
    [
      { decision: "require_approval", more: "    approval: {expires: 1000h}" },
      "6: `expires`: `1000h` is too long; the maximum is `720h`",
    ],
    [{ more: "    remediations: [{id: a}]" }, "6: a remediation needs an `id` and a `title`"],
    [
      { more: "    remediations: [{id: a, title: t, replacement_topic: 'a.*'}]" },
      "6: `replacement_topic` must be one topic, not `a.*`",
    ],
  ])("%j: %s", (parts, problem) => {
    expect(problemsOfRule(parts)).toEqual([problem]);
  });

  test("a default is one of three effects without terms", () => {
    expect(problemsOf("default_decision: throttle\nrules: []")).toEqual([
      "policy.yaml:1: `default_decision` must be `allow`, `deny` or `require_approval`, not `throttle`",
    ]);
  });
});
