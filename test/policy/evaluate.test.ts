import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY, DEMO_POLICY } from "../../src/policy/built-in.ts";
import { compile } from "../../src/policy/compile.ts";
import type { Decision, PolicyRequest } from "../../src/policy/decision.ts";
import type { Match, PolicyDocument, Rule } from "../../src/policy/document.ts";
import { evaluate } from "../../src/policy/evaluate.ts";
import { workSubject } from "../../src/wire/subjects.ts";
import { localSafety } from "../../src/worlds/local-safety.ts";

const REQUEST: PolicyRequest = {
  jobId: "job-1",
  org: "default",
  topic: "demo.echo",
  capability: null,
  riskTags: [],
  labels: {},
  actorId: null,
};

function policy(rules: readonly Partial<Rule>[], defaultDecision: "allow" | "deny" = "deny"): PolicyDocument {
  return {
    version: null,
    defaultDecision,
    rules: rules.map((rule, index) => ({ id: `r${index}`, match: {}, decision: "allow", reason: "because", ...rule })),
  };
}

const decide = (document: PolicyDocument, request: Partial<PolicyRequest> = {}): Decision =>
  evaluate(compile(document), { ...REQUEST, ...request });

describe("evaluate", () => {
  test("the first rule that matches decides, whichever index it is found in", () => {
    const document = policy([
      { match: { topics: ["other.>"] }, decision: "deny" },
      { match: { tenants: ["default"] }, decision: "deny" },
      { match: { topics: ["demo.echo"] }, decision: "allow" },
    ]);
    expect(decide(document)).toMatchObject({ effect: "deny", ruleId: "r1" });
    expect(decide(document, { org: "acme" })).toMatchObject({ effect: "allow", ruleId: "r2" });
  });

  test("no rule, no permission", () => {
    expect(decide(policy([]))).toMatchObject({ effect: "deny", ruleId: null });
    expect(decide(policy([], "allow"))).toMatchObject({ effect: "allow", ruleId: null });
  });

  test("`job.x` and `x` are served by the same workers, so a rule about one is a rule about both", () => {
    const document = policy([{ match: { topics: ["demo.pay"] }, decision: "deny" }, {}]);
    expect(decide(document, { topic: "job.demo.pay" }).effect).toBe("deny");
    expect(decide(document, { topic: "job.job.demo.pay" }).effect).toBe("allow");
    const prefixed = policy([{ match: { topics: ["job.demo.*"] }, decision: "deny" }, {}]);
    expect(decide(prefixed, { topic: "demo.pay" }).effect).toBe("deny");
  });

  test("two topics are one to a policy exactly when their work is served on one subject", () => {
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
    [">", "demo", true],
    ["demo.echo", "demo.echoes", false],
  ])("%s on %s: %s", (pattern, topic, matches) => {
    expect(decide(policy([{ match: { topics: [pattern] } }]), { topic }).effect).toBe(matches ? "allow" : "deny");
  });

  test("labels named like properties of every object are not there unless somebody put them there", () => {
    expect(decide(policy([{ match: { labels: { constructor: "*" } } }])).effect).toBe("deny");
  });

  test("a decision carries the hash of the policy that made it, and another policy has another hash", () => {
    const one = compile(policy([{}]));
    const two = compile(policy([{ reason: "because of that" }]));
    expect(evaluate(one, REQUEST).snapshot).toBe(one.hash);
    expect(two.hash).not.toBe(one.hash);
    expect(compile(policy([{}])).hash).toBe(one.hash);
    const reordered = { rules: policy([{}]).rules, defaultDecision: "deny", version: null } as const;
    expect(compile(reordered).hash).toBe(one.hash);
  });

  test("the built-in policies: only tenant `default` without a file, one forbidden topic in the demo", () => {
    expect(decide(DEFAULT_POLICY).effect).toBe("allow");
    expect(decide(DEFAULT_POLICY, { org: "acme" }).effect).toBe("deny");
    expect(decide(DEMO_POLICY, { topic: "demo.forbidden" }).effect).toBe("deny");
    expect(decide(DEMO_POLICY, { topic: "demo.echo" }).effect).toBe("allow");
  });

  test("the kernel in the process answers the same, at once and as a promise", async () => {
    const safety = localSafety(compile(DEMO_POLICY));
    const decision = safety.local?.(REQUEST);
    expect(decision?.effect).toBe("allow");
    expect(await safety.check(REQUEST)).toEqual({ kind: "decided", decision });
  });
});

