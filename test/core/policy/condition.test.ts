import { Environment } from "@marcbachmann/cel-js";
import { describe, expect, test } from "vitest";
import { plainSource } from "../../../src/core/expression/metered-source.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { Conditions, type Outcome } from "../../../src/core/policy/condition.ts";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { policy, REQUEST } from "./samples.ts";

function ask(text: string, request: Partial<PolicyRequest> = {}): Outcome {
  const conditions = new Conditions();
  const compiled = conditions.compile(text);
  if (compiled.kind === "bad") throw new Error(compiled.problem);
  conditions.open({ ...REQUEST, ...request });
  return conditions.evaluate(compiled.condition);
}

function problemOf(text: string): string | null {
  const compiled = new Conditions().compile(text);
  return compiled.kind === "bad" ? compiled.problem : null;
}

const OVER = "the conditions exceeded the limit of 100000 evaluation steps";

describe("a condition", () => {
  test.each([
    'job_id == "job-1" && tenant == "acme" && topic == "demo.echo" && priority == "batch"',
    'capability == "" && actor_id == "ann" && actor_type == "human" && pack_id == ""',
    '"money" in risk_tags && requires.size() == 0',
    'labels.env == "prod" && "env" in labels && !("team" in labels) && !has(labels.team)',
    'mcp.tool == "rm" && mcp.server == "" && labels["mcp.tool"] == mcp.tool',
    'input.amount > 99 && input.amount == 100 && input.to.endsWith("@acme.com")',
    "input.items.all(item, item.n < 3) && input.items.exists(item, item.n == 2)",
    're2(topic, "^demo[.]e") && re2(input.to, "acme") && !re2(topic, "pay|refund")',
    "cel.bind(total, input.items.map(item, item.n), total.size() == 2)",
  ])("knows the request: %s", (text) => {
    const input = { amount: 100, to: "bob@acme.com", items: [{ n: 1 }, { n: 2 }] };
    const labels = { env: "prod", "mcp.tool": "rm" };
    const request = { org: "acme", actorId: "ann", actorType: "human", riskTags: ["money"], labels, input } as const;
    expect(ask(text, request)).toBe(true);
    expect(ask(`!(${text})`, request)).toBe(false);
  });

  test.each([
    ["labels.env == 'prod'", "no such key: env"],
    ["input.amount > 1", /^no such (key|overload)/],
    ["input", "the condition is not a boolean"],
  ])("%s: says why it cannot be answered", (text, fault) => {
    expect(ask(text)).toMatch(fault);
  });

  test.each([
    "input.amount > 1000",
    "has(input.amount) && input.amount > 1000",
    "input != null && input.amount > 1000",
    "'amount' in input && input.amount > 1000",
    "tenant == 'other' && has(input.amount)",
    "[1].exists(x, has(input.amount))",
  ])("%s: cannot be answered where the input is elsewhere", (text) => {
    const elsewhere = { input: null, inputOmitted: { bytes: 60_000 } };
    expect(ask(text, elsewhere)).toBe("the input is not available to the policy: it is too large or stored elsewhere");
    expect(ask("topic == 'demo.echo'", elsewhere)).toBe(true);
  });

  test.each([
    ["tenant ==", /^is invalid at column 10: unexpected token/],
    [
      "tenant == 'a' &&\n  topik == 'b'",
      "is invalid at line 2, column 3: unknown variable: topik; did you mean `topic`?",
    ],
    ["tenant + 1 == 2", /^is invalid at column 1: no such overload: string \+ int/],
    ["mcp.tol == 'x'", /no such key: tol/],
    ["1 + 1", "has type `int`, but must be a boolean"],
    ["topic.matches('a')", /^uses `matches`.*use `re2\(text, pattern\)`/],
    ["risk_tags.exists(tag, tag.matches('a'))", /^uses `matches`/],
    ["timestamp(input).getHours('Europe/Berlin') > 8", /^passes a time zone to `getHours`/],
    ["re2(topic, tenant)", "needs a literal pattern for `re2`, as in `re2(topic, 'pay|refund')`"],
    ["re2(topic, '(')", /^has the invalid pattern `\(`: .*missing closing/],
    [`re2(topic, '${"a".repeat(257)}')`, "has a pattern of more than 256 characters"],
    ["each(risk_tags, 1).size() == 0", /found no matching overload for 'each/],
    [`tenant == '${"a".repeat(2_048)}'`, "is longer than 2048 characters; split the rule in two"],
    [`${"!".repeat(300)}true`, /maxAstNodes|maxDepth/],
    [`1 in [${Array.from({ length: 300 }, () => 1)}]`, /maxListElements|maxAstNodes/],
    [`${"(".repeat(200)}true${")".repeat(200)}`, /maxDepth/],
  ])("%s: is refused when the policy loads", (text, problem) => {
    expect(problemOf(text)).toMatch(problem);
  });

  test("keeps its meaning when it is rewritten", () => {
    const environment = new Environment({ unlistedVariablesAreDyn: true });
    for (const text of [
      "a - (b - c) == -1 && -(a + b) * -c / (d / e) % f >= 1.5e3",
      `!(a || b) && (a ? b : c ? d : e) && x in ["\\n", r"\\d", 'a"b', """c"d"""]`,
      "m.list[0].map(x, x > 1, {'k': x, 'l': [x, 2u]})[1].k.size() < size(b'ab') || has(m.a.b)",
      "(a in b) == (c != d) && cel.bind(y, [1, 2], y.filter(z, z in y).size() == 2) && \"x\".contains('x')",
    ]) {
      const { ast } = environment.parse(text);
      expect(treeOf(environment.parse(plainSource(ast)).ast)).toEqual(treeOf(ast));
    }
  });
});

/** Without a meter, each of these takes minutes or exhausts memory. */
describe("evaluation is bounded", () => {
  const many = Array.from({ length: 8_000 }, (_, n) => ({ n }));
  const text = "a".repeat(200_000);

  test.each([
    ["loops in loops", "input.many.all(x, input.many.all(y, input.many.exists(z, z.n == x.n + y.n)))"],
    ["an error that is swallowed", "input.many.exists(x, input.many.all(y, x.n == y.n || y.n >= 0.0)) || true"],
    ["errors that are swallowed by the loop", "input.many.exists(x, x.missing)"],
    ["errors that are swallowed in the loop", "input.many.exists(x, x.missing && x.n < 0.0)"],
    ["lists that double", `cel.bind(a, input.many, ${nested(10, "cel.bind(a, a + a, ", "a.size() > 0")})`],
    ["texts that double", `[input.text]${".map(x, x + x)".repeat(20)}.size() == 1`],
    ["a string searched again and again", "input.many.all(x, !input.text.contains('b'))"],
    ["a string cut again and again", "input.many.all(x, input.text.split('').size() > 1)"],
    ["a pattern again and again", "input.many.all(x, re2(input.text, '(a|aa)+$'))"],
    ["a list searched for each of its own", "input.many.all(x, x in input.many)"],
    ["a value compared with itself again and again", "input.many.all(x, input == input.copy)"],
  ])("%s", (_, condition) => {
    const input = { many, text, copy: { many, text } };
    expect(
      ask(condition, { input: condition.includes("copy") ? { ...input, copy: structuredClone(input) } : input }),
    ).toBe(OVER);
  });

  test("a loop that absorbs errors stops working once the limit is exceeded", () => {
    let asked = 0;
    const element = {
      get n() {
        asked += 1;
        return "neither true nor false";
      },
    };
    expect(ask("input.exists(x, x.n)", { input: Array.from({ length: 10_000 }, () => element) })).toBe(OVER);
    expect(asked).toBeLessThan(2_000);
  });

  test("evaluates a pattern that backtracks exponentially in JavaScript", () => {
    expect(ask("re2(input, '^(a+)+$')", { input: `${"a".repeat(5_000)}!` })).toBe(false);
  });

  test("L60: the conditions of one check share a budget, which resets for the next check", () => {
    const when = "input.all(x, x >= 0.0)";
    const rules = Array.from({ length: 40 }, () => ({ match: { when: `!(${when})` }, decision: "deny" }) as const);
    const input = Array.from({ length: 1_000 }, (_, n) => n);
    const snapshot = compile(policy([...rules, {}]));
    const decision = evaluate(snapshot, { ...REQUEST, input });
    expect(decision.effect).toBe("deny");
    expect(decision.reason).toContain(OVER);
    expect(decision.ruleId).not.toBe("r0");
    expect(evaluate(snapshot, { ...REQUEST, input: input.slice(0, 100) }).effect).toBe("allow");
  });

  test("ordinary conditions stay far below the limit", () => {
    const recipients = Array.from({ length: 5_000 }, (_, n) => `user-${n}@acme.com`);
    expect(ask("input.all(to, to.endsWith('@acme.com'))", { input: recipients })).toBe(true);
  });
});

function nested(times: number, before: string, inner: string): string {
  return `${before.repeat(times)}${inner}${")".repeat(times)}`;
}

/** The AST without source positions. */
function treeOf(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(treeOf);
  if (typeof node === "object" && node !== null && "op" in node && "args" in node) return [node.op, treeOf(node.args)];
  return typeof node === "bigint" ? `${node}n` : node;
}
