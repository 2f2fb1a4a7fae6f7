import { describe, expect, test } from "vitest";
import { compile } from "../../../../src/core/policy/compile.ts";
import type { Decision } from "../../../../src/core/policy/decision.ts";
import { readPolicy } from "../../../../src/core/policy/document.ts";
import { simulate, simulationBudget } from "../../../../src/core/policy/evaluate.ts";
import { explain } from "../../../../src/core/policy/explain.ts";
import { applyLimits, decisionOnRecord, type LimitContext } from "../../../../src/core/policy/limits/apply-limits.ts";
import { type Limit, windowId } from "../../../../src/core/policy/limits/limit.ts";
import { ENTRIES_MAX, type WindowEntry } from "../../../../src/core/policy/limits/window.ts";
import { decodeDecision, encodeDecision } from "../../../../src/protocol/safety.ts";
import { decide, policy, REQUEST } from "../samples.ts";

const VELOCITY = { id: "fast", decision: "deny", velocity: { max: 2, within: "10m", by: "tenant" } } as const;
const THROTTLE = { id: "slow", decision: "throttle", throttle: { rate: "5/10m", by: "tenant" } } as const;

function problemsOf(rule: string): readonly string[] {
  const read = readPolicy({ name: "p", text: `rules:\n  - {id: a, match: {}, reason: why, ${rule}}\n` });
  return read.kind === "bad" ? read.problems.map((problem) => problem.replace("p:2: ", "")) : [];
}

describe("reading limits", () => {
  test("accepts rates and velocities", () => {
    expect(problemsOf("decision: throttle, throttle: {rate: 10/1m, by: topic}")).toEqual([]);
    expect(problemsOf("decision: deny, velocity: {max: 10, within: 10m, by: 'label:customer'}")).toEqual([]);
    expect(problemsOf("decision: require_approval, velocity: {max: 0.5, within: 24h, sum: input.usd}")).toEqual([]);
  });

  test.each([
    [
      "decision: throttle, throttle: {rate: 10}",
      "`rate`: `10` is not a rate; write a number per duration, as in `10/1m`",
    ],
    [
      "decision: throttle, throttle: {rate: 0/1m}",
      "`rate`: a rate has 1 to 1000 jobs per duration, not 0; use another duration",
    ],
    ["decision: throttle, throttle: {rate: 1/25h}", "`rate`: `25h` is too long; the maximum is `24h`"],
    ["decision: throttle, throttle: {by: topic}", "`throttle` needs a `rate`, such as `10/1m`"],
    ["decision: deny, throttle: {rate: 1/1m}", "`throttle` requires `decision: throttle`, but the decision is `deny`"],
    ["decision: deny, velocity: {max: 1}", "`velocity` needs `max` and `within`"],
    [
      "decision: deny, velocity: {max: 1, within: 10}",
      "`within`: `10` is not a duration; write a number and `ms`, `s`, `m` or `h`, as in `500ms`",
    ],
    [
      "decision: deny, velocity: {max: 1.5, within: 1m}",
      "`max` must be an integer from 1 to 1000000; use `decision: deny` without `velocity` to block jobs",
    ],
    [
      "decision: deny, velocity: {max: 0, within: 1m, sum: input.usd}",
      "`max` of a sum must be a number above 0; use `decision: deny` without `velocity` to block jobs",
    ],
    ["decision: deny, velocity: {max: 1, within: 1m, sum: topic}", "`sum` has type `string`, but must be a number"],
    [
      "decision: deny, velocity: {max: 1, within: 1m, by: calller}",
      "`by` must be `tenant`, `topic`, `caller` or `label:NAME`, not `calller`; did you mean `caller`?",
    ],
    [
      "decision: throttle, throttle: {rate: 1/1m}, velocity: {max: 1, within: 1m}",
      "a rule has `throttle` or `velocity`, not both; write two rules",
    ],
    ["decision: deny, budget: {tokens: 1, per: day}", "`budget` has no effect with `decision: deny`; remove it"],
    ["decision: allow, budget: {per: day}", "`budget` needs `tokens` or `usd`"],
    ["decision: allow, budget: {tokens: 1}", "`budget` needs `per`: `job`, `run`, `tenant`, `day` or `label:NAME`"],
    ["decision: allow, budget: {tokens: 1.5, per: day}", "`tokens` must be an integer from 1 to 1000000000000"],
    ["decision: allow, budget: {usd: 0, per: day}", "`usd` must be a number from 0.000001 to 1000000000"],
    ["decision: allow, budget: {usd: 1, per: day, reserve_tokens: 5}", "`reserve_tokens` requires `tokens`"],
    ["decision: allow, budget: {tokens: 1, per: day, reserve_usd: 5}", "`reserve_usd` requires `usd`"],
  ])("reports %s", (rule, problem) => {
    expect(problemsOf(rule)).toEqual([problem]);
  });
});

