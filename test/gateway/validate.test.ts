import { Type } from "typebox";
import { describe, expect, test } from "vitest";
import type { Problem } from "../../src/gateway/problem.ts";
import { validatorOf } from "../../src/gateway/validate.ts";

const validate = validatorOf({
  query: Type.Object({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200 })),
    deep: Type.Optional(Type.Boolean()),
    tag: Type.Optional(Type.Array(Type.String())),
  }),
  body: Type.Object({
    topic: Type.String({ minLength: 1, maxLength: 20 }),
    priority: Type.Optional(Type.Union([Type.Literal("batch"), Type.Literal("critical")])),
    role: Type.Optional(Type.Enum(["viewer", "worker"])),
    input: Type.Optional(Type.Unknown()),
    labels: Type.Optional(Type.Record(Type.String(), Type.String())),
    mcp: Type.Optional(Type.Object({ server: Type.String(), tool: Type.Optional(Type.String()) })),
    requests: Type.Optional(Type.Array(Type.Object({ topic: Type.String() }))),
    tags: Type.Optional(Type.Array(Type.String(), { maxItems: 2 })),
    note: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  }),
});

type Texts = Readonly<Record<string, string | readonly string[]>>;

function problemsOf(
  body: unknown,
  query: Texts = {},
  params: Readonly<Record<string, string>> = {},
): readonly string[] {
  try {
    validate({ body, query, params });
    return [];
  } catch (error) {
    const { code, message, facts } = error as Problem;
    const problems = facts.problems as readonly string[];
    expect(code).toBe("invalid_request");
    expect(message).toBe(problems.join("; "));
    return problems;
  }
}

describe("what fits", () => {
  test.each<[string, unknown, Texts]>([
    ["the least", { topic: "a" }, {}],
    ["everything", { topic: "a", priority: "batch", labels: { any: "thing" }, mcp: { server: "s" }, note: null }, {}],
    ["an input of any shape", { topic: "a", input: { whatever: [{ deep: 1 }] } }, {}],
    ["texts of a query that are numbers and truth values", { topic: "a" }, { limit: "20", deep: "false", tag: "x" }],
    ["a list in a query", { topic: "a" }, { tag: ["x", "y"] }],
  ])("%s", (_, body, query) => {
    expect(problemsOf(body, query)).toEqual([]);
  });

  test("no body at all, where none is needed", () => {
    expect(() => validatorOf({})({ body: undefined, query: {}, params: { id: "job-1" } })).not.toThrow();
    expect(() => validatorOf({})({ body: {}, query: {}, params: {} })).not.toThrow();
  });
});

describe("what does not fit is told with the field, what came, and what to send", () => {
  test.each<[string, unknown, Texts, readonly string[]]>([
    ["a missing field", {}, {}, ["`topic` is missing; it must be a text of 1 to 20 characters"]],
    ["no body", undefined, {}, ["`topic` is missing; it must be a text of 1 to 20 characters"]],
    ["a list for a body", [1], {}, ["the body must be a JSON object, not a list"]],
    ["another type", { topic: 1 }, {}, ["`topic` must be a text of 1 to 20 characters, not `1`"]],
    ["a choice", { topic: "a", priority: "hgih" }, {}, ["`priority` must be one of `batch`, `critical`, not `hgih`"]],
    ["an enumeration", { topic: "a", role: "boss" }, {}, ["`role` must be one of `viewer`, `worker`, not `boss`"]],
    ["inside a record", { topic: "a", labels: { n: 1 } }, {}, ["`labels.n` must be a text, not `1`"]],
    ["inside an object", { topic: "a", mcp: {} }, {}, ["`mcp.server` is missing; it must be a text"]],
    [
      "inside a list",
      { topic: "a", requests: [{ topic: "a" }, {}] },
      {},
      ["`requests[1].topic` is missing; it must be a text"],
    ],
    [
      "too long a list",
      { topic: "a", tags: ["a", "b", "c"] },
      {},
      ["`tags` must be a list of at most 2 items, each a text, not a list"],
    ],
    ["either or", { topic: "a", note: 5 }, {}, ["`note` must be a text, or `null`, not `5`"]],
    ["a number in a query", { topic: "a" }, { limit: "0" }, ["`limit` must be a whole number of 1 to 200, not `0`"]],
    [
      "no number in a query",
      { topic: "a" },
      { limit: "many" },
      ["`limit` must be a whole number of 1 to 200, not `many`"],
    ],
    [
      "a parameter given twice",
      { topic: "a" },
      { limit: ["1", "2"] },
      ["`limit` must be a whole number of 1 to 200, not a list"],
    ],
  ])("%s", (_, body, query, expected) => {
    expect(problemsOf(body, query)).toEqual(expected);
  });
});

describe("fields that nobody reads", () => {
  test.each<[string, unknown, Texts, string]>([
    ["with letters swapped", { topic: "a", inptu: 1 }, {}, "`inptu` is not known; did you mean `input`?"],
    [
      "misspelt",
      { topic: "a", prioritty: "batch" },
      {},
      "the field `prioritty` is not known; did you mean `priority`?",
    ],
    [
      "misspelt inside",
      { topic: "a", mcp: { server: "s", tol: "t" } },
      {},
      "the field `mcp.tol` is not known; did you mean `tool`?",
    ],
    ["in a query", { topic: "a" }, { limits: "1" }, "the query parameter `limits` is not known; did you mean `limit`?"],
    [
      "like nothing there is",
      { topic: "a", zzzzzz: 1 },
      {},
      "the field `zzzzzz` is not known; there are `topic`, `priority`",
    ],
    [
      "a name that every object has",
      JSON.parse('{"topic":"a","__proto__":1,"constructor":2}'),
      {},
      "`constructor` is not known",
    ],
  ])("%s", (_, body, query, expected) => {
    expect(problemsOf(body, query).join("\n")).toContain(expected);
  });

  test("none is taken where none is asked for", () => {
    expect(() => validatorOf({})({ body: { force: true }, query: {}, params: {} })).toThrow("none is taken here");
  });
});

test("all that is wrong is told at once, in bounded words", () => {
  const problems = problemsOf({ labels: 5, prioritty: 1, mcp: { tol: 1 } }, { limit: "0", x: "1" }, { id: "a b" });
  expect(problems).toHaveLength(8);
  const wrong = { topic: 1, priority: 1, role: 1, labels: 1, mcp: 1, requests: 1, tags: 1, note: 1 };
  expect(problemsOf(wrong)).toHaveLength(8);
  expect(problemsOf({ topic: "x".repeat(10_000) }).join().length).toBeLessThan(200);
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`zzzz${at}`, at]));
  expect(problemsOf({ topic: "a", ...many }).length).toBeLessThanOrEqual(20);
});

test("an id in the address is plain", () => {
  for (const id of ["a b", "", "a\u0000", "é", "x".repeat(301)])
    expect(problemsOf({ topic: "a" }, {}, { id })).toHaveLength(1);
  expect(problemsOf({ topic: "a" }, {}, { id: "job:1.2_3-4@x" })).toEqual([]);
});
