import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compile } from "../../../src/core/policy/compile.ts";
import { type Rule, readPolicy } from "../../../src/core/policy/document.ts";
import { evaluate, simulate, simulationBudget } from "../../../src/core/policy/evaluate.ts";
import { explain } from "../../../src/core/policy/explain.ts";
import { LiveKernel } from "../../../src/core/policy/kernel.ts";
import "../../property-seed.ts";
import { decide, policy, REQUEST } from "./samples.ts";

const EXPENSIVE = "input.all(x, input.all(y, input.all(z, x + y + z >= 0)))";
const LONG = { items: Array.from({ length: 90 }, (_, at) => at) };
const shadow = true as const;

describe("shadow rules", () => {
  test("decide nothing and are recorded if they would have decided", () => {
    const rules = policy([
      { decision: "deny", shadow },
      { match: { topics: ["other"] }, decision: "deny", shadow },
      {},
    ]);
    expect(decide(rules)).toMatchObject({ effect: "allow", ruleId: "r2", shadow: [{ ruleId: "r0", effect: "deny" }] });
  });

  test("a shadow rule after the deciding rule would not have decided", () => {
    expect(decide(policy([{}, { decision: "deny", shadow }]))).not.toHaveProperty("shadow");
  });

  test("are recorded before the default decision", () => {
    const decision = decide(policy([{ match: { when: "topic == 'demo.echo'" }, shadow }]));
    expect(decision).toMatchObject({ effect: "deny", ruleId: null, shadow: [{ ruleId: "r0", effect: "allow" }] });
  });

  test("a failed condition of a shadow rule changes no decision and says why it matched", () => {
    const rules = policy([{ match: { when: "labels.absent == 'x'" }, decision: "deny", shadow }, {}]);
    expect(decide(rules)).toMatchObject({
      effect: "allow",
      reason: "because",
      shadow: [{ ruleId: "r0", effect: "deny", fault: "no such key: absent" }],
    });
  });

  test("an expensive shadow condition takes nothing from the budget of the enforced rules", () => {
    const enforced = {
      match: { when: "input.items.all(x, input.items.exists(y, y == 0))" },
      decision: "deny",
    } as const;
    const costly = {
      match: { when: EXPENSIVE.replaceAll("input.", "input.items.") },
      decision: "deny",
      shadow,
    } as const;
    const alone = decide(policy([enforced, {}]), { input: LONG });
    const beside = decide(policy([costly, costly, costly, enforced, {}]), { input: LONG });
    expect(alone).toMatchObject({ effect: "deny", reason: "because" });
    expect(beside).toMatchObject({ effect: "deny", reason: "because" });
    expect(beside.shadow?.[0]?.fault).toContain("exceeded the limit of 20000 evaluation steps");
  });

  test("the steps of shadow conditions count for the tenant's share of the process", () => {
    const costly = {
      match: { when: EXPENSIVE.replaceAll("input.", "input.items.") },
      decision: "deny",
      shadow,
    } as const;
    const kernel = new LiveKernel({
      snapshot: compile(policy([costly, {}])),
      source: "",
      releaseId: null,
      revision: 0,
    });
    kernel.decide({ ...REQUEST, input: LONG });
    expect(kernel.stepsOfLast).toBeGreaterThan(19_000);
  });

  test("at most eight are recorded", () => {
    const rules = policy([...Array.from({ length: 20 }, () => ({ decision: "deny", shadow }) as const), {}]);
    expect(decide(rules).shadow?.map(({ ruleId }) => ruleId)).toEqual(["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"]);
  });

  test("a policy without its shadow rules decides the same, and explanations agree", () => {
    const rule = fc.record({
      match: fc.record(
        {
          topics: fc.constantFrom(["a.x"], ["a.y"], ["b.x"], ["a.*"], ["**.x"]),
          when: fc.constantFrom("tenant == 'acme'", "labels.absent == 'x'", "now.getMinutes() < 30"),
        },
        { requiredKeys: [] },
      ),
      decision: fc.constantFrom("allow", "deny", "require_approval", "throttle"),
      isShadow: fc.boolean(),
    });
    const request = fc.record({
      topic: fc.constantFrom("a.x", "a.y", "b.x"),
      org: fc.constantFrom("acme", "default"),
      nowMs: fc.nat({ max: 1e12 }),
    });
    fc.assert(
      fc.property(fc.array(rule, { minLength: 1, maxLength: 8 }), request, (drawn, fields) => {
        const rules = drawn.map(({ isShadow, ...one }) => (isShadow ? { ...one, shadow } : one));
        const [document, asked] = [policy(rules as Partial<Rule>[]), { ...REQUEST, ...fields }];
        const { shadow: verdicts = [], snapshot: _, ...decision } = evaluate(compile(document), asked);
        /** With the given shadow rule enforced, and without the others. */
        const enforcing = (id: string | null) => {
          const { snapshot: __, ...rest } = evaluate(
            compile({
              ...document,
              rules: document.rules.flatMap(({ shadow: isShadow, ...one }) => (isShadow && one.id !== id ? [] : [one])),
            }),
            asked,
          );
          return rest;
        };
        expect(decision).toEqual(enforcing(null));
        const shadows = document.rules.filter((one) => one.shadow).map(({ id }) => id);
        expect(verdicts.map(({ ruleId }) => ruleId)).toEqual(shadows.filter((id) => enforcing(id).ruleId === id));
        for (const { ruleId, effect } of verdicts) expect(enforcing(ruleId).effect).toBe(effect);
        expect(explain(compile(document), asked).decision).toEqual(evaluate(compile(document), asked));
      }),
      { numRuns: 100 },
    );
  });

  test("count in simulations, within the budget of the simulation", () => {
    const snapshot = compile(policy([{ decision: "deny", shadow }, {}]));
    const { decisions, byEffect } = simulate(snapshot, [REQUEST, REQUEST], simulationBudget());
    expect(byEffect).toMatchObject({ allow: 2, deny: 0 });
    expect(decisions.map((decision) => decision.shadow?.length)).toEqual([1, 1]);
  });

  test("a limit that decides names only the shadow rules before its own", () => {
    const velocity = { max: 1, within: "1m", by: "tenant" } as const;
    const rules = policy([{ decision: "deny", shadow }, { decision: "throttle", velocity }, { shadow }, {}]);
    const [limit] = decide(rules, { nowMs: 5 }).limits ?? [];
    expect(decide(rules, { nowMs: 5 }).shadow?.map(({ ruleId }) => ruleId)).toEqual(["r0", "r2"]);
    expect(limit?.exceeded).toMatchObject({ ruleId: "r1", atMs: 5, shadow: [{ ruleId: "r0", effect: "deny" }] });
    expect(explain(compile(rules), { ...REQUEST, nowMs: 5 }).decision).toEqual(decide(rules, { nowMs: 5 }));
  });

  test("a shadow rule has no limit, which would count", () => {
    const text =
      "rules:\n  - {id: a, match: {}, decision: deny, reason: r, shadow: true, velocity: {max: 1, within: 1m}}";
    expect(readPolicy({ name: "p", text })).toMatchObject({
      problems: [expect.stringMatching(/^p:2: a shadow rule counts/)],
    });
  });

  test("`shadow: true` is read, `shadow: false` is none, and anything else is refused", () => {
    const read = (text: string) =>
      readPolicy({ name: "p", text: `rules:\n  - {id: a, match: {}, decision: allow, shadow: ${text}}` });
    expect(read("true")).toMatchObject({ document: { rules: [{ shadow: true, reason: "rule `a` allows it" }] } });
    const off = read("false");
    expect(off.kind === "ok" && off.document.rules[0]).not.toHaveProperty("shadow");
    expect(read("maybe")).toMatchObject({ problems: ["p:2: `shadow` must be `true` or `false`"] });
  });
});