describe("evaluating limits", () => {
  test("returns the limits of earlier rules with the decision, in their order", () => {
    const given = decide(policy([VELOCITY, { ...THROTTLE, throttle: { rate: "5/1m", by: "topic" } }, { id: "rest" }]));
    expect(given).toMatchObject({
      effect: "allow",
      ruleId: "rest",
      limits: [
        {
          kind: "velocity",
          ruleId: "fast",
          key: "",
          max: 2,
          withinMs: 600_000,
          amount: 1,
          exceeded: { effect: "deny" },
        },
        { kind: "throttle", ruleId: "slow", key: "demo.echo", max: 5, withinMs: 60_000 },
      ],
    });
    expect(explain(compile(policy([VELOCITY, { id: "rest" }])), REQUEST)).toMatchObject({
      decision: { ruleId: "rest", limits: [{ ruleId: "fast" }] },
      tried: [
        { ruleId: "fast", mismatches: [{ part: "velocity", text: "the rule applies beyond 2 in 10m by tenant" }] },
      ],
    });
  });

  test("leaves other decisions as they were", () => {
    expect(decide(policy([{ ...VELOCITY, match: { topics: ["other"] } }, { id: "rest" }]))).not.toHaveProperty(
      "limits",
    );
    // A rule behind the deciding one limits nothing.
    expect(decide(policy([{ id: "rest" }, VELOCITY]))).not.toHaveProperty("limits");
  });

  test("drops the rate of a job that is denied anyway", () => {
    const given = decide(policy([THROTTLE, VELOCITY, { id: "no", decision: "deny" }]));
    expect(given.limits?.map(({ ruleId }) => ruleId)).toEqual(["fast"]);
  });

  test("takes keys from the request; absent ones share a key", () => {
    const by = (key: "caller" | "label:a", request = {}) =>
      decide(policy([{ ...VELOCITY, velocity: { ...VELOCITY.velocity, by: key } }, {}]), request).limits?.[0]?.key;
    expect(by("caller", { callerKey: "k1", caller: {} })).toBe("k1");
    expect(by("caller")).toBe("");
    expect(by("label:a", { labels: { a: "x" } })).toBe("x");
    expect(by("label:a")).toBe("");
  });

  test("judges a sum that fails like a failed condition", () => {
    const sum = { max: 10, within: "1m", by: "tenant", sum: "double(input.usd)" } as const;
    const rule = (decision: "deny" | "allow" | "allow_with_constraints") =>
      decide(policy([{ id: "sum", decision, velocity: sum }, { id: "rest" }]), { input: {} });
    expect(rule("deny")).toMatchObject({
      effect: "deny",
      ruleId: "sum",
      reason: expect.stringContaining("`sum` failed"),
    });
    expect(rule("allow_with_constraints")).toMatchObject({ effect: "deny", ruleId: "sum" });
    expect(rule("allow")).toMatchObject({ effect: "allow", ruleId: "rest" });
    const negative = policy([{ id: "sum", decision: "deny", velocity: sum }, { id: "rest" }]);
    expect(decide(negative, { input: { usd: -1 } })).toMatchObject({ effect: "deny", ruleId: "sum" });
    expect(decide(negative, { input: { usd: 0 } })).not.toHaveProperty("limits");
    expect(decide(negative, { input: { usd: 2.5 } }).limits).toMatchObject([{ amount: 2.5, isSum: true }]);
  });

  test("simulations count their requests, in the order of their times", () => {
    const snapshot = compile(policy([VELOCITY, { id: "rest" }]));
    const at = (nowMs: number) => ({ ...REQUEST, nowMs });
    const { byRule, decisions, limits } = simulate(snapshot, [at(3), at(1), at(2)], simulationBudget());
    expect(decisions.map(({ ruleId }) => ruleId)).toEqual(["fast", "rest", "rest"]);
    expect(limits.map(([limit]) => limit?.used)).toEqual([2, 0, 1]);
    expect(byRule).toContainEqual({ ruleId: "rest", count: 2 });
  });

  test("crosses the wire, and an unknown form is malformed", () => {
    const budget = [{ tokens: 10, usd: 0.5, per: "label:team", reserveTokens: 2 }] as const;
    const given = decide(policy([VELOCITY, THROTTLE, { id: "rest", budget }]));
    expect(given.budgets).toEqual(budget);
    expect(decodeDecision(encodeDecision(given))).toEqual(given);
    const broken = { ...given, limits: [{ kind: "other" }] } as unknown as Decision;
    expect(() => decodeDecision(encodeDecision(broken))).toThrow("limits of an unknown form");
    const other = { ...given, budgets: [{ per: "day" }] } as unknown as Decision;
    expect(() => decodeDecision(encodeDecision(other))).toThrow("budgets of an unknown form");
  });
});

describe("keys", () => {
  test("of tenants, rules and kinds of keys never collide", () => {
    const limit = (ruleId: string, by: Limit["by"], isSum = false) => ({ ruleId, by, isSum }) as Limit;
    const ids = [
      windowId("a", limit("r", "label:x"), "v"),
      windowId("b", limit("r", "label:x"), "v"),
      windowId("a", limit("r", "label:x"), "w"),
      windowId("a", limit("r", "label:x"), '","v'),
      windowId("a", limit('r","label:x', "label:x"), "v"),
      windowId("a", limit("r", "topic"), "v"),
      windowId("a", limit("r", "label:x", true), "v"),
      windowId("a", limit("r", "label:x"), null),
      windowId("a", limit("r", "label:x"), "null"),
    ];
    expect(new Set(ids).size).toBe(ids.length);
    // Whatever a client writes, the id has one length.
    expect(windowId("a", limit("r", "label:x"), "x".repeat(100_000))).toHaveLength(32);
  });
});

