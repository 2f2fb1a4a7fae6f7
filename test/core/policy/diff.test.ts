import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compile } from "../../../src/core/policy/compile.ts";
import { diff } from "../../../src/core/policy/diff.ts";
import type { PolicyDocument, Rule } from "../../../src/core/policy/document.ts";
import { simulate, simulationBudget } from "../../../src/core/policy/evaluate.ts";
import { policy, REQUEST } from "./samples.ts";

const between = (before: PolicyDocument, after: PolicyDocument) => diff(compile(before), compile(after));
const named = (...ids: string[]): Partial<Rule>[] => ids.map((id) => ({ id }));

describe("diff", () => {
  test("a policy does not differ from itself", () => {
    const { before, after, ...rest } = between(policy([{}, { id: "x" }]), policy([{}, { id: "x" }]));
    expect(before).toBe(after);
    expect(rest).toEqual({ version: null, defaultDecision: null, rules: [] });
  });

  test("reports added, removed and changed rules and their parts", () => {
    const before = policy([{ id: "a" }, { id: "b", match: { topics: ["x"], riskTags: ["t"] } }, { id: "c" }]);
    const after = policy([
      { id: "new" },
      { id: "b", match: { topics: ["x"], riskTags: ["u"], when: "true" }, decision: "deny" },
      { id: "c" },
    ]);
    expect(between(before, { ...after, version: "2", defaultDecision: "allow" })).toMatchObject({
      version: { before: null, after: "2" },
      defaultDecision: { before: "deny", after: "allow" },
      rules: [
        { kind: "removed", ruleId: "a", position: 1, before: before.rules[0] },
        { kind: "added", ruleId: "new", position: 1, after: after.rules[0] },
        {
          ...{ kind: "changed", ruleId: "b", parts: ["match.risk_tags", "match.when", "decision"] },
          ...{ before: before.rules[1], after: after.rules[1] },
        },
      ],
    });
  });

  test("a shifted rule has not moved", () => {
    const { rules } = between(policy(named("a", "b", "c", "d")), policy(named("new", "d", "a", "b", "c")));
    expect(rules).toMatchObject([
      { kind: "added", ruleId: "new", position: 1 },
      { kind: "moved", ruleId: "d", from: 4, to: 2 },
    ]);
  });

  test("reverting the changes restores the first policy, with the fewest moves", () => {
    const ids = ["a", "b", "c", "d", "e", "f"];
    fc.assert(
      fc.property(fc.shuffledSubarray(ids), fc.shuffledSubarray(ids), (before, after) => {
        const { rules } = between(policy(named(...before)), policy(named(...after)));
        const idsOf = (kind: string) => rules.filter((change) => change.kind === kind).map(({ ruleId }) => ruleId);
        expect(idsOf("added")).toEqual(after.filter((id) => !before.includes(id)));
        expect(idsOf("removed")).toEqual(before.filter((id) => !after.includes(id)));
        const moved = idsOf("moved");
        const stayed = (order: readonly string[]) => order.filter((id) => !moved.includes(id));
        const common = before.filter((id) => after.includes(id));
        expect(stayed(common)).toEqual(stayed(after.filter((id) => before.includes(id))));
        expect(moved.length).toBe(common.length - longestCommon(common, after));
      }),
    );
  });
});

test("simulate counts decisions by effect and by rule", () => {
  const snapshot = compile(policy([{ match: { topics: ["a"] } }, { match: { topics: ["b"] }, decision: "throttle" }]));
  const { decisions, limits, ...counts } = simulate(
    snapshot,
    ["a", "b", "a", "c"].map((topic) => ({ ...REQUEST, topic })),
    simulationBudget(),
  );
  expect(decisions.map(({ effect }) => effect)).toEqual(["allow", "throttle", "allow", "deny"]);
  expect(limits).toEqual([[], [], [], []]);
  expect(counts).toEqual({
    snapshot: snapshot.hash,
    byEffect: { allow: 2, deny: 1, require_approval: 0, throttle: 1, allow_with_constraints: 0 },
    byRule: [
      { ruleId: "r0", count: 2 },
      { ruleId: "r1", count: 1 },
      { ruleId: null, count: 1 },
    ],
  });
});

/** Length of the longest common subsequence, by brute force. */
function longestCommon(one: readonly string[], other: readonly string[]): number {
  const [first, ...rest] = one;
  if (first === undefined) return 0;
  const at = other.indexOf(first);
  const without = longestCommon(rest, other);
  return at < 0 ? without : Math.max(without, 1 + longestCommon(rest, other.slice(at + 1)));
}
