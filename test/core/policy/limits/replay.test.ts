import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Decision, EFFECTS } from "../../../../src/core/policy/decision.ts";
import { applyLimits } from "../../../../src/core/policy/limits/apply-limits.ts";
import { type Limit, windowId } from "../../../../src/core/policy/limits/limit.ts";
import { inOrderOfTime, LimitReplay, limitUse, type RecordedUse } from "../../../../src/core/policy/limits/replay.ts";
import type { WindowEntry } from "../../../../src/core/policy/limits/window.ts";

const NEW = { effect: "allow", ruleId: "recorded" } as const;
const decision = (effect: Decision["effect"], ruleId: string | null): Decision => ({
  ...{ effect, ruleId, reason: "r", snapshot: "s" },
});

/** Every limit of a policy keeps its terms; keys and amounts are those of the request. */
const RULES = [
  { kind: "velocity", max: 3, withinMs: 1_000, isSum: false, effect: "deny" },
  { kind: "velocity", max: 20, withinMs: 5_000, isSum: true, effect: "require_approval" },
  { kind: "throttle", max: 2, withinMs: 700, isSum: false, effect: "throttle" },
] as const;

function limitAt(at: number, key: string, amount: number): Limit {
  const { effect, ...terms } = RULES[at] as (typeof RULES)[number];
  const ruleId = `rule-${at}`;
  return {
    ...terms,
    ...{ ruleId, by: "label:customer", key, amount: terms.isSum ? amount : 1 },
    exceeded: decision(effect, ruleId),
  };
}

const request = fc.record({
  waitMs: fc.integer({ min: 0, max: 400 }),
  rules: fc.subarray([0, 1, 2]),
  key: fc.constantFrom("a", "b"),
  amount: fc.integer({ min: 1, max: 8 }),
  otherwise: fc.constantFrom(...EFFECTS),
});

describe("limits over recorded decisions", () => {
  test("are those of the engine", () => {
    fc.assert(
      fc.property(fc.array(request, { maxLength: 60 }), (requests) => {
        const windows = new Map<string, readonly WindowEntry[]>();
        const replay = new LimitReplay(Number.NEGATIVE_INFINITY);
        let nowMs = 1_000_000;
        for (const { waitMs, rules, key, amount, otherwise } of requests) {
          nowMs += waitMs;
          const limits = rules.map((at) => limitAt(at, key, amount));
          const given = { ...decision(otherwise, null), limits };
          const idOf = (limit: Limit) => windowId("default", limit, limit.key);
          const deadlineMs = nowMs + 10_000;
          const context = { nowMs, deadlineMs, counted: [], windows, idOf, random: () => 0 };
          const applied = applyLimits(given, context);
          for (const { id, entries } of applied.charges) windows.set(id, entries);
          const uses = limits.map((limit) => limitUse("default", limit));
          const replayed = replay.decide({
            ...{ atMs: nowMs, deadlineMs, decided: NEW, limits: uses },
            otherwise: { effect: otherwise, ruleId: null },
          });
          const { effect, ruleId } = applied.decision;
          expect(replayed).toEqual({ effect, ruleId });
        }
      }),
    );
  });

  const limit = limitUse("default", limitAt(0, "a", 1));
  const use = (atMs: number, decided: RecordedUse["decided"] = NEW): RecordedUse => ({
    ...{ atMs, deadlineMs: 1e9, decided, limits: [limit] },
    otherwise: { effect: "allow", ruleId: null },
  });
  const BEYOND = { effect: "deny", ruleId: "rule-0" } as const;

  test("a rule that was beyond its limit is beyond it again while the uses before are not known", () => {
    const replay = new LimitReplay(10_000);
    expect(replay.decide(use(10_500, BEYOND))).toEqual(BEYOND);
    expect(replay.decide(use(10_500)).effect).toBe("allow");
    expect(replay.decide(use(11_000, BEYOND)).effect).toBe("allow");
  });

  test("of one millisecond, those that were within the limit come first", () => {
    const [allowed, denied] = [use(5), use(5, BEYOND)];
    expect(inOrderOfTime([use(6), denied, allowed])).toEqual([allowed, denied, use(6)]);
  });

  test("a window of many uses costs little", () => {
    const replay = new LimitReplay(0);
    const many = limitUse("default", { ...limitAt(1, "a", 1), max: 1_000_000, withinMs: 30 * 86_400_000 });
    const cpuBefore = process.cpuUsage();
    for (let at = 0; at < 100_000; at++) replay.decide({ ...use(at), limits: [many] });
    expect(process.cpuUsage(cpuBefore).user / 1e6).toBeLessThan(2);
  });
});
