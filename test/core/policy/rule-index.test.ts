import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compile } from "../../../src/core/policy/compile.ts";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import type { Match, Rule } from "../../../src/core/policy/document.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { explain } from "../../../src/core/policy/explain.ts";
import { patternProblem, Topic } from "../../../src/core/policy/pattern.ts";
import type { Bucket } from "../../../src/core/policy/rule-index.ts";
import { CONDITIONS, referenceDecision } from "./reference-policy.ts";
import { policy, REQUEST } from "./samples.ts";

const token = fc.constantFrom("a", "b", "job");
const topic = fc.array(token, { minLength: 1, maxLength: 4 }).map((tokens) => tokens.join("."));
const pattern = fc
  .array(fc.constantFrom("a", "b", "job", "*", "**", ">"), { minLength: 1, maxLength: 4 })
  .map((tokens) => tokens.join("."))
  .filter((text) => patternProblem(text) === null);
const names = (...choices: string[]) => optional(fc.array(fc.constantFrom(...choices), { minLength: 1, maxLength: 2 }));
const match = fc
  .record({
    tenants: names("default", "acme"),
    topics: optional(fc.array(pattern, { minLength: 1, maxLength: 3 })),
    capabilities: names("read", "write"),
    riskTags: names("money", "data"),
    requires: names("gpu", "net"),
    actorIds: names("ann", "bob"),
    actorTypes: names("human", "service"),
    packIds: names("p1", "p2"),
    labels: optional(fc.dictionary(fc.constantFrom("env", "team"), fc.constantFrom("prod", "*"), { minKeys: 1 })),
    mcp: optional(fc.record({ tools: fc.array(fc.constantFrom("rm", "r*", "*"), { minLength: 1, maxLength: 2 }) })),
    when: optional(fc.constantFrom(...Object.keys(CONDITIONS))),
  })
  .map((parts) => Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined)) as Match);
const rule: fc.Arbitrary<Partial<Rule>> = fc.record({
  match,
  decision: fc.constantFrom("allow", "deny", "require_approval", "throttle", "allow_with_constraints"),
});
const request: fc.Arbitrary<Partial<PolicyRequest>> = fc.record({
  org: fc.constantFrom("default", "acme", "other"),
  topic,
  capability: fc.constantFrom("read", "write", null),
  riskTags: fc.subarray(["money", "data", "other"]),
  requires: fc.subarray(["gpu", "net"]),
  actorId: fc.constantFrom("ann", "bob", null),
  actorType: fc.constantFrom("human", "service", null),
  packId: fc.constantFrom("p1", null),
  labels: fc.dictionary(fc.constantFrom("env", "team", "mcp.tool"), fc.constantFrom("prod", "test", "rm", "read")),
  input: fc.constantFrom(null, {}, { n: 1 }, { n: 2 }, { n: "many" }),
});

describe("evaluate, explain and the reference agree", () => {
  test("on any rules and any request", () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 12 }), request, (rules, parts) => {
        const document = policy(rules);
        const snapshot = compile(document);
        const full = { ...REQUEST, ...parts };
        const plain = referenceDecision(document, full);
        const decision = evaluate(snapshot, full);
        expect({ ruleId: decision.ruleId, effect: decision.effect }).toEqual(plain);
        const explanation = explain(snapshot, full);
        expect(explanation.decision).toEqual(decision);
        const before = document.rules.findIndex(({ id }) => id === plain.ruleId);
        expect(explanation.tried.map(({ ruleId }) => ruleId)).toEqual(
          document.rules.slice(0, before < 0 ? document.rules.length : before).map(({ id }) => id),
        );
        const by = plain.ruleId === null ? "default" : plain.effect;
        seen.set(by, (seen.get(by) ?? 0) + 1);
      }),
      { numRuns: 2_000 },
    );
    // Rules that rarely decide would prove nothing.
    expect(seen.size).toBe(6);
    for (const count of seen.values()) expect(count).toBeGreaterThan(50);
  });

  test("on rules that differ in a single part", () => {
    const parts: readonly ((index: number) => { readonly match: Match; readonly request: Partial<PolicyRequest> })[] = [
      (i) => ({ match: { topics: [`t${i}`] }, request: { topic: `t${i}` } }),
      (i) => ({ match: { topics: [`t${i}.*`] }, request: { topic: `t${i}.x` } }),
      (i) => ({ match: { topics: [`**.t${i}`] }, request: { topic: `x.y.t${i}` } }),
      (i) => ({ match: { topics: [`*.t${i}`] }, request: { topic: `x.t${i}` } }),
      (i) => ({ match: { tenants: [`o${i}`] }, request: { org: `o${i}` } }),
      (i) => ({ match: { capabilities: [`c${i}`] }, request: { capability: `c${i}` } }),
      (i) => ({ match: { actorIds: [`a${i}`] }, request: { actorId: `a${i}` } }),
      (i) => ({ match: { packIds: [`p${i}`] }, request: { packId: `p${i}` } }),
      (i) => ({ match: { riskTags: [`r${i}`] }, request: { riskTags: ["x", `r${i}`] } }),
      (i) => ({ match: { requires: [`q${i}`] }, request: { requires: [`q${i}`, "x"] } }),
      (i) => ({ match: { labels: { team: `l${i}` } }, request: { labels: { team: `l${i}` } } }),
      (i) => ({ match: { labels: { [`k${i}`]: "*" } }, request: { labels: { [`k${i}`]: "x" } } }),
      (i) => ({ match: { mcp: { tools: [`m${i}`] } }, request: { labels: { "mcp.tool": `m${i}` } } }),
    ];
    const shared: Match = { topics: ["same"], tenants: ["same"] };
    for (const part of parts) {
      const indices = Array.from({ length: 50 }, (_, index) => index);
      const snapshot = compile(policy(indices.map((index) => ({ match: { ...shared, ...part(index).match } }))));
      for (const index of indices) {
        const full = { ...REQUEST, topic: "same", org: "same", ...part(index).request };
        expect(evaluate(snapshot, full).ruleId).toBe(`r${index}`);
        // The index selects one candidate of fifty rules.
        expect(met(snapshot, full)).toBe(1);
      }
      expect(evaluate(snapshot, REQUEST).ruleId).toBeNull();
    }
  });
});

function met(snapshot: ReturnType<typeof compile>, full: PolicyRequest): number {
  const found: Bucket[] = [];
  snapshot.index.find(full, new Topic(full.topic), found);
  return found.reduce((total, { plain, conditional }) => total + plain.length + conditional.length, 0);
}

/** Mostly absent: a rule with ten parts matches nothing. */
function optional<T>(values: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: values });
}