describe("evaluate and a plain reading of the rules agree", () => {
  const token = fc.constantFrom("a", "b", "job");
  const topic = fc.array(token, { minLength: 1, maxLength: 4 }).map((tokens) => tokens.join("."));
  const pattern = fc
    .tuple(fc.array(fc.constantFrom("a", "b", "job", "*"), { maxLength: 3 }), fc.constantFrom("a", "*", ">", "**"))
    .map(([tokens, last]) => [...tokens, last].join("."));
  const names = (...choices: string[]) =>
    fc.option(fc.array(fc.constantFrom(...choices), { minLength: 1, maxLength: 2 }), { nil: undefined });
  const match = fc
    .record({
      tenants: names("default", "acme"),
      topics: fc.option(fc.array(pattern, { minLength: 1, maxLength: 3 }), { nil: undefined }),
      capabilities: names("read", "write"),
      riskTags: names("money", "data"),
      actorIds: names("ann", "bob"),
      labels: fc.option(fc.dictionary(fc.constantFrom("env", "team"), fc.constantFrom("prod", "*"), { minKeys: 1 }), {
        nil: undefined,
      }),
    })
    .map((parts) => Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined)) as Match);
  const rules = fc.array(fc.record({ match, decision: fc.constantFrom("allow", "deny") }), { maxLength: 12 });
  const request = fc.record({
    org: fc.constantFrom("default", "acme", "other"),
    topic,
    capability: fc.constantFrom("read", "write", null),
    riskTags: fc.subarray(["money", "data", "other"]),
    actorId: fc.constantFrom("ann", "bob", null),
    labels: fc.dictionary(fc.constantFrom("env", "team"), fc.constantFrom("prod", "test")),
  });

  test("on any rules and any request", () => {
    fc.assert(
      fc.property(rules, request, (someRules, someRequest) => {
        const document = policy(someRules);
        const snapshot = compile(document);
        const full = { ...REQUEST, ...someRequest };
        const rule = document.rules.find((candidate) => plainlyMatches(candidate.match, full));
        const decision = evaluate(snapshot, full);
        expect(decision.ruleId).toBe(rule?.id ?? null);
        expect(decision.effect).toBe(rule?.decision ?? "deny");
      }),
      { numRuns: 2_000 },
    );
  });
});

/** The rules as they are explained to people, without any index. */
function plainlyMatches(match: Match, request: PolicyRequest): boolean {
  const among = (wanted: readonly string[] | undefined, have: readonly (string | null)[]) =>
    wanted === undefined || have.some((name) => name !== null && wanted.includes(name));
  return (
    among(match.tenants, [request.org]) &&
    among(match.capabilities, [request.capability]) &&
    among(match.actorIds, [request.actorId]) &&
    among(match.riskTags, request.riskTags) &&
    (match.topics?.some((pattern) => regularExpression(pattern).test(withPrefix(request.topic))) ?? true) &&
    Object.entries(match.labels ?? {}).every(
      ([key, value]) => key in request.labels && (value === "*" || request.labels[key] === value),
    )
  );
}

function regularExpression(pattern: string): RegExp {
  const parts = withPrefix(pattern)
    .split(".")
    .map((part) => (part === "*" ? "[^.]+" : part === ">" || part === "**" ? ".+" : part));
  return new RegExp(`^${parts.join("\\.")}$`);
}

function withPrefix(topic: string): string {
  return topic.startsWith("job.") ? topic : `job.${topic}`;
}