describe("applying limits", () => {
  const NOW = Date.UTC(2024, 0, 1, 14, 30, 0);
  const context = (
    windows: Record<string, readonly WindowEntry[]> = {},
    more: Partial<LimitContext> = {},
  ): LimitContext => ({
    nowMs: NOW,
    deadlineMs: NOW + 24 * 3_600_000,
    counted: [],
    windows: new Map(Object.entries(windows)),
    idOf: ({ ruleId }) => ruleId,
    random: () => 0.5,
    ...more,
  });
  const used = (count: number, agoMs = 60_000): readonly WindowEntry[] =>
    Array.from({ length: count }, () => ({ atMs: NOW - agoMs, amount: 1 }));

  test("counts below the limit and decides beyond it", () => {
    const given = decide(policy([VELOCITY, { id: "rest" }]));
    const below = applyLimits(given, context({ fast: used(1) }));
    expect(below).toMatchObject({ decision: { effect: "allow" }, counted: [{ id: "fast", atMs: NOW }] });
    expect(below.decision).not.toHaveProperty("limits");
    expect(below.charges[0]?.entries).toHaveLength(2);
    const beyond = applyLimits(given, context({ fast: used(2) }));
    expect(beyond).toMatchObject({
      decision: { effect: "deny", ruleId: "fast", reason: "because (3 of 2 in the last 10 min, room at 14:39:00)" },
      counted: [],
      charges: [],
    });
  });

  test("a job that is denied does not count, and one that counts already does not count again", () => {
    const denied = decide(policy([VELOCITY, { id: "no", decision: "deny" }]));
    expect(applyLimits(denied, context())).toMatchObject({ counted: [], charges: [] });
    const again = applyLimits(
      decide(policy([VELOCITY, { id: "rest" }])),
      context({ fast: used(2) }, { counted: [{ id: "fast", atMs: NOW - 60_000 }] }),
    );
    expect(again).toMatchObject({ decision: { effect: "allow" }, charges: [] });
  });

  test("a rate gives the next slot, and the job waits for it", () => {
    const given = decide(policy([THROTTLE, VELOCITY, { id: "rest" }]));
    const slots = [...used(5, 447_000), { atMs: NOW + 153_000, amount: 1 }];
    const applied = applyLimits(given, context({ slow: slots }));
    expect(applied.decision).toMatchObject({
      effect: "throttle",
      untilMs: NOW + 153_000,
      reason: "because (7 of 5 in the last 10 min, next slot 14:32:33)",
    });
    // Limits behind the rate are applied when the slot has come.
    expect(applied.counted).toEqual([{ id: "slow", atMs: NOW + 153_000 }]);
    const early = applyLimits(given, context({ slow: slots }, { nowMs: NOW + 100_000, counted: applied.counted }));
    expect(early).toMatchObject({ decision: { effect: "throttle", untilMs: NOW + 153_000 }, charges: [] });
    const later = applyLimits(given, context({ slow: slots }, { nowMs: NOW + 153_000, counted: applied.counted }));
    expect(later).toMatchObject({ decision: { effect: "allow" }, charges: [{ id: "fast" }] });
  });

  test("gives no slot beyond the deadline, nor more than a window has entries", () => {
    const given = decide(policy([THROTTLE, { id: "rest" }]));
    const soon = applyLimits(given, context({ slow: used(5, 0) }, { deadlineMs: NOW + 300_000 }));
    expect(soon).toMatchObject({ decision: { effect: "throttle" }, counted: [], charges: [] });
    const slots = Array.from({ length: ENTRIES_MAX }, (_, at) => ({
      atMs: NOW + Math.floor(at / 5) * 600_000,
      amount: 1,
    }));
    const far = applyLimits(given, context({ slow: slots }, { deadlineMs: Number.MAX_SAFE_INTEGER }));
    expect(far.charges).toEqual([]);
    // The jobs without a slot return spread over time, not together.
    expect(far.decision.untilMs).toBeGreaterThan(slots.at(-1)?.atMs ?? 0);
  });

  test("on record, a limit that decided still does", () => {
    const given = decide(policy([{ ...VELOCITY, decision: "require_approval" }, { id: "rest" }]));
    const asked = applyLimits(given, context({ fast: used(2) })).decision;
    expect(decisionOnRecord(given, asked)).toMatchObject({ effect: "require_approval", ruleId: "fast" });
    expect(decisionOnRecord(given, null)).toMatchObject({ effect: "allow", ruleId: "rest" });
    expect(decisionOnRecord({ ...given, snapshot: "other" }, asked)).toMatchObject({ effect: "allow" });
  });
});
