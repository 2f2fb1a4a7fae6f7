import { describe, expect, test } from "vitest";
import { compile } from "../../../src/core/policy/compile.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { explain } from "../../../src/core/policy/explain.ts";
import { policy, REQUEST } from "./samples.ts";

const NIGHT = Date.parse("2026-03-02T23:15:00Z");
const DAY = Date.parse("2026-03-02T12:00:00Z");
const RULES = policy([
  { match: { topics: ["pay"], when: "now.getHours() >= 22" }, decision: "deny" },
  { match: { topics: ["pay", "report"] } },
]);

describe("now in conditions", () => {
  test("is the time of the request, which the decision records", () => {
    const snapshot = compile(RULES);
    const at = (nowMs: number) => evaluate(snapshot, { ...REQUEST, topic: "pay", nowMs });
    expect(at(NIGHT)).toMatchObject({ effect: "deny", atMs: NIGHT, isTimed: true });
    expect(at(DAY)).toMatchObject({ effect: "allow", atMs: DAY, isTimed: true });
  });

  test("a decision is time-dependent only if a condition that reads the time was evaluated", () => {
    const decision = evaluate(compile(RULES), { ...REQUEST, topic: "report", nowMs: NIGHT });
    expect(decision).toMatchObject({ effect: "allow", atMs: NIGHT });
    expect(decision).not.toHaveProperty("isTimed");
  });

  test("explanations agree with the recorded decision, and name the time", () => {
    const snapshot = compile(RULES);
    const decision = evaluate(snapshot, { ...REQUEST, topic: "pay", nowMs: DAY });
    const explanation = explain(snapshot, { ...REQUEST, topic: "pay", nowMs: decision.atMs });
    expect(explanation.decision).toEqual(decision);
    expect(explanation.tried[0]?.mismatches).toEqual([
      { part: "when", text: "is false: `now.getHours() >= 22`; now is 2026-03-02T12:00:00.000Z" },
    ]);
  });

  test("a condition that reads an unknown time fails, and never allows", () => {
    const decision = evaluate(compile(RULES), { ...REQUEST, topic: "pay" });
    expect(decision.effect).toBe("deny");
    expect(decision.reason).toContain("the time of the evaluation is not known");
  });

  test("compares with timestamps and durations", () => {
    const when = 'now < timestamp("2026-03-03T00:00:00Z") && now + duration("2h") > timestamp("2026-03-03T00:00:00Z")';
    const snapshot = compile(policy([{ match: { when } }]));
    expect(evaluate(snapshot, { ...REQUEST, nowMs: NIGHT }).effect).toBe("allow");
    expect(evaluate(snapshot, { ...REQUEST, nowMs: DAY }).effect).toBe("deny");
  });
});
